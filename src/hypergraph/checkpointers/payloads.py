"""Steps as stores keep them: the facts of the record, and each value as bytes of its own.

Values are encoded once, before anybody can change them. Every payload carries the format that wrote it
and a checksum, so reading never fails: what cannot be decoded comes back as `Undecodable`. A value that
cannot be encoded leaves a gap, a payload with a reason instead of data, so that an older value of the same
name does not pass for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple
from zlib import crc32

from hypergraph.checkpointers.types import StepRecord
from hypergraph.records import PauseInfo
from hypergraph.values.serializers import Serializer, Undecodable

PAUSE = ""  # the name under which the pause of a step is kept; no output can be called so
DROPPED = "!dropped by the retention policy"  # the format of a gap is "!" and the reason
_PAUSE_FIELDS = tuple(field.name for field in fields(PauseInfo))


class Payload(NamedTuple):
    """One encoded value, or the gap where it should be."""

    name: str
    version: int
    format: str
    checksum: int
    data: bytes | None


class EncodedStep(NamedTuple):
    """A step ready to be written: its record, and as payloads what the values were when it was made."""

    record: StepRecord
    payloads: list[Payload]


def gap(name: str, version: int, reason: str) -> Payload:
    """Return the mark of a value that is not stored."""
    return Payload(name, version, "!" + reason, 0, None)


class Encoding:
    """One serializer and the name of its format."""

    __slots__ = ("format", "serializer")

    def __init__(self, serializer: Serializer) -> None:
        self.serializer = serializer
        self.format = f"{serializer.id}/{serializer.version}"

    def encode(self, record: StepRecord) -> EncodedStep:
        """Return the step with its values encoded; warn of each that cannot be."""
        payloads, versions, lost = [], record.output_versions, record.lost
        if record.values:
            encode, owner, node = self.payload, record.workflow_id, record.node_name
            for name, value in record.values.items():
                if name not in lost:
                    payloads.append(encode(name, versions.get(name, 0), value, owner, node))
        for name, reason in lost.items():
            payloads.append(gap(name, versions.get(name, 0), reason))
        if record.pause is not None:
            payloads.append(self._pause(record, record.pause))
        return EncodedStep(record, payloads)

    def payload(
        self, name: str, version: int, value: Any, workflow_id: str, node: str | None = None
    ) -> Payload:
        """Return the value as bytes; warn and return a gap when it cannot be encoded."""
        try:
            data = self.serializer.serialize(value)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            where = f"workflow {workflow_id!r}, " + (f"node {node!r}" if node else "an input")
            warnings.warn(f"The value of {name!r} cannot be stored ({where}): {reason}", stacklevel=2)
            return gap(name, version, reason)
        return Payload(name, version, self.format, crc32(data), data)

    def inputs(self, workflow_id: str, given: Mapping[str, Any]) -> list[Payload]:
        """Return what a workflow starts with as bytes, as first versions."""
        return [self.payload(name, 1, value, workflow_id) for name, value in given.items()]

    def value(self, payload: Payload) -> Any:
        """Return the value, or an `Undecodable` that says why there is none."""
        data = payload.data
        if data is None:
            return Undecodable(f"not stored: {payload.format[1:]}")
        if payload.format != self.format and not self._reads(payload.format):
            return Undecodable(f"written as {payload.format!r}, this store reads {self.format!r}")
        if crc32(data) != payload.checksum:
            return Undecodable("the stored bytes are damaged: their checksum does not match")
        try:
            return self.serializer.deserialize(data)
        except Exception as error:
            return Undecodable(f"{type(error).__name__}: {error}")

    def contents(
        self, node: str, order: Iterable[str], payloads: Iterable[Payload], with_values: bool
    ) -> dict[str, Any]:
        """Return the fields of a record that its payloads hold: values, pause and lost."""
        found = {payload.name: payload for payload in payloads}
        pause = found.pop(PAUSE, None)
        lost = {name: payload.format[1:] for name, payload in found.items() if payload.data is None}
        stored = dict.fromkeys(name for name in (*order, *found) if name in found and name not in lost)
        return {
            "values": {name: self.value(found[name]) for name in stored} if with_values else None,
            "pause": self._read_pause(node, pause) if pause else None,
            "lost": lost,
        }

    def _reads(self, written: str) -> bool:
        name, _, version = written.rpartition("/")
        return name == self.serializer.id and version.isdigit() and int(version) <= self.serializer.version

    def _pause(self, record: StepRecord, pause: PauseInfo) -> Payload:
        parts = {name: getattr(pause, name) for name in _PAUSE_FIELDS}
        where = record.workflow_id, record.node_name
        payload = self.payload(PAUSE, 0, parts, *where)
        if payload.data is None:  # the run waits for its answer all the same; what it showed is gone
            payload = self.payload(PAUSE, 0, {**parts, "value": None, "values": None}, *where)
        return payload

    def _read_pause(self, node: str, payload: Payload) -> PauseInfo:
        parts = self.value(payload)
        if not isinstance(parts, Mapping):
            return PauseInfo(node, "", value=parts)
        return PauseInfo(**{name: parts[name] for name in _PAUSE_FIELDS if name in parts})
