"""`hypergraph help`: the help of a command."""

from __future__ import annotations

from hypergraph.cli.arguments import Option
from hypergraph.cli.call import Call, Reply
from hypergraph.cli.main import command_of, manual, options_of, overview
from hypergraph.views.texts import HelpText

help_options = (Option("COMMAND", "the command; default: list all commands", many=True),)


def help(call: Call) -> Reply:
    """Show the help of a command."""
    words = call.options.command
    name = command_of(words)[0] if words else None
    text = overview() if name is None else manual(name, options_of(name))
    if not (call.options.json or call.options.jsonl):
        print(text)
    document: HelpText = {"schema": "hypergraph.help/1", "text": text}
    return Reply(document)
