"""The state of a workflow whose values are decoded, and fetched from where they are, when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hypergraph.checkpointers.payloads import Payload


class LazyState(Mapping[str, Any]):
    """The latest value of every output, by name."""

    def __init__(self, payloads: Iterable[Payload] = (), decode: Callable[[Payload], Any] = repr) -> None:
        self._decode = decode
        self._payloads = {payload.name: payload for payload in payloads if payload.data is not None}
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._decode(self._payloads[name])
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)

    def __contains__(self, name: object) -> bool:
        return name in self._payloads

    def payload(self, name: str) -> Payload:
        """Return the encoded value of a name, which tells its size and who made it."""
        return self._payloads[name]

    def before(self, earlier: Iterable[Payload]) -> LazyState:
        """Return an earlier state of the same workflow; what is in both is decoded once."""
        found = LazyState(earlier, self._decode)
        for name, payload in found._payloads.items():
            if name in self._values and payload == self._payloads[name]:
                found._values[name] = self._values[name]
        return found
