"""The subcommands as click declares them. Each imports its implementation only when it runs, and returns its code."""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

from snapdb_cli.commands.arguments import FORMATS, DatabasePath, call, check_style, database, examples, module, quiet
from snapdb_cli.diagnostics import Diagnostics, ExitCode

_EXPORTS = ("arrow", "parquet", "npz", "safetensors", "pt", "pyg")
"""Those of COPY (SAMPLE …) TO and COPY SNAPSHOT … TO."""

_name = click.argument("name", metavar="NAME")
_any_name = click.argument("name", metavar="[NAME]", required=False)


def _checked_format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    check_style(value)
    return value


def _format(text: str) -> Callable[[Callable[..., ExitCode]], Callable[..., ExitCode]]:
    """The option --format with a help text."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        callback=_checked_format,
        help=text,
    )


@click.group(
    "schedule",
    epilog=examples(
        "snapdb schedule run shop.snapdb              fire its tasks until stopped",
        "snapdb schedule history shop.snapdb nightly  how its runs ended",
    ),
)
def _schedule() -> None:
    """Run tasks by the clock, and look after them.

    Tasks are made by CREATE TASK.
    """


@_schedule.command(
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
def _run(database: Path, jobs: int, grace: float, log_format: str) -> ExitCode:
    """Fire the tasks of DB until SIGTERM or Ctrl-C.

    Stays in the foreground and tells what happens on stderr, a line an event. Of several for one database one leads;
    the others wait, and one of them takes over within ten seconds when it is gone. Exit code 0 after SIGTERM, 130
    after Ctrl-C.
    """
    # Alone, without what only its workers need: a fifth of the memory
    daemon = importlib.import_module("snapdb.daemon")
    return ExitCode(daemon.serve(database, jobs=jobs, grace=grace, log_format=log_format))


@_schedule.command("list", epilog=examples("snapdb schedule list shop.snapdb --format json"))
@database
@_format("How the list looks.")
def _list(database: Path, output_format: str) -> ExitCode:
    """List the tasks of DB: when each runs next, and how its last run ended."""
    return call("commands.schedule.tasks", database, output_format, Diagnostics())


@_schedule.command(
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
@_format("How the list looks.")
def _history(database: Path, name: str | None, last: int, failed: bool, log: bool, output_format: str) -> ExitCode:
    """List the last runs of DB's tasks, or of one, the newest last."""
    options = {"last": last, "failed": failed, "log": log, "output_format": output_format}
    return call("commands.schedule.history", database, name, Diagnostics(), **options)


@_schedule.command("run-now", epilog=examples("snapdb schedule run-now shop.snapdb nightly"))
@database
@_name
@quiet
def _run_now(database: Path, name: str, quiet: bool) -> ExitCode:
    """Run a task now, whatever its schedule says, and wait for it.

    Exit code 1 when the run failed, 3 when one goes on already.
    """
    return call("commands.schedule.run_now", database, name, Diagnostics(quiet=quiet))


@_schedule.command(
    "pause", epilog=examples("snapdb schedule pause shop.snapdb", "snapdb schedule pause shop.snapdb nightly")
)
@database
@_any_name
@quiet
def _pause(database: Path, name: str | None, quiet: bool) -> ExitCode:
    """Suspend a task, or all of DB; a run that goes on is left to finish."""
    return call("commands.schedule.switch", database, name, "SUSPEND", Diagnostics(quiet=quiet))


@_schedule.command("resume", epilog=examples("snapdb schedule resume shop.snapdb nightly"))
@database
@_any_name
@quiet
def _resume(database: Path, name: str | None, quiet: bool) -> ExitCode:
    """Let a task, or all of DB, run by its schedule again; what came due meanwhile is not made up for."""
    return call("commands.schedule.switch", database, name, "RESUME", Diagnostics(quiet=quiet))


@click.command(
    "demo", epilog=examples("snapdb demo", "snapdb demo bank.snapdb     keep the database to look around in")
)
@click.argument("database", metavar="[DB]", required=False, type=DatabasePath())
def _demo(database: Path | None) -> None:
    """Do the whole job on generated data: load, snapshot, sample, train, compare.

    Works in the new database DB, or in a temporary one.
    """
    module("commands.demo").run(database, click.echo)


@click.command(
    "check", epilog=examples("snapdb check shop.snapdb", "snapdb check shop.snapdb --format csv > damage.csv")
)
@database
@_format("How the list looks.")
@quiet
def _check(database: Path, output_format: str, quiet: bool) -> ExitCode:
    """Compare every file of DB with what was recorded of it.

    Lists what is wrong; exit code 1 when something is damaged. Files that nothing points at are listed too, but are
    no damage: VACUUM removes them.
    """
    return call("commands.maintenance.check", database, Diagnostics(quiet=quiet), output_format)


@click.command(
    "backup",
    epilog=examples(
        "snapdb backup shop.snapdb /backups/monday.snapdb",
        "snapdb backup shop.snapdb beside.snapdb --copy    no hard links to the files of shop.snapdb",
    ),
)
@database
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--copy", "copies", is_flag=True, help="Copy every file; else those on the same disk are hard links.")
@quiet
def _backup(database: Path, target: Path, *, copies: bool, quiet: bool) -> ExitCode:
    """Copy DB, which others may be writing to, to DIR, and check every file of the copy.

    DIR does not exist yet, and is there whole or not at all.
    """
    return call("commands.maintenance.backup", database, target, Diagnostics(quiet=quiet), copies=copies)


@click.command(
    "export",
    epilog=examples(
        "snapdb export shop.snapdb june --to june --format npz",
        "snapdb export shop.snapdb train --to batches --format safetensors --epochs 3",
        "snapdb export shop.snapdb june train test --to out    out/june, out/train and out/test",
    ),
)
@database
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write; several names go into DIR/NAME each.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(_EXPORTS),
    help="What is written: batches as arrow, parquet, npz, safetensors or pt, snapshots as parquet, npz or pyg.  "
    "[default: arrow for samplers, parquet for snapshots]",
)
@click.option(
    "--epochs",
    metavar="N",
    type=click.IntRange(min=1),
    help="So many epochs of each sampler.  [default: as it says, else 1]",
)
@click.option("--split", metavar="COLUMN", help="The column of a snapshot's vertices that becomes masks.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export; nothing else is ever replaced.")
@quiet
def _export(database: Path, names: Sequence[str], quiet: bool, **options: Any) -> ExitCode:
    """Write batches and snapshots as folders of files.

    NAME is a sampler or a snapshot of DB, which is only read. Each folder has a manifest.json that lists its files,
    and is there whole or not at all.
    """
    return call("commands.export.run", database, names, Diagnostics(quiet=quiet), **options)


@click.command("upgrade", epilog=examples("snapdb upgrade shop.snapdb"))
@database
def _upgrade(database: Path) -> ExitCode:
    """Bring DB, of an older snapdb, to this one's format.

    The old catalog is kept beside the new one.
    """
    return call("commands.maintenance.upgrade", database, Diagnostics())


@click.command(
    "replay",
    epilog=examples(
        "snapdb replay lineage.json --batch 17",
        "snapdb replay out/manifest.json --batch 17 --epoch 2 --database moved/shop.snapdb --format csv",
    ),
)
@click.argument(
    "lineage",
    metavar="LINEAGE.json",
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path),
)
@click.option("--batch", metavar="N", type=click.IntRange(min=0), required=True, help="Which one, within its epoch.")
@click.option("--epoch", metavar="N", type=click.IntRange(min=0), help="Of which epoch.  [default: the lineage's]")
@click.option("--database", metavar="DB", type=DatabasePath(), help="Where the database is now.")
@_format("How the rows look.")
@quiet
def _replay(
    lineage: Path, batch: int, epoch: int | None, database: Path | None, output_format: str, quiet: bool
) -> ExitCode:
    """Show the sampled edges of a batch that was made before.

    LINEAGE.json holds a batch's lineage, or is the manifest of an export; - reads stdin. What is shown are the rows
    that SAMPLE gives of the batch, whatever was done to the database since.
    """
    return call("commands.maintenance.replay", lineage, batch, epoch, database, Diagnostics(quiet=quiet), output_format)


@click.command(
    "wait",
    epilog=examples(
        "snapdb wait shop.snapdb now --newer-than 17 && python train.py",
        "snapdb wait shop.snapdb now --timeout 60 --format json",
    ),
)
@database
@click.argument("snapshot", metavar="SNAPSHOT")
@click.option(
    "--newer-than",
    metavar="VERSION",
    type=click.IntRange(min=0),
    help="One of a later version than this.  [default: any will do]",
)
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="How long.  [default: for ever]")
@_format("How the row looks.")
@quiet
def _wait(
    database: Path, snapshot: str, newer_than: int | None, timeout: float | None, output_format: str, quiet: bool
) -> ExitCode:
    """Wait until a snapshot of DB is published, by a task or by hand, and show which it is.

    It may not be there yet. When the time is over the exit code is 3. DB is only read.
    """
    if timeout != timeout:  # noqa: PLR0124  # click takes NaN for a number
        raise click.UsageError("--timeout takes seconds, found nan")
    diagnostics = Diagnostics(quiet=quiet)
    return call("commands.maintenance.wait", database, snapshot, newer_than, timeout, diagnostics, output_format)


@click.command(
    "bench",
    epilog=examples(
        "snapdb bench", "snapdb bench --against pyg --size arxiv", "snapdb bench --size tiny --format json"
    ),
)
@click.option("--against", type=click.Choice(["pyg", "dgl"]), help="Measure this library on the same graph too.")
@click.option(
    "--size",
    type=click.Choice(["tiny", "arxiv", "products"]),
    default="arxiv",
    show_default=True,
    help="The generated graph: 2 thousand, 170 thousand or 2.4 million nodes; made on first use.",
)
@_format("How the table looks.")
@quiet
def _bench(against: str | None, size: str, output_format: str, quiet: bool) -> ExitCode:
    """Measure ready batches a second on this machine, in one table.

    Needs snapdb's source checkout, which has the benchmarks; `make bench-peers` there installs the other libraries.
    """
    if against and size == "tiny":
        raise click.UsageError("the tiny graph has less than a batch of seeds, which others need; take --size arxiv")
    return call("commands.maintenance.bench", size, against, output_format, Diagnostics(quiet=quiet))


@click.command(
    "completion",
    epilog=examples(
        "bash:  echo 'eval \"$(snapdb completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(snapdb completion zsh)\"' >> ~/.zshrc",
        "fish:  snapdb completion fish > ~/.config/fish/completions/snapdb.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def _completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options, formats, files and databases."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # Not kind.source, which starts a bash to learn its version
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "snapdb", "_SNAPDB_COMPLETE"))
    click.echo(script.lstrip(), nl=False)


COMMANDS = (_demo, _check, _backup, _export, _schedule, _upgrade, _replay, _wait, _bench, _completion)
"""Those of `snapdb --help`."""
