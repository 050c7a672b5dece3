"""The expected courses of the execution model, and its laws, on the reference interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laws.checks import fresh_run, whole_rounds
from laws.model import END, Net, Part
from laws.reference import Interpreter


def fn(signature: str, does: Any, **options: Any) -> Part:
    """`name(a, b=1) -> x, y` with a function of a dict of inputs; gates: `name(a) => t, u`."""
    head, _, after = signature.partition("->") if "=>" not in signature else signature.partition("=>")
    name, _, inside = head.strip().removesuffix(")").partition("(")
    defaults = {}
    inputs = []
    for item in filter(None, (x.strip() for x in inside.split(","))):
        key, has, default = item.partition("=")
        inputs.append(key)
        if has:
            defaults[key] = eval(default)
    outputs = tuple(x.strip() for x in after.split(",") if x.strip())
    if "=>" in signature:
        options = {"kind": "gate", "targets": outputs, **options}

        def choose(v: dict[str, Any]) -> Any:
            choice = does(v)
            return choice if choice == END or isinstance(choice, tuple) else (choice,)

        return Part(name, tuple(inputs), (), call=choose, defaults=defaults, **options)
    return Part(name, tuple(inputs), outputs, call=does, defaults=defaults, **options)


def net(*parts: Part, **options: Any) -> Net:
    return Net(parts, **options)


def course(graph: Net, *, max_rounds: int = 20, **values: Any) -> str:
    out = Interpreter(graph, max_rounds).turn(values)
    assert out.ended == "completed", out
    assert not out.stalled, out
    return " ".join(out.course)


def rounds(v: Any) -> int:
    """How often a text was worked on."""
    return str(v).count("+")


def plus(name: str) -> Any:
    return lambda v: name + "+" + "".join(str(x) for x in v.values())


WHILE = net(
    fn("up(n) -> n", lambda v: v["n"] + 1), fn("check(n) => up", lambda v: "up" if v["n"] < 2 else END)
)


def test_a_loop_whose_seed_is_given_is_a_while_loop() -> None:
    assert course(WHILE, n=0) == "check up check up check"


def test_a_loop_without_a_seed_begins_at_the_head() -> None:
    graph = net(
        fn("write(t, c='') -> d", lambda v: v["t"] + v["c"]),
        fn("review(d) -> c", lambda v: v["d"] + "+"),
        fn("ok(c) => write", lambda v: END if rounds(v["c"]) > 1 else "write"),
    )
    assert course(graph, t="t") == "write review ok write review ok"


def corrective() -> Net:
    return net(
        fn("retrieve(q) -> docs", lambda v: "docs " + v["q"]),
        fn("summarize(docs, web='') -> s", lambda v: v["docs"] + "|" + v["web"]),
        fn("grounded(s) => rewrite", lambda v: END if "web" in v["s"] else "rewrite"),
        fn("rewrite(q) -> web", lambda v: "web " + v["q"]),
    )


def test_a_corrective_rag() -> None:
    assert course(corrective(), q="?") == "retrieve summarize grounded rewrite summarize grounded"


def test_the_second_turn_of_a_corrective_rag_does_not_see_the_old_web_page() -> None:
    run = Interpreter(corrective())
    run.turn({"q": "one"})
    out = run.turn({"q": "two"})
    assert out.course == ["retrieve", "summarize", "grounded", "rewrite", "summarize", "grounded"]
    assert out.calls[1] == ("summarize", {"docs": "docs two", "web": ""})


def plan_work() -> Net:
    return net(
        fn("plan(goal) -> t", lambda v: v["goal"]),
        fn("work(t) -> o", lambda v: v["t"].upper()),
        fn("combine(t, o, rows=()) -> rows", lambda v: (*v["rows"], (v["t"], v["o"]))),
        fn("done(rows) => plan", lambda v: END if len(v["rows"]) > 1 else "plan"),
    )


def test_what_was_never_given_does_not_say_where_a_turn_begins() -> None:
    run = Interpreter(plan_work())
    run.turn({"goal": "a"})
    out = run.turn({"goal": "b"})
    assert out.course == ["plan", "work", "combine", "done"]
    assert out.values["rows"] == (("a", "A"), ("a", "A"), ("b", "B"))


def test_a_diamond_in_a_loop_joins_values_of_one_round() -> None:
    assert course(plan_work(), goal="a") == "plan work combine done plan work combine done"


def test_a_join_takes_what_a_round_does_not_make_anew_at_its_latest_value() -> None:
    graph = net(
        fn("pick(r) => a, b", lambda v: (("a", "b"), ("a",), END)[rounds(v["r"])]),
        fn("a(r) -> p", plus("a")),
        fn("b(r) -> q", lambda v: "b" + v["r"].replace("+", "")),
        fn("join(p, q) -> r", lambda v: v["p"][: 2 + rounds(v["p"])] + v["q"]),
    )
    out = Interpreter(graph).turn({"r": ""})
    assert out.supersteps == [["pick"], ["a", "b"], ["join"], ["pick"], ["a"], ["join"], ["pick"]]
    joins = [inputs for name, inputs in out.calls if name == "join"]
    assert joins[0]["q"] == joins[1]["q"]
    assert joins[0]["p"] != joins[1]["p"]


def agent(looks_at: str = "messages") -> Net:
    def ask(v: dict[str, Any]) -> Any:
        calls = (
            ["call"] if not v["messages"][-1].startswith("tool") and "act" in str(v["messages"][-1]) else []
        )
        return [f"ai {len(v['messages'])}{calls}"], calls

    def decide(v: dict[str, Any]) -> Any:
        if "calls" in v:
            return "act" if v["calls"] else END
        return "act" if v["messages"][-1].endswith("['call']") else END

    return net(
        fn("listen(said) -> messages", lambda v: v["said"], append=("messages",)),
        fn("ask(messages) -> messages, calls", ask, append=("messages",)),
        fn(f"decide({looks_at}) => act", decide),
        fn("act(calls, messages) -> messages", lambda v: ["tool"], append=("messages",)),
    )


def test_a_round_ends_when_all_that_was_chosen_is_done() -> None:
    graph = net(
        fn(
            "model(said, rain='', booked='') -> calls",
            lambda v: [] if v["booked"] else ["weather", "approve"],
        ),
        fn("dispatch(calls) => weather, approve", lambda v: tuple(v["calls"]) or END),
        fn("weather(calls) -> rain", lambda v: "rain"),
        fn("approve(calls) -> approved", lambda v: True),
        fn("allowed(approved) => book", lambda v: "book"),
        fn("book(calls) -> booked", lambda v: f"booked {v['calls']}"),
    )
    assert course(graph, said="a") == "model dispatch weather approve allowed book model dispatch"


def test_an_agent_that_appends() -> None:
    for looks_at in ("messages", "calls"):
        assert course(agent(looks_at), said="act") == "listen ask decide act ask decide"
        run = Interpreter(agent(looks_at))
        run.turn({"said": "act"})
        out = run.turn({"said": "bye"})
        assert out.course == ["listen", "ask", "decide"]
        assert len(out.values["messages"]) == 6


def test_a_node_outside_of_a_loop_that_takes_what_it_makes_runs_once_after_it() -> None:
    graph = net(*WHILE.parts, fn("count(n, seen=0) -> seen", lambda v: v["seen"] + 1))
    assert course(graph, n=0) == "check up check up check count"


def test_an_outer_gate_opens_a_head_for_one_run() -> None:
    graph = net(
        fn("start(x) => head, other", lambda v: v["x"]),
        fn("other() -> o", lambda v: 1),
        fn("head(x) -> h", plus("h")),
        fn("d(h) -> i", plus("d")),
        fn("gate(i) => head", lambda v: END),
    )
    assert course(graph, x="head") == "start head d gate"
    assert course(graph, x="other") == "start other"


def nested(left_by: str) -> Net:
    ok = "ok(c) => write" + (", publish" if left_by == "target" else "")
    leave: Any = END if left_by == "END" else "publish"
    return net(
        fn("topic(goal, post='') -> t", lambda v: v["goal"] + v["post"]),
        fn("write(t, c='') -> d", lambda v: (v["t"], v["c"])),
        fn(
            "review(d) -> c",
            lambda v: (v["d"][0], (v["d"][1][1] + 1) if v["d"][1] and v["d"][1][0] == v["d"][0] else 1),
        ),
        fn(ok, lambda v: leave if v["c"][1] > 1 else "write"),
        fn("publish(d) -> post", lambda v: v["d"][0] + "+"),
        fn("more(post) => topic", lambda v: END if rounds(v["post"]) > 1 else "topic"),
    )


def test_nested_loops_in_one_flat_graph() -> None:
    inner = "topic write review ok write review ok publish more"
    for left_by in ("END", "target"):
        assert course(nested(left_by), goal="g") == f"{inner} {inner}"


def test_nested_counters_in_one_flat_graph() -> None:
    graph = net(
        fn("start(i) -> n", lambda v: 0),
        fn("check(n) => up", lambda v: "up" if v["n"] < 2 else END),
        fn("up(n) -> n", lambda v: v["n"] + 1),
        fn("step(n, i) -> i", lambda v: v["i"] + 1),
        fn("more(i) => start", lambda v: "start" if v["i"] < 2 else END),
    )
    inner = "start check up check up check step more"
    assert course(graph, i=0) == f"more {inner} {inner}"


def polite() -> Net:
    return net(
        fn("gate(said) => answer, refuse", lambda v: "refuse" if "bad" in v["said"] else "answer"),
        fn("answer(said) -> reply", lambda v: "re " + v["said"]),
        fn("refuse(said) -> no", lambda v: "no"),
        fn("send(said, reply) -> sent", lambda v: (v["said"], v["reply"])),
    )


def test_the_second_turn_sends_the_new_answer() -> None:
    run = Interpreter(polite())
    assert run.turn({"said": "tea?"}).course == ["gate", "answer", "send"]
    out = run.turn({"said": "milk?"})
    assert out.course == ["gate", "answer", "send"]
    assert out.values["sent"] == ("milk?", "re milk?")
    assert run.turn({"said": "bad"}).course == ["gate", "refuse"]


def test_a_turn_after_a_turn_that_was_cut_off() -> None:
    down = [True]

    def act(v: dict[str, Any]) -> Any:
        if down[0]:
            raise ConnectionError
        return [*v["messages"], "tool: sunny"]

    graph = net(
        fn("listen(said, messages=()) -> messages", lambda v: [*v["messages"], "user: " + v["said"]]),
        fn(
            "ask(messages) -> messages",
            lambda v: [*v["messages"], "ai: CALL" if v["messages"][-1] == "user: weather" else "ai: ok"],
        ),
        fn(
            "decide(messages) => act",
            lambda v: "act" if v["messages"][-1].endswith("CALL") else END,
            default_open=False,
        ),
        fn("act(messages) -> messages", act),
        declared=(("listen", "ask"), ("ask", "decide"), ("ask", "act"), ("act", "ask")),
    )
    run = Interpreter(graph)
    run.turn({"said": "hi"}, new_turn=True)
    assert run.turn({"said": "weather"}, new_turn=True).ended == "failed"
    down[0] = False
    out = run.turn({"said": "2+2?"}, new_turn=True)
    assert out.course == ["listen", "ask", "decide"]
    assert out.values["messages"] == [
        "user: hi",
        "ai: ok",
        "user: weather",
        "ai: CALL",
        "user: 2+2?",
        "ai: ok",
    ]


def test_what_is_chosen_together_runs_in_one_round_where_one_of_them_awaits_the_other() -> None:
    decisions = iter([("look",), ("look", "read"), END])
    graph = net(
        fn("pick(s) => look, read", lambda v: next(decisions)),
        fn("look(s) -> a", plus("look")),
        fn("read(s) -> b", plus("read")),
        fn("join(a, b='') -> s", plus("join")),
        declared=(
            *(("look", "join"), ("read", "join"), ("look", "read")),
            *(("join", "pick"), ("join", "look"), ("join", "read")),
        ),
    )
    assert course(graph, s="s") == "pick look join pick look read join pick"


def test_a_turn_begins_the_items_of_a_map_with_what_was_given() -> None:
    """L5: the fresh run beside a turn is handed the last inputs, also where a map makes a list of them."""
    inner = net(
        fn("enough(text) => add", lambda v: END if len(v["text"]) > 3 else "add"),
        fn("add(text, word) -> text", lambda v: v["text"] + v["word"]),
    )
    split = fn("split(said) -> word", lambda v: v["said"].split())
    each = Part("each", ("word", "text"), ("text",), "graph", defaults={"text": ""}, inner=inner)
    graph = net(split, replace(each, map_over=("word",), entries=("text",)))
    run = Interpreter(graph, 20)
    run.turn({"said": "ab c", "text": ">"})
    given = {"said": "d ef"}
    fresh = fresh_run(run, given)
    out = run.turn(given, new_turn=True)
    assert fresh.differs(out) is None
    assert out.values["text"] == [">ddd", ">efef"]


def test_what_has_its_inputs_without_a_loop_runs_once_beside_its_round() -> None:
    """D14: `outline` begins nothing, and runs on its default; what `publish` leads to makes it run again."""
    graph = net(
        fn("outline(topic, remarks='') -> plan", lambda v: v["topic"]),
        fn("write(style, plan_of_it='') -> text", lambda v: v["style"]),
        fn("adopt(plan) -> plan_of_it", lambda v: v["plan"]),
        fn("choose(text) => adopt, publish", lambda v: "publish"),
        fn("publish(text) -> page", lambda v: v["text"]),
        fn("discussed(page) => remark", lambda v: "remark"),
        fn("remark(page) -> remarks", lambda v: v["page"]),
    )
    given = {"topic": "tea", "style": "short"}
    out = Interpreter(graph, 20).turn(given)
    course = "outline write choose publish discussed remark outline"
    assert (out.ended, " ".join(out.course)) == ("completed", course)
    assert whole_rounds(graph, given, out) is None


def test_a_loop_with_a_way_back_that_a_gate_outside_closes_has_rounds_of_its_own() -> None:
    """No index is wanted, so `read` is not led to again, and `mark` runs once for each choice."""
    graph = net(
        fn("is_marked(book) => mark", lambda v: "mark"),
        fn("is_listed(book) => index", lambda v: END),
        fn("read(book, entries='') -> notes", lambda v: v["book"]),
        fn("sum_up(notes) -> summary", lambda v: v["notes"]),
        fn("mark(summary) -> marks", lambda v: v["summary"]),
        fn("index(marks) -> entries", lambda v: v["marks"]),
        fn("enough(notes) => mark", lambda v: "mark"),
    )
    given = {"book": "tea"}
    out = Interpreter(graph, 20).turn(given)
    assert out.ended == "completed", out
    assert out.course.count("mark") == 2, out.course
    assert whole_rounds(graph, given, out) is None
