"""CallableNode: the common base of function nodes, gates and interrupts.

`inputs[i]` is the current name of `params[i]`. Renames never reach the function: it is always called with
its original parameter names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, reduce
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from hypergraph.exceptions import RenameError
from hypergraph.nodes.base import Frozen, HyperNode
from hypergraph.nodes.names import Names, as_names, require_name
from hypergraph.nodes.signature import (
    MISSING,
    Parameter,
    Signature,
    captured_fingerprint,
    code_form,
    code_identity,
    collected_type,
    read_signature,
    refuse_mock,
    safe_getattr,
    sha256,
    unwrapped,
)

if TYPE_CHECKING:  # every type checker has this module; the defaults let `FunctionNode` stand alone
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)


_NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class CallableNode(Frozen, HyperNode, Generic[P, R_co]):
    """Wrap a callable; abstract."""

    abstract = True
    func: Callable[P, R_co]  # the function itself
    signature: Signature  # its parameters and type hints
    params: tuple[Parameter, ...]  # the parameters that are inputs, in the order of `inputs`
    emit: tuple[str, ...]  # outputs without a value
    _captured: str

    def _set_up(
        self,
        source: Any,
        name: str | None,
        outputs: tuple[str, ...],
        *,
        rename_inputs: Mapping[str, str] | None,
        emit: Names,
        wait_for: Names,
        **attributes: Any,
    ) -> None:
        func = source.func if isinstance(source, CallableNode) else source
        self.__dict__.update(_read(func), func=func, **attributes)
        emits = as_names(emit, "emit")
        self.__dict__.update(
            name=self.signature.name if name is None else require_name(name, "name"),
            inputs=tuple(p.name for p in self.params),
            outputs=outputs + emits,
            emit=emits,
            wait_for=as_names(wait_for, "wait_for"),
        )
        for param in self.params:
            if param.stars:
                raise TypeError(
                    f"Node {self.name!r} cannot take {param.stars}{param.name}: "
                    "a graph passes inputs by name. Write out the parameters, or take one list or dict. "
                    "If a decorator hides them, use functools.wraps in it."
                )
        renames = dict(rename_inputs or {})
        unknown = [old for old in renames if old not in self.inputs]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise RenameError(f"Cannot rename unknown inputs: {listed}. Valid inputs: {self.inputs}")
        self.__dict__.update(self._renamed("inputs", renames).__dict__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself."""
        return self.func(*args, **kwargs)

    @property
    def definition_hash(self) -> str:
        """A hash over the function's code, defaults, captured values and `append`, not over names."""
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = sha256(*self.code_parts, self._captured)
        return str(known)

    @property
    def code_parts(self) -> tuple[str, ...]:
        """The part of the definition that is the same in every process: code, and which outputs append."""
        return (code_identity(self.func), *self._appending)

    @property
    def code_shape(self) -> tuple[str, ...]:
        """The same as `code_parts`, in a form that a rename does not change."""
        return (code_form(self.func, self._known_targets), *self._appending)

    @property
    def _appending(self) -> tuple[str, ...]:
        """Which outputs append, as a text; empty if none does."""
        numbers = [str(number) for number, name in enumerate(self.data_outputs) if name in self.append]
        return (f"append {' '.join(numbers)}",) if numbers else ()

    @property
    def _known_targets(self) -> tuple[str, ...]:
        """What the function of a gate calls its targets; for subclasses."""
        return ()

    @cached_property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs that carry values: all except the emit names."""
        return self.outputs[: len(self.outputs) - len(self.emit)]

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the signature, by current input name."""
        return {
            name: param.default
            for name, param in zip(self.inputs, self.params, strict=True)
            if param.default is not MISSING
        }

    @property
    def parameter_annotations(self) -> dict[str, Any]:
        """The type hints by current input name; empty if they cannot be resolved."""
        hints = self.signature.hints
        return {n: hints[p.name] for n, p in zip(self.inputs, self.params, strict=True) if p.name in hints}

    def has_default_for(self, param: str) -> bool:
        """Return whether the function has a default for this input."""
        return param in self.inputs and self._param(param).default is not MISSING

    def get_default_for(self, param: str) -> Any:
        """Return the function's default for this input. Raises KeyError without one."""
        if not self.has_default_for(param):
            raise KeyError(f"No default for {param!r}")
        return self._param(param).default

    def get_input_type(self, param: str) -> Any:
        """Return the type hint of an input, as written if it cannot be resolved; None without one."""
        return self.signature.declared.get(self._param(param).name) if param in self.inputs else None

    def map_inputs_to_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a dict keyed by current input names to one keyed by parameter names."""
        originals = {name: param.name for name, param in zip(self.inputs, self.params, strict=True)}
        return {originals.get(name, name): value for name, value in values.items()}

    def with_function(self, func: Callable[..., Any]) -> Self:
        """Return a copy that calls another function; names, renames and options stay.

        So does the type of a parameter or result that the other function does not annotate, a lambda say, and
        the default of a parameter that has none in it.

        >>> add = node(lambda a, b: a + b, "total").with_name("add").with_inputs(a="price")
        >>> add.with_function(lambda a, b: 0).inputs
        ('price', 'b')

        A parameter for the NodeContext may be left out, and needs no annotation if it has the same name.

        Raises ValueError if the function has other parameters, TypeError if it is not callable or has no
        readable signature.
        """
        contexts = tuple(param.name for param in self.signature.parameters if param.is_context)
        defaults = {param.name: param.default for param in self.params if param.default is not MISSING}
        refuse_mock(func, self.signature.name)
        read = _read(func, contexts, defaults)
        names = {param.name: name for param, name in zip(self.params, self.inputs, strict=True)}
        given = [param.name for param in read["params"]]
        if set(given) != set(names):
            optional = f"; {' and '.join(contexts)} may be left out" if contexts else ""
            raise ValueError(
                f"The function for node {self.name!r} takes ({read['signature'].listed}), "
                f"the one it replaces ({self.signature.listed}){optional}"
            )
        declared = dict(self.signature.declared)
        if self.is_generator and "return" in declared:
            declared["return"] = collected_type(declared["return"])
        declared |= read["signature"].declared
        read["signature"] = replace(read["signature"], declared=declared)
        changed = self._copy(
            **read,
            func=func,
            _contexts=contexts,
            _defaults=defaults,
            inputs=tuple(names[name] for name in given),
        )
        changed.__dict__.pop("_hash", None)
        return changed

    def _renamed(self, kind: Literal["inputs", "outputs"], changes: dict[str, str]) -> Self:
        renamed = super()._renamed(kind, changes)
        for names, others, what in (
            (renamed.emit, renamed.data_outputs, "emit names overlap with output names"),
            (renamed.wait_for, renamed.inputs, "wait_for names overlap with input parameters"),
            (renamed.emit, renamed.wait_for, "emit and wait_for share names"),
        ):
            shared = sorted(set(names) & set(others))
            if shared:
                raise ValueError(f"Node {self.name!r}: {what}: {', '.join(map(repr, shared))}")
        return renamed

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        return {"emit": tuple(changes.get(n, n) for n in self.emit)} if kind == "outputs" else {}

    def _param(self, name: str) -> Parameter:
        return self.params[self.inputs.index(name)]

    def _label(self) -> str:
        original = self.signature.name
        return self.name if self.name == original else f"{original} as {self.name!r}"

    def __getstate__(self) -> dict[str, Any]:
        # Nothing is read anew: what the function is bound to may have the graph of this node.
        state = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        return {**state, "func": portable(self.func)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            _read(state["func"], state.get("_contexts", ()), state.get("_defaults", {})), **state
        )


_DERIVED = frozenset(  # attributes that follow from others
    (
        *("signature", "params", "is_async", "is_generator", "_captured", "__wrapped__", "__name__"),
        *("__doc__", "__module__", "_hash", "data_outputs"),
    )
)


def _read(
    func: Any, contexts: Collection[str] = (), defaults: Mapping[str, Any] = _NO_DEFAULTS
) -> dict[str, Any]:
    """Return the attributes of a node that follow from its function, and from the one that it replaces.

    Of that these are the names of its contexts, and the defaults of its parameters.
    """
    signature = read_signature(func).with_contexts(contexts).with_defaults(defaults)
    return {
        "signature": signature,
        "params": signature.inputs,
        "is_async": signature.is_async,
        "is_generator": signature.is_generator,
        "_captured": captured_fingerprint(func),
        "__wrapped__": func,
        "__name__": signature.name,
        "__doc__": safe_getattr(unwrapped(func), "__doc__"),
        "__module__": safe_getattr(unwrapped(func), "__module__"),
    }


# -- pickling of decorated functions -------------------------------------------------------------------
#
# pickle stores a function by its qualified name, and a decorator leaves a node under that name.


def portable(func: Callable[..., Any]) -> Any:
    """Return what to pickle for the function of a node: itself, or a reference if a node took its name."""
    return _DecoratedFunction(func) if _is_decorated(func) else func


def _is_decorated(func: Any) -> bool:
    if not isinstance(func, FunctionType) or func.__module__ == "__main__":
        return False  # in another process, __main__ is another module
    holder = reduce(safe_getattr, func.__qualname__.split("."), sys.modules.get(func.__module__))
    return isinstance(holder, CallableNode) and holder.func is func


class _DecoratedFunction:
    """Stand for a decorated function in a pickle; unpickling returns the function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.name = (func.__module__, func.__qualname__)

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_decorated, self.name


def _find_decorated(module: str, qualname: str) -> Any:
    __import__(module)
    return reduce(getattr, qualname.split("."), sys.modules[module]).func
