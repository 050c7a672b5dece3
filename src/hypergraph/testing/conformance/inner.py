"""Tests of inner steps and recorded amounts."""

from __future__ import annotations

from hypergraph.checkpointers import Checkpointer, WorkflowStatus
from hypergraph.checkpointers.live import batch_of
from hypergraph.checkpointers.records import Commit, NewWorkflow, Ownership, Payload, Place, Usage
from hypergraph.testing.conformance.samples import commit, opened, step


def inner(  # noqa: PLR0917 - the facts of one step
    store: Checkpointer, key: str, superstep: int, index: int, visit: int, value: object
) -> Payload:
    """Return an inner step of node "n" in workflow "w", encoded."""
    place = Place("w", superstep, index, "n")
    return store.encoding.payload(key, visit, {"status": "completed", "result": value}, place)


def write(store: Checkpointer, claim: Ownership, *payloads: Payload, usage: tuple[Usage, ...] = ()) -> None:
    """Commit inner steps of node "n", and amounts."""
    rows = tuple(("n", payload._replace(base=claim.fence)) for payload in payloads)
    store.backend.write(Commit(claim, inner=rows, usage=usage))


class InnerTests:
    """Inner steps are found by node and visit, and amounts are summed over a workflow and those below it."""

    def test_inner_steps_are_found_by_node_and_visit(self, store: Checkpointer) -> None:
        claim = opened(store)
        write(store, claim, inner(store, "b", 0, 0, 1, "b"), inner(store, "a", 0, 1, 1, "a"))
        write(store, claim, inner(store, "a", 2, 0, 2, "again"))
        found = store.backend.read_inner("w")
        assert [(node, p.name, p.superstep, p.version) for node, p in found] == [
            ("n", "b", 0, 1),
            ("n", "a", 0, 1),
            ("n", "a", 2, 2),
        ]
        assert [p.name for _, p in store.backend.read_inner("w", node="n", visit=2)] == ["a"]
        assert store.backend.read_inner("w", node="other") == []
        assert store.backend.read_inner("unknown") == []
        assert store.backend.count_inner("w") == {(0, "n"): 2, (2, "n"): 1}
        assert store.backend.count_inner("unknown") == {}
        assert [s.value for s in store.inner_steps("w")] == ["b", "a", "again"]
        assert store.steps("w") == []
        assert store.state("w") == {}

    def test_streams_of_a_workflow_and_those_below_it_are_listed(self, store: Checkpointer) -> None:
        claim, child, other = opened(store), opened(store, "w/n", parent_id="w"), opened(store, "w-2")
        store.backend.live.open_stream(claim, "write")
        store.backend.live.write_chunks(
            claim, "write", [batch_of(store, ("w", "write"), 0, [b"a", b"b"])], 1000
        )
        store.backend.live.open_stream(child, "speak")
        store.backend.live.open_stream(other, "write")
        assert store.backend.live.read_streams("w") == [("w", "write", 2, 0), ("w/n", "speak", 0, 0)]
        assert store.backend.live.read_streams("unknown") == []

    def test_an_inner_step_at_the_same_place_is_replaced(self, store: Checkpointer) -> None:
        claim = opened(store)
        for value in ("first", "second"):
            write(store, claim, inner(store, "a", 0, 0, 1, value))
        assert [s.value for s in store.inner_steps("w")] == ["second"]

    def test_amounts_are_replaced_by_place_and_summed_over_the_family(self, store: Checkpointer) -> None:
        claim = opened(store)
        write(store, claim, usage=(Usage(0, "n", "", "cost", 0.5), Usage(0, "n", "a", "tokens", 3)))
        write(store, claim, usage=(Usage(0, "n", "", "cost", 0.75),))
        child = opened(store, "w/n", parent_id="w")
        write(store, child, usage=(Usage(4, "n", "", "cost", 1.25),))
        assert store.backend.read_usage("w") == [
            Usage(0, "n", "", "cost", 0.75),
            Usage(0, "n", "a", "tokens", 3),
        ]
        found = store.backend.total_usage(["w", "w/n", "unknown"])
        assert found == {"w": {"cost": 2.0, "tokens": 3}, "w/n": {"cost": 1.25}}

    def test_a_fork_has_the_inner_steps_of_what_is_completed(self, store: Checkpointer) -> None:
        claim = opened(store)
        write(store, claim, inner(store, "a", 0, 0, 1, "one"), usage=(Usage(0, "n", "", "cost", 1),))
        commit(store, claim, step(0, visit=1))
        write(store, claim, inner(store, "a", 1, 0, 2, "two"))
        store.backend.release(claim)
        for name, keep in (("f", False), ("g", True)):
            new = NewWorkflow(forked_from="w", forked_at=0, copies=True, keep_steps=keep)
            store.backend.release(store.backend.claim(name, new, store.encoding))
        assert [s.value for s in store.inner_steps("f")] == ["one"]
        assert [s.value for s in store.inner_steps("g")] == ["one", "two"]
        assert store.usage("f") == {}

    def test_deletion_takes_them_along(self, store: Checkpointer) -> None:
        claim = opened(store)
        write(store, claim, inner(store, "a", 0, 0, 1, "one"), usage=(Usage(0, "n", "", "cost", 1),))
        commit(store, claim, status=WorkflowStatus.COMPLETED)
        store.backend.release(claim)
        store.delete("w")
        assert (store.backend.read_inner("w"), store.backend.read_usage("w")) == ([], [])
        store.backend.release(opened(store))
        assert (store.inner_steps("w"), store.usage("w")) == ([], {})
