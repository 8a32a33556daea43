"""COPY SNAPSHOT … TO and COPY (SAMPLE …) TO: a folder of files with a manifest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapdb import loading
from snapdb.builders.element_columns import Reading
from snapdb.errors import InputError, Span
from snapdb.execute.exports.arrays import WRITERS, Export, Written
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.samples.opening import Opened, open_sample
from snapdb.execute.session import ExecutionContext
from snapdb.graph import open_snapshot
from snapdb.plan.exports import CopySamplePlan, CopySnapshotPlan
from snapdb.storage.folder import FolderWriter
from snapdb.types import RNG_SCHEME, EdgeElement
from snapdb.types.text import counted, size_words

if TYPE_CHECKING:
    from snapdb.loading import BatchWriter


@contextmanager
def _export_folder(context: ExecutionContext, path: str, span: Span, *, overwrite: bool) -> Iterator[FolderWriter]:
    """A folder to fill; it stands at the path when the block has called its `finish`, else nothing of it stays.

    Raises:
        InputError: nothing may be put there, or the disk refuses.
    """
    target = Path(os.path.expanduser(path))
    if Path(os.path.realpath(target)).is_relative_to(os.path.realpath(context.store.db_dir.path)):
        said = f"{path} lies in the database's own folder, which holds only what snapdb writes"
        raise InputError(said, span=span, code="unwritable-file")
    try:
        context.store.sql_engine.check_folder(target)
        with FolderWriter(target, context.store.disk, overwrite=overwrite) as folder:
            yield folder
    except InputError as error:
        if error.code in ("unwritable-file", "folder-exists", "folder-not-allowed"):
            error.span = error.span or span
        raise


def copy_snapshot(plan: CopySnapshotPlan, context: ExecutionContext) -> Rows:
    """COPY SNAPSHOT … TO: write every element of a snapshot into a folder, as tables, as arrays or as PyG's data."""
    yield from ()
    snapshot = plan.snapshot
    opened = open_snapshot(context.store.catalog_db, snapshot)
    try:
        with _export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
            reading = Reading.of(context, snapshot, opened.view, opened.id_maps)
            written = WRITERS[plan.format](Export(context, plan, reading, folder))
            files = {each.file: each.element for each in written}
            size = sum(folder.wrote(file) for file in files)
            folder.finish(_manifest(plan, written) | {"lineage": {**opened.view.lineage, "rng": RNG_SCHEME}})
    finally:
        opened.lease.release()
    edges = sum(each.rows for each in written if isinstance(each.element, EdgeElement))
    vertices = sum(each.rows for each in written) - edges
    said = f"{counted(vertices, 'vertex', 'vertices')} and {counted(edges, 'edge')}"
    return Outcome(f"{said} to {plan.path}, {size_words(size)} in {counted(len(files), 'file')}", vertices + edges)


def _manifest(plan: CopySnapshotPlan, written: Sequence[Written]) -> dict[str, Any]:
    """What the folder says of itself beside its files: each element's file, how many there are, and its fields."""
    schema: dict[str, dict[str, Any]] = {"vertices": {}, "edges": {}}
    for element, rows, file, fields in written:
        told = {"file": file, "rows": rows, "fields": fields}
        if isinstance(element, EdgeElement):
            schema["edges"][element.name] = {"source": element.source, "destination": element.destination, **told}
        else:
            split = plan.splits.get(element.name)
            schema["vertices"][element.name] = {"key": list(element.key), "split": split, **told}
    return {"kind": "snapshot", "file_format": plan.format, "schema": schema}


def copy_sample(plan: CopySamplePlan, context: ExecutionContext) -> Rows:
    """COPY (SAMPLE …) TO: write the batches of some epochs into a folder, one file each, as a stream builds them."""
    yield from ()
    with _export_folder(context, plan.path, plan.span, overwrite=plan.overwrite) as folder:
        opened = open_sample(context, plan.sample)
        try:
            context.check_stopped()
            batches, size = _write_batches(plan, context, opened, loading.BatchWriter(folder, plan.format))
        finally:
            opened.lease.release()
    return Outcome(f"{counted(batches, 'batch', 'batches')} to {plan.path}, {size_words(size)}", batches)


def _write_batches(
    plan: CopySamplePlan, context: ExecutionContext, opened: Opened, writer: BatchWriter
) -> tuple[int, int]:
    """How many batches were written, and their bytes; the threads that make batches write them."""
    sample, what, done, size = plan.sample, f"writing {plan.path}", 0, 0
    with (
        sample.places.under(),
        loading.BatchStream(
            opened.view,
            opened.seeds,
            opened.spec,
            device="cpu",
            most=context.threads,
            way=sample.way,
            cache=opened.cache,
            transform=writer,
        ) as stream,
    ):
        lineage = stream.lineage
        for epoch in range(sample.epochs if len(stream) else 0):
            total = len(stream)
            sizes: Iterator[Any] = iter(stream)  # a transform's results stand in the batches' places
            for number, written in enumerate(sizes):
                context.step(what, (epoch + number / total) / sample.epochs)
                done, size = done + 1, size + written
        writer.finish(lineage, sample.epochs)
    return done, size
