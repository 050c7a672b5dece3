"""Checkpointer: the questions and actions of a store, over any backend."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import itemgetter
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, ParamSpec, Self, SupportsIndex, TypeVar, Unpack

from hypergraph import checkpointers  # comparisons and statistics are loaded on first access
from hypergraph.checkpointers import references
from hypergraph.checkpointers.artifacts import ArtifactRef, ArtifactStore, SweepableStore
from hypergraph.checkpointers.backend import Backend, Position
from hypergraph.checkpointers.encoding import Encoding, LazyState, Redact
from hypergraph.checkpointers.history import Addition, History, Iteration, Origin, additions
from hypergraph.checkpointers.inner_steps import read_inner_steps
from hypergraph.checkpointers.live import Progress, StreamReader
from hypergraph.checkpointers.names import check_tags, check_workflow_id
from hypergraph.checkpointers.overview import Overview, overview_of, require_stream
from hypergraph.checkpointers.pending import awaited
from hypergraph.checkpointers.policy import CheckpointPolicy
from hypergraph.checkpointers.query import (
    Filters,
    Moment,
    Query,
    Status,
    bounded,
    checked_limit,
    checked_superstep,
    moment,
    parse,
)
from hypergraph.checkpointers.questions import (
    Question,
    due_runs,
    open_questions,
    record_answers,
    send_signal,
)
from hypergraph.checkpointers.records import (
    FINISHED,
    Checkpoint,
    NewWorkflow,
    Ownership,
    Payload,
    Signal,
    StepRecord,
    StoredHistory,
    Turn,
    Workflow,
    WorkflowList,
    outermost,
)
from hypergraph.checkpointers.status import UNFINISHED, WorkflowStatus
from hypergraph.checkpointers.view import view_of
from hypergraph.display import did_you_mean, preview
from hypergraph.exceptions import CheckpointError, HypergraphError, WorkflowError, WorkflowNotFoundError
from hypergraph.records import InnerStep
from hypergraph.structure import readable_graph
from hypergraph.values.codecs import Codec, CodecChain
from hypergraph.values.graphs import Graphs, with_graphs

if TYPE_CHECKING:
    from hypergraph.checkpointers.analysis import Difference, Lineage, NodeStats
    from hypergraph.values.serializers import Serializer

P = ParamSpec("P")
T = TypeVar("T")

_REST = "*"  # the name of all values without a serializer of their own
_AFTER_ALL = 2**62  # a step index beyond all
_OPEN = (WorkflowStatus.ACTIVE, WorkflowStatus.PAUSED)
_CLOSE = 5  # ids that an error suggests
_RECENT = 500  # workflows among which close ids are looked for


class Checkpointer:
    """Keep workflows, their steps and values, beyond the run that made them.

    Methods are synchronous and may be called from any thread. Those that begin with `get_` or `list_` are
    coroutines: the same questions, asked from an event loop. Every other method can be called there with
    `asyncio.to_thread(store.prune, "30d")`. At the end of `with store:` or `async with store:` it is closed.

    Questions about an unknown id raise WorkflowNotFoundError; their coroutines give `{}`, `[]` or None. Every
    method raises CheckpointError, or a subclass that names the remedy, when the store fails.

    Args:
        backend: The place where the workflows are kept.
        policy: When steps are written and how long they are kept; CheckpointPolicy() by default.
        serializer: Turns values into bytes; JsonSerializer() by default. A dict has serializers by the
            names of values, and under "*" that of all others.
        codec: Compresses or encrypts these bytes: one codec, or several in order.
        artifact_store: The place for large values.
        artifact_threshold: Encoded bytes above which a value is large; 128 KiB by default.
        redact: A function (node, name, value) -> value, called before a value is encoded.
        graphs: Graphs whose classes the store reads and writes; a run names those of its own graph.

    Example:
        >>> from hypergraph.checkpointers import MemoryCheckpointer
        >>> store = MemoryCheckpointer()
        >>> store.create_workflow("order-1", inputs={"amount": 3})
        >>> store.workflow("order-1").status.value
        'active'
    """

    def __init__(
        self,
        backend: Backend,
        *,
        policy: CheckpointPolicy | None = None,
        serializer: Serializer | Mapping[str, Serializer] | None = None,
        codec: Codec | Sequence[Codec] | CodecChain | None = None,
        artifact_store: ArtifactStore | None = None,
        artifact_threshold: int | None = None,
        redact: Redact | None = None,
        graphs: Graphs = (),
    ) -> None:
        self.backend = backend  # the place where the workflows are kept; its verbs are documented there
        if not isinstance(policy, CheckpointPolicy | None):
            raise TypeError(f"policy must be a CheckpointPolicy, got {preview(policy)}")
        self.policy = policy if policy is not None else CheckpointPolicy()  # when and how long to keep steps
        by_name = dict(serializer) if isinstance(serializer, Mapping) else {}
        rest = by_name.pop(_REST, None) if isinstance(serializer, Mapping) else serializer
        for given in (rest, *by_name.values()):
            if given is not None and (isinstance(given, type) or not hasattr(given, "serialize")):
                raise TypeError(
                    f"serializer must be a Serializer like JsonSerializer(), got {preview(given)}"
                )
        if graphs:
            graphs = tuple(graphs)
            rest = with_graphs(rest or Encoding().serializer, graphs)
            by_name = {name: with_graphs(own, graphs) for name, own in by_name.items()}
        self.encoding = Encoding(
            rest,
            CodecChain.of(codec),
            artifact_store,
            artifact_threshold,
            redact,
            by_name=by_name,
        )  # turns values into bytes, and bytes into values
        self.encoding.read_store_id = backend.store_id
        self.encoding.look_up = partial(references.found, backend)

    @property
    def serializer(self) -> Serializer:
        """What turns values into bytes, but for names with a serializer of their own."""
        return self.encoding.serializer

    @property
    def artifact_store(self) -> ArtifactStore | None:
        """The place for large values; None if they stay where the others are."""
        return self.encoding.artifacts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.backend.location!r})"

    def snapshot(self, work: Callable[[Self], T]) -> T:
        """Return what `work` returns, called with a view of this store that reads in one transaction.

        All that the view reads is of one moment, whatever is written meanwhile.

        Example:
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> store = MemoryCheckpointer()
            >>> store.create_workflow("a")
            >>> store.snapshot(lambda view: (view.state("a"), view.steps("a")))
            ({}, [])
        """
        if self.encoding.chain.encrypts:
            _ = self.encoding.store_id  # not inside of the transaction

        def read(backend: Backend) -> T:
            view = copy.copy(self)
            view.backend = backend
            return work(view)

        return self.backend.snapshot(read)

    # --- opening and closing ------------------------------------------------------------------

    def open(self) -> None:
        """Prepare the store now instead of on first use: files and tables that are missing are created.

        Tables of your own can be added to its database from then on.
        """
        self.backend.open()

    def close(self) -> None:
        """Close files and connections; a later call opens them again."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.close)

    # --- one workflow -------------------------------------------------------------------------

    def workflow(self, workflow_id: str) -> Workflow:
        """Return one workflow; `print` shows its steps.

        Example:
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> store = MemoryCheckpointer()
            >>> store.create_workflow("order-1", tags={"user": "ann"})
            >>> store.workflow("order-1").tags
            {'user': 'ann'}

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        found = self.backend.read_workflow(workflow_id)
        if found is None:
            raise self._not_found(workflow_id)
        return self._printable(found)

    @awaited(Workflow)
    async def get_workflow(self, workflow_id: str) -> Workflow | None:
        """Return one workflow, None if there is none; `print` shows its steps."""
        return await _or(None, self.workflow, workflow_id)

    def state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep, by default all.

        What was passed to a run is not among them, be it an input or, as in a fork, another value of an
        output: `checkpoint` has these too. Those of a map are lists with the values of all its items, in the
        order of their numbers; None stands where an item has no such value, or only one that it made from
        earlier inputs.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add]), a=1, b=2, workflow_id="sum")
            >>> store.state("sum")
            {'total': 3}
            >>> _ = SyncRunner(checkpointer=store).map(
            ...     Graph([add]), a=[1, 2, 3], b=2, map_over="a", workflow_id="sums"
            ... )
            >>> store.state("sums")
            {'total': [3, 4, 5]}

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        superstep = checked_superstep(superstep)
        values: dict[str, Any] = {}
        for each in self.backend.read_outputs(workflow_id, upto=superstep):
            if each.data is not None:
                values[each.name] = self.encoding.value(workflow_id, each)
        if values:
            return values

        def of_item(view: Self, item: str) -> dict[str, Any]:
            found: Sequence[Payload] = view.backend.read_outputs(item, upto=superstep)
            newest = checkpointers.Turns.without_left(view, item, found, superstep)  # a row beside its inputs
            return {each.name: view.encoding.value(item, each) for each in newest if each.data is not None}

        return self._known(workflow_id, self._of_items(workflow_id, of_item))

    @awaited(dict)
    async def get_state(self, workflow_id: str, *, superstep: int | None = None) -> dict[str, Any]:
        """Return the values of completed steps, up to and including a superstep; {} for an unknown id.

        Those of a map are lists with the values of all its items.
        """
        return await _or({}, self.state, workflow_id, superstep=superstep)

    def steps(
        self,
        workflow_id: str,
        *,
        superstep: int | None = None,
        node: str | None = None,
        after: Position | None = None,
        limit: int | None = None,
        values: bool = True,
    ) -> list[StepRecord]:
        """Return the steps in order of their index, up to and including a superstep, by default all.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add]), a=1, b=2, workflow_id="sum")
            >>> [(step.node_name, step.status.value, step.values) for step in store.steps("sum")]
            [('add', 'completed', {'total': 3})]

        Args:
            workflow_id: The workflow.
            superstep: The last superstep.
            node: Only the steps of this node.
            after: Only steps after this (superstep, index); they come in that order.
            limit: At most this many, in order of superstep and index.
            values: False reads no values.

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        superstep = checked_superstep(superstep)
        found = self.backend.read_steps(
            workflow_id,
            self.encoding,
            upto=superstep,
            node=node,
            after=after,
            limit=None if limit is None else bounded(limit),
            values=values,
        )
        return self._known(workflow_id, found)

    @awaited(list)
    async def get_steps(self, workflow_id: str, *, superstep: int | None = None) -> list[StepRecord]:
        """Return the steps in order of their index, up to and including a superstep; [] for an unknown id."""
        return await _or([], self.steps, workflow_id, superstep=superstep)

    def step(self, workflow_id: str, index: int) -> StepRecord | None:
        """Return one step with its values, None if the workflow has no such step.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> store.step("sum", 0).values
            {'total': 3}

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
            TypeError: the index is not a number.
        """
        if not isinstance(index, SupportsIndex):
            raise TypeError(f"index must be an int, not {index!r}")
        records = self.backend.read_steps(workflow_id, self.encoding, index=bounded(operator.index(index)))
        found = self._known(workflow_id, records)
        return found[0] if found else None

    def checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, inputs included, steps, up to and including a superstep, and the next nodes.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> store.checkpoint("sum").values
            {'total': 3, 'a': 1, 'b': 2}

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
            WorkflowError: the workflow is a map; its items have checkpoints.
            DecryptionError: the store is encrypted, and a step is not what the owner of the key wrote.
        """
        superstep = checked_superstep(superstep)

        def read(view: Self) -> Checkpoint:
            view.encoding = view.encoding.verifying()  # a run may be forked from what is returned
            steps = view.steps(workflow_id, superstep=superstep)
            if not steps and (items := view.backend.read_items(workflow_id)):
                raise WorkflowError(
                    f"Workflow {workflow_id!r} is a map, which has no steps. Take the checkpoint of an item, "
                    f"checkpoint({items[0].id!r}), or read the values of all items: state({workflow_id!r}).",
                    workflow_id=workflow_id,
                )
            history = History(view, workflow_id, superstep, steps=steps)
            return Checkpoint(history.values(), steps, history.next())

        return self.snapshot(read)

    @awaited(Checkpoint)
    async def get_checkpoint(self, workflow_id: str, *, superstep: int | None = None) -> Checkpoint:
        """Return values, steps and next nodes as of a superstep; an empty checkpoint for an unknown id."""
        return await _or(Checkpoint({}, []), self.checkpoint, workflow_id, superstep=superstep)

    def inputs(
        self, workflow_id: str, step: int | str | StepRecord | None = None, *, graph: Any = None
    ) -> dict[str, Any]:
        """Return the exact inputs that a step saw, by default what the workflow was given.

        Values that are not stored are left out: bound values and defaults, which come from the `graph` if
        there is one, and what retention has dropped. `provenance` says where each came from. Inputs of a
        map are lists with one value per item, in the order of their numbers.

        Args:
            workflow_id: The workflow.
            step: A record, an index, or the name of a node, which means its last step.
            graph: The graph of the workflow, for bound values and defaults as they are now.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> store.inputs("sum", "add")
            {'a': 1, 'b': 2}

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
            ValueError: the workflow has no such node.
        """

        def read(view: Self, each: str) -> dict[str, Any]:
            return {
                payload.name: view.encoding.value(each, payload) for payload in view.backend.read_inputs(each)
            }

        if step is None:  # a map keeps values for its items that are large, and in each of them
            found = self._of_items(workflow_id, read) or read(self, workflow_id)
            return self._known(workflow_id, found)
        origins = self.provenance(workflow_id, step=step, graph=graph)
        return {origin.name: origin.value for origin in origins if origin.stored}

    @awaited(dict)
    async def get_inputs(
        self, workflow_id: str, step: int | str | StepRecord | None = None, *, graph: Any = None
    ) -> dict[str, Any]:
        """Return the exact inputs that a step saw, by default the workflow's; {} for an unknown id.

        Args:
            workflow_id: The workflow.
            step: A record, an index, or the name of a node, which means its last step.
            graph: The graph of the workflow, for bound values and defaults as they are now.
        """
        return await _or({}, self.inputs, workflow_id, step, graph=graph)

    def provenance(
        self,
        workflow_id: str,
        name: str | None = None,
        superstep: int | None = None,
        *,
        step: int | str | StepRecord | None = None,
        graph: Any = None,
    ) -> list[Origin]:
        """Return the descent of a value, newest first, inputs last; or where each input of a step came from.

        The descent of a value begins with the value itself; then comes all that it was made of. A list that
        nodes append to was made by every step that has added to it: each has an origin of its own, with what
        it `added`. What a gate took, an answer for example, belongs to what it has chosen.

        The inputs of a step come in the order of its parameters. Each is from another step, from the caller,
        from the graph, or a default.

        Args:
            workflow_id: The workflow.
            name: The name of a value.
            superstep: Its value after this superstep, by default the last.
            step: Instead of a name: a record, an index, or the name of a node, which means its last step.
            graph: The graph of the workflow, for the bound values and defaults of a step as they are now: a
                store does not keep them.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="text")
            ... def ask(question: str, model: str, tries: int = 3) -> str:
            ...     return f"{model}: {question}?"
            >>> store, graph = MemoryCheckpointer(), Graph([ask]).bind(model="small")
            >>> _ = SyncRunner(checkpointer=store).run(graph, question="why", workflow_id="w")
            >>> [(origin.name, origin.source) for origin in store.provenance("w", "text")]
            [('text', 'step'), ('question', 'given')]
            >>> found = store.provenance("w", step="ask", graph=graph)
            >>> [(origin.name, origin.source, origin.value) for origin in found]
            [('question', 'given', 'why'), ('model', 'bound', 'small'), ('tries', 'default', 3)]

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
            ValueError: the workflow has no such node, or no value of that name.
            TypeError: there is neither a name nor a step, or both.
        """
        superstep = checked_superstep(superstep)
        if (name is None) is (step is None):
            raise TypeError('provenance takes the name of a value, or step="node" for the inputs of a step')

        def read(view: Self) -> list[Origin]:
            history = History(view, workflow_id, superstep)
            if step is None:
                found = history.descent(str(name))
                return found or view._of_known(workflow_id, str(name), found, is_node=False)
            record = step if isinstance(step, StepRecord) else history.step(step)
            if record is None and isinstance(step, str):
                return view._of_known(workflow_id, step, [], is_node=True)
            return [] if record is None else list(history.origins_of(record, graph).values())

        return self.snapshot(read)

    def appended(self, workflow_id: str, name: str, *, superstep: int | None = None) -> list[Addition]:
        """Return the items of an appended list, each with the node and the step that added it.

        The list is that after a superstep, by default the last; empty where nothing was added. Items that it
        began with have no step. An item of a class that is unknown here is an `Undecodable` with its fields.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="messages", append=True)
            ... def listen(said: str) -> str:
            ...     return said
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([listen]), said="hello", workflow_id="chat")
            >>> [(item.node, item.value) for item in store.appended("chat", "messages")]
            [('listen', 'hello')]

        Raises:
            ValueError: nodes do not append to that name, or the list cannot be read.
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        superstep = checked_superstep(superstep)
        return self.snapshot(
            lambda view: view._known(workflow_id, additions(view, workflow_id, name, superstep))
        )

    def iterations(self, workflow_id: str, node: str) -> list[Iteration]:
        """Return each visit of a node with its inputs, outputs and timing.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> [(visit.inputs, visit.outputs) for visit in store.iterations("sum", "add")]
            [({'a': 1, 'b': 2}, {'total': 3})]

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
            ValueError: the workflow has no such node.
        """

        def read(view: Self) -> list[Iteration]:
            found = History(view, workflow_id).iterations(node)
            return found or view._of_known(workflow_id, node, found, is_node=True)

        return self.snapshot(read)

    def inner_steps(
        self, workflow_id: str, *, node: str | None = None, visit: int | None = None
    ) -> list[InnerStep]:
        """Return what nodes did with `ctx.step`, with arguments and values: of all nodes, a node or a visit.

        A key that was called again after a failure is there once for each superstep in which it was called.

        Example:
            >>> from hypergraph import Graph, NodeContext, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="answer")
            ... def ask(question: str, context: NodeContext) -> str:
            ...     return context.step("search", str.title, question)
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([ask]), question="cats", workflow_id="w")
            >>> [(step.key, step.args, step.value) for step in store.inner_steps("w")]
            [('search', ('cats',), 'Cats')]

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        found = read_inner_steps(self.backend, self.encoding, workflow_id, node, visit)
        return self._known(workflow_id, found)

    def usage(self, workflow_id: str) -> dict[str, float]:
        """Return the sums of what nodes recorded with `ctx.record` in a workflow and those below it.

        What a fork has copied is counted in its origin only.

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        return self._known(workflow_id, self.backend.total_usage([workflow_id]).get(workflow_id, {}))

    def questions(self, workflow_id: str) -> list[Question]:
        """Return the open questions of a workflow, those of its nested graphs and items included.

        A question with `step.answer` has been answered, and is used when the workflow is run again.

        Example:
            >>> from hypergraph import Graph, SyncRunner, interrupt
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> approve = interrupt("approved")(lambda draft: None).with_name("approve")
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([approve]), draft="tea", workflow_id="offer")
            >>> [question.pause.response_key for question in store.questions("offer")]
            ['approved']

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        return self._known(workflow_id, open_questions(self, workflow_id))

    def read_stream(
        self,
        workflow_id: str,
        node: str,
        *,
        offset: int = 0,
        follow: bool = True,
        timeout: float | None = None,
    ) -> StreamReader:
        """Iterate over what a node with `stream=True` gives to `context.stream`, each offset once.

        The result is for `for` and, in an event loop, for `async for`; its `offset` is the next one.

        A reader that was cut off continues with the offset after the last one it has. An entry of the kind
        "restart" says that the node was called again, in the next turn too, one of the kind "gap" that
        earlier chunks are gone: they were more than `CheckpointPolicy.stream_limit`, or ended too long ago.
        `read_stream` of the handle of `start_run` reads what one run streams, and no other turn.

        If the process that runs the workflow is gone, reading ends after some seconds, and `is_abandoned` of
        the result is True. Once the workflow is resumed, a new call reads on from `offset`.

        Args:
            workflow_id: The workflow, or the nested graph or item that the node is in.
            node: The name of the node; with the graphs and items around it from further out, as in
                "each/item-3/write".
            offset: The first offset to read.
            follow: Wait for more until the workflow has ended or paused, or its process is gone; False
                returns what is there.
            timeout: Seconds without a chunk, after which reading ends.

        Raises:
            WorkflowNotFoundError: the workflow does not exist.
            ValueError: no such node has `stream=True`; those that have are named. The offset is negative.
            TypeError: the offset is not a number.
        """
        if not isinstance(offset, int):
            raise TypeError(f"offset must be a number, got {preview(offset)}")
        if offset < 0:
            raise ValueError(f"offset must not be negative, got {offset}")
        require_stream(self, workflow_id, node)
        return StreamReader(self, (workflow_id, node), bounded(offset), follow, timeout)

    def progress(self, workflow_id: str) -> list[Progress]:
        """Return how far the running nodes of a workflow are, those of nested graphs and items included.

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        return self._known(workflow_id, self.backend.live.read_progress(workflow_id))

    def due_runs(self, graph: str | None = None) -> list[Workflow]:
        """Return what is due, oldest first: by a deadline, a timer, a signal or an answer.

        These are workflows, and items of maps, which can be run by themselves under their own ids.
        """
        return due_runs(self, graph)

    @awaited(list)
    async def list_questions(self, workflow_id: str) -> list[Question]:
        """Return the open questions of a workflow, nested ones included; [] for an unknown id."""
        return await _or([], self.questions, workflow_id)

    def read_overview(self, workflow_id: str, *, steps: int = 20) -> Overview | None:
        """Return the workflow with its first `steps`, counts, children, first error and open question.

        One read transaction answers all of it. None if the workflow does not exist.
        """
        return overview_of(self, workflow_id, steps=steps)

    def read_history(
        self,
        workflow_id: str,
        since: Callable[[Sequence[Turn]], int] | None = None,
        *,
        summaries: bool = False,
    ) -> StoredHistory | None:
        """Return all that a resume needs of a workflow, None if there is none, in one read transaction.

        `since` chooses from the turns the superstep from which on steps are read; the last of its turns has
        steps, else all are read. With `summaries`, what a summary covers is read only as far as it names it.
        The record of the workflow, its steps without values, the latest inputs, the turns, and the
        latest state, whose values are decoded on demand.

        Raises:
            DecryptionError: the store is encrypted, and a step is not what the owner of the key wrote.
        """

        ahead = self.backend.ahead(workflow_id)
        if ahead is not None:
            inputs, encoding = ahead.inputs, self.encoding
            return StoredHistory(
                ahead.workflow,
                [],
                encoding.versioned(workflow_id, inputs),
                _last_turn(inputs),
                LazyState([], encoding, workflow_id, partial(self.backend.linked, workflow_id)),
                fence=0,
                redacted=encoding.redacted(inputs),
            )

        def read(view: Self) -> StoredHistory | None:
            backend = view.backend
            workflow = backend.read_workflow(workflow_id)
            if workflow is None:
                return None
            has_steps = workflow.step_count > 0  # an item of a map that was stored ahead has none
            _ = workflow.graph  # read now: it would be a transaction of its own later
            inputs = backend.read_inputs(workflow_id)
            outputs = backend.read_newest(workflow_id) if has_steps else []
            turns = _last_turn(inputs)  # mostly it began everything anew, and no other matters
            first, steps = 0 if since is None or len(turns) == 1 else since(turns), []
            checked = self.encoding.verifying()
            stored = backend.read_summary(workflow_id) if summaries and has_steps else None
            summary = None if stored is None else self.encoding.read_summary(workflow_id, stored)
            is_of_use = summary is not None and len(summary["places"]) <= workflow.step_count
            if summary is not None and is_of_use and summary["last"] >= first:
                kept = backend.read_steps_at(workflow_id, checked, map(tuple, summary["places"]))
                after = (summary["last"], _AFTER_ALL)
                if len(kept) == len(summary["places"]):
                    steps = [*kept, *backend.read_steps(workflow_id, checked, after=after, values=False)]
            if steps and summary is not None:
                later = turns[-1].superstep > summary["last"]
                turns = backend.read_turns(workflow_id, after=summary["last"]) if later else []
                first = 0
            else:
                summary = None
                if not first and len(turns) > 1:
                    turns = backend.read_turns(workflow_id)
                    first = 0 if since is None else since(turns)
                if first:
                    before = (first - 1, _AFTER_ALL)
                    steps = backend.read_steps(workflow_id, checked, after=before, values=False)
                if not steps:
                    turns = backend.read_turns(workflow_id) if first else turns
                    first = 0
                    steps = backend.read_steps(workflow_id, checked, values=False) if has_steps else []
            link = partial(self.backend.linked, workflow_id)
            return StoredHistory(
                workflow,
                steps,
                self.encoding.versioned(workflow_id, inputs),
                turns,
                LazyState(outputs, self.encoding, workflow_id, link),
                is_map=not steps and workflow.item is None and bool(backend.read_items(workflow_id)),
                first=first,
                fence=backend.read_fences([workflow_id]).get(workflow_id),
                versions={payload.name: payload.version for payload in outputs},
                redacted=self.encoding.redacted(inputs),
                summary=summary,
            )

        return self.snapshot(read)

    # --- several workflows --------------------------------------------------------------------

    def workflows(
        self,
        *,
        status: Status | Iterable[Status] | None = None,
        graph: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        parent: str | None = None,
        tag: str | Mapping[str, str] | Iterable[str] | None = None,
        where: str | None = None,
        due: bool = False,
        limit: int | None = 100,
        cursor: str | None = None,
    ) -> WorkflowList:
        """List workflows, newest first; every filter narrows the choice.

        Args:
            status: One status or several.
            graph: Runs of the graph with this name.
            since: A datetime, an ISO date, or a time ago like "2h".
            until: Likewise.
            parent: The children of this workflow, such as the items of a map; without it, workflows that
                have no parent.
            tag: "key=value", several of these, or a dict.
            where: Conditions, as in "node:embed duration > 1s" or "duration > 5m".
            due: Only those that are due: by a deadline, a timer, a signal or an answer.
            limit: At most this many, by default 100: `total` says how many there are. None for all.
            cursor: The `next_cursor` of the page before.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> [workflow.id for workflow in store.workflows(status="completed", graph="sums")]
            ['sum']

        Raises:
            ValueError: a filter cannot be understood.
        """
        query = parse(
            status=status,
            graph=graph,
            since=since,
            until=until,
            parent=parent,
            tag=tag,
            where=where,
            due=due,
            limit=limit,
            cursor=cursor,
        )
        found, total, following = self.backend.find(query)
        return WorkflowList(map(self._printable, found), total=total, next_cursor=following)

    @awaited(WorkflowList)
    async def list_workflows(self, **filters: Unpack[Filters]) -> WorkflowList:
        """List workflows, newest first; every filter narrows the choice.

        Args:
            filters: As for `workflows`.

        Raises:
            ValueError: a filter cannot be understood.
        """
        return await in_thread(self.workflows, **filters)

    def diff(self, a: str, b: str) -> Difference | None:
        """Return the first step where two workflows part, and the differences of paths, times and values.

        None stands for a workflow that does not exist.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> runner = SyncRunner(checkpointer=store)
            >>> _ = runner.run(Graph([add]), a=1, b=2, workflow_id="sum")
            >>> _ = runner.run(Graph([add]), a=1, b=3, workflow_id="other")
            >>> sorted(store.diff("sum", "other").changed)
            ['b', 'total']
        """
        return self.snapshot(lambda view: checkpointers.compare(view, a, b))

    def lineage(self, workflow_id: str) -> Lineage | None:
        """Return the tree of forks that the workflow is part of, None if the workflow does not exist."""
        return self.snapshot(lambda view: checkpointers.family(view, workflow_id))

    def search(self, text: str, *, limit: int | None = 50) -> list[StepRecord]:
        """Return steps that contain every word of a text, in a name, an error or a value.

        Inputs of a workflow are values of the first step that took them.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> [(step.workflow_id, step.node_name) for step in store.search("total")]
            [('sum', 'add')]

        Raises:
            ValueError: the limit is neither a positive int nor None.
        """
        if not isinstance(text, str):
            raise TypeError(f"search takes a text, got {preview(text)}")
        return checkpointers.mentions(view_of(self, artifacts=False), text, checked_limit(limit))

    def stats(
        self, *, graph: str | None = None, node: str | None = None, since: Moment | None = None
    ) -> dict[str, NodeStats]:
        """Return count, p50, p95, error and cache rate of each node, or of one `node`, in runs of `graph`.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> store.stats(graph="sums")["add"].count
            1

        Raises:
            ValueError: `since` is not a point in time.
        """
        return checkpointers.survey(self, graph=graph, node=node, since=moment(since))

    # --- changing -----------------------------------------------------------------------------

    def create_workflow(
        self,
        workflow_id: str,
        *,
        graph_name: str | None = None,
        graph_hash: str | None = None,
        graph: dict[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        parent: str | None = None,
        forked_from: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add a workflow with status ACTIVE.

        Args:
            workflow_id: Its id.
            graph_name: The name of its graph.
            graph_hash: The hash of its graph.
            graph: The structure of its graph, as plain data.
            inputs: The values it was given, by name.
            parent: The id of the workflow that it is part of.
            forked_from: The id of the workflow whose history it began with.
            tags: Labels, by name.

        Raises:
            InvalidWorkflowIdError: this cannot be an id.
            CheckpointError: the id exists.
        """
        check_workflow_id(workflow_id, child=parent is not None)
        new = NewWorkflow(
            *(graph_name, graph_hash, copy.deepcopy(graph)),
            parent_id=parent,
            forked_from=forked_from,
            tags=dict(tags or {}),
            inputs=dict(inputs or {}),
        )
        self.backend.create(workflow_id, new, self.encoding)

    def update_workflow_status(self, workflow_id: str, status: WorkflowStatus) -> None:
        """Change the status of a workflow.

        Raises:
            WorkflowLockedError: a process is running it.
            WorkflowNotFoundError: the workflow does not exist.
        """
        self.backend.set_status(workflow_id, WorkflowStatus(status))

    def tag(
        self, workflow_id: str, tags: Mapping[str, str] | None = None, *, remove: Iterable[str] = ()
    ) -> dict[str, str]:
        """Set tags of a workflow, `remove` others, and return all it has then; also while it runs.

        Example:
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> store = MemoryCheckpointer()
            >>> store.create_workflow("order-1", tags={"user": "ann"})
            >>> store.tag("order-1", {"paid": "yes"}, remove=["user"])
            {'paid': 'yes'}

        Raises:
            ValueError: a tag is not a text.
            WorkflowNotFoundError: the workflow does not exist.
        """
        changes: dict[str, str | None] = {**dict.fromkeys(remove), **check_tags(tags or {})}
        return self.backend.set_tags(workflow_id, changes)

    def answer(
        self,
        workflow_id: str,
        key: str | Mapping[str, Any],
        value: Any = ...,
        *,
        by: str | None = None,
        question: str | None = None,
        graph: Any = None,
        replace: bool = False,
    ) -> None:
        """Answer open questions without running anything; the next run of the workflow uses the answers.

        Of several answers, as a dict, all are kept, or none. An answer that was given before, and is the
        same, is accepted and changes nothing.

        Args:
            workflow_id: The workflow, or the nested graph or item that asks.
            key: The `response_key` of the question: from a map "item-3.approved", from the item "approved".
                Or a dict with several answers by their keys.
            value: The answer; left out after a dict.
            by: Who gives it; kept in the history.
            question: The `Question.id` of what is answered. A node that asks again, in the next round or
                turn, asks under the same key; with the id, a late answer is refused.
            graph: The graph of today, if it is known. The answer is then checked as a run does that: by the
                code of its type, too, such as a validator. If the graph has `formerly`, the key may be a name
                of today, as in `result.pause`, while the store keeps the recorded one.
            replace: Take the place of an answer that was given with `answer`, and that no run has used yet.

        Raises:
            WorkflowNotFoundError: the workflow does not exist.
            WorkflowLockedError: an answer is to be replaced, and a process is running the workflow.
            WorkflowError: it does not ask this, has been answered already, or its deadline has passed.
            InvalidAnswerError: the value is not of the type that the question asks for, or cannot be stored.
            ValueError: the question needs several answers at once; the dict is empty.
            TypeError: there is a key without a value, or a dict with one; or `by` is not a text.

        Example:
            >>> from hypergraph import Graph, SyncRunner, interrupt
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> approve = interrupt("approved")(lambda draft: None)
            >>> store = MemoryCheckpointer()
            >>> runner = SyncRunner(checkpointer=store)
            >>> graph = Graph([approve.with_name("approve")])
            >>> runner.run(graph, draft="tea", workflow_id="offer").pause.response_key
            'approved'
            >>> store.answer("offer", "approved", True, by="ann")  # or: {"approved": True}
            >>> runner.run(graph, workflow_id="offer")["approved"]
            True
        """
        if isinstance(key, Mapping) is not (value is ...):
            raise TypeError("answer takes a key and a value, or a dict of answers by their keys")
        answers = key if isinstance(key, Mapping) else {key: value}
        if not answers:
            raise ValueError(
                "answer needs an answer, got {}. Pass a key and a value, or a dict of answers by their keys."
            )
        if self.backend.read_workflow(workflow_id) is None:
            raise self._not_found(workflow_id)
        with self._held(workflow_id, answers) if replace else nullcontext():
            keep = partial(record_answers, self, workflow_id, by=by, question_id=question, replaces=replace)
            self._keep_answers(workflow_id, answers, graph, keep)

    def send(self, workflow_id: str, name: str, value: Any, *, by: str | None = None) -> None:
        """Send a value to a workflow; the next `receive` node of that name gets it.

        It is kept until then, also if no node waits for it yet. Values of one name are received in the order
        in which they were sent, each of them once, by nodes of the workflow, of its nested graphs or of its
        items. Nothing runs: a workflow that waits is due from then on.

        Args:
            workflow_id: The workflow, or an item of a map.
            name: The name of the signal.
            value: The value.
            by: Who sends it; kept with it.

        Raises:
            WorkflowNotFoundError: the workflow does not exist.
            WorkflowError: it has completed, no node of it receives this signal, or it is a nested graph.
            InvalidAnswerError: the value is not of the type that the node declares, or cannot be stored.
            ValueError: this cannot be the name of a signal.
            TypeError: `by` is not a text.

        Example:
            >>> from hypergraph import Graph, SyncRunner, receive
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> store = MemoryCheckpointer()
            >>> runner = SyncRunner(checkpointer=store)
            >>> graph = Graph([receive("payment", float)])
            >>> runner.run(graph, workflow_id="order-1").pause.signal
            'payment'
            >>> store.send("order-1", "payment", 9.5)
            >>> runner.run(graph, workflow_id="order-1")["payment"]
            9.5
        """
        send_signal(self, workflow_id, name, value, by)

    def signals(self, workflow_id: str) -> list[Signal]:
        """Return what was sent to a workflow, by name and in order; `received_by` says what was received.

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        found = [
            replace(
                self.encoding.read_signal(workflow_id, payload), received_by=taker.rpartition(":")[0] or None
            )
            for payload, taker in self.backend.read_signals(workflow_id)
        ]
        return self._known(workflow_id, found)

    @contextmanager
    def _held(self, workflow_id: str, keys: Iterable[str]) -> Iterator[None]:
        """Hold what asks, and the run around it: no run takes an answer while it is replaced."""
        asking = {found.step.workflow_id for found in open_questions(self, workflow_id, keys)}
        whole = outermost(workflow_id)
        claims: list[Ownership] = []
        try:
            for each in [whole, *sorted(asking - {whole})]:
                new = NewWorkflow(parent_id=None if each == whole else whole)  # it is there already
                claims.append(self.backend.claim(each, new, self.encoding))
            yield
        finally:
            for claim in claims:
                self.backend.release(claim)

    def _keep_answers(
        self, workflow_id: str, answers: Mapping[str, Any], graph: Any, keep: Callable[..., None]
    ) -> None:
        """Keep answers by the names and the types of a graph, if it is known."""
        if graph is None:
            keep(answers)
            return
        path: list[str] = []
        found = self.workflow(workflow_id)
        while found.parent_id is not None:
            path.insert(0, found.node_name or "" if found.item is None else f"item-{found.item}")
            found = self.workflow(found.parent_id)
        recorded = graph.recorded_as(found.graph)
        names = None if recorded.renaming is None else recorded.renaming.inside(path)
        given = answers if names is None else names.recorded_inputs(answers)
        try:
            keep(given, code=(recorded, path))
        except (HypergraphError, ValueError, TypeError) as error:
            if names is not None:
                names.error(error)
            raise

    def save_step(self, record: StepRecord) -> None:
        """Record a step, in place of one of the same superstep and node; an unknown workflow is created.

        Raises:
            WorkflowLockedError: a process is running the workflow.
        """
        self.backend.put_step(self.encoding.encode(record), self.encoding)

    def cancel(self, workflow_id: str) -> list[str]:
        """Stop a running or paused workflow, whichever process runs it; return the ids of what was stopped.

        The workflow, and the open runs below it, are taken away from their process: a node that is running
        ends, its result is not stored, and the run ends with an `OwnershipLostError`. To stop a run of
        your own process after its node, use `runner.stop`. A call of `run` continues the workflow.

        Example:
            >>> from hypergraph import Graph, SyncRunner, interrupt
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @interrupt("approved")
            ... def ask(price: int) -> bool | None:
            ...     return None
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([ask]), price=5, workflow_id="order-1")
            >>> store.cancel("order-1"), store.cancel("order-1")
            (['order-1'], [])

        Returns:
            The ids, the outermost first; [] if the workflow has ended.

        Raises:
            WorkflowNotFoundError: the workflow does not exist; close ids are named.
        """
        found = self.workflow(workflow_id)
        if found.status not in _OPEN:
            return []
        runs, left = {found.id: found}, [found.id]
        while left:  # the outermost first: it starts no others then
            for child in self.backend.children(left.pop(0)):
                if child.status in _OPEN and child.id not in runs:  # a damaged store may have circles
                    runs[child.id] = child
                    left.append(child.id)
        for run in runs.values():  # over the heads of their owners, whose next writes are refused
            new = NewWorkflow(run.graph_name, parent_id=run.parent_id)
            claim = self.backend.claim(run.id, new, self.encoding, force=True)
            try:
                self.backend.write(self.encoding.commit(claim, status=WorkflowStatus.STOPPED))
            finally:
                self.backend.release(claim)
        return list(runs)

    def delete(self, *workflow_ids: str) -> int:
        """Remove workflows and their children, and return how many.

        Example:
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> store = MemoryCheckpointer()
            >>> store.create_workflow("order-1")
            >>> store.delete("order-1")
            1

        Raises:
            WorkflowLockedError: a process is running one of them.
            WorkflowError: one is an item or a nested run of a workflow that is unfinished, and stays.
        """
        for workflow_id in workflow_ids:
            whole_id = outermost(workflow_id)
            if whole_id in workflow_ids:  # it is whole itself, or goes with the rest
                continue
            part, whole = self.backend.read_workflow(workflow_id), self.backend.read_workflow(whole_id)
            if part is not None and whole is not None and whole.status in UNFINISHED:
                raise WorkflowError(
                    f"Workflow {workflow_id!r} is part of {whole_id!r}, which is unfinished "
                    f"({whole.status.value}) and would repeat or lose work. Finish {whole_id!r} first, or "
                    "delete it as a whole.",
                    workflow_id=workflow_id,
                )
        return self.backend.delete(workflow_ids)

    def prune(
        self, older_than: Moment | None = None, *, keep_failed: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Remove workflows that ended before a moment, by default the policy's `ttl` ago; return their ids.

        Args:
            older_than: A datetime, an ISO date, or a time ago like "30d".
            keep_failed: Keep those that failed, and those with failed items, also of maps inside.
            dry_run: Only return the ids.

        Example:
            >>> from hypergraph import Graph, SyncRunner, node
            >>> from hypergraph.checkpointers import MemoryCheckpointer
            >>> @node(output_name="total")
            ... def add(a: int, b: int) -> int:
            ...     return a + b
            >>> store = MemoryCheckpointer()
            >>> _ = SyncRunner(checkpointer=store).run(Graph([add], name="sums"), a=1, b=2, workflow_id="sum")
            >>> store.prune("30d", keep_failed=True)
            []

        Raises:
            ValueError: the moment cannot be understood, or there is neither one nor a `ttl`.
        """
        age = timedelta(seconds=self.policy.ttl_seconds) if self.policy.ttl_seconds else None
        limit = moment(older_than if older_than is not None else age, "older_than")
        if limit is None:
            raise ValueError('prune needs older_than, as in prune("30d"), or a policy with ttl')
        kept = {WorkflowStatus.FAILED, WorkflowStatus.PARTIAL} if keep_failed else set()
        found, _, _ = self.backend.find(Query(statuses=FINISHED - kept, limit=None))
        ids = [item.id for item in found if item.completed_at and item.completed_at < limit]
        if keep_failed:
            failed = self.backend.count_failed(ids)
            ids = [workflow_id for workflow_id in ids if workflow_id not in failed]
        if not dry_run:
            self.backend.delete(ids)
        return ids

    def gc(self, *, older_than: float = 3600.0) -> int:
        """Finish interrupted deletions, remove artifacts that no value refers to, and return how many.

        Args:
            older_than: Keep artifacts younger than this many seconds: a run may be about to refer to one.
        """
        gone, artifacts = self.backend.delete(()), self.encoding.artifacts
        if not isinstance(artifacts, SweepableStore):
            return gone
        kept = {key for text in self.backend.artifact_references() if (key := _key_in(text))}
        return gone + artifacts.sweep(kept, older_than_seconds=older_than)

    def backup(self, path: str | PathLike[str]) -> None:
        """Write a consistent copy of all workflows to a new SQLite file, while runs continue.

        Raises:
            CheckpointError: the file exists, or workflows are kept in memory.
            TypeError: the path is neither a text nor a path.
        """
        self.backend.backup(fspath(path), self.encoding)

    # ------------------------------------------------------------------------------------------

    def _printable(self, workflow: Workflow) -> Workflow:
        """Return the workflow with loaders for what it prints: its steps, or its items if it is a map."""
        backend, encoding = self.backend, self.encoding

        def load(upto: int | None) -> list[StepRecord]:
            return backend.read_steps(workflow.id, encoding, upto=upto, values=False)

        def load_items() -> list[Workflow]:
            items = [(child.item, child) for child in backend.children(workflow.id) if child.item is not None]
            return [self._printable(child) for _, child in sorted(items, key=itemgetter(0))]

        # It was made for this call and is not shared yet; a copy would take as long as the rest.
        object.__setattr__(workflow, "load_steps", load)
        object.__setattr__(workflow, "load_items", load_items)
        object.__setattr__(workflow, "load_failed", backend.count_failed)
        return workflow

    def _of_items(
        self, workflow_id: str, read: Callable[[Self, str], dict[str, Any]]
    ) -> dict[str, list[Any]]:
        """Return what `read` finds of each item of a map, as lists by name; empty if it is not a map."""

        def read_all(view: Self) -> dict[str, list[Any]]:
            rows = [read(view, item.id) for item in view.backend.read_items(workflow_id)]
            names = dict.fromkeys(name for row in rows for name in row)
            return {name: [row.get(name) for row in rows] for name in names}

        return self.snapshot(read_all)

    def _known(self, workflow_id: str, found: T) -> T:
        """Return an answer about a workflow. Raises WorkflowNotFoundError if it does not exist."""
        if not found and self.backend.read_workflow(workflow_id) is None:
            raise self._not_found(workflow_id)
        return found

    def _of_known(self, workflow_id: str, name: str, found: T, *, is_node: bool) -> T:
        """Return an empty answer about a node or a value. Raises ValueError if there is none."""
        workflow = self.workflow(workflow_id)
        graph = readable_graph(workflow.graph)
        if graph is None:  # steps that a program has saved by itself
            return found
        nodes = graph.nodes.values()
        names = graph.nodes if is_node else {each for n in nodes for each in (*n.inputs, *n.outputs)}
        if name in names:
            return found
        hint = did_you_mean(name, names) or f"It has: {', '.join(map(repr, names))}."
        raise ValueError(f"Workflow {workflow_id!r} has no {'node' if is_node else 'value'} {name!r}. {hint}")

    def _not_found(self, workflow_id: str) -> WorkflowNotFoundError:
        import difflib  # needed for this error only

        recent, _, _ = self.backend.summaries(Query(limit=_RECENT))
        close = difflib.get_close_matches(str(workflow_id), [item["id"] for item in recent], _CLOSE, 0.5)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        return WorkflowNotFoundError(
            f"Workflow {workflow_id!r} not found in {self!r}.{hint}", workflow_id=workflow_id
        )


def _key_in(reference: str) -> str | None:
    """Return the key of the artifact that is referred to, None for a text that is not a reference."""
    try:
        return ArtifactRef.from_text(reference).key
    except CheckpointError:
        return None


def _last_turn(inputs: Iterable[Payload]) -> list[Turn]:
    """Return the only turn; or the turns before the last one as one, and the last one."""
    first = Turn(0, frozenset(payload.name for payload in inputs))
    last = max((payload.superstep for payload in inputs), default=0)
    names = frozenset(payload.name for payload in inputs if payload.superstep == last)
    return [first, Turn(last, names)] if last else [first]


async def _or(empty: T, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the call returns, or the empty answer for an unknown id: the contract of coroutines."""
    try:
        return await in_thread(call, *args, **kwargs)
    except WorkflowNotFoundError:
        return empty


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the call returns, without blocking the event loop meanwhile."""
    import asyncio  # needed by coroutines only; stores are used without an event loop as well

    return await asyncio.to_thread(call, *args, **kwargs)
