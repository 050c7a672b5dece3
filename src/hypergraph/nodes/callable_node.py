"""Nodes around one callable: what function nodes, gates and interrupts have in common.

`inputs[i]` is the current name of `params[i]`, so renames never touch the function: it is always called
under its original parameter names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypergraph.exceptions import RenameError
from hypergraph.nodes.base import Frozen, HyperNode, as_names, require_name
from hypergraph.nodes.fingerprint import capture, code_identity, sha256
from hypergraph.nodes.signatures import MISSING, Parameter, Signature, read_signature

Names = str | tuple[str, ...] | list[str] | None


class CallableNode(Frozen, HyperNode):
    """Wrap a callable; abstract."""

    func: Callable[..., Any]
    signature: Signature
    params: tuple[Parameter, ...]
    emit: tuple[str, ...]
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
        signature = read_signature(func)
        emits, waits = as_names(emit, "emit"), as_names(wait_for, "wait_for")
        params = signature.inputs
        self.__dict__.update(
            func=func,
            signature=signature,
            params=params,
            name=signature.name if name is None else require_name(name, "name"),
            inputs=tuple(p.name for p in params),
            outputs=outputs + emits,
            emit=emits,
            wait_for=waits,
            is_async=signature.is_async,
            is_generator=signature.is_generator,
            _captured=capture(func),
            __wrapped__=func,
            __doc__=getattr(func, "__doc__", None),
            __module__=getattr(func, "__module__", None),
            __name__=signature.name,
            **attributes,
        )
        self._rename_at_start(rename_inputs)
        self._check_ordering_names(outputs)

    def _rename_at_start(self, renames: Mapping[str, str] | None) -> None:
        unknown = [old for old in renames or () if old not in self.inputs]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise RenameError(f"Cannot rename unknown inputs: {listed}. Valid inputs: {self.inputs}")
        if renames:
            self.__dict__.update(self._renamed("inputs", dict(renames)).__dict__)

    def _check_ordering_names(self, outputs: tuple[str, ...]) -> None:
        for names, others, what in (
            (self.emit, outputs, "emit names overlap with output names"),
            (self.wait_for, self.inputs, "wait_for names overlap with input parameters"),
            (self.emit, self.wait_for, "emit and wait_for share names"),
        ):
            shared = sorted(set(names) & set(others))
            if shared:
                raise ValueError(f"Node {self.name!r}: {what}: {', '.join(map(repr, shared))}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.func(*args, **kwargs)

    @property
    def definition_hash(self) -> str:
        """A hash over the function's code, defaults and captured values; names are not part of it."""
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = sha256(code_identity(self.func), self._captured)
        return str(known)

    @property
    def data_outputs(self) -> tuple[str, ...]:
        """The outputs that carry values: all but the emit names."""
        return self.outputs[: len(self.outputs) - len(self.emit)]

    @property
    def defaults(self) -> dict[str, Any]:
        """The signature's defaults under current input names."""
        return {
            name: param.default
            for name, param in zip(self.inputs, self.params, strict=True)
            if param.default is not MISSING
        }

    @property
    def parameter_annotations(self) -> dict[str, Any]:
        """The type hints under current input names; empty when they cannot be resolved."""
        hints = self.signature.hints
        return {n: hints[p.name] for n, p in zip(self.inputs, self.params, strict=True) if p.name in hints}

    def has_default_for(self, param: str) -> bool:
        """Say whether the function has a default for this input."""
        return param in self.inputs and self._param(param).default is not MISSING

    def get_default_for(self, param: str) -> Any:
        """Return the function's default for this input. Raises KeyError when it has none."""
        if not self.has_default_for(param):
            raise KeyError(f"No default for {param!r}")
        return self._param(param).default

    def get_input_type(self, param: str) -> Any:
        """Return the type hint of an input, None when unknown."""
        return self.parameter_annotations.get(param)

    def map_inputs_to_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Translate a dict keyed by current input names to one keyed by parameter names."""
        originals = {name: param.name for name, param in zip(self.inputs, self.params, strict=True)}
        return {originals.get(name, name): value for name, value in values.items()}

    def _param(self, name: str) -> Parameter:
        return self.params[self.inputs.index(name)]

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        return {"emit": tuple(changes.get(n, n) for n in self.emit)} if kind == "outputs" else {}

    def _label(self) -> str:
        original = self.signature.name
        return self.name if self.name == original else f"{original} as {self.name!r}"
