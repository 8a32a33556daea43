"""The click declarations of the subcommands. Each imports its implementation when it runs, and returns an exit code."""

import importlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

from snapdb_cli.commands.arguments import (
    DatabasePath,
    call,
    database,
    examples,
    format_option,
    module,
    quiet,
    token_file,
)
from snapdb_cli.commands.schedule_declarations import schedule
from snapdb_cli.diagnostics import Diagnostics, ExitCode

_EXPORTS = ("arrow", "parquet", "npz", "safetensors", "pt", "pyg", "graphar", "dgl")
"""The formats of COPY (SAMPLE …) TO and COPY SNAPSHOT … TO."""


@click.command("demo", epilog=examples("snapdb demo", "snapdb demo bank.snapdb     keep the database"))
@click.argument("database", metavar="[DB]", required=False, type=DatabasePath())
def _demo(database: Path | None) -> None:
    """Show an example on generated data: load, snapshot, sample, train, compare.

    Uses the new database DB, or a temporary one.
    """
    module("commands.demo").run(database, click.echo)


@click.command(
    "check", epilog=examples("snapdb check shop.snapdb", "snapdb check shop.snapdb --format csv > damage.csv")
)
@database
@format_option("Output format.")
@quiet
def _check(database: Path, output_format: str, quiet: bool) -> ExitCode:
    """Check every file of DB against its recorded size and checksum.

    Lists all damage; exit code 1 if any file is damaged. Orphan files are listed too, but are not damage: VACUUM
    removes them.
    """
    return call("commands.maintenance.check", database, Diagnostics(quiet=quiet), output_format)


@click.command(
    "publish",
    epilog=examples(
        "snapdb publish shop.snapdb s3://bucket/shop",
        "snapdb publish shop.snapdb file:///mnt/nfs/shop --snapshots june,month --tables seeds",
    ),
)
@database
@click.argument("url", metavar="URL")
@click.option("--snapshots", metavar="NAME,…", default="", help="The snapshots to publish; the default is all of them.")
@click.option(
    "--tables",
    type=click.Choice(["all", "seeds", "none"]),
    default="all",
    show_default=True,
    help="The tables to publish; seeds: those that the samplers' SEEDS read.",
)
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="The number of generations that VACUUM keeps.",
)
@quiet
def _publish(database: Path, url: str, *, snapshots: str, tables: str, keep: int, quiet: bool) -> ExitCode:
    """Publish DB to object storage at URL (s3, gs, az or file), where other machines attach it.

    Only files that the last generation lacks are uploaded. Open the result with `snapdb URL` or snapdb.connect(URL).
    """
    names = tuple(name.strip() for name in snapshots.split(",") if name.strip())
    return call("commands.maintenance.publish", database, url, names, tables, keep, Diagnostics(quiet=quiet))


@click.command(
    "import",
    epilog=examples(
        "snapdb import shop.snapdb edges.csv",
        "snapdb import web.snapdb web-Google.txt.gz --graph web --snapshot whole",
        "snapdb import arxiv.snapdb dataset/ogbn_arxiv    a folder of OGB, with features, labels and splits",
    ),
)
@database
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@click.option("--graph", metavar="NAME", default="graph", show_default=True, help="The name of the graph.")
@click.option("--snapshot", metavar="NAME", default="now", show_default=True, help="The name of the snapshot.")
@click.option("--source-column", metavar="COLUMN", help="The column of the sources.  [default: the first]")
@click.option("--destination-column", metavar="COLUMN", help="The column of the destinations.  [default: the second]")
@click.option("--time", metavar="COLUMN", help="The column of the event times.")
@click.option("--weight", metavar="COLUMN", help="The column of the weights.")
@click.option("--prefix", metavar="TEXT", default="", help="Precedes the names of all tables.")
@quiet
def _import(database: Path, source: Path, *, graph: str, snapshot: str, quiet: bool, **options: str | None) -> ExitCode:
    """Import the graph in SOURCE into DB: tables, a property graph and a snapshot.

    SOURCE is an edge list (CSV, TSV, SNAP, KONECT, Parquet, npz, MatrixMarket) or a folder of OGB or TGB.
    """
    return call("commands.importing.run", database, source, graph, snapshot, options, Diagnostics(quiet=quiet))


@click.command(
    "backup",
    epilog=examples(
        "snapdb backup shop.snapdb /backups/monday.snapdb",
        "snapdb backup shop.snapdb beside.snapdb --copy    no hard links to the files of shop.snapdb",
    ),
)
@database
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--copy", "copies", is_flag=True, help="Copy every file; the default is hard links to files on the same disk."
)
@quiet
def _backup(database: Path, target: Path, *, copies: bool, quiet: bool) -> ExitCode:
    """Back up DB to DIR, also during writes, and verify every file of the copy.

    DIR must not exist. It is created atomically.
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
    help="Output folder; several names are written to DIR/NAME.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(_EXPORTS),
    help="Output format: arrow, parquet, npz, safetensors or pt for batches, parquet, npz, pyg, arrow, safetensors, "
    "graphar or dgl for snapshots.  "
    "[default: arrow for samplers, parquet for snapshots]",
)
@click.option(
    "--epochs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of epochs of each sampler.  [default: EPOCHS of the sampler, or 1]",
)
@click.option("--split", metavar="COLUMN", help="Column of the vertices of a snapshot to write as masks.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export; other folders are never replaced.")
@quiet
def _export(database: Path, names: Sequence[str], quiet: bool, **options: Any) -> ExitCode:
    """Export batches and snapshots as folders of files.

    NAME is a sampler or a snapshot of DB. Each folder has a manifest.json that lists its files, and is created
    atomically.
    """
    return call("commands.export.run", database, names, Diagnostics(quiet=quiet), **options)


@click.command(
    "draw",
    epilog=examples(
        "snapdb draw shop.snapdb train -o sample.svg",
        "snapdb draw shop.snapdb train --batch 3 --seeds 1 -o sample.html",
    ),
)
@database
@click.argument("sampler", metavar="SAMPLER")
@click.option(
    "--batch", metavar="N", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Number of the batch."
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(1, 2**31 - 1),
    default=2,
    show_default=True,
    help="Seeds per batch, instead of BATCH of the sampler.",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="A file that ends with .svg or .html.  [default: SVG on stdout]",
)
@quiet
def _draw(database: Path, sampler: str, *, batch: int, seeds: int, target: Path | None, quiet: bool) -> ExitCode:
    """Draw a batch of a sampler: seeds, hops, and edges in the direction of messages.

    SAMPLER is the name of a sampler of DB, or a SAMPLE statement. Edges later than the time of their seed are red.
    """
    return call("commands.pictures.draw", database, sampler, batch, seeds, target, Diagnostics(quiet=quiet))


@click.command(
    "plot",
    epilog=examples(
        "snapdb plot shop.snapdb                  the growth of all tables by version",
        "snapdb plot shop.snapdb bought           the growth of a table",
        "snapdb plot shop.snapdb june bought      the growth and the degrees of an edge type in a snapshot",
    ),
)
@database
@click.argument("name", metavar="[TABLE | SNAPSHOT]", required=False, default="")
@click.argument("element", metavar="[ELEMENT]", required=False, default="")
@quiet
def _plot(database: Path, name: str, element: str, *, quiet: bool) -> ExitCode:
    """Show charts of growth and degrees in the terminal.

    For a table, the rows after each version. For a snapshot, the rows by event time and the degrees of each element.
    """
    return call("commands.pictures.plot", database, name, element, Diagnostics(quiet=quiet))


@click.command("upgrade", epilog=examples("snapdb upgrade shop.snapdb"))
@database
def _upgrade(database: Path) -> ExitCode:
    """Upgrade DB from the format of an older snapdb.

    A copy of the old catalog is kept.
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
@click.option(
    "--batch", metavar="N", type=click.IntRange(min=0), required=True, help="Number of the batch in its epoch."
)
@click.option(
    "--epoch", metavar="N", type=click.IntRange(min=0), help="Number of the epoch.  [default: the epoch of the lineage]"
)
@click.option(
    "--database", metavar="DB", type=DatabasePath(), help="Path of the database.  [default: the path in the lineage]"
)
@format_option("Output format.")
@quiet
def _replay(
    lineage: Path, batch: int, epoch: int | None, database: Path | None, output_format: str, quiet: bool
) -> ExitCode:
    """Replay a batch and show its sampled edges.

    LINEAGE.json is the lineage of a batch, or the manifest of an export; - reads stdin. The rows are those of SAMPLE
    for the batch, also after later changes of the database.
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
    help="Wait for a later version than this.  [default: any version]",
)
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Time limit.  [default: none]")
@format_option("Output format.")
@quiet
def _wait(
    database: Path, snapshot: str, newer_than: int | None, timeout: float | None, output_format: str, quiet: bool
) -> ExitCode:
    """Wait until a snapshot of DB is published, and show its version.

    The snapshot does not have to exist yet. Exit code 3 on timeout.
    """
    if timeout != timeout:  # noqa: PLR0124  # click accepts NaN as a number
        raise click.UsageError("--timeout must be a number of seconds, found nan")
    diagnostics = Diagnostics(quiet=quiet)
    return call("commands.maintenance.wait", database, snapshot, newer_than, timeout, diagnostics, output_format)


@click.command(
    "bench",
    epilog=examples(
        "snapdb bench", "snapdb bench --against pyg --size arxiv", "snapdb bench --size tiny --format json"
    ),
)
@click.option("--against", type=click.Choice(["pyg", "dgl"]), help="Also measure this library on the same graph.")
@click.option(
    "--size",
    type=click.Choice(["tiny", "arxiv", "products"]),
    default="arxiv",
    show_default=True,
    help="Generated graph of 2 thousand, 170 thousand or 2.4 million nodes.",
)
@format_option("Output format.")
@quiet
def _bench(against: str | None, size: str, output_format: str, quiet: bool) -> ExitCode:
    """Measure batches per second on this machine.

    Needs a source checkout of snapdb; `make bench-peers` installs the other libraries.
    """
    if against and size == "tiny":
        raise click.UsageError("the tiny graph has fewer seeds than one batch of the other libraries; use --size arxiv")
    return call("commands.maintenance.bench", size, against, output_format, Diagnostics(quiet=quiet))


@click.command(
    "ui",
    epilog=examples(
        "snapdb ui shop.snapdb",
        "snapdb ui shop.snapdb --no-open --port 9000",
        "snapdb ui s3://bucket/shop            a published database",
    ),
)
@database
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(1, 65535),
    default=8421,
    show_default=True,
    help="Port; if it is in use, the next free one is taken.",
)
@click.option("--host", metavar="HOST", default="127.0.0.1", show_default=True, help="Loopback address to listen at.")
@click.option("--open/--no-open", "opens", default=True, help="Open the address in a browser, if there is a display.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Maximum number of rows of a result.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Maximum duration of a statement.",
)
@click.option(
    "--folder",
    "folders",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Directory or file that queries can read; by default they can read only tables and snapshots.",
)
@token_file("File with a token for programs that read /metrics; the default is $SNAPDB_METRICS_TOKEN.")
@quiet
def _ui(database: Path, *, token_file: Path | None, quiet: bool, **options: Any) -> ExitCode:
    """Show DB as pages in a browser: snapshots, growth, samples, runs, caches and SQL.

    Prints the address, which contains a token, and serves it to this machine until Ctrl-C. The pages only read DB.
    Needs snapdb[ui].
    """
    return call("commands.ui.run", database, token_file, Diagnostics(quiet=quiet), **options)


@click.command(
    "doctor",
    epilog=examples(
        "snapdb doctor                         this installation and machine",
        "snapdb doctor shop.snapdb --json      the same and a database, for a bug report",
    ),
)
@click.argument("database", metavar="[DB]", required=False, type=DatabasePath())
@format_option("Format of the report.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def _doctor(database: Path | None, output_format: str, as_json: bool) -> ExitCode:
    """Report versions, devices, memory, the kernel cache and the state of DB, with advice.

    Prints what a bug report needs. DB is only read. Exit code 1 if there is a problem, such as a package that fails
    to import or a database that needs an upgrade.
    """
    return call("commands.doctor.run", database, "json" if as_json else output_format, Diagnostics())


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
    """Print the completion script of SHELL for commands, options, formats, files and databases."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    # `kind.source()` would start bash to read its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "snapdb", "_SNAPDB_COMPLETE"))
    click.echo(script.lstrip(), nl=False)


@click.command(
    "help",
    epilog=examples(
        "snapdb help                    list the statements",
        "snapdb help create snapshot    the syntax of a statement, its clauses and an example",
        "snapdb help export             the same as snapdb export --help",
    ),
)
@click.argument("words", metavar="[STATEMENT | COMMAND]", nargs=-1)
@click.pass_context
def _help(ctx: click.Context, words: Sequence[str]) -> None:
    """Show the syntax of a statement, or the help of a command.

    Without a name it lists the statements. At the prompt \\h does the same.
    """
    group = ctx.find_root().command
    assert isinstance(group, click.Group)
    if len(words) == 1 and words[0] in group.commands:
        command = group.commands[words[0]]
        click.echo(command.get_help(click.Context(command, ctx.parent, words[0])))
        return
    reference = importlib.import_module("snapdb.sql.reference")
    try:
        click.echo(reference.help_text(" ".join(words), min(shutil.get_terminal_size().columns, 100)))
    except ValueError as error:
        raise click.UsageError(
            f"{error}; snapdb help lists the statements, and snapdb --help lists the commands"
        ) from None


COMMANDS = (
    _demo,
    _help,
    _check,
    _import,
    _publish,
    _backup,
    _export,
    _draw,
    _plot,
    schedule,
    _upgrade,
    _replay,
    _wait,
    _bench,
    _ui,
    _doctor,
    _completion,
)
"""The commands of `snapdb --help`."""
