"""Answers of commands that print a text or serve until they are stopped."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class HelpText(TypedDict):
    """The help of a command, or the list of commands."""

    schema: str  # hypergraph.help/1
    text: str


class SkillText(TypedDict):
    """Instructions for coding agents: the text, or the file they were written to."""

    schema: str  # hypergraph.skill/1
    version: str
    text: NotRequired[str]
    file: NotRequired[str]


class CompletionScript(TypedDict):
    """A script that completes commands in a shell."""

    schema: str  # hypergraph.completion/1
    shell: str  # bash, zsh or fish
    script: str


class DemoRun(TypedDict):
    """The demo that was run."""

    schema: str  # hypergraph.demo/1
    file: str  # the database it left


class SchemaList(TypedDict):
    """The names of all documents."""

    schema: str  # hypergraph.schemas/1
    items: list[str]


class Stopped(TypedDict):
    """A server or a worker that was stopped."""

    schema: str  # hypergraph.stopped/1
    executor_id: NotRequired[str]  # of a worker
