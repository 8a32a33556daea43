"""`snapdb export`: batches and snapshots as folders of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import click

from snapdb.catalog.vocabulary import Vocabulary
from snapdb.database import connect
from snapdb.errors import BindError, InputError
from snapdb.sql import parse
from snapdb.sql_engine import quote_odd, text_literal
from snapdb.storage.disk import Disk
from snapdb.storage.folder import FolderWriter, file_name
from snapdb.types.text import did_you_mean
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output.results import Output
from snapdb_cli.scripts import Step
from snapdb_cli.shell import Shell


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What the options say."""

    folder: Path
    """Where the only one of the names goes, or each of several under its name."""
    format: str | None
    epochs: int | None
    """Of samplers."""
    split: str | None
    """Of snapshots."""
    overwrite: bool


def run(path: Path, names: Sequence[str], request: ExportRequest, diagnostics: Diagnostics) -> ExitCode:
    """Export each name, once all of them exist and all of their folders are free. Returns the exit code.

    Raises:
        SnapdbError: a name leads nowhere, an option does not fit what it is the name of, or a folder is taken.
        UsageError: an option is for nothing that is named.
    """
    with connect(path, read_only=True) as database:
        exports = {name.lower(): _found(database.names(), name) for name in names}
        _check_used(request, {kind for kind, _ in exports.values()})
        several = len(exports) > 1
        folders = [request.folder / file_name(name) if several else request.folder for _, name in exports.values()]
        texts = [_statement(*each, folder, request) for each, folder in zip(exports.values(), folders, strict=True)]
        steps = [Step(statement, None) for text in texts for statement in parse(text)]
        for step in steps:
            database.plan(step.statement)
        for folder in folders:
            FolderWriter(folder.expanduser(), Disk(), overwrite=request.overwrite).check()
        with _made(request.folder.expanduser()) if several else nullcontext():
            return Shell(database, Output("table"), diagnostics).run(steps)


def _found(known: Vocabulary, name: str) -> tuple[str, str]:
    """'sampler' or 'snapshot', and the name in its original case."""
    samplers, snapshots = known["samplers"], known["snapshots"]
    kinds = [("sampler", n) for n in samplers] + [("snapshot", n) for n in snapshots]
    match [(kind, n) for kind, n in kinds if n.lower() == name.lower()]:
        case [one]:
            return one
        case []:
            there = [n for _, n in kinds]
            hint = did_you_mean(name, there) or (f"; there are: {', '.join(there[:8])}" if there else "")
            raise BindError(f'no sampler or snapshot "{name}"{hint}', code="unknown-export")
        case _:
            ways = f"COPY SNAPSHOT {name} TO '…' or COPY (SAMPLE USING {name}) TO '…'"
            raise BindError(f'"{name}" is a sampler and a snapshot; say which with -c: {ways}', code="unknown-export")


def _check_used(request: ExportRequest, kinds: Set[str]) -> None:
    if request.epochs is not None and "sampler" not in kinds:
        raise click.UsageError("--epochs is for samplers, and only snapshots are named")
    if request.split is not None and "snapshot" not in kinds:
        raise click.UsageError("--split is for snapshots, and only samplers are named")


def _statement(kind: str, name: str, folder: Path, request: ExportRequest) -> str:
    """The statement that exports it."""
    what = f"(SAMPLE USING {quote_odd(name)})" if kind == "sampler" else f"SNAPSHOT {quote_odd(name)}"
    options = [f"FORMAT {request.format}"] if request.format else []
    if kind == "sampler" and request.epochs is not None:
        options.append(f"EPOCHS {request.epochs}")
    if kind == "snapshot" and request.split is not None:
        options.append(f"SPLIT {text_literal(request.split)}")
    if request.overwrite:
        options.append("OVERWRITE")
    return f"COPY {what} TO {text_literal(str(folder))}" + (f" ({', '.join(options)})" if options else "")


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder is there while the block runs, and stays when something is in it."""
    there = folder.exists()
    if not folder.parent.is_dir():
        raise InputError(f"cannot write {folder}: the folder that it should be in is not there", code="unwritable-file")
    folder.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if not there and not any(folder.iterdir()):
            folder.rmdir()
