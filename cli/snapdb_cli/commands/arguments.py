"""The arguments of the command line as values. Combinations without a meaning are usage errors."""

from __future__ import annotations

import difflib
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_CATALOG = "catalog.sqlite"
"""The file by which a directory is known as a database."""


class DatabasePath(click.Path):
    """A database directory, there or not."""

    name = "database"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """The databases whose path begins so, and the commands where one may stand; else directories to look in."""
        places = [CompletionItem(place) for place in _databases(incomplete)]
        group = ctx.command
        commands: list[CompletionItem[Any]] = []
        if isinstance(group, click.Group):
            known = sorted(group.commands.items())
            commands = [CompletionItem(n, help=c.get_short_help_str()) for n, c in known if n.startswith(incomplete)]
        return [*commands, *places] or [CompletionItem(incomplete, type="dir")]


def _databases(incomplete: str) -> list[str]:
    head, slash, start = incomplete.rpartition("/")
    folder = Path(f"{head}{slash}" or ".").expanduser()
    try:
        names = sorted(p.parent.name for p in folder.glob(f"*/{_CATALOG}"))
    except OSError:
        return []
    return [f"{head}{slash}{name}" for name in names if name.startswith(start)]


# The options of running statements


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that were given; None where the program, or the configuration of the prompt, decides."""

    format: str | None = None
    """The format of results; None: by the suffix of the output."""
    output: Path | None = None
    """Where results go; None: stdout."""
    null: str | None = None
    """What stands for NULL."""
    header: bool = True
    """Whether csv and tsv name their columns."""
    max_rows: int | None = None
    """The most rows of a table that are shown."""
    keep_going: bool = False
    """Whether statements run after one that failed."""
    read_only: bool = False
    folders: tuple[Path, ...] = ()
    """The only folders that statements may read and write; none: all."""
    threads: int | None = None
    """How many threads the database may use; None: all cores."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of the statements' `$name`s."""
    config: bool = True
    """Whether the prompt reads its configuration file."""

    @property
    def opening(self) -> dict[str, Any]:
        """How the database is opened, for `connect`."""
        return {"read_only": self.read_only, "threads": self.threads, "folders": self.folders or None}


# Values and their checks, before anything runs


FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "arrow")
"""Those of output.results, which is not imported to print the help."""

EXPORTS = ("arrow", "parquet", "npz", "safetensors", "pt", "pyg")
"""Those of COPY (SAMPLE …) TO and COPY SNAPSHOT … TO."""

_SUFFIXES = {
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tsv": "tsv",
}
_DRAWN = ("", ".txt", ".log")
"""Suffixes of files in which tables are drawn."""
_WITH_NULL = ("table", "csv", "tsv", "markdown")
_PARAMETER = re.compile(r"(?!\d)\w+")


def format_of(format: str | None, output: Path | None) -> str | None:  # noqa: A002  # the option's name
    """The given format, or that of the output's suffix; None for a table where there is neither.

    Raises:
        UsageError: nothing writes files of this suffix. Without a suffix, and as .txt or .log, tables are text.

    >>> format_of(None, Path("out/report.parquet")), format_of("csv", Path("x.txt")), format_of(None, Path("x.txt"))
    ('parquet', 'csv', None)
    """
    if format is not None or output is None:
        return format
    suffix = output.suffix.lower()
    if suffix in _SUFFIXES or suffix in _DRAWN:
        return _SUFFIXES.get(suffix)
    known = ", ".join(sorted((*_SUFFIXES, *filter(None, _DRAWN))))
    raise click.UsageError(
        f"no format is known by the suffix {output.suffix} of {output}: take one of {known}, "
        f"or say --format {'|'.join(FORMATS)}"
    )


def check_style(
    format: str,  # noqa: A002  # the option's name
    output: Path | None = None,
    null: str | None = None,
    header: bool = True,
    max_rows: int | None = None,
) -> None:
    """Refuse options that the format has no use for, before anything runs."""
    if null is not None and format not in _WITH_NULL:
        raise click.UsageError(f"--null is for {', '.join(_WITH_NULL)}; {format} has a NULL of its own")
    if null is not None and re.search('[,\t"\r\n]', null):
        raise click.UsageError("--null holds no comma, tab, quote or line end")
    if not header and format not in ("csv", "tsv"):
        raise click.UsageError(f"--no-header is for csv and tsv, not {format}")
    if max_rows is not None and format != "table":
        raise click.UsageError(
            f"--max-rows cuts tables, and {format} is never cut; write LIMIT {max_rows} in the query"
        )
    if format in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{format} is for programs and stdout is a terminal; add -o FILE, or > FILE")


def check_prompt(output: Path | None, header: bool) -> None:
    """Refuse options that a prompt has commands for."""
    if output is not None:
        raise click.UsageError("-o is for the statements of -c, -f and stdin; at the prompt \\o FILE does that")
    if not header:
        raise click.UsageError("--no-header is for the statements of -c, -f and stdin")


def parameters(given: Iterable[str]) -> dict[str, str]:
    """The `name=value`s by name, as they were written."""
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.removeprefix("$")
        if not equals or not _PARAMETER.fullmatch(name):
            raise click.UsageError(f"--param takes name=value, found {text!r}")
        if name in values:
            raise click.UsageError(f"--param {name} was given twice")
        values[name] = _unescaped(value)
    return values


def check_parameters(given: Mapping[str, object], marks: Iterable[str]) -> None:
    """Refuse a script that names a parameter without a value, and a value that no statement names."""
    named = list(dict.fromkeys(marks))
    for mark in named:
        name = mark.removeprefix("$")
        if not _PARAMETER.fullmatch(name):
            raise click.UsageError(f"{mark} has no value on a command line; write $name, and --param name=value")
        if name not in given:
            raise click.UsageError(f"{mark} has no value; add --param {name}=…{_meant(name, given)}")
    for name in given:
        if f"${name}" not in named:
            hint = f"; they name {', '.join(named)}" if named else "; they have no parameters"
            raise click.UsageError(f"no statement names ${name}, which --param gives{hint}")


def _meant(name: str, given: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(given), n=1)
    return f" (there is {close[0]})" if close else ""


def check_database(ctx: click.Context, database: Path | None, read_only: bool) -> None:
    """Refuse what would surprise: a misspelt or misplaced command must not become a database of that name."""
    if database is None:
        if read_only:
            raise click.UsageError("--read-only needs a database to read", ctx)
        return
    group = ctx.command
    assert isinstance(group, click.Group)
    meant = difflib.get_close_matches(str(database), group.commands, n=1, cutoff=0.75)
    if meant and not database.exists():
        raise click.UsageError(
            f"{str(database)!r} is no database; for the command put {meant[0]!r} first, "
            f"for a new database of that name write ./{database}",
            ctx,
        )


def texts_of(order: Sequence[str], commands: Sequence[str], files: Sequence[Path]) -> list[tuple[str, str | None]]:
    """The texts of -c and -f in the order given, each with its file's name; stdin when there are none."""
    if not commands and not files:
        return [(_read(Path("-")), None)]
    rest: dict[str, Iterator[tuple[str, str | None]]] = {
        "texts": ((_unescaped(text), None) for text in commands),
        "files": ((_read(path), None if str(path) == "-" else str(path)) for path in files),
    }
    return [next(rest[kind]) for kind in order]


def _unescaped(text: str) -> str:
    """An argument as UTF-8 even where the locale is not, as under LC_ALL=C."""
    return _decoded(text.encode("utf-8", "surrogateescape"), "an argument")


def _read(path: Path) -> str:
    if str(path) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    return _decoded(path.read_bytes(), str(path))


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from None


# What the declarations of commands share


database = click.argument("database", metavar="DB", type=DatabasePath())
quiet = click.option("-q", "--quiet", is_flag=True, help="Errors only on stderr.")


def module(name: str) -> Any:
    """A module of this package. Commands import theirs only when they run, so that help stays fast."""
    return importlib.import_module(f"snapdb_cli.{name}")


def examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
