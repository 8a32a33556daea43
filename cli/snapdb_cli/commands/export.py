"""`snapdb export`: writes batches and snapshots as folders of files."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from snapdb.catalog.vocabulary import Vocabulary
from snapdb.database import connect
from snapdb.errors import BindError, InputError
from snapdb.sql import parse
from snapdb.sql_engine import quote_odd, text_literal
from snapdb.storage.disk import Disk
from snapdb.storage.manifests import FolderWriter, file_name
from snapdb.types.text import did_you_mean
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output
from snapdb_cli.scripts import ScriptStep
from snapdb_cli.shell import Shell

_METHODS = "SELECT name, method FROM snapdb.samplers"
_VERBS = {"WALK": "WALK"}
"""The first word of a sampler's statement by its method. The other methods are those of SAMPLE."""


def run(
    path: Path,
    names: Sequence[str],
    diagnostics: Diagnostics,
    *,
    folder: Path,
    output_format: str | None,
    epochs: int | None,
    split: str | None,
    overwrite: bool,
) -> ExitCode:
    """Export each name, after checking that all names exist and all target folders are free. Returns the exit code.

    Args:
        path: The database.
        names: The names of samplers and snapshots.
        diagnostics: Receives progress and errors.
        folder: The folder for a single name, or the parent of one folder per name.
        output_format: The format, or None for the default.
        epochs: The number of epochs to export per sampler.
        split: The split column for snapshots.
        overwrite: Whether to replace earlier exports.

    Raises:
        SnapdbError: A name is unknown, an option does not apply to it, or a folder is not empty.
        UsageError: An option does not apply to any of the names.
    """
    with connect(path, read_only=True) as database:
        exports = list({name.lower(): _resolve(database.names(), name) for name in names}.values())
        _check_options({kind for kind, _ in exports}, epochs, split)
        verbs = {name: _VERBS.get(method, "SAMPLE") for name, method in database.execute(_METHODS).fetchall()}
        several = len(exports) > 1
        folders = [folder / file_name(name) if several else folder for _, name in exports]
        own = {
            "sampler": f"EPOCHS {epochs}" if epochs is not None else None,
            "snapshot": f"SPLIT {text_literal(split)}" if split is not None else None,
        }
        steps: list[ScriptStep] = []
        for (kind, name), each in zip(exports, folders, strict=True):
            options = (output_format and f"FORMAT {output_format}", own[kind], "OVERWRITE" if overwrite else None)
            verb = verbs.get(name, "SAMPLE")
            steps += map(ScriptStep, parse(_copy(kind, verb, name, each, [option for option in options if option])))
        for step in steps:
            database.plan(step.statement)
        for each in folders:
            FolderWriter(each.expanduser(), Disk(), overwrite=overwrite).check()
        with _existing(folder.expanduser()) if several else nullcontext():
            return Shell(database, Output("table"), diagnostics).run(steps)


def _check_options(kinds: Set[str], epochs: int | None, split: str | None) -> None:
    if epochs is not None and "sampler" not in kinds:
        raise click.UsageError("--epochs is supported only for samplers, but all names are snapshots")
    if split is not None and "snapshot" not in kinds:
        raise click.UsageError("--split is supported only for snapshots, but all names are samplers")


def _copy(kind: str, verb: str, name: str, folder: Path, options: Sequence[str]) -> str:
    """Return the statement that exports a sampler, whose statement begins with `verb`, or a snapshot."""
    source = f"({verb} USING {quote_odd(name)})" if kind == "sampler" else f"SNAPSHOT {quote_odd(name)}"
    return f"COPY {source} TO {text_literal(str(folder))}" + (f" ({', '.join(options)})" if options else "")


def _resolve(known: Vocabulary, name: str) -> tuple[str, str]:
    """Return 'sampler' or 'snapshot', and the name in its original case."""
    exports = [("sampler", n) for n in known["samplers"]] + [("snapshot", n) for n in known["snapshots"]]
    match [export for export in exports if export[1].lower() == name.lower()]:
        case [export]:
            return export
        case []:
            names = [n for _, n in exports]
            hint = did_you_mean(name, names) or (f"; available: {', '.join(names[:8])}" if names else "")
            raise BindError(f'sampler or snapshot "{name}" does not exist{hint}', code="unknown-export")
        case _:
            statements = f"COPY SNAPSHOT {name} TO '…' or COPY (SAMPLE USING {name}) TO '…'"
            raise BindError(
                f'"{name}" is both a sampler and a snapshot; run one of these statements with -c: {statements}',
                code="unknown-export",
            )


@contextmanager
def _existing(folder: Path) -> Iterator[None]:
    """Create the folder for the block if it does not exist, and remove it afterwards if it is empty."""
    existed = folder.exists()
    if not folder.parent.is_dir():
        raise InputError(f"cannot write {folder}: its parent folder does not exist", code="unwritable-file")
    folder.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if not existed and not any(folder.iterdir()):
            folder.rmdir()
