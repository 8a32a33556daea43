"""`snapdb`, the command line. Heavy libraries are imported only after the statements are parsed."""

import contextlib
import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .commands.arguments import FORMATS, DatabasePath, Settings, Url, call, check_style, format_of, module, quiet
from .commands.declarations import COMMANDS
from .diagnostics import Diagnostics, ExitCode, Terminated, terminable, worse

_EXAMPLES = """\b
Examples:
  snapdb                                      a prompt on a temporary database
  snapdb shop.snapdb                          a prompt on that database, created if it does not exist
  snapdb shop.snapdb -c "SHOW SNAPSHOTS"      run a statement
  snapdb shop.snapdb -f load.sql -f report.sql --format csv > report.csv
  snapdb shop.snapdb -o q3.parquet -c "SELECT * FROM q3.bought"
  snapdb shop.snapdb --param day=2026-07-01 -c "SELECT count(*) FROM bought WHERE ts >= $day"
  echo "SELECT 42 AS answer" | snapdb --format json
  snapdb demo                                 an example on generated data
  snapdb export shop.snapdb june --to out     export a snapshot, or batches of a sampler
  snapdb schedule run shop.snapdb             run its tasks on schedule until stopped
  snapdb check shop.snapdb                    check all files against their checksums
  snapdb doctor shop.snapdb                   versions, devices and database for a bug report
  snapdb replay lineage.json --batch 17       replay a batch from its lineage

\b
Exit codes: 0 all statements ran, 1 a statement failed, 2 usage, 3 retryable (lock, conflict or timeout),
130 interrupted, 141 the reader of stdout closed it, 143 terminated, 129 the terminal was closed.
"""


class _Cli(click.Group):
    """A group that accepts either a command and its arguments, or options and a database."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters, or only --help before a command, because the others apply only to statements."""
        params = super().get_params(ctx)
        return [p for p in params if p.name == "help"] if ctx.meta.get("command") else params

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. `ctx.meta["order"]` records the order of -c and -f, which click discards."""
        if args and args[0] in self.commands:
            ctx.meta["command"] = True
        else:
            ctx.allow_interspersed_args, ctx.allow_extra_args = True, False
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            ctx.meta["order"] = [p.name for p in order if p.name in ("texts", "files")]
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run as a program. Errors raised while the help is written are handled like all other errors."""
        try:
            try:
                return super().main(*args, **options)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # Python's own flush at exit would end with code 120
        except OSError as error:
            _forget_stdout()
            sys.exit(Diagnostics().report(error))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and convert any exception to a line on stderr and an exit code."""
        _open_what_is_closed()
        try:
            with terminable(), Diagnostics().hears_warnings():
                ctx.exit(super().invoke(ctx) or ExitCode.OK)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Terminated:
            Diagnostics().say("terminated")
            raise
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(ExitCode.PIPE_CLOSED)
        except (Exception, KeyboardInterrupt, click.Abort) as error:
            interrupted = isinstance(error, click.Abort)
            ctx.exit(Diagnostics().report(KeyboardInterrupt() if interrupted else error))


_format = click.option(
    "--format", type=click.Choice(FORMATS), help="Output format.  [default: inferred from -o, otherwise table]"
)


@click.group(
    "snapdb",
    cls=_Cli,
    invoke_without_command=True,
    subcommand_metavar="| COMMAND [ARGS]...",
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("database", metavar="[DB]", required=False, type=DatabasePath())
@click.option("-c", "--command", "texts", metavar="SQL", multiple=True, help="Run these statements and exit.")
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path),
    help="Run the statements of a file, - for stdin. -c and -f run in the order given.",
)
@click.option(
    "--param",
    "given",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of $NAME: a number, true, false, null or 'text' as in SQL; any other value is text.",
)
@_format
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write results to FILE, which is replaced only if all statements succeed.",
)
@click.option("--null", metavar="TEXT", help="Text for NULL in table, csv, tsv and markdown.")
@click.option("--no-header", "header", flag_value=False, default=True, help="Omit the header line of csv and tsv.")
@click.option(
    "--max-rows",
    metavar="N",
    type=click.IntRange(min=1),
    help="Show at most N rows of a table, and the number of all rows.",
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="stop: parse all statements before the first runs, and stop at the first error.",
)
@click.option("--read-only", is_flag=True, help="Open the database read-only; COPY … TO still writes files elsewhere.")
@click.option(
    "--folder",
    "folders",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Restrict access of statements to this directory or file, and the database; may be repeated.",
)
@click.option("--threads", metavar="N", type=click.IntRange(min=1), help="Number of threads.  [default: all cores]")
@quiet
@click.option("--no-config", "config", flag_value=False, default=True, help="Do not read the prompt's configuration.")
@click.version_option(package_name="snapdb", message="%(prog)s %(version)s", prog_name="snapdb")
@click.pass_context
def main(ctx: click.Context, /, **given: Any) -> ExitCode | None:
    """A SQL-like database engine for snapshots of graphs that change.

    Runs statements in the database directory DB, or in a temporary database. If DB does not exist, the first statement
    that writes creates it, and a statement that only reads fails. Statements are read from -c and -f, from stdin if it
    is not a terminal, or else from a prompt.
    """
    return _run(ctx, **given) if ctx.invoked_subcommand is None else None


for command in COMMANDS:
    main.add_command(command)


def _run(
    ctx: click.Context,
    *,
    database: Path | Url | None,
    texts: Sequence[str],
    files: Sequence[Path],
    given: Sequence[str],
    on_error: str,
    quiet: bool,
    **options: Any,
) -> ExitCode:
    """Run the given statements, or a prompt if there are none."""
    _check_database(ctx, database, options["read_only"])
    options["read_only"] = options["read_only"] or isinstance(database, Url)
    diagnostics = Diagnostics(quiet=quiet)
    scripts = module("scripts")
    values = scripts.parameters(given)
    options["format"] = format_of(options["format"], options["output"])
    settings = Settings(**options, keep_going=on_error == "continue", parameters=values)
    if not texts and not files and sys.stdin.isatty():
        _check_prompt(settings.output, settings.header)
        return call("repl.opening.run", database, diagnostics, settings)
    check_style(settings.format or "table", settings.output, settings.null, settings.header, settings.max_rows)
    code: ExitCode
    given_texts = scripts.texts_of(ctx.meta["order"], texts, files)
    steps, code = scripts.steps(given_texts, diagnostics, keep_going=settings.keep_going)
    if code is not ExitCode.OK and not settings.keep_going:
        return code
    scripts.check_parameters(values, steps)
    return worse(code, call("commands.batch.run", database, steps, diagnostics, settings))


def _check_database(ctx: click.Context, database: Path | Url | None, read_only: bool) -> None:
    """Raise UsageError for likely mistakes, because a misspelt or misplaced command must not create a database."""
    if database is None:
        if read_only:
            raise click.UsageError("--read-only requires a database", ctx)
        return
    if isinstance(database, Url):
        return
    group = ctx.command
    assert isinstance(group, click.Group)
    meant = difflib.get_close_matches(str(database), group.commands, n=1, cutoff=0.75)
    if meant and not database.exists():
        raise click.UsageError(
            f"{str(database)!r} is not a database; to run the command, write {meant[0]!r} first; to create a "
            f"database of that name, write ./{database}",
            ctx,
        )


def _check_prompt(output: Path | None, header: bool) -> None:
    """Raise UsageError for options that the prompt replaces with commands."""
    if output is not None:
        raise click.UsageError("-o requires statements from -c, -f or stdin; at the prompt, write \\o FILE")
    if not header:
        raise click.UsageError("--no-header requires statements from -c, -f or stdin")


def _open_what_is_closed() -> None:
    """Redirect a stream that the caller closed (`>&-`) to the null device, because print ignores closed streams too."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _forget_stdout() -> None:
    """Discard buffered output, so that Python's flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
