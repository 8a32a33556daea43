"""`snapdb`: what the command line means. Nothing heavy is imported before the statements are known to parse."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from .diagnostics import Diagnostics, ExitCode, worse

__all__ = ["FORMATS", "main"]

FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown")
"""Those of output.py, which must not be imported to print the help."""

_EXAMPLES = """\b
Examples:
  snapdb                                      a prompt on a temporary database
  snapdb shop.snapdb                          a prompt on that database
  snapdb shop.snapdb -c "SHOW SNAPSHOTS"      run a statement
  snapdb shop.snapdb -f load.sql -f report.sql --format csv > report.csv
  echo "SELECT 42 AS answer" | snapdb --format json
  snapdb demo                                 the whole job on generated data
  snapdb check shop.snapdb                    is every file as it was published?
  snapdb upgrade shop.snapdb                  bring it to this version's format

\b
Exit codes: 0 all statements ran, 1 a statement failed, 2 usage, 3 worth a retry (a lock, a lost race),
130 interrupted, 141 the reader of stdout went away.
"""


class _Cli(click.Group):
    """A group whose first word is a command, or else belongs to the options and the database."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All parameters, or none before a command: they are those of running statements."""
        params = super().get_params(ctx)
        return [p for p in params if p.name == "help"] if ctx.meta.get("command") else params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the words; `ctx.meta["order"]` tells how -c and -f alternate, which click forgets."""
        if args and args[0] in self.commands:
            ctx.meta["command"] = True
        else:
            ctx.allow_interspersed_args, ctx.allow_extra_args = True, False
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            ctx.meta["order"] = [p.name for p in order if p.name in ("texts", "files")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and turn whatever goes wrong into a line on stderr and an exit code."""
        _open_what_is_closed()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(ExitCode.PIPE_CLOSED)
        except (Exception, KeyboardInterrupt, click.Abort) as error:
            interrupted = isinstance(error, click.Abort)
            ctx.exit(Diagnostics().report(KeyboardInterrupt() if interrupted else error))


@click.group(
    "snapdb",
    cls=_Cli,
    invoke_without_command=True,
    subcommand_metavar="| COMMAND [ARGS]...",
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("database", metavar="[DB]", required=False, type=click.Path(path_type=Path))
@click.option("-c", "--command", "texts", metavar="SQL", multiple=True, help="Run these statements and leave.")
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path),
    help="Run the statements of a file, - for stdin. -c and -f run in the order given.",
)
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True, help="How results look.")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="stop: run nothing unless all statements can be read, and nothing after one that fails.",
)
@click.option("-q", "--quiet", is_flag=True, help="Errors only on stderr.")
@click.option("--read-only", is_flag=True, help="Never write to the database.")
@click.version_option(package_name="snapdb", message="%(prog)s %(version)s", prog_name="snapdb")
@click.pass_context
def main(ctx: click.Context, /, **given: Any) -> None:
    """A SQL-like database engine for snapshots of graphs that change.

    Runs statements in the database directory DB, made when it is not there; a temporary one without DB.
    Statements come from -c and -f, from stdin when that is no terminal, and else from a prompt.
    """
    if ctx.invoked_subcommand is None:
        ctx.exit(_run(ctx, **given))


@main.command("demo")
@click.argument("database", metavar="[DB]", required=False, type=click.Path(path_type=Path))
def _demo(database: Path | None) -> None:
    """Do the whole job on generated data: load, snapshot, sample, train, compare.

    Works in the new database DB, or in a temporary one.
    """
    _module("demo").run(database, click.echo)


@main.command("check")
@click.argument("database", metavar="DB", type=click.Path(path_type=Path))
@click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True, help="How the list looks.")
@click.option("-q", "--quiet", is_flag=True, help="Errors only on stderr.")
@click.pass_context
def _check(ctx: click.Context, database: Path, format: str, quiet: bool) -> None:  # noqa: A002  # the option's name
    """Compare every file of DB with what was recorded of it.

    Lists what is wrong; exit code 1 when something is damaged. Files that nothing points at are listed too, but are
    no damage: VACUUM removes them.
    """
    ctx.exit(_module("care").check(database, Diagnostics(quiet=quiet), format))


@main.command("upgrade")
@click.argument("database", metavar="DB", type=click.Path(path_type=Path))
@click.pass_context
def _upgrade(ctx: click.Context, database: Path) -> None:
    """Bring DB, of an older snapdb, to this one's format.

    The old catalog is kept beside the new one.
    """
    ctx.exit(_module("care").upgrade(database, Diagnostics()))


def _run(
    ctx: click.Context,
    *,
    database: Path | None,
    texts: Sequence[str],
    files: Sequence[Path],
    format: str,  # noqa: A002  # the option's name
    on_error: str,
    quiet: bool,
    read_only: bool,
) -> ExitCode:
    _check_database(ctx, database, read_only)
    diagnostics = Diagnostics(quiet=quiet)
    options: dict[str, Any] = {"format": format, "read_only": read_only, "keep_going": on_error == "continue"}
    if not texts and not files and sys.stdin.isatty():
        return ExitCode(_module("repl").run(database, diagnostics, **options))
    scripts = _module("scripts")
    given = [scripts.Script(*text) for text in _texts(ctx, texts, files)]
    code: ExitCode
    found, code = scripts.steps(given, diagnostics, keep_going=options["keep_going"])
    if code is not ExitCode.OK and on_error == "stop":
        return code
    return worse(code, _module("batch").run(database, found, diagnostics, **options))


def _check_database(ctx: click.Context, database: Path | None, read_only: bool) -> None:
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


def _texts(ctx: click.Context, texts: Sequence[str], files: Sequence[Path]) -> list[tuple[str, str | None]]:
    """The texts of -c and -f in the order given, each with its file's name; stdin when there are none."""
    if not texts and not files:
        return [(_read(Path("-")), None)]
    rest: dict[str, Iterator[tuple[str, str | None]]] = {
        "texts": ((_unescaped(text), None) for text in texts),
        "files": ((_read(path), None if str(path) == "-" else str(path)) for path in files),
    }
    return [next(rest[kind]) for kind in ctx.meta["order"]]


def _unescaped(text: str) -> str:
    """An argument as UTF-8 even where the locale is not, as under LC_ALL=C."""
    return _decoded(text.encode("utf-8", "surrogateescape"), "the text of -c")


def _read(path: Path) -> str:
    if str(path) == "-":
        return _decoded(sys.stdin.buffer.read(), "stdin")
    return _decoded(path.read_bytes(), str(path))


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


def _open_what_is_closed() -> None:
    """Let a stream that the caller closed (`>&-`) lead nowhere, as Python's own print does."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _forget_stdout() -> None:
    """Let what is still buffered go nowhere, so that Python's own flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
