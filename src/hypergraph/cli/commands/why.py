"""`hypergraph why`: the provenance of a value as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypergraph.checkpointers import Checkpointer
from hypergraph.checkpointers.view import lazy_state
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.output import Branch, suggested, tree_lines
from hypergraph.cli.stores import WF, answer
from hypergraph.cli.tables import added_text, answered, brief_text, made_by
from hypergraph.display import Block, plural
from hypergraph.views.why import Corrected, InnerCall, WhyValue, WhyView
from hypergraph.views.why import why as explained

why_options = (
    WF,
    Option("KEY", "the name of a value", needed=True),
    Option("--at", "the value after this superstep", "N", number),
    Option("--depth", "how many steps back, default all", "N", number),
)


def why(call: Call) -> Reply:
    """Show the provenance of a value."""
    given = call.options
    view, items, inside = answer(call, _read, given.key, given.at, given.depth)
    at = [] if view["at"] is None else [f"superstep {view['at']}"]
    header = [f"Workflow: {view['workflow']}", f"why {view['key']}", *at]
    return Reply(view, lambda: _descent(view, items), header, _further(view, inside))


Items = Mapping[str, Sequence[str]]  # the ids of the items of each map that made a value


def _read(
    store: Checkpointer, wf: str, key: str, at: int | None, depth: int | None
) -> tuple[WhyView, Items, str | None]:
    view = explained(store, wf, key, at=at, depth=depth)
    children = {item["child"] for item in view["items"] if item["child"] is not None}
    items = {child: [item.id for item in store.backend.read_items(child)] for child in children}
    return view, items, _inside(store, view, items)


def _inside(store: Checkpointer, view: WhyView, items: Items) -> str | None:
    """Return what to ask next about a nested run, or about an item: each has a history of its own."""
    for item in view["items"]:
        ids = items.get(item["child"] or "")
        if ids:
            known = item["name"] in lazy_state(store, ids[0])  # else it has another name there
            return suggested("why", ids[0], item["name"]) if known else suggested("show", item["child"])
    child = view["items"][0]["child"]
    return None if child is None else suggested("show", child)


def _further(view: WhyView, inside: str | None) -> list[str]:
    first = view["items"][0]
    around = next((item["around"] for item in view["items"] if item["around"] is not None), None)
    changed = next((each for item in view["items"] for each in item["corrected"]), None)
    found = [suggested("state", view["workflow"])]
    if first["made_by"] is not None:
        found = [suggested("step", view["workflow"], first["made_by"]["index"])]
        inside = inside if changed is None else suggested("state", changed["workflow"])
        found += [] if inside is None else [inside]
    if around is not None:
        found.append(suggested("why", around["workflow"], around["name"]))
    return found


def _descent(view: WhyView, items: Items) -> Iterator[Block]:
    values = {item["id"]: item for item in view["items"]}
    listed: set[str] = set()
    explained: set[int] = set()  # steps whose sources are listed

    def branch(item: WhyValue) -> Branch:
        listed.add(item["id"])
        if item["made_by"] is not None and item["sources"]:
            if item["made_by"]["index"] in explained:
                return Branch(f"{_line(item, items)}  (see above)", [])
            explained.add(item["made_by"]["index"])
        below = [Branch(_call(call), []) for call in item["calls"]]
        below += [Branch(_changed(each), []) for each in item["corrected"]]
        own = {(source["name"], source["version"]) for source in item["sources"]}
        decided_on = {(source["name"], source["version"]): source for source in item["decided_on"]}
        for source in (*item["sources"], *(decided_on[key] for key in decided_on if key not in own)):
            if source["id"] is None:
                below.append(Branch(f"{source['name']}  (not listed)", []))
            below += [below_it(values[id]) for id in (source["id"], *source["others"]) if id is not None]
            if source["earlier"]:
                earlier = plural(source["earlier"], "earlier step")
                below.append(Branch(f"... and {earlier} that added to {source['name']}", []))
        return Branch(_line(item, items), below)

    def below_it(known: WhyValue) -> Branch:
        if known["id"] not in listed:
            return branch(known)
        return Branch(f"{_name(known)}  (see above)" if known["sources"] else _line(known, items), [])

    yield tree_lines(branch(view["items"][0]))
    if view["left_out"]:
        yield f"... and {plural(view['left_out'], 'value')} further back"


def _name(item: WhyValue) -> str:
    return item["name"] if item["version"] == 1 else f"{item['name']} (version {item['version']})"


def _line(item: WhyValue, items: Items) -> str:
    value = "not stored" if item["value"] is None else brief_text(item["value"])
    if item["value"] is not None and item["added"] is not None:
        value = f"{item['value']['type']} {item['value']['size']}: {added_text(item['added'])}"
    return f"{_name(item)}  {_origin(item, items)}  {value}"


def _call(call: InnerCall) -> str:
    value = "not stored" if call["value"] is None else brief_text(call["value"])
    return f"{call['key']}  ← {call['call']}  {value}"


def _changed(item: Corrected) -> str:
    return f"{item['workflow']} took corrected inputs: {', '.join(item['inputs'])}"


def _origin(item: WhyValue, items: Items) -> str:
    if item["around"] is not None:
        around = item["around"]
        return f"← {around['name']} of {around['workflow']}, {made_by(around['made_by'])}"
    if item["given"]:
        return "given"
    if item["made_by"] is None:
        return "unknown"
    gate = item["decided_by"]
    because = "" if gate is None else f", chosen by {made_by(gate)}"
    count = len(items.get(item["child"] or "", ()))
    inside = "" if item["child"] is None else f", in {item['child']}"
    inside += f" ({plural(count, 'item')})" if count else ""
    answer = answered(item)
    if item["looked_up"]:
        answer += " by on_ambiguous, an earlier process began the call"
    elif item["asks"] and not answer:
        answer = ", needed no answer"
    return f"← {made_by(item['made_by'])}{inside}{answer}{because}"
