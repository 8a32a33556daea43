"""The click declarations of `snapdb schedule` and its subcommands."""

import importlib
from pathlib import Path

import click

from snapdb_cli.commands.arguments import call, database, examples, format_option, quiet, token_file
from snapdb_cli.diagnostics import Diagnostics, ExitCode

_name = click.argument("name", metavar="NAME")
_any_name = click.argument("name", metavar="[NAME]", required=False)


@click.group(
    "schedule",
    epilog=examples(
        "snapdb schedule run shop.snapdb              run its tasks until stopped",
        "snapdb schedule history shop.snapdb nightly  list the runs of a task",
    ),
)
def schedule() -> None:
    """Run and manage scheduled tasks.

    CREATE TASK creates a task.
    """


@schedule.command(
    "run",
    epilog=examples(
        "snapdb schedule run shop.snapdb",
        "snapdb schedule run shop.snapdb --log-format json 2>> tasks.jsonl",
        "snapdb schedule run shop.snapdb --metrics 127.0.0.1:9187",
    ),
)
@database
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Maximum number of tasks that run at once, each in its own process.",
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0, 86400),
    default=8.0,
    show_default=True,
    help="Time for active runs to finish on shutdown; after that they are rolled back.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the log on stderr.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus at this address; needs snapdb[ui].")
@token_file(
    "File with the token that /metrics requires; the default is $SNAPDB_METRICS_TOKEN. Without a token, only "
    "loopback addresses are supported."
)
def _run(
    database: Path, jobs: int, grace: float, log_format: str, metrics: str | None, token_file: Path | None
) -> ExitCode:
    """Run the tasks of DB on schedule until SIGTERM or Ctrl-C.

    Stays in the foreground and logs one line per event to stderr. One scheduler per database is the leader; the others
    wait, and one of them takes over within ten seconds after the leader ends. Exit code 0 after SIGTERM, 130 after
    Ctrl-C.
    """
    options = {"jobs": jobs, "grace": grace, "log_format": log_format}
    if metrics is not None:
        return call("commands.metrics.run", database, metrics, token_file, **options)
    if token_file is not None:
        raise click.UsageError("--token-file applies to --metrics; add --metrics 127.0.0.1:9187, or omit it")
    # Workers import DuckDB and numba, but the daemon itself does not, so it needs a fifth of the memory.
    daemon = importlib.import_module("snapdb.daemon")
    return ExitCode(daemon.serve(database, **options))


@schedule.command("list", epilog=examples("snapdb schedule list shop.snapdb --format json"))
@database
@format_option("Output format.")
def _list(database: Path, output_format: str) -> ExitCode:
    """List the tasks of DB with their next run and the result of the last one."""
    return call("commands.schedule.tasks", database, output_format, Diagnostics())


@schedule.command(
    "history",
    epilog=examples(
        "snapdb schedule history shop.snapdb",
        "snapdb schedule history shop.snapdb nightly --failed --log --format jsonl",
    ),
)
@database
@_any_name
@click.option("--last", metavar="N", type=click.IntRange(min=1), default=50, show_default=True, help="Number of runs.")
@click.option("--failed", is_flag=True, help="Only runs that failed, timed out or were missed.")
@click.option("--log", is_flag=True, help="Include the log of each run.")
@format_option("Output format.")
def _history(database: Path, name: str | None, last: int, failed: bool, log: bool, output_format: str) -> ExitCode:
    """List the last runs of the tasks of DB, or of one task, newest last."""
    options = {"last": last, "failed": failed, "log": log, "output_format": output_format}
    return call("commands.schedule.history", database, name, Diagnostics(), **options)


@schedule.command("run-now", epilog=examples("snapdb schedule run-now shop.snapdb nightly"))
@database
@_name
@quiet
def _run_now(database: Path, name: str, quiet: bool) -> ExitCode:
    """Run a task now, outside its schedule, and wait until it ends.

    Exit code 1 if the run failed, 3 if the task is already running.
    """
    return call("commands.schedule.run_now", database, name, Diagnostics(quiet=quiet))


@schedule.command(
    "pause", epilog=examples("snapdb schedule pause shop.snapdb", "snapdb schedule pause shop.snapdb nightly")
)
@database
@_any_name
@quiet
def _pause(database: Path, name: str | None, quiet: bool) -> ExitCode:
    """Suspend a task, or all tasks of DB; active runs finish."""
    return call("commands.schedule.switch", database, name, "SUSPEND", Diagnostics(quiet=quiet))


@schedule.command("resume", epilog=examples("snapdb schedule resume shop.snapdb nightly"))
@database
@_any_name
@quiet
def _resume(database: Path, name: str | None, quiet: bool) -> ExitCode:
    """Resume a task, or all tasks of DB; missed runs are not caught up."""
    return call("commands.schedule.switch", database, name, "RESUME", Diagnostics(quiet=quiet))
