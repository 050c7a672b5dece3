"""Random graphs whose values say which call, on which inputs, made them.

A case is a description (`Net`) that the reference interpreter runs, the values of several turns, and a
function that makes the real graph of it. A value is a text `node.output@depth#hash`: the hash covers the
inputs, the depth counts the calls behind it. Gates decide by the hash of their inputs and leave their loop
at a depth of their own, so loops end. Above its cap a node repeats itself, so cycles without a gate end, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hypergraph import END as REAL_END
from hypergraph import FunctionNode, Graph, GraphConfigError, IfElseNode, InterruptNode, RouteNode
from laws.model import END, Net, Part

APPEND_WORKS = True
BASE = 100  # values given in turn k have a depth of k * BASE
Record = Callable[[str, dict[str, Any]], None]


class Overgrown(BaseException):
    """A map that puts its own lists into lists has made a value too large to go on with."""


def digest(*things: Any) -> int:
    text = repr(things)
    if len(text) > 1_000_000:
        raise Overgrown
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


def depth_of(value: Any) -> int:
    """How many calls stand behind a value, or behind the deepest one in a collection."""
    if isinstance(value, (list, tuple)):
        return max(map(depth_of, value), default=0)
    found = re.search(r"@(\d+)", str(value))
    return int(found[1]) if found else 0


def deepest(inputs: Mapping[str, Any]) -> int:
    return max(map(depth_of, inputs.values()), default=0)


@dataclass(frozen=True)
class Body:
    """What a node does."""

    name: str
    outputs: tuple[str, ...]
    cap: int = 30
    lists: bool = False  # a list of three (for maps), or of two (for appending)

    def __call__(self, inputs: dict[str, Any]) -> Any:
        depth = deepest(inputs) + 1
        mark = digest(self.name, sorted(inputs.items())) % 0xFFFF
        if depth % BASE >= self.cap:
            depth, mark = depth // BASE * BASE + self.cap, 0
        made: list[Any] = [f"{self.name}.{x}@{depth}#{mark:x}" for x in self.outputs]
        if self.lists:
            made = [[f"{v}/{i}" for i in range(3)] for v in made]
        return made[0] if len(made) == 1 else tuple(made) if made else None


@dataclass(frozen=True)
class Chooser:
    """What a gate does: one of the targets, several, or END; END (or `leave`) from a depth on."""

    name: str
    targets: tuple[str, ...]
    bound: int = 6
    multi: bool = False
    leave: str = END
    ends: bool = True  # may decide END
    seldom: int = 5  # END before the bound once in so many decisions

    def __call__(self, inputs: dict[str, Any]) -> Any:
        mark, depth = digest(self.name, sorted(inputs.items())), deepest(inputs) % BASE
        if self.ends and (depth >= self.bound or mark % self.seldom == 0) and self.leave == END:
            return END
        if depth >= self.bound and self.leave != END:
            return (self.leave,)
        mark //= self.seldom
        if self.multi:
            return tuple(t for i, t in enumerate(self.targets) if mark >> i & 1)
        return (self.targets[mark % len(self.targets)],)


@dataclass(frozen=True)
class Handler:
    """What an interrupt does: ask, or know the answer for some inputs."""

    name: str
    output: str
    knows: int = 4

    def __call__(self, inputs: dict[str, Any]) -> Any:
        mark = digest(self.name, sorted(inputs.items()))
        return (
            f"{self.name}.{self.output}@{deepest(inputs) + 1}#{mark % 0xFFFF:x}"
            if mark % self.knows == 0
            else None
        )


@dataclass(frozen=True)
class Case:
    """A described graph and the values of its turns."""

    net: Net
    turns: tuple[dict[str, Any], ...]
    seed: int = 0

    def __str__(self) -> str:
        return program(self)


# -------------------------------------------------------------------- the real graph


def build(
    net: Net,
    record: Record,
    name: str = "laws",
    prefix: str = "",
    *,
    is_async: bool = False,
    quiet: bool = True,
) -> Graph:
    """Make the real graph of a description; every call of a body is recorded, and warnings are left out.

    Async bodies let others run in between, so that siblings end in another order than they start.
    """
    nodes = [_real(part, record, prefix, is_async) for part in net.parts]
    edges = None if net.declared is None else list(net.declared)
    with warnings.catch_warnings() if quiet else nullcontext():
        if quiet:
            warnings.simplefilter("ignore")
        graph = Graph(nodes, edges=edges, name=name)
        if net.bound:
            graph = graph.bind(**net.bound)
        if net.entrypoints:
            graph = graph.with_entrypoint(*net.entrypoints)
    return graph


def _real(part: Part, record: Record, prefix: str, is_async: bool) -> Any:
    path, call = prefix + part.name, part.call
    if part.kind == "graph":
        assert part.inner is not None
        node = build(part.inner, record, part.name, path + "/", is_async=is_async).as_node(name=part.name)
        return node.map_over(*part.map_over) if part.map_over else node

    def body(**inputs: Any) -> Any:
        record(path, inputs)
        assert call is not None
        made = call(dict(inputs))
        if isinstance(call, Chooser):
            if made == END:
                return [REAL_END] if call.multi else REAL_END if not style else style[0] is REAL_END
            return style[0] == made[0] if style else list(made) if call.multi else made[0]
        return made

    async def async_body(**inputs: Any) -> Any:
        for _ in range(digest(path, sorted(inputs.items())) % 7):
            await asyncio.sleep(0)
        return body(**inputs)

    inputs = [f"{x}=_defaults[{x!r}]" if x in part.defaults else x for x in part.inputs]
    inputs.sort(key=lambda text: "=" in text)
    names = ", ".join(f"{x}={x}" for x in part.inputs)
    is_async = is_async and part.kind in ("node", "gate")
    scope = {"_body": async_body if is_async else body, "_defaults": part.defaults, "__name__": __name__}
    text = f"def {part.name}({', '.join(inputs)}): return {'await ' if is_async else ''}_body({names})"
    exec(f"async {text}" if is_async else text, scope)
    func = scope[part.name]
    style: tuple[Any, ...] = ()
    options: dict[str, Any] = {"emit": part.emit or None, "wait_for": part.wait_for or None}
    if isinstance(call, Chooser):
        targets: list[Any] = list(part.targets) + ([REAL_END] if call.ends else [])
        if len(targets) == 2 and not call.multi and digest(part.name) % 2:
            style = (targets[0], targets[1])
            return IfElseNode(func, *style, default_open=part.default_open, **options)
        return RouteNode(func, targets, multi_target=call.multi, default_open=part.default_open, **options)
    if part.kind == "ask":
        return InterruptNode(func, output_name=part.outputs[0], **options)
    output: Any = None if not part.outputs else part.outputs[0] if len(part.outputs) == 1 else part.outputs
    if part.append:
        options["append"] = part.append if len(part.outputs) > 1 else True
    return FunctionNode(func, output_name=output, **options)


# -------------------------------------------------------------------- random descriptions

FEATURES = (
    "gates",
    "loops",
    "cycles",
    "asks",
    "append",
    "nested",
    "maps",
    "waits",
    "declared",
    "odd",
    "entry",
    "bound",
)


@dataclass
class Writer:
    """Writes a structured graph block by block; `odd` changes make it less structured afterwards."""

    rnd: Random
    features: frozenset[str]
    depth: int = 0
    prefix: str = ""
    parts: list[Part] = field(default_factory=list)
    known: list[str] = field(default_factory=list)  # names that later blocks may take
    seeds: set[str] = field(default_factory=set)  # names inside loops that are given
    count: int = 0

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{self.prefix}{kind}{self.count}"

    def some(self, at_least: int = 1, at_most: int = 2) -> list[str]:
        count = self.rnd.randint(at_least, at_most)
        return self.rnd.sample(self.known, min(count, len(self.known)))

    def has(self, feature: str, chance: float = 1.0) -> bool:
        return feature in self.features and self.rnd.random() < chance

    def node(
        self, inputs: Iterable[str], outputs: Iterable[str] = (), optional: Iterable[str] = (), **more: Any
    ) -> Part:
        name, outputs = more.pop("name", None) or self.fresh("n"), tuple(outputs)
        outputs = outputs or (self.fresh("v"),)
        taken, defaults = list(dict.fromkeys(inputs)), {}
        for x in dict.fromkeys(optional):
            if x not in taken:
                taken.append(x)
                defaults[x] = f"default.{x}@0"
        cap = self.rnd.choice((3, 4, 5)) if self.rnd.random() < 0.08 else 30
        part = Part(name, tuple(taken), outputs, call=Body(name, outputs, cap), defaults=defaults, **more)
        self.parts.append(part)
        return part

    def gate(self, inputs: Iterable[str], targets: Iterable[str], **more: Any) -> Part:
        name, targets = self.fresh("g"), tuple(targets)
        default_open = more.pop("default_open", self.rnd.random() < 0.9)
        bound = deepest_path(self.parts) + self.rnd.randint(1, 6)
        call = Chooser(name, targets, **{"bound": bound, **more})
        part = Part(
            name, tuple(dict.fromkeys(inputs)), (), "gate", call, targets=targets, default_open=default_open
        )
        self.parts.append(part)
        return part

    # blocks: each takes known names and makes new ones known

    def blocks(self, count: int) -> None:
        for _ in range(count):
            kinds: list[Callable[[], None]] = [self.plain, self.plain]
            if self.has("gates"):
                kinds += [self.branch, self.optional_branch, self.fan]
            if self.has("loops"):
                kinds += [self.do_while, self.while_, self.corrective, self.eight, self.tools, self.fan_loop]
                kinds += [self.called] * ("gates" in self.features)
            if self.has("cycles"):
                kinds += [self.cycle]
            if self.has("asks"):
                kinds += [self.ask]
            if self.has("append"):
                kinds += [self.agent]
            if self.has("nested") and self.depth < 2:
                kinds += [self.graph]
            if self.has("maps") and self.depth < 2:
                kinds += [self.mapped]
            kinds.append(self.accumulator)
            self.rnd.choice(kinds)()

    def plain(self) -> None:
        outputs = [self.fresh("v") for _ in range(self.rnd.choice((1, 1, 1, 2)))]
        self.node(self.some(), outputs, self.some(0, 1) if self.rnd.random() < 0.3 else ())
        self.known += outputs

    def accumulator(self) -> None:
        name = self.fresh("acc")
        self.node(self.some(), [name], [name])
        self.known.append(name)

    def ask(self) -> None:
        name, output = self.fresh("q"), self.fresh("ans")
        inputs = tuple(dict.fromkeys(self.some()))
        self.parts.append(Part(name, inputs, (output,), "ask", Handler(name, output)))
        self.known.append(output)

    def branch(self) -> None:
        """Either way, with an output of its own or the same one."""
        left, right = self.fresh("n"), self.fresh("n")
        self.gate(self.some(), [left, right], ends=self.rnd.random() < 0.3, bound=BASE)
        same = self.fresh("v") if self.rnd.random() < 0.5 else None
        for name in (left, right):
            output = same or self.fresh("v")
            self.node(self.some(), [output], name=name)
            if not same or name == left:
                self.known.append(output)
        if not same and self.rnd.random() < 0.6:  # a join with what may not be there
            joined = self.fresh("v")
            self.node(self.some(), [joined], self.known[-2:])
            self.known.append(joined)

    def optional_branch(self) -> None:
        target = self.fresh("n")
        self.gate(self.some(), [target], bound=BASE, seldom=2)
        extra, joined = self.fresh("v"), self.fresh("v")
        self.node(self.some(), [extra], name=target)
        self.node(self.some(), [joined], [extra])
        self.known.append(joined)

    def fan(self) -> None:
        targets = [self.fresh("n") for _ in range(self.rnd.randint(2, 3))]
        self.gate(self.some(), targets, multi=True, ends=False, bound=BASE)
        outputs = [self.fresh("v") for _ in targets]
        for name, output in zip(targets, outputs, strict=True):
            self.node(self.some(), [output], name=name)
        joined = self.fresh("v")
        self.node(self.some(), [joined], outputs)
        self.known.append(joined)

    def body(self, feed: list[str]) -> list[str]:
        """The inside of a loop: blocks that begin at `feed`; returns the names they made."""
        before, self.known = self.known, [*feed, *feed, *self.known]
        self.depth += 1
        self.blocks(self.rnd.randint(1, 2) if self.depth < 3 else 1)
        self.depth -= 1
        made = [x for x in self.known if x not in before and x not in feed]
        self.known = before
        last = self.fresh("v")
        self.node(
            [self.rnd.choice(made), *([self.rnd.choice(made)] if self.rnd.random() < 0.4 else [])], [last]
        )
        return [*made, last]

    def do_while(self) -> None:
        """head -> ... -> gate -> head; the head takes what the round made, by default."""
        head, feed = self.fresh("h"), self.fresh("v")
        taken = self.some()
        self.parts.append(Part(head))  # its place in graph order; filled in below
        place = len(self.parts) - 1
        made = self.body([feed])
        self.node(taken, [feed], [self.rnd.choice(made), made[-1]], name=head)
        self.parts[place] = self.parts.pop()
        self.leave(made, [head])

    def leave(self, made: list[str], heads: list[str], inputs: list[str] | None = None, **more: Any) -> None:
        """The gate of a loop: back to a head, or out by END or by a target."""
        inputs = inputs or [made[-1], *([self.rnd.choice(made)] if self.rnd.random() < 0.3 else [])]
        if self.rnd.random() < 0.3 and not more:
            out, value = self.fresh("n"), self.fresh("v")
            self.gate(inputs, [*heads, out], leave=out, ends=False)
            self.node([self.rnd.choice(made)], [value], name=out)
            self.known.append(value)
        else:
            self.gate(inputs, heads, **more)
        self.known += self.rnd.sample(made, min(2, len(made)))

    def called(self) -> None:
        """A gate outside opens the head of a loop, or passes it by."""
        outer = self.gate(self.some(), [], ends=True, bound=BASE)
        place = len(self.parts) - 1
        self.do_while()
        head = self.parts[place + 1].name
        call = replace(outer.call, targets=(head,))  # type: ignore[type-var]  # a Chooser
        self.parts[place] = replace(outer, targets=(head,), call=call)

    def while_(self) -> None:
        seed, head = self.fresh("s"), self.fresh("h")
        if self.rnd.random() < 0.5:
            self.seeds.add(seed)
        else:  # made before the loop: a second producer
            self.node(self.some(), [seed])
        self.gate([seed], [head])
        if self.rnd.random() < 0.5:
            self.node([seed, *self.some(0, 1)], [seed], name=head)
        else:
            feed = self.fresh("v")
            self.node([seed, *self.some(0, 1)], [feed], name=head)
            made = self.body([feed])
            self.node([made[-1]], [seed])
        self.known.append(seed)

    def corrective(self) -> None:
        made, fix, web = self.fresh("v"), self.fresh("h"), self.fresh("v")
        first = self.node(self.some(), [made], [web])
        inside = self.body([made]) if self.rnd.random() < 0.4 else [made]
        self.node([*self.some(0, 1), inside[-1]], [web], name=fix)
        self.leave(inside, [fix])
        self.known += list(first.outputs)

    def eight(self) -> None:
        """Two gates, two heads, one shared node; or two gates on one target."""
        shared, a, b = self.fresh("v"), self.fresh("h"), self.fresh("h")
        x, y = self.fresh("v"), self.fresh("v")
        one = self.rnd.random() < 0.4
        self.node(self.some(), [shared], [x] if one else [x, y])
        self.node([shared], [x], name=a)
        if not one:
            self.node([shared, *self.some(0, 1)], [y], name=b)
        self.gate([shared], [a])
        self.gate([shared], [a] if one else [b])
        self.known.append(shared)

    def tools(self) -> None:
        """plan -> decide -> tool | tool -> result(plan, tool) -> done -> plan."""
        plan, feedback, task, result = self.fresh("h"), self.fresh("v"), self.fresh("v"), self.fresh("v")
        tools = [self.fresh("n"), self.fresh("n")]
        self.node(self.some(), [task], [feedback], name=plan)
        self.gate([task], tools, ends=False, bound=BASE)
        outputs = [self.fresh("v") for _ in tools]
        for tool, output in zip(tools, outputs, strict=True):
            self.node([task], [output], name=tool)
        self.node([task], [result], outputs)
        self.node([result], [feedback])
        self.gate([result, feedback] if self.rnd.random() < 0.5 else [result], [plan])
        self.known += [result, feedback]

    def series(self) -> None:
        """think -> choose tools side by side -> think; behind one of them, or more, another gate chooses."""
        appends, chance = self.has("append", 0.5), self.rnd.random
        back = [self.fresh("log")] if appends else []
        calls, tools = self.fresh("v"), [self.fresh("h"), self.fresh("h")]

        def tool(name: str, inputs: list[str]) -> None:
            if appends:
                self.node(inputs, back, name=name, append=tuple(back))
            else:
                back.append(self.fresh("v"))
                self.node(inputs, back[-1:], name=name)

        self.parts.append(Part(self.fresh("n")))  # its place in graph order; filled in below
        place, taken = len(self.parts) - 1, self.some()
        tool(tools[0], [calls])
        stage = tools[1]
        for _ in range(1 if chance() < 0.8 else 2):
            done, act = self.fresh("v"), self.fresh("h")
            if self.has("asks", 0.6):
                self.parts.append(Part(stage, (calls,), (done,), "ask", Handler(stage, done)))
            else:
                self.node([calls], [done], name=stage)
            done = self.body([done])[-1] if chance() < 0.15 else done
            others = [self.fresh("h")] if chance() < 0.4 else []
            if chance() < 0.2:  # the same again, some times
                self.gate([done], [act, *others, stage], leave=act, ends=False)
            else:
                self.gate([done], [act, *others], bound=BASE, ends=chance() < 0.5, seldom=4)
            for name in others:
                tool(name, [calls])
            stage = act
        tool(stage, [calls, *([done] if chance() < 0.3 else [])])
        tools += [stage] if chance() < 0.2 else []  # without what leads to it
        if chance() < 0.3:
            tool(self.fresh("n"), [calls])
        shown = [calls]
        if appends and chance() < 0.4:  # another place where the loop begins
            self.node(back, [self.fresh("v")])
            (back if chance() < 0.5 else shown).extend(self.parts[-1].outputs)
        first = self.parts[place].name
        log = back[:1] if appends else []
        self.node([*taken, *log], [*log, calls], back, name=first, append=tuple(log))
        self.parts[place] = self.parts.pop()
        part = self.gate(shown, tools, multi=chance() < 0.8, seldom=7)
        if not appends and chance() < 0.3:  # fed by what it, or a gate after it, chooses
            x = self.rnd.choice(back)
            self.parts[-1] = replace(part, inputs=(*part.inputs, x), defaults={x: f"default.{x}@0"})
        self.known += [calls, *self.rnd.sample(back, 1)]

    def consult(self) -> None:
        """write -> judge -> write | ask, and ask -> write, judge, where judge may wait for a new text."""
        text, verdict, answer = self.fresh("v"), self.fresh("v"), self.fresh("ans")
        head, ask, chance = self.fresh("h"), self.fresh("h"), self.rnd.random
        written = f"e_{head}"
        back = [[answer] if chance() < 0.7 else [] for _ in range(2)]
        back[1] = back[1] if back[0] else [answer]
        self.node(self.some(), [text], [verdict, *back[0]], name=head, emit=(written,))
        inside = self.body([text])[-1] if chance() < 0.2 else text
        self.node([inside], [verdict], back[1], wait_for=(written,) if chance() < 0.7 else ())
        if self.has("asks", 0.6):
            self.parts.append(Part(ask, (text,), (answer,), "ask", Handler(ask, answer)))
        else:
            self.node([text], [answer], name=ask)
        self.gate([verdict], [head, ask], multi=chance() < 0.2)
        self.known += [text, verdict]

    def supervisor(self) -> None:
        """plan -> work -> review -> plan, where what has been found is appended, and nobody gives it."""
        tasks, found, missing = self.fresh("v"), self.fresh("log"), self.fresh("v")
        head, chance = self.fresh("h"), self.rnd.random
        back = [missing] if chance() < 0.7 else []
        begun = [self.fresh("v")] if chance() < 0.3 else []
        if begun:
            self.node(self.some(), begun)
        if chance() < 0.15:  # from outside, too
            self.node(self.some(), [found], append=(found,))
        lists = (found,) if chance() < 0.2 else ()  # the head adds to it, too
        self.node([*(begun or self.some())], [tasks, *lists], back, name=head, append=lists)
        done = self.body([tasks])[-1] if chance() < 0.2 else tasks
        self.node([done], [found], append=(found,))
        if chance() < 0.2:
            missing = found
        else:
            self.node([found, *(self.some() if chance() < 0.3 else [])], [missing])
        self.gate([missing], [head])
        self.known += [tasks, found, missing]

    def fan_loop(self) -> None:
        """A gate that chooses some of several heads, and a join."""
        seed = self.fresh("s")
        heads = [self.fresh("h"), self.fresh("h")]
        outputs = [self.fresh("v") for _ in heads]
        self.seeds.add(seed)
        self.gate([seed], heads, multi=True, ends=True)
        for i, (head, output) in enumerate(zip(heads, outputs, strict=True)):
            extra = outputs[:i] if self.rnd.random() < 0.3 else []
            self.node([seed], [output], extra, name=head)
        self.node(outputs[:1], [seed], outputs[1:])
        self.known.append(seed)

    def cycle(self) -> None:
        """A cycle without a gate."""
        x, y = self.fresh("v"), self.fresh("v")
        self.node(self.some(), [x], [y])
        self.node([x], [y])
        self.parts[-1] = _capped(self.parts[-1], self.rnd.choice((3, 6, 9)))
        self.known += [x, y]

    def agent(self) -> None:
        """listen, ask, decide, act; all append to one list."""
        log, calls = self.fresh("log"), self.fresh("v")
        act = self.fresh("h")
        if self.rnd.random() < 0.8:
            self.node(self.some(), [log], append=(log,))
        self.node([log], [log, calls], append=(log,))
        if self.rnd.random() < 0.3:
            self.node([log], [log], append=(log,))
        self.gate([self.rnd.choice((log, calls))], [act])
        self.node([calls, log], [log], name=act, append=(log,))
        self.known += [log, calls]

    def inner(self) -> Writer:
        features = self.features - {"asks", "entry", "declared", "append"}
        writer = Writer(self.rnd, features, self.depth + 1, self.fresh("i"), known=[])
        writer.known = [writer.fresh("x") for _ in range(self.rnd.randint(1, 2))]
        writer.blocks(self.rnd.randint(1, 2))
        writer.parts = [p for p in writer.parts if not (set(p.inputs) & writer.seeds)] or writer.parts
        return writer

    def graph(self) -> None:
        outer = self.known
        inner = self.inner()
        net = Net(tuple(inner.parts))
        self._nest(net, inner, outer, ())

    def mapped(self) -> None:
        rows = self.fresh("rows")
        source = self.node(self.some(), [rows])
        assert isinstance(source.call, Body)
        self.parts[-1] = replace(source, call=replace(source.call, lists=True))
        inner = self.inner()
        self._nest(Net(tuple(inner.parts)), inner, [rows], (rows,))

    def _nest(self, net: Net, inner: Writer, outer: list[str], map_over: tuple[str, ...]) -> None:
        """Wire an inner graph: its inputs take names of the outer one."""
        wanted = needed(net)
        makes = any(p.outputs for p in net.parts)
        if not wanted or not makes or any(x in inner.seeds for x in wanted):
            self.plain()
            return
        names = {
            x: map_over[0] if map_over and i == 0 else self.rnd.choice(outer) for i, x in enumerate(wanted)
        }
        renamed = tuple(_renamed(p, names) for p in net.parts)
        outputs = tuple(dict.fromkeys(x for p in renamed for x in p.outputs))
        inputs = tuple(needed(Net(renamed)))
        optional = {x for p in renamed for x in p.defaults if not any(x in q.outputs for q in renamed)}
        defaults = {x: p.defaults[x] for p in renamed for x in optional if x in p.defaults}
        name = self.fresh("sub")
        inputs = (*inputs, *sorted(optional - set(inputs)))
        try:
            real = build(Net(renamed), lambda name, inputs: None, name).as_node()
        except GraphConfigError:  # so will the whole graph be
            real = None
        entries = () if real is None else tuple(x for x in real.inputs if x not in inputs)
        defaults.update(dict.fromkeys(entries))
        inputs = (*inputs, *entries)
        self.parts.append(
            Part(
                name,
                inputs,
                outputs,
                "graph",
                defaults=defaults,
                inner=Net(renamed),
                map_over=map_over,
                entries=entries,
            )
        )
        self.known.append(self.rnd.choice(outputs))


def _capped(part: Part, cap: int) -> Part:
    assert isinstance(part.call, Body)
    return replace(part, call=replace(part.call, cap=cap))


def _renamed(part: Part, names: Mapping[str, str]) -> Part:
    inputs = tuple(dict.fromkeys(names.get(x, x) for x in part.inputs))
    part = replace(part, inputs=inputs, defaults={names.get(x, x): v for x, v in part.defaults.items()})
    if part.inner is None:
        return part
    inner = replace(part.inner, parts=tuple(_renamed(p, names) for p in part.inner.parts))
    return replace(part, inner=inner, map_over=tuple(names.get(x, x) for x in part.map_over))


def deepest_path(parts: Iterable[Part]) -> int:
    """A guess of how deep values are here: the number of nodes so far, but not many."""
    return min(12, 2 + sum(1 for _ in parts) // 2)


def needed(net: Net) -> list[str]:
    """Names that have to be given: taken, not made, without a default or binding."""
    made = {x for p in net.parts for x in p.outputs}
    free = {x for p in net.parts for x in p.defaults} | set(net.bound)
    return list(dict.fromkeys(x for p in net.parts for x in p.inputs if x not in made | free))


def given(name: str, turn: int) -> str:
    return f"{name}@{turn * BASE}"


def make(seed: int, features: Iterable[str] = FEATURES) -> Case:
    """Make a random case; equal seeds and features make equal cases."""
    rnd = Random(seed)
    on = [f for f in FEATURES if f in set(features)]
    picked = frozenset(f for f in on if rnd.random() < (0.7 if f in ("gates", "loops") else 0.3))
    if "append" in picked and not APPEND_WORKS and "append" not in features:
        picked -= {"append"}
    writer = Writer(rnd, picked)
    writer.known = [f"x{i}" for i in range(rnd.randint(1, 3))]
    outside = list(writer.known)
    if "loops" in picked and digest(seed) % 4 == 0:  # the other graphs do not depend on it
        writer.series()
    if "loops" in picked and digest(seed) % 8 in (1, 2):
        writer.consult() if digest(seed) % 8 == 1 or "append" not in features else writer.supervisor()
    writer.blocks(rnd.randint(1, 4))
    parts = [p for p in writer.parts if p.kind == "gate" or p.outputs]
    if "waits" in picked:
        parts = _with_waits(parts, rnd)
    if "odd" in picked:
        parts = _with_oddities(parts, rnd)
    if rnd.random() < 0.3:
        rnd.shuffle(parts)
    net = Net(tuple(parts))
    if "declared" in picked and not any(p.append for p in parts):
        net = replace(net, declared=_declared(net, rnd))
    wanted = needed(net)
    if "bound" in picked and wanted:
        net = replace(net, bound={rnd.choice(wanted): f"bound@{BASE}"})
        wanted = needed(net)
    if "entry" in picked and rnd.random() < 0.5:
        heads = {
            t for p in parts for t in p.targets if not any(q.name == t and q.kind == "gate" for q in parts)
        }
        if heads:
            net = replace(net, entrypoints=(rnd.choice(sorted(heads)),))
            wanted = needed(net)
    net, inside = _with_stand_ins(net, Random(seed))
    first = {x: given(x, 1) for x in [*wanted, *sorted(writer.seeds), *inside]}
    turns = [first]
    for number in range(2, rnd.choice((2, 3, 3, 4))):
        choices = [x for x in first if x in outside or rnd.random() < 0.3] or list(first)
        news = rnd.sample(choices, rnd.randint(1, len(choices))) if choices else []
        if news:
            turns.append({x: given(x, number) for x in news})
    return Case(net, tuple(turns), seed)


def _with_stand_ins(net: Net, rnd: Random) -> tuple[Net, list[str]]:
    """Return a net in which what its nodes make or ask for may be bound, and a name to be given, if any."""
    lists = {x for p in net.parts for x in p.append}
    made = {x for p in net.parts if p.kind != "ask" for x in p.outputs} - lists
    names = sorted(made.intersection(x for p in net.parts for x in p.inputs))
    chance = rnd.random()
    if names and chance < 0.1:
        name = rnd.choice(names)
        net = replace(net, bound={**net.bound, name: f"bound.{name}@{BASE}"})
    answers = sorted(x for p in net.parts if p.kind == "ask" for x in p.outputs)
    if answers and rnd.random() < 0.1:
        name = rnd.choice(answers)
        net = replace(net, bound={**net.bound, name: f"bound.{name}@{BASE}"})
    return net, [rnd.choice(names)] if names and 0.1 <= chance < 0.2 else []


def tangle(seed: int) -> Case:
    """Make a small case without a plan: few names that many make and take, so cycles pass gates or do not."""
    rnd = Random(seed)
    names = ["a", "b", "c", "d", "e"][: rnd.randint(2, 5)]
    gates = rnd.choice((0, 1, 1, 1, 2, 2))
    nodes = [f"n{i}" for i in range(rnd.randint(4, 7) - gates)]
    parts = []
    for name in nodes:
        output, accumulates = rnd.choice(names), rnd.random() < 0.2
        taken = rnd.sample(names, rnd.choice((0, 1, 1, 1, 2, 2)))
        inputs = tuple(x for x in taken if accumulates or x != output)
        defaults = {x: f"default.{x}@0" for x in inputs if rnd.random() < 0.35}
        call = Body(name, (output,), rnd.choice((3, 4, 6)))
        parts.append(Part(name, inputs, (output,), call=call, defaults=defaults))
    for i in range(gates):
        targets = tuple(rnd.sample(nodes, min(len(nodes), rnd.choice((1, 1, 2)))))
        chooser = Chooser(f"g{i}", targets, bound=rnd.randint(3, 8), seldom=rnd.choice((2, 5)))
        default_open, taken = rnd.random() < 0.9, rnd.sample(names, 1)
        gate = Part(
            chooser.name, tuple(taken), (), "gate", chooser, targets=targets, default_open=default_open
        )
        parts.append(gate)
    rnd.shuffle(parts)
    net = Net(tuple(_with_waits(parts, rnd) if rnd.random() < 0.15 else parts))
    wanted = needed(net)
    if rnd.random() < 0.15:
        wanted = sorted({*wanted, rnd.choice([x for p in parts for x in p.inputs] or names[:1])})
    turns = [{x: given(x, 1) for x in wanted}]
    if wanted and rnd.random() < 0.3:
        turns.append({rnd.choice(wanted): given(wanted[0], 2)})
    return Case(net, tuple(turns), seed)


def team(seed: int) -> Case:
    """Make a case in which a gate starts nodes and graphs at once that write what the others have taken.

    Graphs have several steps, and may ask in between.
    """
    rnd = Random(seed)
    appends = rnd.random() < 0.6
    shared = "log" if appends else "draft"
    append = (shared,) if appends else ()
    parts, members, returned = [], [], []
    for number in range(rnd.choice((2, 2, 3))):
        name, made = f"m{number}", f"v{number}"
        members.append(name)
        returned.append(made)
        if number == 0 or rnd.random() < 0.3:  # one writes what the others take
            outputs = (made, shared) if appends or number == 0 else (made,)
            call = Body(name, outputs, lists=appends and rnd.random() < 0.3)
            parts.append(Part(name, (shared, "calls"), outputs, call=call, append=append))
        else:
            parts.append(_member(name, made, shared, rnd, appends=appends and rnd.random() < 0.7))
    feeds = () if appends else tuple(returned)
    outputs = (*append, "calls")
    inputs = ("x0", *(append or feeds))
    defaults = {x: f"default.{x}@0" for x in feeds}
    parts.append(Part("lead", inputs, outputs, call=Body("lead", outputs), defaults=defaults, append=append))
    if appends and rnd.random() < 0.7:
        many = Body("listen", append, lists=True)
        parts.append(Part("listen", ("x0",), append, call=many, append=append))
    bound = rnd.randint(3, 9)
    chooser = Chooser("choose", tuple(members), bound=bound, multi=rnd.random() < 0.9, seldom=7)
    parts.append(Part("choose", ("calls",), (), "gate", chooser, targets=chooser.targets))
    rnd.shuffle(parts)
    names = ["x0"] if appends else ["x0", shared]
    turns = [{x: given(x, 1) for x in names}]
    if rnd.random() < 0.4:
        turns.append({x: given(x, 2) for x in rnd.sample(names, rnd.randint(1, len(names)))})
    return Case(Net(tuple(parts)), tuple(turns), seed)


def _member(name: str, made: str, shared: str, rnd: Random, *, appends: bool) -> Part:
    """Return a graph of some steps that take a name of the graph around it, and the step before."""
    steps: list[Part] = []
    last: tuple[str, ...] = ()
    for number in range(rnd.randint(1, 3)):
        step, output = f"{name}s{number}", f"{name}w{number}"
        taken = (shared, *last) if number == 0 or rnd.random() < 0.7 else last
        if rnd.random() < 0.5:
            steps.append(Part(step, taken, (output,), "ask", Handler(step, output)))
        else:
            steps.append(Part(step, taken, (output,), call=Body(step, (output,))))
        last = (output,)
    outputs = (made, shared) if appends else (made,)
    append = (shared,) if appends else ()
    end = Part(f"{name}end", (shared, *last), outputs, call=Body(f"{name}end", outputs), append=append)
    steps.append(end)
    every = tuple(dict.fromkeys(x for step in steps for x in step.outputs))
    return Part(name, (shared,), every, "graph", append=append, inner=Net(tuple(steps)))


def _with_waits(parts: list[Part], rnd: Random) -> list[Part]:
    for _ in range(rnd.randint(1, 3)):
        i, j = rnd.randrange(len(parts)), rnd.randrange(len(parts))
        source, target = parts[i], parts[j]
        if i == j or source.kind == "graph" or target.kind == "graph":
            continue
        names = [x for x in source.outputs if x not in target.inputs and x not in target.outputs]
        if names and rnd.random() < 0.3:
            name = names[0]
        else:
            name = f"e_{source.name}"
            parts[i] = source = replace(source, emit=(name,))
        if name not in target.wait_for and name not in target.emit:
            parts[j] = replace(target, wait_for=(*target.wait_for, name))
    return parts


def _with_oddities(parts: list[Part], rnd: Random) -> list[Part]:
    """Changes that no template has: an input from anywhere, another target, a second producer."""
    for _ in range(rnd.randint(1, 3)):
        i = rnd.randrange(len(parts))
        part = parts[i]
        made = [x for p in parts for x in p.outputs if x not in part.inputs and not p.append]
        kind = rnd.choice(("input", "input", "target", "producer"))
        if kind == "input" and made and part.kind in ("node", "gate"):
            x = rnd.choice(made)
            defaults = {**part.defaults, x: f"default.{x}@0"}
            parts[i] = replace(part, inputs=(*part.inputs, x), defaults=defaults)
        elif kind == "target" and isinstance(part.call, Chooser) and not part.call.multi:
            target = rnd.choice(parts).name
            if target != part.name and target not in part.targets:
                targets = (*part.targets, target)
                parts[i] = replace(part, targets=targets, call=replace(part.call, targets=targets))
        elif kind == "producer" and part.kind == "node" and not part.append and made:
            x = rnd.choice(made)
            if x not in part.outputs and isinstance(part.call, Body):
                outputs = (*part.outputs, x)
                parts[i] = replace(part, outputs=outputs, call=replace(part.call, outputs=outputs))
    return parts


def sharing(case: Case, rnd: Random) -> Case:
    """Return a case in which nodes make names that others make, too."""
    parts = list(case.net.parts)
    for _ in range(rnd.randint(1, 3)):
        i = rnd.randrange(len(parts))
        part, call = parts[i], parts[i].call
        made = [x for p in parts for x in p.outputs if p.kind == "node" and not p.append]
        free = [x for x in made if x not in (*part.inputs, *part.outputs)]
        if isinstance(call, Body) and not call.lists and not part.append and free:
            outputs = (*part.outputs, rnd.choice(free))
            parts[i] = replace(part, outputs=outputs, call=replace(call, outputs=outputs))
    return replace(case, net=replace(case.net, parts=tuple(parts)))


def _declared(net: Net, rnd: Random) -> tuple[tuple[str, str], ...]:
    """All inferred edges, some left out, and an order or two."""
    edges = []
    for p in net.parts:
        for q in net.parts:
            if p.name != q.name and set(p.outputs) & set(q.inputs) and rnd.random() < 0.95:
                edges.append((p.name, q.name))
    for _ in range(rnd.randint(0, 2)):
        p, q = rnd.choice(net.parts), rnd.choice(net.parts)
        if p.name != q.name and (p.name, q.name) not in edges:
            edges.append((p.name, q.name))
    return tuple(edges)


# -------------------------------------------------------------------- a readable program


def program(case: Case) -> str:
    """Write a case as a short listing that a person can read."""
    lines = [f"seed {case.seed}", *_listing(case.net, "")]
    lines += [
        f"turn {i + 1}: " + ", ".join(f"{x}={v!r}" for x, v in t.items()) for i, t in enumerate(case.turns)
    ]
    return "\n".join(lines)


def _listing(net: Net, indent: str) -> list[str]:
    lines = []
    for p in net.parts:
        inputs = ", ".join(f"{x}=." if x in p.defaults else x for x in p.inputs)
        more = "".join(
            f"  {k}={' '.join(v)}"
            for k, v in (
                ("emit", p.emit),
                ("wait_for", p.wait_for),
                ("append", p.append),
                ("map_over", p.map_over),
            )
            if v
        )
        if isinstance(p.call, Chooser):
            arrow = "=>> " if p.call.multi else "=> "
            ends = ["END"] if p.call.ends else []
            after = arrow + " | ".join([*p.targets, *ends]) + f"  bound={p.call.bound} leave={p.call.leave}"
            more += "" if p.default_open else "  default_open=False"
        else:
            cap = f"  cap={p.call.cap}" if isinstance(p.call, Body) and p.call.cap != 30 else ""
            after = "-> " + ", ".join(p.outputs) + cap
        kind = "" if p.kind in ("node", "gate") else p.kind + " "
        lines.append(f"{indent}{kind}{p.name}({inputs}) {after}{more}")
        if p.inner is not None:
            lines += _listing(p.inner, indent + "    ")
    if net.declared is not None:
        lines.append(f"{indent}edges: " + ", ".join(f"{a}->{b}" for a, b in net.declared))
    if net.bound:
        lines.append(f"{indent}bound: " + ", ".join(net.bound))
    if net.entrypoints:
        lines.append(f"{indent}entry: " + ", ".join(net.entrypoints))
    return lines
