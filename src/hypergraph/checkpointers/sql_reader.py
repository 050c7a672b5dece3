"""What a store in an SQL database answers: every verb of reading; none writes, or holds up who does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from hypergraph.checkpointers import sql_glances, sql_reads
from hypergraph.checkpointers.base import Checkpointer
from hypergraph.checkpointers.filters import Query
from hypergraph.checkpointers.payloads import Payload
from hypergraph.checkpointers.reading import START, ItemLine, Position, StepLine, StepTally
from hypergraph.checkpointers.schema import INPUT, OUTPUT
from hypergraph.checkpointers.sql_connections import Connection, Database
from hypergraph.checkpointers.types import StepRecord, Turn, Workflow

P = ParamSpec("P")
T = TypeVar("T")


class SqlReader(Checkpointer):
    """The part of a store that reads."""

    _database: Database

    def _read(self, read: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.read(lambda connection: read(connection, *args, **kwargs))

    def read_workflow(self, workflow_id: str) -> Workflow | None:
        """Return the workflow, None if there is none."""
        found = self._read(sql_reads.workflow, workflow_id)
        return found and self._with_graph(found)

    def read_steps(
        self, workflow_id: str, *, upto: int | None = None, node: str | None = None, values: bool = True
    ) -> list[StepRecord]:
        """Return the steps in order of their index; see `Reader.read_steps`."""
        read = sql_reads.steps
        return self._read(read, workflow_id, self._encoding, upto=upto, node=node, values=values)

    def read_page(
        self, workflow_id: str, *, after: Position = START, limit: int = 100, upto: int | None = None
    ) -> list[StepRecord]:
        """Return the next steps after a position, by superstep and index, without their values."""
        return self._read(
            sql_reads.page_of_steps, workflow_id, self._encoding, after=after, limit=limit, upto=upto
        )

    def read_step(self, workflow_id: str, index: int) -> StepRecord | None:
        """Return one step with its values, None if there is none."""
        return self._read(sql_reads.step, workflow_id, self._encoding, index)

    def last_superstep(self, workflow_id: str) -> int | None:
        """Return the highest superstep that has a step, None if there is none."""
        return self._read(sql_reads.last_superstep, workflow_id)

    def tally_steps(self, workflow_id: str) -> list[StepTally]:
        """Return how the steps of each node ended; see `Reader.tally_steps`."""
        return self._read(sql_reads.tallies, workflow_id)

    def read_lines(self, workflow_id: str, *, after: Position = START, limit: int = 100) -> list[StepLine]:
        """Return of the next steps what a drawing shows; no record is built."""
        return self._read(sql_glances.lines, workflow_id, after, limit)

    def read_items(self, workflow_id: str) -> list[ItemLine]:
        """Return the items of a map, in their order; no record is built."""
        return self._read(sql_glances.items, workflow_id)

    def marks(self, limit: int = 100) -> dict[str, Any]:
        """Return what differs whenever one of the newest workflows, or of those at work, has changed."""
        return self._read(sql_glances.marks, limit)

    def names(self, prefix: str, *, parent: str | None = None, limit: int = 20) -> list[str]:
        """Return ids that begin with a text, of children of a workflow or of those without parent."""
        return self._read(sql_reads.names, prefix, parent, limit)

    def state_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each output; one seek per name."""
        return self._read(sql_reads.payloads, workflow_id, OUTPUT, upto)

    def input_payloads(self, workflow_id: str, upto: int | None = None) -> list[Payload]:
        """Return the latest encoded value of each input; one seek per name."""
        return self._read(sql_reads.payloads, workflow_id, INPUT, upto)

    def read_following(self, workflow_id: str, superstep: int) -> list[str]:
        """Return the nodes of the first superstep after this one, in order of their index."""
        return self._read(sql_reads.following, workflow_id, superstep)

    def read_payload(self, workflow_id: str, name: str) -> Payload | None:
        """Return the latest encoded value of an output, with the chain that it extends."""
        return self._read(sql_reads.newest, workflow_id, name)

    def artifact_references(self) -> list[str]:
        """Return the references to artifacts that stored values hold."""
        return self._read(sql_reads.artifact_references)

    def last_turn(self, workflow_id: str) -> Turn:
        """Return when inputs entered for the last time, and which."""
        return self._read(sql_reads.last_turn, workflow_id)

    def find(self, query: Query) -> tuple[list[Workflow], int, str | None]:
        """Return the workflows asked for, newest first, the number of all, and the next cursor."""
        found, total, cursor = self._read(sql_reads.page, query)
        return [self._with_graph(workflow) for workflow in found], total, cursor

    def _with_graph(self, workflow: Workflow) -> Workflow:
        # It was made for us a moment ago, and nobody else has it; a copy would take as long as the rest.
        object.__setattr__(workflow, "load_graph", lambda: self._read(sql_reads.graph, workflow.id))
        return workflow
