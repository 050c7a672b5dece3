"""`hypergraph watch`: the steps of a running workflow, or the list of active workflows.

The store is polled for changes, less often while there are none. It is read after each change, and from time
to time without one: an owner that was killed writes nothing.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from typing import Any

from hypergraph.checkpointers import Checkpointer
from hypergraph.cli.arguments import Option, number
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.commands.ls import ls_table
from hypergraph.cli.commands.ls_store import queued_parts, with_queued
from hypergraph.cli.commands.show import header_of
from hypergraph.cli.output import as_json, duration, status, suggested
from hypergraph.cli.stores import WF, opened
from hypergraph.cli.tables import decision, progress_parts, step_status, step_time
from hypergraph.display import KEY, as_text, escape, plural, shortened
from hypergraph.views.lookup import require_workflow
from hypergraph.views.stores import resolve
from hypergraph.views.watch import (
    ACTIVE,
    FollowedItem,
    FollowedProgress,
    FollowedStep,
    Follower,
    followed_chunk,
    require_stream,
)
from hypergraph.views.workflow import workflow
from hypergraph.views.workflows import WorkflowPage, with_owners, workflows

_SHORTEST, _LONGEST, _GROWTH = 0.05, 1.0, 1.5  # seconds between two polls, and their growth

watch_options = (
    WF._replace(needed=False, help=f"{WF.help}; default: list the active workflows"),
    Option("--once", "print the current state and exit"),
    Option("--stream", "print what this node streams, from the first chunk that is kept", "NODE"),
    Option("--offset", "with --stream: the first offset", "N", number, 0),
)


def watch(call: Call) -> Reply:
    """Follow a workflow from its last steps until it ends, or list the active ones while processes run."""
    store = opened(call)
    if call.options.wf is None:
        return _list(store, call)
    wf = resolve(store, call.options.wf)
    if call.options.stream is not None:
        return _stream(store, wf, call)
    follower = Follower(store, wf)
    report = _as_line if call.options.jsonl else _nothing if call.options.json else _as_text
    for _ in _looks(store, once=call.options.once):
        for news in follower.news():
            report(news)
        for progress in follower.progress():
            report(progress)
        sys.stdout.flush()
        if follower.is_over or follower.is_abandoned:
            break
    code = 1 if follower.status == "failed" or follower.is_abandoned else 0
    if call.options.jsonl:
        return Reply({"items": []}, code=code)  # everything is printed already
    found = workflow(store, wf)
    return Reply(found, header=header_of(found), next=[suggested("show", wf)], code=code)


def _list(store: Checkpointer, call: Call) -> Reply:
    if call.options.once or call.options.json:
        page = _active(store)
        return Reply(page, lambda: [ls_table(page)] if page["items"] else [], _list_header(page))
    shown: Any = None
    for _ in _looks(store, once=False):
        page = _active(store)
        seen = [page["queued"], *((item["id"], item["steps"], item["alive"]) for item in page["items"])]
        if seen != shown:
            shown = seen
            if call.options.jsonl:
                print(as_json(page))
            else:
                print(as_text(_list_header(page), *([ls_table(page)] if page["items"] else [])), end="\n\n")
            sys.stdout.flush()
        if page["items"] and not page["queued"] and all(item["alive"] is False for item in page["items"]):
            return _left(page, call)
    return Reply({"items": []})


def _left(page: WorkflowPage, call: Call) -> Reply:
    """Return the end of a list in which no process is left that could change anything."""
    if call.options.jsonl:
        return Reply({"items": []}, code=1)
    first = page["items"][0]
    text = "The owner process of each is gone: nothing runs until a workflow is resumed."
    return Reply(page, header=[text], next=[suggested("resume", first["id"])], code=1)


def _active(store: Checkpointer) -> WorkflowPage:
    """Return the active workflows, and how many runs wait in queues."""
    return with_queued(store, with_owners(store, workflows(store.backend, status=ACTIVE, limit=None)))


def _list_header(page: Any) -> list[str]:
    return [f"Active: {plural(page['total'], 'workflow')}", *queued_parts(page)]


def _looks(store: Checkpointer, *, once: bool) -> Iterator[None]:
    """Yield now, then after each change of the store, and from time to time without one."""
    version = store.backend.watch()
    seen, pause = version(), _SHORTEST
    yield
    while not once:
        _wait(pause)
        now = version()
        if now != seen:
            seen, pause = now, _SHORTEST
        elif pause < _LONGEST:
            pause = min(pause * _GROWTH, _LONGEST)
            continue
        yield


def _wait(seconds: float) -> None:
    """Wait, or raise BrokenPipeError as soon as stdout is closed at the other end."""
    if not hasattr(select, "poll"):
        time.sleep(seconds)
        return
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # no event but POLLERR, which is always reported
    if poll.poll(seconds * 1000):
        raise BrokenPipeError


def _stream(store: Checkpointer, wf: str, call: Call) -> Reply:
    """Print the chunks of a node: texts as they are, other values as JSON."""
    given = call.options
    require_stream(store, require_workflow(store, wf), given.stream)
    found = store.read_stream(wf, given.stream, offset=given.offset, follow=not given.once)
    for chunk in found:
        document = followed_chunk(wf, given.stream, chunk)
        if given.jsonl or given.json:
            print(as_json(document))
        elif chunk.kind != "chunk":
            what = "the node was called again" if chunk.kind == "restart" else "earlier chunks are gone"
            print(f"\n-- {what} --")
        elif isinstance(chunk.value, str):
            print(escape_lines(chunk.value), end="")
        else:
            print(as_json(document["value"]))
        sys.stdout.flush()
    is_read = given.jsonl or given.json
    if not is_read:
        print()
    if not found.is_abandoned:
        return Reply({"items": []})
    if is_read:
        return Reply({"items": []}, code=1)
    left = workflow(store, wf)
    return Reply(left, header=header_of(left), next=[suggested("show", wf)], code=1)


def escape_lines(text: str) -> str:
    """Return a text for a terminal, with its line breaks."""
    return "\n".join(escape(line) for line in text.split("\n"))


def _as_line(news: FollowedStep | FollowedItem | FollowedProgress) -> None:
    print(as_json(news))


def _as_text(news: FollowedStep | FollowedItem | FollowedProgress) -> None:
    if "done" in news:
        parts = [" " * 6, *progress_parts(news)]
    else:
        parts = _step_parts(news) if "index" in news else _item_parts(news)
    print("  ".join(escape(part) for part in parts if part))


def _step_parts(step: Any) -> list[str]:
    return [f"{step['index']:>6}", step["node"], step_time(step), step_status(step), decision(step)]


def _item_parts(item: Any) -> list[str]:
    key = "" if item["key"] is None else shortened(item["key"], KEY)
    return [f"item {item['item']:>4}", key, duration(item["duration_ms"]), status(item["status"])]


def _nothing(news: FollowedStep | FollowedItem | FollowedProgress) -> None:
    """Print nothing: --json prints one document at the end."""
