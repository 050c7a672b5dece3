"""What stores keep of a step beside the facts of its record: each value as bytes of its own, or a gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypergraph.checkpointers.types import StepRecord

PAUSE = ""  # the name under which the pause of a step is kept; no output can be called so
DROPPED = "!dropped by the retention policy"


class Payload(NamedTuple):
    """One encoded value, or the gap where it should be."""

    name: str
    version: int
    format: str
    checksum: int
    data: bytes | None
    superstep: int = 0  # of the step that made it, or before which it was given,
    idx: int = 0  # and the index of that step; of what was given its version, as a negative number
    base: int | None = None  # of a patch: the superstep in which its chain begins
    parts: tuple[Payload, ...] = ()  # the chain before it, once somebody has looked it up

    @property
    def is_artifact(self) -> bool:
        """Whether the data is a reference."""
        return self.format.endswith("@")


def since_whole(chain: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return the last part of a chain that begins with a whole value, one link for each superstep."""
    chain = list({payload.superstep: payload for payload in chain}.values())
    first = max((at for at, payload in enumerate(chain) if payload.base is None), default=len(chain))
    return tuple(chain[first:])


class Place(NamedTuple):
    """Where a value belongs."""

    workflow_id: str
    superstep: int = 0
    idx: int = 0
    node: str | None = None
    artifact: bool | None = None  # whether it must, or must not, go to the artifact store


class EncodedStep(NamedTuple):
    """A step ready to be written: its record, and as payloads what the values were when it was made."""

    record: StepRecord
    payloads: list[Payload]


def gap(name: str, version: int, reason: str, place: Place) -> Payload:
    """Return the mark of a value that is not stored."""
    return Payload(name, version, "!" + reason, 0, None, place.superstep, place.idx)
