"""The scheduler by itself: expected courses, driven without an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from hypergraph.scheduling import Ambiguity, Layout, Part, Standing

END = "END"


def parts(*described: str, defaults: Iterable[str] = (), shut: Iterable[str] = ()) -> list[Part]:
    """Read parts from lines: "write(t, c=) -> d", "?gate(c) : write, END", "+ask(messages) -> messages"."""
    found = []
    for line in described:
        head, _, rest = line.partition(")")
        name, _, inputs = head.partition("(")
        is_gate, appends = name.startswith("?"), name.startswith("+")
        name = name.lstrip("?+")
        takes = [text.strip() for text in inputs.split(",") if text.strip()]
        outputs, targets, emits, waits = (), None, (), ()
        for word in rest.split(";"):
            kind, _, listed = word.strip().partition(" ")
            names = tuple(text.strip() for text in listed.split(",") if text.strip())
            if kind == "->":
                outputs = names
            elif kind == ":":
                targets = tuple(n for n in names if n != END)
            elif kind == "emit":
                emits = names
            elif kind == "wait":
                waits = names
        found.append(
            {
                "name": name,
                "takes": tuple(text.rstrip("=") for text in takes),
                "makes": outputs,
                "emits": emits,
                "waits": waits,
                "optional": frozenset(text.rstrip("=") for text in takes if text.endswith("=")).union(
                    defaults
                ),
                "appends": frozenset(outputs[:1]) if appends else frozenset(),
                "targets": (targets or ()) if is_gate else None,
                "default_open": name not in shut,
            }
        )
    makers: dict[str, list[str]] = {}
    for part in found:
        for output in part["makes"]:
            makers.setdefault(output, []).append(part["name"])
    return [
        Part(**part, feeders={t: tuple(makers[t]) for t in part["takes"] if t in makers}) for part in found
    ]


class Drive:
    """A run without values: gates decide by script."""

    def __init__(self, layout: Layout, decisions: dict[str, list[Any]], limit: int = 60) -> None:
        self.layout = layout
        self.standing = Standing(layout)
        self.decisions = decisions
        self.limit = limit

    def go(self) -> list[list[str]]:
        """Return the supersteps."""
        course = []
        while batch := self.standing.ready():
            assert len(course) < self.limit, course
            for i in batch:
                self.standing.start(i)
            for i in batch:
                self.finish(i)
            course.append([self.layout.parts[i].name for i in batch])
        return course

    def finish(self, i: int) -> None:
        part = self.layout.parts[i]
        if part.targets is not None:
            script = self.decisions.get(part.name, [])
            chosen = script.pop(0) if script else END
            listed = chosen if isinstance(chosen, list) else [chosen]
            indexes = [self.layout.index[name] for name in listed if name not in (END, None)]
            self.standing.decide(i, indexes, END in listed)
        self.standing.finish(i)


def course(lines: list[Part], *given: str, entry: Iterable[str] = (), **decisions: list[Any]) -> str:
    """Return the nodes in the order in which they run."""
    drive = Drive(Layout(lines, given, entrypoints=entry), decisions)
    return " ".join(name for batch in drive.go() for name in batch)


def check(expected: str, lines: list[Part], *given: str, entry: Iterable[str] = (), **decisions: Any) -> None:
    """Compare a course, with the nodes listed in either direction."""
    for listed in (lines, lines[::-1]):
        script = {gate: list(found) for gate, found in decisions.items()}
        found = course(listed, *given, entry=entry, **script)
        assert sorted(found.split()) == sorted(expected.split()), found
        if listed is lines:
            assert found == expected


def test_a_while_loop_whose_seed_is_given() -> None:
    lines = parts("up(n) -> n", "?check(n) : up, END")
    check("check up check up check", lines, "n", check=["up", "up", END])


def test_a_refinement_loop() -> None:
    lines = parts("write(t, c=) -> d", "review(d) -> c", "?ok(c) : write, END")
    check("write review ok write review ok", lines, "t", ok=["write", END])


def test_corrective_retrieval() -> None:
    lines = parts(
        "retrieve(q) -> docs",
        "summarize(docs, web=) -> s",
        "?grounded(s) : rewrite, END",
        "rewrite(q) -> web",
    )
    check("retrieve summarize grounded rewrite summarize grounded", lines, "q", grounded=["rewrite", END])


def test_a_diamond_in_a_loop() -> None:
    lines = parts(
        "plan(goal) -> t", "work(t) -> o", "combine(t, o, rows=) -> rows", "?done(rows) : plan, END"
    )
    check("plan work combine done plan work combine done", lines, "goal", done=["plan", END])


def test_a_diamond_whose_plan_takes_the_rows() -> None:
    lines = parts(
        "plan(goal, rows=) -> t", "work(t) -> o", "combine(t, o, rows=) -> rows", "?done(rows) : plan, END"
    )
    check("plan work combine done plan work combine done", lines, "goal", done=["plan", END])


def test_a_join_keeps_the_latest_value_of_what_was_not_chosen() -> None:
    lines = parts("?gate(r=) : a, b, END", "a(r=) -> p", "b(r=) -> q", "join(p, q) -> r")
    check("gate a b join gate a join gate", lines, gate=[["a", "b"], ["a"], END])


def test_an_agent_whose_gate_looks_at_its_messages() -> None:
    lines = parts(
        "+listen(said) -> messages",
        "+ask(messages) -> messages, calls",
        "?decide(messages) : act, END",
        "+act(calls, messages) -> messages",
    )
    check("listen ask decide act ask decide", lines, "said", decide=["act", END])


def test_an_agent_without_appending() -> None:
    lines = parts(
        "listen(said) -> messages",
        "ask(messages) -> messages",
        "?decide(messages) : act, END",
        "act(messages) -> messages",
    )
    assert "ask decide act ask decide" in course(lines, "said", decide=["act", END])


def test_an_accumulator_beside_a_loop_runs_once() -> None:
    lines = parts("up(n) -> n", "?check(n) : up, END", "trace(n, trail=) -> trail")
    check("check up check up check trace", lines, "n", check=["up", "up", END])


def test_an_accumulator_that_the_gate_waits_for_runs_in_every_round() -> None:
    lines = parts(
        "up(n) -> n", "?check(n) ; wait traced ; : up, END", "trace(n, trail=) -> trail ; emit traced"
    )
    check("trace check up trace check up trace check", lines, "n", check=["up", "up", END])


def test_an_outer_gate_opens_the_head_of_a_loop() -> None:
    lines = parts("?start(x) : head, END", "head(x) -> h", "d(h) -> e", "?gate(e) : head, END")
    check("start head d gate", lines, "x", start=["head"], gate=[END])
    check("start", lines, "x", start=[END], gate=[END])
    check("start head d gate head d gate", lines, "x", start=["head"], gate=["head", END])


def test_nested_loops_left_by_end() -> None:
    lines = parts("a(x) -> p", "b(p) -> q", "?ig(q) : b, END", "c(q) -> r", "?og(r) : a, END")
    check("a b ig b ig c og a b ig c og", lines, "x", ig=["b", END, END], og=["a", END])


def test_nested_loops_left_by_target() -> None:
    lines = parts("a(x) -> p", "b(p) -> q", "?ig(q) : b, c", "c(q) -> r", "?og(r) : a, END")
    check("a b ig b ig c og a b ig c og", lines, "x", ig=["b", "c", "c"], og=["a", END])


def test_of_two_nodes_that_feed_each_other_the_chosen_one_runs() -> None:
    lines = parts("add(total=) -> total", "drop(total=) -> total", "?pick(x) : add, drop")
    check("pick drop", lines, "x", pick=["drop"])
    check("pick add", lines, "x", pick=["add"])


def test_nested_loops_with_a_slow_branch_beside_the_inner_one() -> None:
    lines = parts("a(x) -> p", "b(p) -> q", "?ig(q) : b, c", "s(p) -> t", "c(q) -> r", "?og(r, t) : a, END")
    check("a b s ig b ig c og a b s ig c og", lines, "x", ig=["b", "c", "c"], og=["a", END])


def test_the_corrective_branch_runs_only_when_chosen() -> None:
    lines = parts(
        "retrieve(question) -> docs",
        "?enough(docs) : generate, rewrite",
        "rewrite(question) -> web",
        "generate(question, docs, web=) -> answer",
        "?grounded(answer) : rewrite, END",
    )
    check("retrieve enough generate grounded", lines, "question", enough=["generate"], grounded=[END])
    check("retrieve enough rewrite generate grounded", lines, "question", enough=["rewrite"], grounded=[END])
    expected = "retrieve enough generate grounded rewrite generate grounded"
    check(expected, lines, "question", enough=["generate"], grounded=["rewrite", END])


def test_a_way_around_the_loop_goes_first() -> None:
    lines = parts(
        "retrieve(question) -> docs",
        "?enough(docs) : rewrite, END",
        "rewrite(question) -> web",
        "generate(question, docs, web=) -> answer",
        "?grounded(answer) : rewrite, END",
    )
    check("retrieve enough rewrite generate grounded", lines, "question", enough=["rewrite"], grounded=[END])
    check("retrieve enough generate grounded", lines, "question", enough=[END], grounded=[END])


def test_an_inner_cycle_that_begins_anew_keeps_what_the_loop_around_it_has_opened() -> None:
    lines = parts(
        "?call(x) : outer, END",
        "outer(back=) -> a",
        "?other(y) : inner, END",
        "inner(b=) -> c",
        "join(c, a) -> d",
        "round(d) -> b",
        "last(b) -> back",
        "?more(back) : outer, END",
    )
    layout = Layout(lines, ["x", "y"])
    standing = Standing(layout)

    def ready() -> list[str]:
        batch = standing.ready()
        for i in batch:
            standing.start(i)
        return [layout.parts[i].name for i in batch]

    assert ready() == ["call", "other"]
    standing.decide(layout.index["call"], [layout.index["outer"]])
    standing.finish(layout.index["call"])
    standing.decide(layout.index["other"], [], is_end=True)
    standing.finish(layout.index["other"])
    assert ready() == ["outer"]
    standing.finish(layout.index["outer"])
    assert ready() == ["inner"]


def test_a_gate_that_goes_back_to_two_places() -> None:
    lines = parts("plan(goal) -> t", "work(t) -> o", "?done(o) : plan, work, END")
    check("plan work done work done plan work done", lines, "goal", done=["work", "plan", END])
    check("plan work done plan work done", lines, "goal", done=[["plan", "work"], END])


def test_two_loops_that_share_a_node_go_round_together() -> None:
    lines = parts(
        "ask(t, x=, y=) -> m", "?g1(m) : fix, END", "fix(m) -> x", "?g2(m) : tune, END", "tune(m) -> y"
    )
    check("ask g1 g2 fix tune ask g1 g2", lines, "t", g1=["fix", END], g2=["tune", END])
    check("ask g1 g2 fix ask g1", lines, "t", g1=["fix", END], g2=[END])


def test_a_loop_that_could_begin_at_two_places_is_refused() -> None:
    lines = parts("a(q) -> x", "b(q) -> x", "?gate(x) : a, b, END")
    with pytest.raises(Ambiguity) as error:
        Layout(lines, ["q"])
    assert error.value.places == ("a", "b")
    check("a gate b gate", lines, "q", entry=["a"], gate=["b", END])
    check("gate b gate", lines, "q", "x", gate=["b", END])


def test_branches_of_a_round_begin_together() -> None:
    lines = parts(
        "draft(topic, feedback=) -> d",
        "research(topic, feedback=) -> r",
        "write(d, r) -> text",
        "?good(text) : revise, END",
        "revise(text) -> feedback",
    )
    expected = "draft research write good revise draft research write good"
    check(expected, lines, "topic", good=["revise", END])


def test_a_join_behind_a_gate_waits_for_the_decision() -> None:
    lines = parts(
        "?gate(said) : answer, refuse",
        "answer(said) -> reply",
        "refuse(said) -> no",
        "send(said, reply) -> sent",
    )
    check("gate answer send", lines, "said", gate=["answer"])
    check("gate refuse", lines, "said", gate=["refuse"])


def test_two_appenders_without_a_gate_run_once_each_in_graph_order() -> None:
    lines = parts("+listen(said) -> m", "+first(m) -> m", "+second(m) -> m")
    assert course(lines, "said") == "listen first second"


def test_a_default_counts_when_its_producer_does_not_run() -> None:
    lines = parts("?gate(good) : write, skip", "write() -> note", "skip() -> skipped", "show(note=) -> shown")
    check("gate write show", lines, "good", gate=["write"])
    check("gate skip show", lines, "good", gate=["skip"])


# -- turns ---------------------------------------------------------------------------------------------


def turns(lines: list[Part], news: str, present: Iterable[str], *scripts: dict[str, list[Any]]) -> list[str]:
    drive = Drive(Layout(lines, [news]), {})
    found = []
    for number, script in enumerate(scripts):
        drive.decisions = script
        if number:
            drive.layout = Layout(lines, [news, *present])
            drive.standing = drive.standing.turn(drive.layout, drive.layout.reached_from([news]))
        found.append(" ".join(name for batch in drive.go() for name in batch))
    return found


def test_the_second_turn_behind_a_gate() -> None:
    lines = parts(
        "?gate(said) : answer, refuse",
        "answer(said) -> reply",
        "refuse(said) -> no",
        "send(said, reply) -> sent",
    )
    found = turns(lines, "said", [], {"gate": ["answer"]}, {"gate": ["answer"]}, {"gate": ["refuse"]})
    assert found == ["gate answer send", "gate answer send", "gate refuse"]


def test_the_second_turn_of_an_agent() -> None:
    lines = parts(
        "+listen(said) -> messages",
        "+ask(messages) -> messages, calls",
        "?decide(calls) : act, END",
        "+act(calls, messages) -> messages",
    )
    found = turns(
        lines, "said", ["messages"], {"decide": ["act", END]}, {"decide": [END]}, {"decide": ["act", END]}
    )
    assert found == [
        "listen ask decide act ask decide",
        "listen ask decide",
        "listen ask decide act ask decide",
    ]


def test_the_second_turn_of_corrective_retrieval_has_no_old_page() -> None:
    lines = parts(
        "retrieve(q) -> docs",
        "summarize(docs, web) -> s",
        "?grounded(s) : rewrite, END",
        "rewrite(q) -> web",
        defaults=["web"],
    )
    found = turns(lines, "q", [], {"grounded": ["rewrite", END]}, {"grounded": [END]})
    assert found == ["retrieve summarize grounded rewrite summarize grounded", "retrieve summarize grounded"]


def test_a_gate_is_asked_in_every_turn_before_its_target() -> None:
    lines = parts("think(said, result=) -> plan", "?decide(plan) : pay, END", "pay(plan) -> result")
    found = turns(lines, "said", [], {"decide": [END]}, {"decide": ["pay", END]}, {"decide": [END]})
    assert found == ["think decide", "think decide pay think decide", "think decide"]


def test_a_signal_begins_a_loop_where_the_loops_inside_it_begin() -> None:
    lines = parts(
        "?more(log) : act, END",
        "+act(log) -> log; wait last",
        "take(new) -> taken; wait looked",
        "+note(taken) -> log",
        "next(seen=) -> other",
        "+hear(log) -> log",
        "show(seen) -> last",
        "?look(text) : print, END; emit looked",
        "print(text=) -> page",
        "write(log) -> text",
        "make(other) -> new",
        "+tell(log) -> log",
        "?which(seen) : next, show",
        "see(log) -> seen",
    )
    expected = "hear write look tell more see which show"
    assert course(lines, more=[END], look=[END], which=["show"]) == expected
