"""Command-line arguments as Python values. Meaningless combinations are usage errors."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

import click
from click.shell_completion import CompletionItem

from snapdb.remote import attach, cache_dir, is_url
from snapdb_cli.diagnostics import ExitCode

if TYPE_CHECKING:
    from snapdb.sql.queries import Value

_CATALOG = "catalog.sqlite"
"""The file that identifies a directory as a database."""


class Url(str):
    """The URL of a published database, which is attached when a command uses it."""


class DatabasePath(click.Path):
    """The path of a database directory, which does not have to exist, or the URL of a published database."""

    name = "database"

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or a URL, of which a path would lose a slash."""
        return Url(value) if is_url(value) else super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """Return the commands and database paths that start with the text, or directories if there are none."""
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


class _ConnectOptions(TypedDict, total=False):
    """The keyword arguments of `connect`."""

    read_only: bool
    threads: int | None
    folders: tuple[Path, ...] | None
    variables: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """The given options. None selects the default of the program or of the prompt's configuration."""

    format: str | None = None
    """The result format, or None to infer it from the output file's extension."""
    output: Path | None = None
    """The output file, or None for stdout."""
    null: str | None = None
    """The text for NULL."""
    header: bool = True
    """Whether CSV and TSV output has a header."""
    max_rows: int | None = None
    """The maximum number of table rows to show."""
    keep_going: bool = False
    """Whether to continue after a failed statement."""
    read_only: bool = False
    folders: tuple[Path, ...] = ()
    """The only directories that statements may read and write, or empty for all."""
    threads: int | None = None
    """The maximum number of database threads, or None for one per core."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """The values of the `$name` parameters of the statements."""
    config: bool = True
    """Whether the prompt reads its configuration file."""

    @property
    def opening(self) -> _ConnectOptions:
        """The keyword arguments for opening the database."""
        folders = self.folders or None
        return {"read_only": self.read_only, "threads": self.threads, "folders": folders, "variables": False}


FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "arrow", "xlsx")
"""The formats of `output`, repeated here so that printing the help does not import that module."""

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
    ".xlsx": "xlsx",
}
_DRAWN = ("", ".txt", ".log")
"""The file extensions of tables that are drawn as text."""
_WITH_NULL = ("table", "csv", "tsv", "markdown")


def format_of(format: str | None, output: Path | None) -> str | None:  # noqa: A002  # the option's name
    """Return the given format, or the one implied by the output file's extension, or None for a table.

    Files without an extension, and .txt and .log files, receive tables drawn as text.

    Raises:
        UsageError: No format has this extension.

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
        f"unknown file extension {output.suffix} of {output}; use one of {known}, or pass --format {'|'.join(FORMATS)}"
    )


def check_style(
    format: str,  # noqa: A002  # the option's name
    output: Path | None = None,
    null: str | None = None,
    header: bool = True,
    max_rows: int | None = None,
) -> None:
    """Raise UsageError for options that the format does not support, before anything runs."""
    if null is not None and format not in _WITH_NULL:
        raise click.UsageError(
            f"--null is supported only for {', '.join(_WITH_NULL)}, but {format} has its own representation of NULL"
        )
    if null is not None and re.search('[,\t"\r\n]', null):
        raise click.UsageError("--null must not contain a comma, tab, quote or line end")
    if not header and format not in ("csv", "tsv"):
        raise click.UsageError(f"--no-header is supported only for csv and tsv, not for {format}")
    if max_rows is not None and format != "table":
        raise click.UsageError(
            f"--max-rows is supported only for tables, not for {format}; add LIMIT {max_rows} to the query"
        )
    if format in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{format} is a binary format, and stdout is a terminal; add -o FILE, or > FILE")


database = click.argument("database", metavar="DB", type=DatabasePath())
quiet = click.option("-q", "--quiet", is_flag=True, help="Write only errors to stderr.")


def _checked_format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    check_style(value)
    return value


def format_option(text: str) -> Callable[[Callable[..., ExitCode]], Callable[..., ExitCode]]:
    """Return the --format option with the given help text."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        callback=_checked_format,
        help=text,
    )


def token_file(text: str) -> Callable[[Callable[..., ExitCode]], Callable[..., ExitCode]]:
    """Return the --token-file option with the given help text."""
    return click.option(
        "--token-file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path), help=text
    )


def module(name: str) -> ModuleType:
    """Import a module of this package. Commands import their modules only when they run, which keeps the help fast."""
    return importlib.import_module(f"snapdb_cli.{name}")


def call(function: str, *args: object, **options: object) -> ExitCode:
    """Call a function in this package, such as `commands.export.run`, after importing its module.

    The URLs of published databases are attached, and passed as paths.
    """
    name, _, attribute = function.rpartition(".")
    run = getattr(module(name), attribute)
    code: ExitCode = run(*(attach(arg, cache_dir()).root if isinstance(arg, Url) else arg for arg in args), **options)
    return code


def examples(*lines: str) -> str:
    """Return the examples section at the end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
