"""Function nodes: a plain function, sync or async, generator or not, with named outputs."""

from __future__ import annotations

import typing
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, overload

from hypergraph.nodes.callable_node import CallableNode
from hypergraph.nodes.names import Names, as_names, got
from hypergraph.nodes.options import OnAmbiguous, OnWorkerLoss, RetryPolicy, explained_node, persistence
from hypergraph.nodes.signature import peek, unwrapped


@explained_node
class FunctionNode(CallableNode):
    """Make a node from a callable (or from the function of another node).

    Raises TypeError for what is not callable or has no readable signature, ValueError for overlapping
    emit, wait_for, input and output names or a timeout that is not positive, RenameError for unknown inputs,
    TypeError or ValueError for options about stored runs that are not allowed or exclude each other.
    """

    original_outputs: tuple[str, ...]  # what the function calls its outputs, whatever they are called now
    cache: bool
    hide: bool
    retry: RetryPolicy | None
    timeout: float | None
    offload: bool
    on_worker_loss: OnWorkerLoss | None = "rerun"

    def __init__(
        self,
        source: Callable[..., Any],
        name: str | None = None,
        output_name: Names = None,
        *,
        rename_inputs: Mapping[str, str] | None = None,
        cache: bool = False,
        hide: bool = False,
        emit: Names = None,
        wait_for: Names = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
        offload: bool = False,
        persist: bool = True,
        repeatable: bool = True,
        on_ambiguous: OnAmbiguous | None = None,
        artifact: bool | None = None,
        on_worker_loss: OnWorkerLoss | None = None,
    ) -> None:
        outputs = as_names(output_name, "output_name")
        self._set_up(
            source,
            name,
            outputs,
            original_outputs=outputs,
            rename_inputs=rename_inputs,
            emit=emit,
            wait_for=wait_for,
            cache=bool(cache),
            hide=bool(hide),
            retry=_checked_retry(retry),
            timeout=_checked_timeout(timeout),
            offload=bool(offload),
            **persistence(persist, repeatable, on_ambiguous, artifact, on_worker_loss),
        )
        if not self.data_outputs:
            self._warn_about_dropped_result()

    def _warn_about_dropped_result(self) -> None:
        returned = self.signature.hints.get("return")
        if returned is None or returned is type(None):
            return
        code = peek(unwrapped(self.func), "__code__")
        warnings.warn_explicit(  # at the function, however many decorators lie between it and here
            f"Node {self.name!r} has return type {returned!r} but no output_name, so its result is dropped. "
            "Add @node(output_name=...) to keep it, or annotate the function with -> None.",
            UserWarning,
            filename=str(peek(code, "co_filename")),
            lineno=peek(code, "co_firstlineno") or 1,
            module=self.__module__,
        )

    @property
    def output_annotation(self) -> dict[str, Any]:
        """The declared type of each output, as far as the return hint tells."""
        return self._types_of_outputs(self.signature.hints.get("return"))

    def _types_of_outputs(self, returned: Any) -> dict[str, Any]:
        outputs = self.data_outputs
        if returned is None or not outputs:
            return {}
        if len(outputs) == 1 or isinstance(returned, str):  # unresolved text cannot be taken apart
            return dict.fromkeys(outputs, returned)
        members = typing.get_args(returned)
        if typing.get_origin(returned) is tuple and len(members) == len(outputs) and Ellipsis not in members:
            return dict(zip(outputs, members, strict=True))
        return {}

    def get_output_type(self, output: str) -> Any:
        """Return the declared type of an output, as written if it cannot be resolved; None when unknown."""
        return self._types_of_outputs(self.signature.declared.get("return")).get(output)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label()}, outputs={self.outputs})"


def _checked_retry(retry: Any) -> RetryPolicy | None:
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise TypeError(f"retry must be a RetryPolicy, got {got(retry)}")
    return retry


def _checked_timeout(timeout: Any) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds, got {got(timeout)}")
    if not timeout > 0:
        raise ValueError(f"timeout must be greater than 0 seconds, got {timeout!r}")
    return timeout


@overload
def node(
    source: Callable[..., Any],
    output_name: Names = None,
    *,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
) -> FunctionNode: ...
@overload
def node(
    source: None = None,
    output_name: Names = None,
    *,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
) -> Callable[[Callable[..., Any]], FunctionNode]: ...
@explained_node
def node(
    source: Callable[..., Any] | None = None,
    output_name: Names = None,
    *,
    rename_inputs: Mapping[str, str] | None = None,
    cache: bool = False,
    hide: bool = False,
    emit: Names = None,
    wait_for: Names = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    offload: bool = False,
    persist: bool = True,
    repeatable: bool = True,
    on_ambiguous: OnAmbiguous | None = None,
    artifact: bool | None = None,
    on_worker_loss: OnWorkerLoss | None = None,
) -> FunctionNode | Callable[[Callable[..., Any]], FunctionNode]:
    """Turn a function into a node; works bare and with arguments.

    >>> @node(output_name="length")
    ... def measure(text: str) -> int:
    ...     return len(text)
    >>> measure.inputs, measure.outputs
    (('text',), ('length',))

    Raises what FunctionNode raises.
    """
    if isinstance(source, (str, tuple)):
        raise TypeError(f"@node takes the function first; write @node(output_name={source!r}).")
    decorate = partial(
        FunctionNode,
        output_name=output_name,
        rename_inputs=rename_inputs,
        cache=cache,
        hide=hide,
        emit=emit,
        wait_for=wait_for,
        retry=retry,
        timeout=timeout,
        offload=offload,
        persist=persist,
        repeatable=repeatable,
        on_ambiguous=on_ambiguous,
        artifact=artifact,
        on_worker_loss=on_worker_loss,
    )
    return decorate if source is None else decorate(source)
