"""COPY SNAPSHOT … TO: a whole snapshot in a folder of files, as tables, as arrays or as PyG's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snapdb.execute.element_columns import Reading
from snapdb.execute.export_folder import export_folder
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.execute.snapshot_writers import WRITERS, Export, Written
from snapdb.graph import open_snapshot
from snapdb.plan.exports import CopySnapshotPlan
from snapdb.types import RNG_SCHEME, EdgeElement
from snapdb.types.text import counted, size_words


@dataclass(frozen=True, slots=True)
class CopySnapshot:
    """Fills a folder beside the place, then gives it the place's name."""

    plan: CopySnapshotPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, snapshot = self.plan, self.plan.snapshot
        opened = open_snapshot(engine.home, engine.ledger, snapshot)
        try:
            with export_folder(engine, plan.path, plan.span, overwrite=plan.overwrite) as folder:
                reading = Reading.of(engine, snapshot, opened.view, opened.id_maps)
                written = WRITERS[plan.format](Export(engine, plan, reading, folder))
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
