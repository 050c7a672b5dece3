"""Encoding of steps: the record, and each value as bytes of its own."""

from __future__ import annotations

import json
import os
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast
from zlib import crc32

from hypergraph import values  # a serializer is loaded on first access
from hypergraph.answers import Schema, stored_schema
from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore
from hypergraph.checkpointers.deltas import LEAST, Added, Grown, Growth, Stands, applied, stands
from hypergraph.checkpointers.records import (
    ANSWER,
    APART,
    DROPPED,
    ERROR,
    NOT_FETCHED,
    PAUSE,
    STREAM,
    SUMMARY,
    Claim,
    Commit,
    CommitOptions,
    EncodedAnswer,
    EncodedStep,
    Parts,
    Payload,
    Place,
    Signal,
    StepRecord,
    gap,
    new_payload,
    owned,
)
from hypergraph.checkpointers.references import REFERENCE, Found, Reference
from hypergraph.checkpointers.sql.columns import check_length
from hypergraph.checkpointers.status import StepStatus
from hypergraph.clock import now
from hypergraph.display import plural
from hypergraph.exceptions import (
    ArtifactMissingError,
    CheckpointError,
    DecryptionError,
    InvalidAnswerError,
    warn_caller,
)
from hypergraph.records import PauseInfo
from hypergraph.values.codecs import CodecChain
from hypergraph.values.graphs import with_types_of
from hypergraph.values.undecodable import (
    Undecodable,
    UnknownClassError,
    checksum_of,
    is_of_settings,
    of_settings,
    public_text,
)

if TYPE_CHECKING:
    from hypergraph.checkpointers.recognised import Recognised
    from hypergraph.values.serializers import Serializer


@dataclass
class Gaps:
    """What the items of a map could not store so far, and where the caller has called it."""

    line: tuple[str, int]
    # By name, node, effect and reason: the workflows that lack the value, in the order of their steps.
    found: dict[tuple[str, str | None, str, str], dict[str, None]] = field(default_factory=dict)

    def add(self, facts: tuple[str, str | None, str, str], workflow_id: str) -> None:
        """Note a value that is not stored, and warn of the first of its kind: a map may take hours."""
        workflows = self.found.setdefault(facts, {})
        workflows[workflow_id] = None
        if len(workflows) == 1:
            self._warn(_text_of_gap(*facts, repr(workflow_id)))

    def end(self) -> None:
        """Warn once of all that lack what the first one lacks."""
        for facts, (first, *others) in self.found.items():
            if others:
                self._warn(_text_of_gap(*facts, f"{first!r} and {plural(len(others), 'other')}"))

    def _warn(self, text: str) -> None:
        warnings.warn_explicit(text, UserWarning, *self.line)


THRESHOLD = 128 * 1024  # bytes above which a value goes to the artifact store, if there is one
_PAUSE_FIELDS = tuple(field.name for field in fields(PauseInfo))
_new_step: Callable[[tuple[Any, ...]], EncodedStep] = partial(tuple.__new__, EncodedStep)
_SIGNAL_PARTS = ("value", "by", "at")
_NO_CODECS = CodecChain()
_SEALED = b"\n"  # in a reference, before its seal
_LATEST = 2**60  # no run has that many supersteps
_DAMAGED = "the stored bytes are damaged: their checksum does not match"
_PRINT = "#"  # in a format, before the fingerprint of an input that was redacted
_PROCESS_KEY = os.urandom(16)  # of stores in memory


class Encoding:
    """A serializer, codecs and the place for large values.

    Without a serializer it is JsonSerializer(), loaded with the first value: many commands read none.

    Raises:
        ValueError: the threshold is not a number of bytes.
    """

    __slots__ = (
        *(
            "_given",
            "_key",
            "_store_id",
            "artifacts",
            "by_name",
            "chain",
            "format",
            "gaps",
            "is_plain",
            "leaves",
        ),
        *("look_up", "recognised", "read_store_id", "redact", "serializer", "tag", "threshold", "verifies"),
    )
    serializer: Serializer
    tag: str  # the serializer in stored formats
    format: str  # the same, with the codecs

    def __init__(
        self,
        serializer: Serializer | None = None,
        chain: CodecChain = _NO_CODECS,
        artifacts: ArtifactStore | None = None,
        threshold: int | None = None,
        redact: Redact | None = None,
        *,
        by_name: Mapping[str, Serializer] = MappingProxyType({}),
    ) -> None:
        self.by_name = by_name  # serializers of single values
        self._given = serializer
        self.chain = chain
        self.is_plain = not (chain.format or by_name or redact is not None)  # bytes are stored as serialized
        self.artifacts = artifacts
        self.leaves = False  # whether artifacts are left where they are, although there is a store for them
        if threshold is not None and (type(threshold) is not int or threshold < 0):
            raise ValueError(f"artifact_threshold must be a number of bytes, not {threshold!r}")
        self.threshold = THRESHOLD if threshold is None else threshold
        self.redact = redact
        self.read_store_id: Callable[[], bytes] = bytes  # the id of the store, to which values are bound
        self._store_id: bytes | None = None
        self._key: bytes | None = None
        self.look_up: Callable[[str, Payload], Found] | None = None  # what references mean
        self.verifies = False  # whether steps that are read are checked against their seals
        self.recognised: Recognised | None = None  # what the call of this encoding is given again
        self.gaps: Gaps | None = None  # of the map of this call
        if serializer is not None:
            self._use(serializer)

    def _use(self, serializer: Serializer) -> None:
        self.serializer = serializer
        self.tag = f"{serializer.id}/{serializer.version}"
        self.format = self.tag + (f"+{self.chain.format}" if self.chain.format else "")

    def __getattr__(self, name: str) -> Any:  # called while a slot is empty
        if name not in ("serializer", "tag", "format"):
            raise AttributeError(name)
        self._use(values.JsonSerializer())
        return getattr(self, name)

    def varied(
        self, serializer: Serializer | None = None, *, artifacts: bool = True, graph: Any = None
    ) -> Encoding:
        """Return the same with another serializer, without the artifact store, or with a graph's classes."""
        kept, by_name = self.artifacts if artifacts else None, self.by_name
        if graph is not None:
            serializer = with_types_of(serializer or self.serializer, graph)
            by_name = {name: with_types_of(own, graph) for name, own in by_name.items()}
        found = Encoding(
            serializer or self._given, self.chain, kept, self.threshold, self.redact, by_name=by_name
        )
        found.read_store_id, found._store_id, found._key = self.read_store_id, self._store_id, self._key
        found.look_up = self.look_up
        found.leaves = self.leaves or (kept is None and self.artifacts is not None)
        return found

    def verifying(self) -> Encoding:
        """Return the same, which raises DecryptionError for steps that others have written or changed."""
        if not self.chain.encrypts:
            return self
        found = self.varied()
        found.verifies = True
        return found

    def fingerprint(self, name: str, value: Any) -> str | None:
        """Return a fingerprint of a value, keyed by this store, None if the value cannot be stored."""
        import hashlib  # only stores with a redaction need it
        import hmac

        if self._key is None:
            self._key = self.read_store_id() or _PROCESS_KEY
        try:
            form = _canonical(value, self.serializer_of(name).without_types().serialize)
        except Exception:  # it cannot be stored either
            return None
        return hmac.new(self._key, form, hashlib.sha256).hexdigest()[:32]

    def is_redacted(self, payload: Payload, value: Any) -> bool:
        """Say whether a stored input is the redacted form of a value."""
        mark = _mark_of(payload)
        return bool(mark) and payload.data is not None and mark == self.fingerprint(payload.name, value)

    @staticmethod
    def redacted(payloads: Iterable[Payload]) -> dict[str, Payload]:
        """Return by name the stored inputs that are the redacted form of values."""
        return {payload.name: payload for payload in payloads if _mark_of(payload)}

    def serializer_of(self, name: str) -> Serializer:
        """Return the serializer of the value with this name."""
        return self.by_name.get(name, self.serializer) if self.by_name else self.serializer

    def _reader(self, written: str) -> Serializer | None:
        """Return the serializer that reads what was written in a format, None if there is none."""
        if written == self.tag:
            return self.serializer
        name, _, version = written.rpartition("/")
        for serializer in (self.serializer, *self.by_name.values()):
            if name == serializer.id and version.isdigit() and int(version) <= serializer.version:
                return serializer
        other = self.serializer.beside(name)
        return other if other is not None and written == f"{other.id}/{other.version}" else None

    @property
    def store_id(self) -> bytes:
        """The id of the store, read once; empty without an encryption."""
        if self._store_id is None:
            self._store_id = self.read_store_id() if self.chain.encrypts else b""
        return self._store_id

    def seal(self, record: StepRecord) -> str | None:
        """Return the seal of a step, None without an encryption."""
        found = self.chain.seal(_facts(record, self.store_id)) if self.chain.encrypts else None
        return None if found is None else b64encode(found).decode()

    def verify(self, record: StepRecord, seal: str | None, store_id: bytes | None = None) -> None:
        """Check a step that was read against its seal.

        Raises DecryptionError if the step was changed, comes from another store or workflow, or was written
        with another key.
        """
        try:
            kept = None if seal is None else b64decode(seal, validate=True)
            self.chain.check_seal(kept, _facts(record, self.store_id if store_id is None else store_id))
        except (DecryptionError, ValueError) as error:
            raise DecryptionError(
                f"Workflow {record.workflow_id!r}: the record of node {record.node_name!r} in superstep "
                f"{record.superstep} is not what this store wrote: it was changed, moved from another "
                "workflow or store, or written with another key. Pass the original key, or restore the "
                "workflow from a backup."
            ) from error

    def commit(
        self, claim: Claim, steps: Sequence[EncodedStep] = (), **more: Unpack[CommitOptions]
    ) -> Commit:
        """Return steps, inputs and the status as one unit for `Backend.write`, the inputs encoded."""
        owner, at = claim.workflow_id, more.get("at", 0)
        inputs = tuple(
            self.payload(name, version, value, Place(owner, at, -version))
            for name, (version, value) in (more.get("inputs") or {}).items()
        )
        rest: dict[str, Any] = {name: value for name, value in more.items() if name != "inputs"}
        return Commit(owned(claim), tuple(steps), inputs, **rest)

    def encode(
        self,
        record: StepRecord,
        growth: Growth | None = None,
        artifact: bool | None = None,
        is_usual: bool = False,
        on_ambiguous: Any = None,
    ) -> EncodedStep:
        """Return the step with its values encoded; warn of each that cannot be.

        A record `is_usual` if the caller knows that it has no fields but those that every step has. The
        warning tells what `on_ambiguous` of the node, which is None if that may be repeated, makes of it.
        """
        if growth is None and artifact is None and self.is_plain:
            plain = self._plain(record, is_usual)  # as most steps are
            if plain is not None:
                return _new_step((record, plain, None, is_usual))
        payloads, versions, lost = [], record.output_versions, record.lost
        if record.status is not StepStatus.COMPLETED:
            growth = None  # only results are extended
        if record.values or lost or record.pause or record.answer is not None or record.error_attributes:
            where = (record.workflow_id, record.superstep, record.index, record.node_name)
            place = Place(*where, artifact, on_ambiguous)
            for name, value in (record.values or {}).items():
                if name not in lost:
                    payloads.append(self.payload(name, versions.get(name, 0), value, place, growth))
            for name, reason in lost.items():
                payloads.append(gap(name, versions.get(name, 0), reason, place))
                if growth is not None:
                    growth.forget(name)
            if record.pause is not None:
                payloads.append(self._pause(place, record, record.pause))
            if record.answer is not None:
                payloads.append(self._answer(record, record.answer, record.answered_by, record.answered_at))
            if record.error_attributes:
                payloads.append(self._error(place, record.error_attributes))
        return EncodedStep(record, payloads, self.seal(record) if self.chain.encrypts else None)

    def _plain(self, record: StepRecord, is_usual: bool) -> list[Payload] | None:
        """Return the values of a step that has nothing but small values, None if more is to be done."""
        if not is_usual and (
            record.lost or record.pause or record.answer is not None or record.error_attributes
        ):
            return None
        payloads, versions = [], record.output_versions
        superstep, index = record.superstep, record.index
        for name, value in record.values.items() if record.values else ():
            if type(value) is Added:
                return None
            try:
                raw = self.serializer.serialize(value)
            except Exception:  # `payload` says what is wrong with it
                return None
            if len(raw) > self.threshold:
                return None
            facts = (name, versions.get(name, 0), self.format, crc32(raw), raw, superstep, index, None, ())
            payloads.append(new_payload(facts))
        return payloads

    def payload(
        self,
        name: str,
        version: int,
        value: Any,
        place: Place,
        growth: Growth | None = None,
        *,
        raw: bytes | None = None,
    ) -> Payload:
        """Return the value as bytes; warn and return a gap when it cannot be encoded.

        What is serialized already is given as `raw`. Raises CheckpointError when the artifact store fails.
        """
        try:
            base, tag, serializer = None, self.tag, self.serializer
            if self.by_name:
                serializer = self.serializer_of(name)
                tag = f"{serializer.id}/{serializer.version}"
            if type(value) is Added:
                base, tag, value = value.begin, tag + value.mark, value.items
            if raw is None:
                if self.redact is not None and name not in APART and name != STREAM:
                    value, mark = self._redacted(self.redact, name, value, place)
                    tag += mark
                try:
                    raw = serializer.serialize(value)
                except UnknownClassError as error:
                    raw = self._for_comparison(name, value, place, error)
            if growth is None or base is not None:
                pass
            elif len(raw) < LEAST:
                growth.last[name] = None
            else:
                raw, base = growth.patch(name, place.superstep, place.idx, raw)
                tag = tag if base is None else tag + "~"
            data = raw
            if self.chain.format:
                data = self.chain.encode(
                    raw, self._identity(place.workflow_id, name, place, tag, version=version)
                )
        except CheckpointError:
            raise
        except Exception as error:
            reason = public_text(error)  # the text of others may quote the value, also in an encrypted store
            effect = "this step will run again on resume" if place.node else "pass it again on resume"
            effect = on_resume(effect, place.on_ambiguous)
            if growth is not None:
                growth.forget(name)
            is_secret = self.chain.encrypts or self.redact is not None  # even a checksum says something
            said = reason if is_secret else public_text(error, keys=True)
            self._warn_of_gap(name, place, effect, said)
            return gap(name, version, reason, place, 0 if place.node or is_secret else checksum_of(value))
        written = self.format if tag is self.tag else tag + self.format[len(self.tag) :]
        payload = Payload(name, version, written, crc32(data), data, place.superstep, place.idx, base)
        is_small = place.artifact is None and len(data) <= self.threshold
        return payload if is_small else self._placed(payload, place)

    def _warn_of_gap(self, name: str, place: Place, effect: str, reason: str) -> None:
        """Warn of a value that is not stored; in a map also when it ends, if other items lack the same."""
        if self.gaps is None:
            warn_caller(_text_of_gap(name, place.node, effect, reason, repr(place.workflow_id)))
        else:
            self.gaps.add((name, place.node, effect, reason), place.workflow_id)

    def _redacted(self, redact: Redact, name: str, value: Any, place: Place) -> tuple[Any, str]:
        """Return what is stored of a value, and of a changed input the mark that later calls compare."""
        kept = redact(place.node, name, value)
        mark = self.fingerprint(name, value) if place.node is None and kept is not value else ""
        return kept, f"{_PRINT}{mark}" if mark else ""

    def _for_comparison(self, name: str, value: Any, place: Place, error: UnknownClassError) -> bytes:
        """Return an input of an unknown class as bytes, with a warning: it can be compared, not restored."""
        if place.node or name == PAUSE:
            raise error
        warn_caller(
            f"The value of {name!r} can be stored, but not restored (workflow {place.workflow_id!r}, an "
            f"input); pass it again on resume. {public_text(error).partition(': ')[2]}"
        )
        return self.serializer_of(name).without_types().serialize(value)

    def _placed(self, payload: Payload, place: Place) -> Payload:
        """Return the payload with its checksum; data too large for a row is put elsewhere and referred to."""
        data, written = payload.data or b"", payload.format
        is_large = len(data) > self.threshold if place.artifact is None else place.artifact
        if is_large and self.artifacts is not None:
            kind = "json" if written == "json/1" else "octet-stream"  # only this package can open the others
            data = self.artifacts.put(data, content_type=f"application/{kind}").to_text().encode()
            written += "@"
        return payload._replace(format=written, checksum=crc32(data), data=data)

    def made_whole(self, workflow_id: str, payload: Payload) -> Payload:
        """Return a payload that extends nothing any more; raises what `whole` raises."""
        tag = _tag(payload.format)
        whole = payload._replace(base=None, parts=())
        return self._again(whole, self.whole(workflow_id, payload), tag, workflow_id)

    def moved(
        self, payload: Payload, origin: str, workflow_id: str, store_id: bytes | None = None
    ) -> Payload:
        """Return a payload of a workflow, maybe of another store, as one of another workflow in this one.

        Raises what `whole` raises.
        """
        tag = payload.format.partition("+")[0].rstrip("@")
        return self._again(payload, self._raw(origin, payload, store_id), tag, workflow_id)

    def _again(self, payload: Payload, raw: bytes, tag: str, workflow_id: str) -> Payload:
        place = Place(workflow_id, payload.superstep, payload.idx)
        identity = self._identity(workflow_id, payload.name, place, tag, version=payload.version)
        data = self.chain.encode(raw, identity)
        return self._placed(payload._replace(format=tag + self.format[len(self.tag) :], data=data), place)

    def inputs(self, workflow_id: str, given: Mapping[str, Any]) -> list[Payload]:
        """Return what a workflow starts with as bytes, as first versions."""
        place = Place(workflow_id, 0, -1)
        return [
            self._reference(name, value, place)
            if type(value) is Reference
            else self.payload(name, 1, value, place)
            for name, value in given.items()
        ]

    def renewed(self, workflow_id: str, before: Payload, value: Any) -> Payload:
        """Return another value in place of an input that could not be stored; a gap of it is told no more."""
        place = Place(workflow_id, before.superstep, before.idx)
        try:
            self.serializer_of(before.name).serialize(value)
        except Exception as error:  # it cannot be stored either
            return gap(before.name, before.version, public_text(error), place, checksum_of(value))
        return self.payload(before.name, before.version, value, place)

    def _reference(self, name: str, reference: Reference, place: Place) -> Payload:
        """Return a reference as bytes, in an encrypted store with a seal: another one is not accepted."""
        data = reference.data()
        seal = self.chain.seal(_reference_facts(name, data))
        if seal is not None:
            data += _SEALED + b64encode(seal)
        return Payload(name, 1, REFERENCE, crc32(data), data, place.superstep, place.idx)

    def versioned(self, workflow_id: str, payloads: Iterable[Payload]) -> dict[str, tuple[int, Any]]:
        """Return the version and the value of each payload, by name."""
        return {item.name: (item.version, self.value(workflow_id, item)) for item in payloads}

    def value(self, workflow_id: str, payload: Payload) -> Any:
        """Return the value, or an `Undecodable` that says why there is none."""
        data = payload.data
        if data is None:
            missing = Undecodable(f"not stored: {payload.format[1:]}")
            return missing if payload.format == DROPPED else missing.summed_as(payload.checksum)
        known = self.recognised
        if known is not None and known.rows and (given := known.get(workflow_id, payload)) is not None:
            return given[0]
        try:
            if payload.format == self.tag == self.format and payload.base is None:  # as most values are
                if crc32(data) != payload.checksum:
                    raise ValueError(_DAMAGED)
                found = self.serializer.deserialize(data)
                if type(found) is Undecodable:
                    found.stored_as(data, self.serializer)
                return found
            if payload.format == REFERENCE:
                return self._referred(workflow_id, payload)
            if payload.base is not None and payload.is_added:
                return self._list(workflow_id, payload)
            # The bytes are not kept meanwhile: they may be as large as the value.
            serializer = self._serializer_for(payload)
            found = serializer.deserialize(self.whole(workflow_id, payload))
            if type(found) is Undecodable:
                found.stored_as(self.whole(workflow_id, payload), serializer)
            return found
        except Exception as error:  # rows may hold anything, codecs and serializers may raise anything
            ours = isinstance(error, ValueError | CheckpointError)
            found = Undecodable(str(error) if ours else f"{type(error).__name__}: {error}")
            found.rows = tuple((row.format, row.data) for row in (*payload.parts, payload))
            found.is_foreign = is_of_settings(error)
            return found.compared_by(partial(self._is_same, workflow_id, payload))

    def recognise(self, workflow_id: str, payload: Payload, value: Any) -> None:
        """Take a given value for the stored one if it would be stored as the same bytes.

        That takes one encoding, and no decoding. Other values are decoded and compared.
        """
        if self.recognised is None or payload.data is None:
            return
        try:
            owner, row = workflow_id, payload
            if row.format == REFERENCE:
                owner, row, _ = self._target(workflow_id, payload)
            known = self.recognised.get(owner, row)
            serializer = self.serializer_of(row.name)
            is_exact = isinstance(serializer, values.JsonSerializer | values.MsgpackSerializer)
            is_whole = row.base is None and _PRINT not in row.format and _tag(row.format) == _name(serializer)
            if known is not None or not (is_exact and is_whole) or "lossy" in repr(serializer):
                return
            if self.recognised.is_stored_as(self._raw(owner, row), value, serializer):
                self.recognised.add(owner, row, value)
        except Exception:  # it cannot be stored, or not be read
            return

    def _is_same(self, workflow_id: str, payload: Payload, value: Any) -> bool | None:
        """Return whether a value is one that cannot be read, None if that is not known.

        The checksum of its bytes tells, also if they are damaged or gone. That others are those of another
        value is only sure where equal values have equal bytes: not behind codecs, nor of pickles.
        """
        written = payload.format.removesuffix("@")
        tag, _, codecs = written.partition("+")
        if _PRINT in tag:
            return self.is_redacted(payload, value)
        serializer = self._reader(_tag(written))
        if serializer is None or payload.base is not None or codecs not in ("", self.chain.format):
            return None
        is_sure = not codecs and isinstance(serializer, values.JsonSerializer | values.MsgpackSerializer)
        try:
            data = serializer.without_types().serialize(value)
            if codecs:
                data = self.chain.encode(
                    data, self._identity(workflow_id, payload.name, payload, tag, version=payload.version)
                )
        except Exception:  # a value that cannot be stored, in contrast to this one
            return False
        if written == payload.format:
            is_equal = payload.data == data or payload.checksum == crc32(data)
        else:
            try:
                known = ArtifactRef.from_text((payload.data or b"").decode())
            except (ArtifactMissingError, ValueError):  # the reference is damaged
                return None
            is_equal = known.key == ArtifactRef.of(data, storage="any", content_type="any/any").key
        return True if is_equal else False if is_sure else None

    def _referred(self, workflow_id: str, payload: Payload) -> Any:
        """Return a value of the workflow around this one; raises what `_target` raises."""
        owner, target, size = self._target(workflow_id, payload)
        value = self.value(owner, target)
        is_known = not isinstance(value, Undecodable) or value.data is not None
        if size >= 0 and is_known and len(value.data if isinstance(value, Undecodable) else value) != size:
            raise ValueError(f"{target.name!r} of {owner!r} has been replaced since")
        return value

    def _target(self, workflow_id: str, payload: Payload) -> Found:
        """Return what a reference means.

        Raises ValueError if it is not there any more, DecryptionError if it was written without the key.
        """
        plain, _, seal = (payload.data or b"").partition(_SEALED)
        try:
            self.chain.check_seal(b64decode(seal) if seal else None, _reference_facts(payload.name, plain))
        except DecryptionError as error:
            raise DecryptionError("a reference that was changed, or written without the key") from error
        if self.look_up is None:
            raise ValueError("a reference, which this store cannot follow")
        return self.look_up(workflow_id, payload._replace(data=plain))

    def whole(self, workflow_id: str, payload: Payload) -> bytes:
        """Return the serialized bytes of a value, patches applied.

        Raises ValueError for what this store cannot read, CheckpointError for what is gone or locked away.
        """
        if payload.format == REFERENCE:
            return self.serializer_of(payload.name).serialize(self._referred(workflow_id, payload))
        if payload.base is None:
            return self._raw(workflow_id, payload)
        if payload.is_added:
            found = self._list(workflow_id, payload)
            if not isinstance(found, Undecodable):
                return self._serializer_for(payload).serialize(found)
            if found.raw is None:
                raise ValueError(found.reason)
            return found.raw  # objects of unknown classes stay as they are stored
        *links, last = (*payload.parts, payload)
        if not links or links[0].base is not None:
            raise ValueError("the beginning of a growing value is not stored any more")
        raw = self._raw(workflow_id, links[0])
        return applied(raw, (self._raw(workflow_id, link) for link in (*links[1:], last)))

    def segments(self, workflow_id: str, payload: Payload) -> Segments:
        """Return an appended list, and what each step has added to it.

        An object of an unknown class is an `Undecodable` with its fields. Raises ValueError for what this
        store cannot read, CheckpointError for what is gone or locked away.
        """
        items, found = [], []
        for row in _in_order(payload):
            more = _readable_items(self.part(workflow_id, row))
            items += more
            if row.is_added:
                found.append((row, len(more)))
        return Segments(items, found)

    def part(self, workflow_id: str, row: Payload) -> list[Any] | Undecodable:
        """Return the items of one part of a list: what a step added, or what the list began with.

        With items of unknown classes it is an `Undecodable` with their fields. Raises ValueError for what
        this store cannot read, CheckpointError for what is gone or locked away.
        """
        if row.format == REFERENCE:
            return _checked_items(self._referred(workflow_id, row))
        return self._items(row, self._raw(workflow_id, row))

    def added(self, workflow_id: str, payload: Payload, index: int) -> Added | None:
        """Return what one step has added to a list, also if the list has begun anew since; None if nothing.

        An object of an unknown class is an `Undecodable` with its fields. Raises ValueError for what this
        store cannot read, CheckpointError for what is gone or locked away.
        """
        for row in (payload, *payload.parts):
            found = stands(row.format) if row.base is not None and row.idx == index else None
            if found is not None:
                items = _readable_items(self.part(workflow_id, row))
                return Added(items, found.node, found.late, found.anew, row.base or 0)
        return None

    def _list(self, workflow_id: str, payload: Payload) -> list[Any] | Undecodable:
        """Return an appended list, read at once where that is possible.

        With items of unknown classes it is the readable part of an `Undecodable`. Raises what `segments`
        raises.
        """
        if (raw := self._of_one_node(payload)) is not None:
            serializer = self._serializer_for(payload)
            if (joined := serializer.joined(raw)) is not None:
                return self._from_joined(serializer, joined)
        rows = _in_order(payload)
        if rows[0].format == REFERENCE:  # the list began with one of the workflow around this one
            return _joined([self.part(workflow_id, row) for row in rows])
        formats, raw = {row.format for row in rows}, [row.data for row in rows if row.data is not None]
        is_plain = not self.chain.format and all(map(self._needs_no_codec, formats))
        if not is_plain or [*map(crc32, raw)] != [row.checksum for row in rows]:
            raw = [self._raw(workflow_id, row) for row in rows]
        alike = len(set(map(_tag, formats))) == 1
        serializer = self._serializer_for(rows[0])
        joined = serializer.joined(raw) if alike else None
        if joined is None:
            return _joined([self._items(row, data) for row, data in zip(rows, raw, strict=True)])
        return self._from_joined(serializer, joined)

    def _of_one_node(self, payload: Payload) -> list[bytes] | None:
        """Return the bytes of a list that one node has added to, in order, None for any other list."""
        parts, place = payload.parts, stands(payload.format)
        if not isinstance(parts, Parts) or place is None or place.late or place.anew:
            return None
        raw = [*parts.data, payload.data]
        if (
            self.chain.format
            or {payload.format} != {*parts.formats, payload.format}
            or None in parts.bases
            or {*map(type, raw)} != {bytes}
            or not self._needs_no_codec(payload.format)
            or [*map(crc32, raw)] != [*parts.checksums, payload.checksum]
        ):
            return None
        return raw

    def _from_joined(self, serializer: Serializer, joined: bytes) -> list[Any] | Undecodable:
        found = _checked_items(serializer.deserialize(joined))
        return found.stored_as(joined, serializer) if isinstance(found, Undecodable) else found

    def _needs_no_codec(self, written: str) -> bool:
        """Say whether bytes of a format need no more than a checksum before they are decoded."""
        return "+" not in written and not written.endswith("@") and _tag(written) == self.tag

    def _items(self, row: Payload, raw: bytes) -> list[Any] | Undecodable:
        return _checked_items(self._serializer_for(row).deserialize(raw))

    def _serializer_for(self, payload: Payload) -> Serializer:
        return self._reader(_tag(payload.format)) or self.serializer

    def reads(self, workflow_id: str, payload: Payload) -> bool:
        """Say whether this store can read a value."""
        try:
            self.whole(workflow_id, payload)
        except (ValueError, CheckpointError):
            return False
        return True

    def grown(self, workflow_id: str, payload: Payload) -> Grown | None:
        """Return what a later version can extend, None if it cannot be read."""
        own = self.serializer_of(payload.name)
        if payload.data is None or payload.is_added or _tag(payload.format) != f"{own.id}/{own.version}":
            return None
        try:
            raw = self.whole(workflow_id, payload)
        except Exception:  # as in `value`: it is not extended
            return None
        links = len(payload.parts) + 1
        size = sum(len(part.data or b"") for part in (*payload.parts, payload))
        base = payload.superstep if payload.base is None else payload.base
        return Grown(raw, payload.superstep, payload.idx, base, links, size)

    def _raw(self, workflow_id: str, payload: Payload, store_id: bytes | None = None) -> bytes:
        """Return one link of a chain as it was before it went through the codecs."""
        data, written = payload.data, payload.format.removesuffix("@")
        if data is None:
            raise ValueError(f"not stored: {payload.format[1:]}")
        if crc32(data) != payload.checksum:
            raise ValueError(_DAMAGED)
        tag, _, codecs = written.partition("+")
        plain = _tag(written)
        if self._reader(plain) is None:
            error = ValueError(f"written as {plain!r}, this store reads {self.tag!r}")
            is_format = plain.rpartition("/")[2].isdigit()  # else the row is damaged
            raise of_settings(error) if is_format else error
        if written != payload.format:  # a reference
            data = self._artifact(data)
        if not codecs and not self.chain.format:
            return data
        identity = self._identity(
            workflow_id, payload.name, payload, tag, version=payload.version, store_id=store_id
        )
        return self.chain.decode(data, codecs, identity)

    def _artifact(self, reference: bytes) -> bytes:
        if self.artifacts is None:
            missing = "the value is in an artifact store, and this store has none; pass artifact_store="
            raise of_settings(ValueError(NOT_FETCHED if self.leaves else missing))
        return self.artifacts.get(ArtifactRef.from_text(reference.decode()))

    def contents(
        self, owner: tuple[str, str], order: Iterable[str], payloads: Iterable[Payload], with_values: bool
    ) -> dict[str, Any]:
        """Return the fields of a record that its payloads hold: values, pause and lost.

        The owner is the workflow and the node.
        """
        workflow_id, node = owner
        found = {payload.name: payload for payload in payloads}
        pause, answer, error = (found.pop(name, None) for name in APART)
        lost = {name: payload.format[1:] for name, payload in found.items() if payload.data is None}
        stored = dict.fromkeys(name for name in (*order, *found) if name in found and name not in lost)
        return {
            "values": {n: self.value(workflow_id, found[n]) for n in stored} if with_values else None,
            "pause": self._read_pause(workflow_id, node, pause) if pause else None,
            "lost": lost,
            **(self._read_answer(workflow_id, answer) if answer else {}),
            **({"error_attributes": self._read_error(workflow_id, error)} if error else {}),
        }

    def _pause(self, place: Place, record: StepRecord, pause: PauseInfo) -> Payload:
        shown = pause if self.redact is None else redacted_pause(self.redact, record, pause)
        parts = {name: getattr(shown, name) for name in _PAUSE_FIELDS}
        parts["due"] = None if shown.due is None else shown.due.isoformat()  # readable beside unknown classes
        payload = self.payload(PAUSE, 0, parts, place)
        if payload.data is None:  # the run waits for its answer all the same; what it showed is gone
            payload = self.payload(PAUSE, 0, {**parts, "value": None, "values": None}, place)
        return payload

    def _error(self, place: Place, attributes: Mapping[str, Any]) -> Payload:
        kept, redact = dict(attributes), self.redact
        if redact is not None:
            try:
                kept = {name: redact(place.node, name, value) for name, value in kept.items()}
            except Exception as error:  # of the caller's function
                kept = {name: f"cannot be redacted: {type(error).__name__}" for name in kept}
        return self.payload(ERROR, 0, kept, place)

    def _read_error(self, workflow_id: str, payload: Payload) -> dict[str, Any]:
        found = self.value(workflow_id, payload)
        parts = found.data if isinstance(found, Undecodable) else found
        return dict(parts) if isinstance(parts, Mapping) else {}

    def summary(self, workflow_id: str, facts: Mapping[str, Any] | None) -> Payload:
        """Return a summary of steps as bytes; None takes away the one that is stored."""
        place = Place(workflow_id)
        if facts is None:
            return gap(SUMMARY, 0, "outdated", place)
        return self.payload(SUMMARY, 0, None, place, raw=json.dumps(facts, separators=(",", ":")).encode())

    def read_summary(self, workflow_id: str, payload: Payload | None) -> dict[str, Any] | None:
        """Return a stored summary, None if there is none that can be read: then the steps are.

        It has a `last` superstep and `places`; a resume checks the rest against its graph.
        """
        if payload is None or payload.data is None:
            return None
        try:
            text = self._raw(workflow_id, payload).decode()
            check_length(text)
            found = json.loads(text)
            last, places = found["last"], {(at, node) for at, node in found["places"]}
            kinds = {type(last), *(type(at) for at, _ in places)}, {type(node) for _, node in places}
            if kinds[0] != {int} or kinds[1] - {str} or not 0 <= last < _LATEST:
                raise ValueError("a summary without its place")
            is_sound = len(places) == len(found["places"]) and all(0 <= at <= last for at, _ in places)
        except (CheckpointError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return found if is_sound else None

    def answer(self, record: StepRecord, values: Mapping[str, Any], by: str | None) -> EncodedAnswer:
        """Return the answer to the question of a step, encoded. Raises InvalidAnswerError if it cannot be."""
        node, redact = record.node_name, self.redact
        kept = dict(values) if redact is None else {n: redact(node, n, v) for n, v in values.items()}
        for name, value in kept.items():
            try:
                self.serializer.serialize(value)  # what cannot be stored must not look like an answer
            except TypeError as error:
                what = f"The answer {name!r} to node {node!r} of workflow {record.workflow_id!r}"
                raise _unstorable(what, name, value, error) from error
        return EncodedAnswer(record, self._answer(record, kept, by, now().isoformat()))

    def signal(
        self,
        workflow_id: str,
        name: str,
        value: Any,
        by: str | None,
        place: int,
        *,
        schema: Schema | None = None,
    ) -> Payload:
        """Return a value that is sent to a workflow, encoded. Raises InvalidAnswerError if it cannot be.

        `schema` is kept with it: the type of which the value was, where other code could take it for another
        value.
        """
        redact = self.redact
        kept = value if redact is None else redact(name, name, value)
        parts = dict(zip(_SIGNAL_PARTS, (kept, by, now().isoformat()), strict=True))
        if schema is not None:
            parts["schema"] = schema
        try:
            raw = self.serializer_of(name).serialize(parts)  # it must not look like one that is stored
        except TypeError as error:
            what = f"The signal {name!r} to workflow {workflow_id!r}"
            raise _unstorable(what, name, value, error) from error
        return self.payload(name, 0, parts, Place(workflow_id, 0, place), raw=raw)

    def read_signal(self, workflow_id: str, payload: Payload) -> Signal:
        """Return a value that was sent, as it is stored; one that cannot be read says why."""
        found = self.value(workflow_id, payload)
        parts = found.data if isinstance(found, Undecodable) else found
        try:
            if not isinstance(parts, dict):
                raise TypeError(type(parts).__name__)
            by, at = parts["by"], datetime.fromisoformat(parts["at"]).astimezone(UTC)
            schema = stored_schema(parts.get("schema"))
            if not isinstance(by, str | None) or len(parts) != len(_SIGNAL_PARTS) + ("schema" in parts):
                raise ValueError("a signal with other parts")
            value = parts["value"]
            if isinstance(found, Undecodable) and not isinstance(value, Undecodable):
                value = Undecodable(found.reason, value)
            return Signal(payload.name, value, by, at, schema=schema)
        except (KeyError, TypeError, ValueError, OverflowError):  # a row may hold anything
            is_read = not isinstance(found, Undecodable)
            return Signal(payload.name, Undecodable("what is stored is not a signal") if is_read else found)

    def _answer(
        self, record: StepRecord, values: Mapping[str, Any], by: str | None, at: str | None
    ) -> Payload:
        parts = {"answer": values, "answered_by": by, "answered_at": at}
        place = Place(record.workflow_id, record.superstep, record.index, record.node_name)
        return self.payload(ANSWER, 0, parts, place)

    def _read_answer(self, workflow_id: str, payload: Payload) -> dict[str, Any]:
        found = self.value(workflow_id, payload)
        parts = found.data if isinstance(found, Undecodable) else found
        known = ("answer", "answered_by", "answered_at")
        if not isinstance(parts, Mapping) or set(known) != set(parts):
            return {"answer": {}}  # it is there, and cannot be read
        given, *about = (parts[name] for name in known)
        is_sound = isinstance(given, dict) and all(isinstance(name, str) for name in given)
        is_sound = is_sound and all(isinstance(text, str | None) for text in about)
        return dict(parts) if is_sound else {"answer": {}}

    def _read_pause(self, workflow_id: str, node: str, payload: Payload) -> PauseInfo:
        found = self.value(workflow_id, payload)
        # What was shown may be of a class that is unknown here; all else can be read.
        parts = found.data if isinstance(found, Undecodable) else found
        if not isinstance(parts, Mapping):
            return PauseInfo(node, "", value=found)
        fields = {name: parts[name] for name in _PAUSE_FIELDS if name in parts}
        try:
            return PauseInfo(**_checked_pause(fields))
        except (TypeError, ValueError):  # a row may hold anything
            return PauseInfo(node, "", value=found)

    def _identity(
        self,
        workflow_id: str,
        name: str,
        place: Place | Payload,
        tag: str,
        *,
        version: int,
        store_id: bytes | None = None,
    ) -> bytes:
        """Return the identity of a value, for codecs that bind their bytes to it."""
        parts = (workflow_id, name, str(place.superstep), str(place.idx), tag, str(version))
        return (self.store_id if store_id is None else store_id) + b"".join(
            b"%d:%s" % (len(part), part) for part in (p.encode("utf-8", "surrogatepass") for p in parts)
        )


def _unstorable(what: str, key: str, value: Any, error: TypeError) -> InvalidAnswerError:
    text = f"{what} is of type {type(value).__name__}, and cannot be stored: {error}"
    return InvalidAnswerError(text, key=key, field=key)


def _text_of_gap(name: str, node: str | None, effect: str, reason: str, workflows: str) -> str:
    where = f"workflow {workflows}, " + (f"node {node!r}" if node else "an input")
    return f"The value of {name!r} cannot be stored ({where}); {effect}. {reason}"


def on_resume(usual: str, on_ambiguous: Any) -> str:
    """Return what a resume does about a value that cannot be stored, in warnings.

    That is the `usual`, unless what made it must not be repeated: then its `on_ambiguous` decides.
    """
    if on_ambiguous == "fail":
        return "it must not be repeated, so that a resume that needs it raises AmbiguousStepError"
    return "a resume that needs it asks on_ambiguous" if callable(on_ambiguous) else usual


def _checked_pause(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored pause. Raises TypeError or ValueError if one has another type."""
    wanted = {
        **dict.fromkeys(("node_name", "output_param", "reason"), str),
        **dict.fromkeys(("values", "schemas"), dict | None),
        "path": list | tuple,
        "output_params": list | tuple | None,
        **dict.fromkeys(("due", "default"), str | None),
    }
    for name, kind in wanted.items():
        if name in fields and not isinstance(fields[name], kind):
            raise TypeError(f"{name} is of type {type(fields[name]).__name__}")
    for name in ("path", "output_params"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    names = [*(fields.get("path") or ()), *(fields.get("output_params") or ()), *(fields.get("values") or ())]
    schemas = fields.get("schemas") or {}
    if not all(isinstance(name, str) for name in (*names, *schemas)):
        raise TypeError("a name that is not a text")
    if not all(isinstance(schema, dict) for schema in schemas.values()):
        raise TypeError("a schema that is not a mapping")
    if schemas:
        fields["schemas"] = {name: stored_schema(schema) for name, schema in schemas.items()}
    if fields.get("due") is not None:
        fields["due"] = datetime.fromisoformat(fields["due"]).astimezone(UTC)
    return fields


def _checked_items(found: Any) -> list[Any] | Undecodable:
    """Return the items of a list, or of a part of it. Raises ValueError for another value."""
    items = found.data if isinstance(found, Undecodable) else found
    if not isinstance(items, list | tuple):
        reason = found.reason if isinstance(found, Undecodable) else f"it is {type(found).__name__}"
        raise ValueError(f"a part of the list cannot be read: {reason}")
    if isinstance(found, Undecodable):
        return found
    return list(items) if type(items) is not list else items


def _readable_items(found: list[Any] | Undecodable) -> list[Any]:
    return list(found.data) if isinstance(found, Undecodable) else found


def _joined(parts: Sequence[list[Any] | Undecodable]) -> list[Any] | Undecodable:
    """Return the parts of a list as one; if one is not read as a whole, neither is the list."""
    items = [item for part in parts for item in _readable_items(part)]
    unread = [part for part in parts if isinstance(part, Undecodable)]
    if not unread:
        return items
    found = Undecodable(f"a part of the list cannot be read: {unread[0].reason}", items)
    found.classes = tuple(dict.fromkeys(name for part in unread for name in part.classes))
    return found


class Segments(NamedTuple):
    """An appended list, and what each step has added to it, in order."""

    items: list[Any]
    added: list[tuple[Payload, int]]  # how it is stored, and how many items it has


def _in_order(payload: Payload) -> list[Payload]:
    """Return what an appended list consists of: what it begins with, and what steps have added since.

    Versions say what has been added since the list was stored as a whole, places in which order.
    """
    rows = (*payload.parts, payload)
    places = {written: stands(written) for written in {row.format for row in rows}}
    nodes = {w: found.node for w, found in places.items() if found and not (found.late or found.anew)}
    if len(nodes) == len(places) and all(row.base is not None for row in rows):  # as in most lists
        return sorted(rows, key=lambda row: (row.superstep, nodes[row.format], row.idx))
    start, placed, is_anew = None, [], False
    for row in rows:
        found = places[row.format] if row.base is not None else None
        if found is None:
            start = row if start is None or row.version > start.version else start
        else:
            placed.append((row.superstep - found.late, found.node, row.idx, row))  # indexes are unique
            is_anew = is_anew or found.anew
    placed.sort()
    added = [place[3] for place in placed]
    if start is not None:
        since = start.version
        added = [row for row in added if row.version > since]
    begins = [n for n, row in enumerate(added) if cast(Stands, stands(row.format)).anew] if is_anew else ()
    if begins:
        return added[begins[-1] :]
    return added if start is None else [start, *added]


@lru_cache(maxsize=1024)
def _tag(written: str) -> str:
    """Return the serializer that wrote a format."""
    return written.partition("+")[0].partition("&")[0].partition(_PRINT)[0].rstrip("~@")


def _name(serializer: Serializer) -> str:
    return f"{serializer.id}/{serializer.version}"


def _canonical(value: Any, serialize: Callable[[Any], bytes]) -> bytes:
    """Return bytes that are the same for equal sets and dicts, whatever their order."""
    kind = type(value)
    if kind in (list, tuple):
        parts = [_canonical(item, serialize) for item in value]
    elif kind in (set, frozenset):
        parts = sorted(_canonical(item, serialize) for item in value)
    elif kind is dict:
        parts = sorted(_canonical([*item], serialize) for item in value.items())
    else:
        return serialize(value)
    return kind.__name__.encode() + b"".join(b"%d:%s" % (len(part), part) for part in parts)


def _reference_facts(name: str, data: bytes) -> bytes:
    """Return what the seal of a reference is about."""
    return b"reference\0" + name.encode("utf-8", "surrogatepass") + b"\0" + data


def _facts(record: StepRecord, store_id: bytes) -> bytes:
    """Return what a resume goes by in a step, as bytes that are the same after every way of storing it."""
    import msgspec  # only encrypted stores need it here

    decision = record.decision
    facts = (
        *(record.workflow_id, record.superstep, record.node_name, record.index, record.status.value),
        *(record.input_versions, record.output_versions, record.wait_versions),
        decision if decision is None or isinstance(decision, str) else list(decision),
        *(record.partial, record.cached, record.visit, record.child_workflow_id, record.retry_of),
        # An answer that is not used yet is a value of its own, added after the step was sealed.
        record.answered_by if record.answer is None else None,
        *(({name: float(amount) for name, amount in record.used.items()},) if record.used else ()),
        *(() if record.rerun_at is None else (record.rerun_at,)),
        *(() if record.code_was is None else (record.code_was,)),
    )
    return store_id + msgspec.json.encode(facts, order="deterministic")


class LazyState(Mapping[str, Any]):
    """The latest value of every output, by name."""

    def __init__(
        self,
        payloads: Iterable[Payload] = (),
        encoding: Encoding | None = None,
        workflow_id: str = "",
        link: Callable[[Payload], Payload] | None = None,  # how to find what a payload extends
    ) -> None:
        self._link = link
        self._encoding = encoding if encoding is not None else Encoding()
        self._workflow_id = workflow_id
        self._payloads = {payload.name: payload for payload in payloads if payload.data is not None}
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._encoding.value(self._workflow_id, self.payload(name))
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)

    def __contains__(self, name: object) -> bool:
        return name in self._payloads

    def read(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of those of some names that are there."""
        return {name: self[name] for name in names if name in self._payloads}

    def payload(self, name: str) -> Payload:
        """Return the encoded value of a name, with its size and position, and with what it extends."""
        payload = self._payloads[name]
        if self._link is not None and payload.base is not None and not payload.parts:
            payload = self._payloads[name] = self._link(payload)
        return payload

    def begin(self, name: str) -> int:
        """Return the superstep from which on rows of a value matter."""
        payload = self._payloads[name]
        return payload.superstep if payload.base is None else payload.base

    def is_patch(self, name: str) -> bool:
        """Say whether a value is stored as a patch of bytes."""
        payload = self._payloads[name]
        return payload.base is not None and not payload.is_added

    def segments(self, name: str) -> Segments | None:
        """Return an appended list and what each step has added, None for what is not, or cannot be read."""
        if not self._payloads[name].is_added:
            return None
        try:
            return self._encoding.segments(self._workflow_id, self.payload(name))
        except Exception:  # as in `Encoding.value`, which says why
            return None

    def added(self, name: str, index: int) -> Added | None:
        """Return what a step has added to a list, None for what is not one, or cannot be read."""
        try:
            return self._encoding.added(self._workflow_id, self.payload(name), index)
        except Exception:  # as in `Encoding.value`, which says why
            return None

    def before(self, earlier: Iterable[Payload]) -> LazyState:
        """Return an earlier state of the same workflow; what is in both is decoded once."""
        found = LazyState(earlier, self._encoding, self._workflow_id)
        for name, payload in found._payloads.items():
            if name in self._values and payload == self._payloads[name]:
                found._values[name] = self._values[name]
        return found


Redact = Callable[[str | None, str, Any], Any]  # node (None for inputs), name and value -> what is stored


def _mark_of(payload: Payload) -> str:
    """Return the fingerprint of the value in whose place a redacted input is stored; empty if it is none."""
    if _PRINT not in payload.format:
        return ""
    return payload.format.partition("+")[0].rstrip("@").partition(_PRINT)[2]


def redacted_pause(redact: Redact, record: StepRecord, pause: PauseInfo) -> PauseInfo:
    """Return a pause whose values are redacted by their names; what cannot be redacted is left out.

    That is also what a nested graph shows: only its own workflow knows the name of that.
    """
    node, names = record.node_name, tuple(record.input_versions) if _asks_itself(record, pause) else ()
    try:
        if pause.values:
            shown = {name: redact(node, name, value) for name, value in pause.values.items()}
            return replace(pause, value=next(iter(shown.values())), values=shown)
        value = redact(node, names[0], pause.value) if len(names) == 1 else None
        return replace(pause, value=value)
    except Exception as error:
        warn_caller(f"What node {node!r} shows cannot be redacted: {type(error).__name__}")
        return replace(pause, value=None, values=None)


def _asks_itself(record: StepRecord, pause: PauseInfo) -> bool:
    """Say whether the question is one of the step, and not of the graph inside of it."""
    asking = pause.node_name.rpartition("/")[2]
    return asking == record.node_name and record.workflow_id.count("/") >= len(pause.path)
