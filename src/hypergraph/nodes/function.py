"""FunctionNode and the decorator `node`: a function, sync or async, generator or not, with named outputs."""

from __future__ import annotations

import dis
import typing
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import GenericAlias, NoneType, UnionType
from typing import Any, overload

from hypergraph.nodes.callable_node import CallableNode, P, R_co
from hypergraph.nodes.names import Names, as_names
from hypergraph.nodes.options import (
    OnAmbiguous,
    OnWorkerLoss,
    Replace,
    RetryPolicy,
    check_transaction,
    checked_append,
    checked_retry,
    checked_timeout,
    persistence,
)
from hypergraph.nodes.signature import collected_type, safe_getattr, unwrapped


class FunctionNode(CallableNode[P, R_co]):
    """Make a node from a callable, or from the function of another node.

    >>> FunctionNode(lambda text: text.split(), "split", "words").outputs
    ('words',)

    Args:
        source: the callable, or a node that supplies its function
        name: the name of the node; by default that of the function
        output_name: the name of the result, or several names to unpack it; None drops the result
        append: add the result to the list of that name; of several outputs, all (True) or those named
        rename_inputs: maps parameter names to input names
        cache: keep results in the cache of the runner
        hide: leave the node out of drawings
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
        offload: let AsyncRunner call a sync function in a worker thread
        pure: it has no effects, and makes the same of the same inputs; a replay calls it and compares
        stream: keep what it gives to `NodeContext.stream` in the store, for readers in other processes
        persist: False stores the step without its outputs; a resume that needs them runs it again
        repeatable: False forbids a second run unless the first raised: after a crash, timeout or wrong result
        on_ambiguous: for such a call "fail" (default), "rerun", or a callable that returns the outcome
        artifact: True stores outputs in the artifact store, False in the row, None decides by size
        on_worker_loss: "rerun", or "fail" (default if not repeatable), when an executor loses its worker
        transaction: commit what the function writes through NodeContext.connection together with its step

    Raises:
        TypeError: the source is not callable, has no readable signature or takes `*args` or `**kwargs`; an
            option has the wrong type
        ValueError: names of outputs, inputs, `emit` and `wait_for` overlap; an option is out of range, or
            two options exclude each other
        RenameError: `rename_inputs` names an unknown parameter
    """

    original_outputs: tuple[str, ...]  # the outputs before any rename
    cache: bool
    hide: bool
    retry: RetryPolicy | None
    timeout: float | None
    offload: bool
    pure: bool = False  # whether a replay of stored runs calls it
    on_worker_loss: OnWorkerLoss | None = "rerun"

    def __init__(
        self,
        source: Callable[P, R_co],
        name: str | None = None,
        output_name: Names = None,
        *,
        append: bool | Names = False,
        rename_inputs: Mapping[str, str] | None = None,
        cache: bool = False,
        hide: bool = False,
        emit: Names = None,
        wait_for: Names = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        offload: bool = False,
        pure: bool = False,
        stream: bool = False,
        persist: bool = True,
        repeatable: bool = True,
        on_ambiguous: OnAmbiguous | None = None,
        artifact: bool | None = None,
        on_worker_loss: OnWorkerLoss | None = None,
        transaction: bool = False,
    ) -> None:
        outputs = as_names(output_name, "output_name")
        if pure and not repeatable:
            raise ValueError("pure=True says that a call has no effects, repeatable=False that it has")
        self._set_up(
            source,
            name,
            outputs,
            original_outputs=outputs,
            append=checked_append(append, outputs, persist),
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            cache=bool(cache),
            hide=bool(hide),
            retry=checked_retry(retry),
            timeout=checked_timeout(timeout),
            offload=bool(offload),
            pure=bool(pure),
            stream=bool(stream),
            **persistence(persist, repeatable, on_ambiguous, artifact, on_worker_loss),
            **({} if transaction is False else {"transaction": transaction}),
        )
        if transaction is not False:
            check_transaction(self, transaction)
        if not self.data_outputs:
            self._warn_about_dropped_result()

    def _warn_about_dropped_result(self) -> None:
        returned = self.signature.hints.get("return")
        if returned is None or returned is NoneType:
            return
        code = safe_getattr(unwrapped(self.func), "__code__")
        shown = returned.__name__ if isinstance(returned, type) else repr(returned)
        warnings.warn_explicit(  # located at the function, however many decorators are in between
            f"Node {self.name!r} has return type {shown} but no output_name, so its result is dropped. "
            "Add @node(output_name=...) to keep it, or annotate the function with -> None.",
            UserWarning,
            filename=str(safe_getattr(code, "co_filename")),
            lineno=safe_getattr(code, "co_firstlineno") or 1,
            module=self.__module__,
        )

    @property
    def drops_result(self) -> bool:
        """Whether the function returns a value, and the node has no output for it."""
        if self.data_outputs:
            return False
        declared = self.signature.declared
        if "return" in declared:
            return declared["return"] is not None and declared["return"] is not NoneType
        return _returns_value(self.func)

    @property
    def output_annotation(self) -> dict[str, Any]:
        """The declared type of each output, as far as the return hint defines it."""
        return self._output_types(self.signature.hints.get("return"))

    def get_output_type(self, output: str) -> Any:
        """Return the declared type of an output, as written if it cannot be resolved; None if unknown."""
        found = self._output_types(self.signature.declared.get("return")).get(output)
        return list_type(found) if output in self.append and found is not None else found

    def _after_rename(self, kind: str, changes: dict[str, str]) -> dict[str, Any]:
        after = super()._after_rename(kind, changes)
        if kind == "outputs" and self.append:
            after["append"] = tuple(changes.get(name, name) for name in self.append)
        return after

    def _output_types(self, returned: Any) -> dict[str, Any]:
        outputs = self.data_outputs
        if returned is None or not outputs:
            return {}
        if self.is_generator:
            returned = collected_type(returned)
        if len(outputs) == 1 or isinstance(returned, str):  # an unresolved string cannot be split
            return dict.fromkeys(outputs, returned)
        members = typing.get_args(returned)
        if typing.get_origin(returned) is tuple and len(members) == len(outputs) and Ellipsis not in members:
            return dict(zip(outputs, members, strict=True))
        return {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label()}, outputs={self.outputs})"


def list_type(returned: Any) -> Any:
    """Return the type of a list to which results of this type are added."""
    origin = typing.get_origin(returned) or returned
    if origin is list:
        return returned
    if origin in (typing.Union, UnionType) or origin is Replace or isinstance(returned, str):
        return list  # of several kinds, or not known
    return GenericAlias(list, (returned,))


def _returns_value(func: Any) -> bool:
    """Return whether the bytecode contains a return of anything but None."""
    code = safe_getattr(unwrapped(func), "__code__")
    previous = None
    for instruction in dis.get_instructions(code) if code is not None else ():
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        returns_none = previous is not None and previous.opname == "LOAD_CONST" and previous.argval is None
        if instruction.opname == "RETURN_VALUE" and not returns_none:
            return True
        previous = instruction
    return False


@overload
def node(
    source: Callable[P, R_co],
    output_name: Names = None,
    *,
    append: bool | Names = False,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    pure: bool = False,
    stream: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
    transaction: bool = False,
) -> FunctionNode[P, R_co]: ...
@overload
def node(
    source: None = None,
    output_name: Names = None,
    *,
    append: bool | Names = False,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    pure: bool = False,
    stream: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
    transaction: bool = False,
) -> Callable[[Callable[P, R_co]], FunctionNode[P, R_co]]: ...
def node(
    source: Callable[..., Any] | None = None,
    output_name: Names = None,
    *,
    append: bool | Names = False,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    pure: bool = False,
    stream: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
    transaction: bool = False,
) -> FunctionNode | Callable[[Callable[..., Any]], FunctionNode]:
    """Turn a function into a node; works bare and with arguments.

    >>> @node(output_name="length")
    ... def measure(text: str) -> int:
    ...     return len(text)
    >>> measure.inputs, measure.outputs
    (('text',), ('length',))

    Raises what FunctionNode raises.

    Args:
        source: the callable, or a node that supplies its function
        output_name: the name of the result, or several names to unpack it; None drops the result
        append: add the result to the list of that name; of several outputs, all (True) or those named
        rename_inputs: maps parameter names to input names
        cache: keep results in the cache of the runner
        hide: leave the node out of drawings
        emit: names of outputs without a value, for the `wait_for` of other nodes
        wait_for: outputs of other nodes that must exist before this one runs, without being inputs
        retry: how often and after which delay a failed attempt is repeated
        timeout: seconds for one attempt, which then fails with NodeTimeoutError
        offload: let AsyncRunner call a sync function in a worker thread
        pure: it has no effects, and makes the same of the same inputs; a replay calls it and compares
        stream: keep what it gives to `NodeContext.stream` in the store, for readers in other processes
        persist: False stores the step without its outputs; a resume that needs them runs it again
        repeatable: False forbids a second run unless the first raised: after a crash, timeout or wrong result
        on_ambiguous: for such a call "fail" (default), "rerun", or a callable that returns the outcome
        artifact: True stores outputs in the artifact store, False in the row, None decides by size
        on_worker_loss: "rerun", or "fail" (default if not repeatable), when an executor loses its worker
        transaction: commit what the function writes through NodeContext.connection together with its step
    """
    if isinstance(source, (str, tuple)):
        raise TypeError(f"@node takes the function first; write @node(output_name={source!r}).")
    decorate = partial(
        FunctionNode,
        output_name=output_name,
        append=append,
        rename_inputs=rename_inputs,
        cache=cache,
        hide=hide,
        emit=emit,
        wait_for=wait_for,
        retry=retry,
        timeout=timeout,
        offload=offload,
        pure=pure,
        stream=stream,
        persist=persist,
        repeatable=repeatable,
        on_ambiguous=on_ambiguous,
        artifact=artifact,
        on_worker_loss=on_worker_loss,
        transaction=transaction,
    )
    return decorate if source is None else decorate(source)
