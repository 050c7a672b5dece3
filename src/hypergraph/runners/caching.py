"""The cache as the engine sees it: keys from definitions and inputs, and a backend that may fail."""

from __future__ import annotations

from typing import Any

from hypergraph.cache import CacheBackend, compute_cache_key
from hypergraph.nodes.context import DEFAULT_LOGGER
from hypergraph.plan.steps import Step


class NodeCaching:
    """Keep results of nodes; a backend that raises costs a hit, never a run."""

    def __init__(self, backend: CacheBackend) -> None:
        if not isinstance(backend, CacheBackend):
            raise TypeError(f"cache must have get(key) and set(key, value), got {type(backend).__name__}")
        self._backend = backend

    def key(self, step: Step, inputs: dict[str, Any]) -> str:
        """Return the key of a call; inputs count under their original parameter names."""
        return compute_cache_key(step.node.definition_hash, step.node.map_inputs_to_params(inputs))

    def get(self, key: str) -> tuple[bool, Any]:
        """Look a result up."""
        try:
            return self._backend.get(key)
        except Exception:
            DEFAULT_LOGGER.warning("The cache could not be read; the node runs instead", exc_info=True)
            return False, None

    def set(self, key: str, value: Any) -> None:
        """Keep a result."""
        try:
            self._backend.set(key, value)
        except Exception:
            DEFAULT_LOGGER.warning("The cache could not be written; the result is not kept", exc_info=True)
