"""Answers of commands that change a store."""

from __future__ import annotations

from typing import TypedDict

from hypergraph.views.step import QuestionView
from hypergraph.views.workflow import SignalView
from hypergraph.views.workflows import WorkflowSummary


class Tags(TypedDict):
    """Tags of a workflow after a change."""

    schema: str  # hypergraph.tags/1
    id: str
    tags: dict[str, str]


class Answered(TypedDict):
    """Answers that were given, and the questions of the workflow after that."""

    schema: str  # hypergraph.answered/1
    id: str
    answered: list[str]  # keys
    questions: list[QuestionView]  # those with an answer too, as long as no run has used it


class Sent(TypedDict):
    """A signal that was sent, and all that wait to be received."""

    schema: str  # hypergraph.sent/1
    id: str
    name: str
    signals: list[SignalView]  # without those that were received


class DevServer(TypedDict):
    """A Postgres server for trying out."""

    schema: str  # hypergraph.dev-postgres/1
    running: bool
    dsn: str | None  # its address while it runs
    folder: str  # of its data


class Deleted(TypedDict):
    """Workflows deleted by id."""

    schema: str  # hypergraph.deleted/1
    ids: list[str]  # as asked for
    deleted: int  # children included


class Cancelled(TypedDict):
    """Runs that were taken from their process and stopped."""

    schema: str  # hypergraph.cancelled/1
    ids: list[str]  # the workflow, and the open runs below it


class Pruned(TypedDict):
    """Workflows deleted by age, or that would be."""

    schema: str  # hypergraph.pruned/1
    ids: list[str]
    dry_run: bool


class Collected(TypedDict):
    """Number of leftovers removed."""

    schema: str  # hypergraph.gc/1
    removed: int


class Written(TypedDict):
    """A file or database that was written."""

    schema: str  # hypergraph.written/1
    file: str  # of a database its address, without the password
    format: str  # sqlite, postgres, json, jsonl or html
    workflows: int | None  # null for the whole store; a copy counts children too


class Forked(TypedDict):
    """A fork that was created and has not run yet."""

    schema: str  # hypergraph.fork/1
    workflow: WorkflowSummary


class Imported(TypedDict):
    """Workflows created by an import."""

    schema: str  # hypergraph.imported/1
    ids: list[str]  # the first is the one that was exported


class DueRun(TypedDict):
    """A run that was due."""

    id: str
    status: str  # of the workflow, or refused
    error: str | None


class DueRuns(TypedDict):
    """Runs that were due, in the order in which they ended."""

    schema: str  # hypergraph.due/1
    items: list[DueRun]


class Enqueued(TypedDict):
    """A run or map that was put into a queue."""

    schema: str  # hypergraph.enqueued/1
    id: str
    status: str  # of DBOS: ENQUEUED, DELAYED, PENDING, SUCCESS, ERROR or CANCELLED


class Changed(TypedDict):
    """A queue or a schedule that was paused or resumed."""

    schema: str  # hypergraph.changed/1
    name: str
    paused: bool
