"""The command-line reference as Markdown, generated from click's commands and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click


def reference(group: click.Group) -> str:
    """Return a section for the program and for each command: usage, description, options, examples."""
    named = _commands(str(group.name), group)
    return "\n".join("\n".join(_section(name, command, group.context_settings)) for name, command in named)


def _commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command with its full name, then its subcommands."""
    yield name, command
    if isinstance(command, click.Group):
        for inner, each in sorted(command.commands.items()):
            yield from _commands(f"{name} {inner}", each)


def _section(name: str, command: click.Command, settings: Mapping[str, Any]) -> Iterator[str]:
    context = click.Context(command, info_name=name, **settings)
    yield f"### {name}\n"
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield from (f"{_unwrapped(part)}\n" for part in (command.help or "").split("\n\n"))
    yield "| option | |"
    yield "|---|---|"
    for param in command.get_params(context):
        option, text = param.get_help_record(context) or ("", "")
        if text:
            yield f"| `{_escaped(option)}` | {_escaped(_unwrapped(text))} |"
    for part in (command.epilog or "").split("\n\n"):
        title, _, lines = part.strip().removeprefix("\b\n").partition("\n")
        if title == "Examples:":
            yield f"\n```text\n{_dedented(lines)}\n```\n"


def _unwrapped(text: str) -> str:
    return " ".join(text.split())


def _dedented(lines: str) -> str:
    return "\n".join(line.removeprefix("  ").rstrip() for line in lines.splitlines())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
