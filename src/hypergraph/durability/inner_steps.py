"""Records of the steps inside of a node: how they are encoded, stored and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hypergraph.checkpointers.encoding import Encoding, on_resume
from hypergraph.checkpointers.inner_steps import (
    INDEX,
    ROOM,
    Opaque,
    content_of,
    inner_step_of,
    must_not_change,
    owner_of,
)
from hypergraph.checkpointers.records import Payload, Place
from hypergraph.durability.code_hashes import node_hashes
from hypergraph.durability.history import is_other
from hypergraph.engine.inner_steps import Entry, Opened
from hypergraph.engine.plan import Step
from hypergraph.exceptions import ValueUnreadableError, warn_caller
from hypergraph.values.undecodable import OPEN_OTHERWISE, Undecodable, public_text

if TYPE_CHECKING:
    from hypergraph.durability.journal import Journal


class InnerJournal:
    """The inner steps of one visit of a node, while they are being written."""

    def __init__(self, journal: Journal, step: Step, superstep: int) -> None:
        self.journal = journal
        self.step = step
        self.superstep = superstep
        self.visit = journal.visits.get(step.index, 1)
        self.inputs = journal.input_versions(step, superstep)
        self.encoding: Encoding = journal.store.encoding

    def recorded(self) -> dict[str, Entry]:
        """Return what earlier calls of this visit have left, by key."""
        journal = self.journal
        if journal.run.resumed is None:
            return {}
        rows = journal.store.backend.read_inner(
            journal.claim.workflow_id, node=self.step.name, visit=self.visit
        )
        found: dict[str, Entry] = {}
        for _, payload in rows:  # of a key that was called in several supersteps, the last one counts
            entry = self._entry(payload)
            if entry is not None:
                found[payload.name] = entry
        return found

    def _entry(self, payload: Payload) -> Entry | None:
        content, index = self._content(payload), payload.idx & INDEX
        if content is None:  # it was called, and what came of it cannot be read
            return Entry(index, "completed", payload=payload)
        is_other = content.get("inputs") != self.inputs
        if is_other and not (must_not_change(content) and self._is_of_this_turn(payload, content)):
            return None
        entry = Entry(index, content["status"], awaited=bool(content.get("awaited")), payload=payload)
        entry.of_other_inputs = is_other
        if content.get("once") and content.get("code", self.code) != self.code:
            entry.former = str(content.get("function", ""))
        return entry

    def _is_of_this_turn(self, payload: Payload, content: Mapping[str, Any]) -> bool:
        """Say whether no new values have reached the node since: its code alone makes it take others."""
        began = self.journal.turns_at.get(self.step.index, 0)
        turn = content.get("turn")
        if type(turn) is not int:  # of an earlier release
            turn = payload.superstep
        return payload.superstep > began or turn >= began

    @property
    def code(self) -> str:
        """The hash of the code of the node."""
        return node_hashes(self.journal.run.admission.graph).get(self.step.name, "")

    def _content(self, payload: Payload) -> Mapping[str, Any] | None:
        return content_of(self.encoding, self.journal.claim.workflow_id, payload)

    def restored(self, entry: Entry) -> Entry | None:
        """Return an entry with its arguments and its value, None if they cannot be read.

        Raises:
            ValueUnreadableError: another setting of the store makes them readable.
        """
        content = self._content(entry.payload)
        if content is None:
            self._refuse_foreign(entry.payload)
        if content is None or content["status"] == "failed":
            return None
        found = inner_step_of(self.step.name, entry.payload, content)
        if isinstance(found.value, Undecodable) or found.problem is not None:
            return None
        made = Entry(entry.index, content["status"])
        made.args, made.kwargs, made.value = found.args, found.kwargs, found.value
        return made

    def _refuse_foreign(self, payload: Payload) -> None:
        """Raise ValueUnreadableError for a call that only other settings of the store can read."""
        workflow_id = self.journal.claim.workflow_id
        found = self.encoding.value(owner_of(workflow_id), payload._replace(base=None))
        if isinstance(found, Undecodable) and found.is_foreign:
            raise ValueUnreadableError(
                f"The result of step {payload.name!r} of node {self.step.name!r} of workflow {workflow_id!r} "
                f"cannot be restored: {found.reason}.\n"
                f"How to fix: {OPEN_OTHERWISE}; or fork from an earlier step.",
                workflow_id=workflow_id,
                name=payload.name,
            )

    @staticmethod
    def is_other(recorded: Any, given: Any) -> bool:
        """Say whether a given argument is another than the recorded one."""
        if isinstance(recorded, Opaque):
            return recorded.type_name != type(given).__name__
        return is_other(recorded, given)

    def save(self, call: Opened, value: Any, *, wait: bool) -> tuple[Payload, bool]:
        """Record a call; return how it is stored, and whether it is written: else the caller flushes."""
        journal, payload = self.journal, self._encoded(call, value)
        more: dict[str, Any] = {"inner": ((self.step.name, payload),)}
        if not call.options.repeatable:
            more["full"] = True
        if call.usage:
            more["usage"] = journal.usage_rows(self.step, self.superstep, call.usage, call.key)
        return payload, journal.add_inner(more, wait=wait, urgent=call.entry.status != "failed")

    def _encoded(self, call: Opened, value: Any) -> Payload:
        encoding, node, (args, kwargs) = self.encoding, self.step.name, call.given
        if encoding.redact is not None:
            redact = encoding.redact
            args = tuple(redact(node, call.key, arg) for arg in args)
            kwargs = {name: redact(node, name, arg) for name, arg in kwargs.items()}
            value = redact(node, call.key, value)
        content: dict[str, Any] = {
            "status": call.entry.status,
            "function": call.function,
            "args": list(args),
            "result": value,
            "inputs": self.inputs,
            "started": call.wall,
            "ms": call.ms,
        }
        if kwargs:
            content["kwargs"] = kwargs
        if not call.options.repeatable:
            content["unrepeatable"] = True
        if not call.options.repeatable and call.options.on_ambiguous != "rerun":
            content |= {"once": True, "turn": self.journal.turn, "code": self.code}
        if call.entry.awaited:
            content["awaited"] = True
        if call.attempt > 1:
            content["attempt"] = call.attempt
        if call.error is not None:
            content["error"], content["error_type"] = call.error, call.error_type
        index = (self.step.index << ROOM) + call.entry.index
        place = Place(owner_of(self.journal.claim.workflow_id), self.superstep, index, node)
        payload = encoding.payload(call.key, self.visit, None, place, raw=self._serialized(call, content))
        return payload._replace(base=self.journal.claim.fence)

    def _serialized(self, call: Opened, content: dict[str, Any]) -> bytes:
        """Return the content as bytes; arguments that cannot be stored are replaced by their types.

        Of a result that cannot be stored the reason is kept: the call is made again on resume, if it may be.
        """
        key, effect = call.key, on_resume("its call is made again on resume", call.options.on_ambiguous)
        serialize = self.encoding.serializer_of(key).serialize
        try:
            return serialize(content)
        except Exception:  # one of the values; those of the arguments do not matter much
            content["args"] = [self._storable(key, arg) for arg in content["args"]]
            given = content.get("kwargs", {})
            content["kwargs"] = {name: self._storable(key, arg) for name, arg in given.items()}
        try:
            return serialize(content)
        except Exception as error:  # as above
            content["result"], content["problem"] = None, public_text(error)
        warn_caller(
            f"The result of step {key!r} cannot be stored (workflow {self.journal.claim.workflow_id!r}, node "
            f"{self.step.name!r}); {effect}. {content['problem']}"
        )
        return serialize(content)

    def _storable(self, key: str, value: Any) -> Any:
        try:
            self.encoding.serializer_of(key).serialize(value)
        except Exception:  # as above
            return {Opaque.MARK: type(value).__name__}
        return value
