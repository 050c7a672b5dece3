"""JSON schemas of all answers.

Each answer names its schema, as in "hypergraph.steps/1". As long as the number stays, fields are added but
never changed or removed.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hypergraph.display import did_you_mean
from hypergraph.views.check import CheckView
from hypergraph.views.cluster import QueuePage, SchedulePage, SubmittedPage, WorkerPage
from hypergraph.views.content import ContentView
from hypergraph.views.database import DatabaseView, MigratedView, RecoveredView
from hypergraph.views.diff import ChangesView, DiffView
from hypergraph.views.doctor import HealthView, VersionView
from hypergraph.views.errors import ErrorPage, FailurePage
from hypergraph.views.graph import GraphView
from hypergraph.views.items import ItemPage
from hypergraph.views.lineage import LineageView
from hypergraph.views.migration import MigrationView
from hypergraph.views.problems import NOT_FOUND, Problem
from hypergraph.views.profile import ProfileView
from hypergraph.views.replay import ReplayView
from hypergraph.views.row_details import CountsView, RowDetailsPage
from hypergraph.views.run import RunView
from hypergraph.views.search import SearchPage
from hypergraph.views.sql import Rows
from hypergraph.views.state import SavedValue, StateView
from hypergraph.views.stats import StatsView
from hypergraph.views.step import StepDetail
from hypergraph.views.steps import ColumnsView, StepPage
from hypergraph.views.texts import CompletionScript, DemoRun, HelpText, SchemaList, SkillText, Stopped
from hypergraph.views.timeline import TimelineView
from hypergraph.views.values import ValueView
from hypergraph.views.watch import (
    FollowedChunk,
    FollowedItem,
    FollowedProgress,
    FollowedStep,
    RunningView,
    StreamPage,
)
from hypergraph.views.why import WhyView
from hypergraph.views.workflow import TreeView, WorkflowDetail
from hypergraph.views.workflows import WorkflowPage
from hypergraph.views.writes import (
    Answered,
    Cancelled,
    Changed,
    Collected,
    Deleted,
    DevServer,
    DueRuns,
    Enqueued,
    Forked,
    Imported,
    Pruned,
    Sent,
    Tags,
    Written,
)

VERSION = 1  # of all documents so far

SCHEMAS: dict[str, type] = {
    "workflows": WorkflowPage,
    "workflow": WorkflowDetail,
    "tree": TreeView,
    "items": ItemPage,
    "steps": StepPage,
    "step": StepDetail,
    "columns": ColumnsView,
    "row_details": RowDetailsPage,
    "running": RunningView,
    "counts": CountsView,
    "state": StateView,
    "value": ValueView,
    "content": ContentView,
    "saved-value": SavedValue,
    "errors": ErrorPage,
    "failures": FailurePage,
    "search": SearchPage,
    "followed-step": FollowedStep,
    "followed-item": FollowedItem,
    "followed-progress": FollowedProgress,
    "followed-chunk": FollowedChunk,
    "stream": StreamPage,
    "diff": DiffView,
    "changes": ChangesView,
    "why": WhyView,
    "stats": StatsView,
    "profile": ProfileView,
    "timeline": TimelineView,
    "lineage": LineageView,
    "graph": GraphView,
    "run": RunView,
    "fork": Forked,
    "answered": Answered,
    "sent": Sent,
    "dev-postgres": DevServer,
    "tags": Tags,
    "cancelled": Cancelled,
    "deleted": Deleted,
    "due": DueRuns,
    "pruned": Pruned,
    "gc": Collected,
    "written": Written,
    "imported": Imported,
    "sql": Rows,
    "database": DatabaseView,
    "check": CheckView,
    "migrated": MigratedView,
    "recovered": RecoveredView,
    "replay": ReplayView,
    "migration": MigrationView,
    "doctor": HealthView,
    "version": VersionView,
    "demo": DemoRun,
    "help": HelpText,
    "skill": SkillText,
    "completion": CompletionScript,
    "schemas": SchemaList,
    "stopped": Stopped,
    "queues": QueuePage,
    "workers": WorkerPage,
    "schedules": SchedulePage,
    "submitted": SubmittedPage,
    "enqueued": Enqueued,
    "changed": Changed,
}


def full_name(name: str) -> str:
    """Return the value of `schema` in a document."""
    return f"hypergraph.{name}/{VERSION}"


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a document by its name: "steps", or "hypergraph.steps/1".

    Raises:
        Problem: there is no document of that name.
    """
    short = re.sub(rf"^hypergraph\.(.*)/{VERSION}$", r"\1", name)
    if short not in SCHEMAS:
        hint = did_you_mean(short, SCHEMAS) or f"Documents: {', '.join(SCHEMAS)}"
        raise Problem(NOT_FOUND, f"Unknown document: {name!r}", hint)
    found = msgspec.json.schema(SCHEMAS[short])
    title = SCHEMAS[short].__name__
    found["$defs"][title]["properties"]["schema"] = {"const": full_name(short)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": full_name(short), **found}
