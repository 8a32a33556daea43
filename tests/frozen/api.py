"""Names that programs and people use: of Python, the command line, its environment, errors and the language."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import click
import pexpect
from click.testing import CliRunner

import snapdb
import snapdb.lightning
import snapdb.notebook
import snapdb.pyg
import snapdb.train
from snapdb_cli.main import main
from tests.frozen import cases, catalog, world
from tests.frozen.prints import normal

PATIENCE = 600.0
"""Seconds after which a prompt is not coming."""
PACKAGES: tuple[ModuleType, ...] = (snapdb, snapdb.pyg, snapdb.train, snapdb.lightning, snapdb.notebook)
"""What docs import."""
INTERNAL = {
    "Database": {"__init__", "plan", "reading", "run"},
    "BatchStream": {"__init__"},
    "Batch": {"__init__"},
    "BatchFolder": {"__init__"},
    "WalkBatch": {"__init__", "__getattr__"},
    "Result": {"__init__"},
}
"""Methods that are not for users: of what is made by other public functions, and what takes parsed statements."""
OWN = ("__init__", "__call__", "__getitem__", "__iter__", "__len__", "__enter__", "__exit__", "__arrow_c_stream__")


def signatures() -> str:
    """Every public name, with parameters and defaults; annotations name types of the inside and are left out."""
    lines = []
    for package in PACKAGES:
        lines.append(f"## {package.__name__}")
        names = getattr(package, "__all__", None) or [
            name
            for name, one in vars(package).items()
            if not name.startswith("_") and getattr(one, "__module__", None) == package.__name__
        ]
        for name in sorted(set(names) | {"load_ipython_extension"} if package is snapdb.notebook else names):
            lines += _described(name, getattr(package, name))
        lines.append("")
    lines += [f"dir(snapdb): {', '.join(dir(snapdb))}", ""]
    return "\n".join(lines)


def _described(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_parameters(value)}" if callable(value) else f"{name} {type(value).__name__}"
        return
    yield f"class {name}({', '.join(base.__name__ for base in value.__bases__ if base is not object)})"
    hidden = INTERNAL.get(name, set())
    foreign = {one for base in value.__mro__ if not base.__module__.startswith("snapdb") for one in vars(base)}
    own = {one for base in value.__mro__ if base.__module__.startswith("snapdb") for one in vars(base)}
    if is_dataclass(value):
        yield f"  fields {', '.join(field.name for field in fields(value) if not field.name.startswith('_'))}"
    for member in sorted(own - hidden):
        if (member.startswith("_") and member not in OWN) or (
            member in foreign and member not in OWN and not _of_ours(value, member)
        ):
            continue
        one = inspect.getattr_static(value, member)
        match one:
            case property():
                yield f"  .{member} property"
            case classmethod() | staticmethod():
                yield f"  .{member}{_parameters(one.__func__)} {type(one).__name__}"
            case _ if callable(one):
                yield f"  .{member}{_parameters(one)}"
            case _:
                yield f"  .{member}"


def _of_ours(value: type, member: str) -> bool:
    """Whether a class of snapdb's defines it over one of a library's."""
    return next(base for base in value.__mro__ if member in vars(base)).__module__.startswith("snapdb")


def _parameters(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    said = [str(p if _is_plain(p.default) else p.replace(default=Ellipsis)) for p in plain]
    marks = []
    for number, p in enumerate(plain):
        if p.kind is p.KEYWORD_ONLY and not any(q.kind in (q.KEYWORD_ONLY, q.VAR_POSITIONAL) for q in plain[:number]):
            marks.append("*")
        marks.append(said[number])
        if p.kind is p.POSITIONAL_ONLY and (number + 1 == len(plain) or plain[number + 1].kind is not p.kind):
            marks.append("/")
    return f"({', '.join(marks)})"


def _is_plain(value: Any) -> bool:
    return (
        value is inspect.Parameter.empty or isinstance(value, int | float | str | bool | tuple | Enum) or value is None
    )


def helps() -> str:
    """`--help` of every command, 100 columns wide."""
    lines = []
    for words in _commands((), main):
        done = CliRunner().invoke(
            main, [*words, "--help"], terminal_width=100, max_content_width=100, prog_name="snapdb"
        )
        lines += [f"## snapdb {' '.join(words)}".rstrip(), f"exit code {done.exit_code}", done.stdout]
    done = CliRunner().invoke(main, ["--version"], prog_name="snapdb")
    return normal("\n".join([*lines, "## snapdb --version", done.stdout]))


def _commands(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _commands((*words, name), command.commands[name])


def errors() -> str:
    """The tree of errors, and every code with its class."""
    kinds = [getattr(snapdb, name) for name in snapdb.__all__]
    lines = [
        f"{kind.__name__}({', '.join(base.__name__ for base in kind.__bases__)}) {getattr(kind, 'code', '')}".rstrip()
        for kind in kinds
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    with snapdb.connect() as db:
        rows = db.execute("SELECT code, kind FROM snapdb.errors ORDER BY code").fetchall()
    return "\n".join([*lines, *(f"{code} {kind}" for code, kind in rows)]) + "\n"


def environment() -> str:
    """Names of variables that the sources mention, and of the prompt's settings."""
    found: set[str] = set()
    for package in ("snapdb", "snapdb_cli", "snapdb_grammar", "snapdb_ui"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for place in spec.submodule_search_locations or ():
            for source in Path(place).rglob("*.py"):
                found.update(re.findall(r"\bSNAPDB_[A-Z_]+\b", source.read_text("utf-8")))
    found -= {"SNAPDB_RECORD"}
    return "\n".join(sorted(found)) + "\n"


def prompt() -> str:
    """The settings of the prompt with their defaults, and its commands, as it lists them itself."""
    with TemporaryDirectory() as db_dir:
        own = {"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "140", "LINES": "500"}
        own |= {"HOME": db_dir, "XDG_CONFIG_HOME": db_dir, "XDG_STATE_HOME": db_dir}
        words = ["-m", "snapdb_cli", "--no-config"]
        child = pexpect.spawn(
            sys.executable, words, env=os.environ | own, encoding="utf-8", dimensions=(500, 140), timeout=PATIENCE
        )
        pages = []
        child.expect_exact("snapdb> ")
        for command in (r"\set", r"\?"):
            child.sendline(command)
            child.expect_exact("snapdb> ")
            pages += [f"## {command}", *(line.rstrip() for line in child.before.splitlines()[1:] if line.strip()), ""]
        child.sendline(r"\q")
        child.expect(pexpect.EOF)
    return "\n".join(pages)


def texts() -> str:
    """Statements as `format_sql` spells them."""
    scripts = [world.WEB, world.SHOP, world.TOWN, world.THINGS, catalog.LISTS, catalog.ROWS, catalog.PLANS]
    lines = [snapdb.format_sql(text) for text in scripts]
    samples = [
        text.replace("{snapshot}", "s")
        for group in cases.GROUPS.values()
        for text in cases.few(group.statements, 29).values()
    ]
    return "\n\n".join([*lines, *map(snapdb.format_sql, samples)]) + "\n"
