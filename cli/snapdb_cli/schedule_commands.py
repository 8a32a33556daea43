"""`snapdb schedule`: what its commands take and say of themselves; what they do is in `schedule`."""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from .command_parts import database, examples, module, quiet
from .diagnostics import Diagnostics
from .given import FORMATS, check_look

_name = click.argument("name", metavar="NAME")
_any_name = click.argument("name", metavar="[NAME]", required=False)
_format = click.option(
    "--format", type=click.Choice(FORMATS), default="table", show_default=True, help="How the list looks."
)


@click.group(
    "schedule",
    epilog=examples(
        "snapdb schedule run shop.snapdb              fire its tasks until stopped",
        "snapdb schedule history shop.snapdb nightly  how its runs ended",
    ),
)
def schedule() -> None:
    """Run tasks by the clock, and look after them.

    Tasks are made by CREATE TASK.
    """


@schedule.command(
    "run",
    epilog=examples(
        "snapdb schedule run shop.snapdb", "snapdb schedule run shop.snapdb --log-format json 2>> tasks.jsonl"
    ),
)
@database
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="So many tasks may run at once, each in a process of its own.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0, 86400),
    default=8.0,
    show_default=True,
    help="When it is asked to end, runs that go on have so long to finish; then they are rolled back.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How stderr is written.",
)
@click.pass_context
def _run(ctx: click.Context, database: Path, jobs: int, grace: float, log_format: str) -> None:
    """Fire the tasks of DB until SIGTERM or Ctrl-C.

    Stays in the foreground and tells what happens on stderr, a line an event. Of several for one database one leads;
    the others wait, and one of them takes over within ten seconds when it is gone. Exit code 0 after SIGTERM, 130
    after Ctrl-C.
    """
    # Alone, without what only its workers need: a fifth of the memory
    daemon = importlib.import_module("snapdb.daemon")
    ctx.exit(daemon.serve(database, jobs=jobs, grace=grace, log_format=log_format))


@schedule.command("list", epilog=examples("snapdb schedule list shop.snapdb --format json"))
@database
@_format
@click.pass_context
def _list(ctx: click.Context, database: Path, format: str) -> None:  # noqa: A002  # the option's name
    """List the tasks of DB: when each runs next, and how its last run ended."""
    check_look(format, None, None, True, None)
    ctx.exit(module("schedule").tasks(database, format, Diagnostics()))


@schedule.command(
    "history",
    epilog=examples(
        "snapdb schedule history shop.snapdb",
        "snapdb schedule history shop.snapdb nightly --failed --log --format jsonl",
    ),
)
@database
@_any_name
@click.option("--last", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="So many of them.")
@click.option("--failed", is_flag=True, help="Only runs that failed, were stopped or missed.")
@click.option("--log", is_flag=True, help="Show what each run said, too.")
@_format
@click.pass_context
def _history(
    ctx: click.Context,
    database: Path,
    name: str | None,
    last: int,
    failed: bool,
    log: bool,
    format: str,  # noqa: A002
) -> None:
    """List the last runs of DB's tasks, or of one, the newest last."""
    check_look(format, None, None, True, None)
    ctx.exit(
        module("schedule").history(database, name, module("schedule").Wanted(last, failed, log), format, Diagnostics())
    )


@schedule.command("run-now", epilog=examples("snapdb schedule run-now shop.snapdb nightly"))
@database
@_name
@quiet
@click.pass_context
def _run_now(ctx: click.Context, database: Path, name: str, quiet: bool) -> None:
    """Run a task now, whatever its schedule says, and wait for it.

    Exit code 1 when the run failed, 3 when one goes on already.
    """
    ctx.exit(module("schedule").run_now(database, name, Diagnostics(quiet=quiet)))


@schedule.command(
    "pause", epilog=examples("snapdb schedule pause shop.snapdb", "snapdb schedule pause shop.snapdb nightly")
)
@database
@_any_name
@quiet
@click.pass_context
def _pause(ctx: click.Context, database: Path, name: str | None, quiet: bool) -> None:
    """Suspend a task, or all of DB; a run that goes on is left to finish."""
    ctx.exit(module("schedule").switch(database, name, "SUSPEND", Diagnostics(quiet=quiet)))


@schedule.command("resume", epilog=examples("snapdb schedule resume shop.snapdb nightly"))
@database
@_any_name
@quiet
@click.pass_context
def _resume(ctx: click.Context, database: Path, name: str | None, quiet: bool) -> None:
    """Let a task, or all of DB, run by its schedule again; what came due meanwhile is not made up for."""
    ctx.exit(module("schedule").switch(database, name, "RESUME", Diagnostics(quiet=quiet)))
