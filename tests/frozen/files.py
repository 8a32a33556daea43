"""What COPY and `--format` write: which files, what they hold when their own libraries read them, the manifests."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import snapdb
from snapdb import Database
from snapdb_cli.main import main
from tests.frozen.prints import digest, normal, of_batches

SNAPSHOTS = {
    "web_past": ("parquet", "npz", "pyg"),
    "shop_some": ("parquet", "npz", "arrow", "safetensors"),
    "town_now": ("parquet", "npz", "pyg"),
}
BATCHES = {
    "train": ("arrow", "parquet", "npz", "safetensors", "pt"),
    "pairs": ("arrow", "npz", "pt"),
    "turns": ("safetensors",),
}
TABLES = ("parquet", "csv", "tsv", "json", "jsonl", "arrow")
SHOWN = "SELECT i, b, d, f, text, o, day, ts, l, added FROM kinds ORDER BY i"
QUERIES = {
    "plain": "SELECT 1 AS one, 'x' AS text, 0.5 AS half, 2::HUGEINT AS huge, true AS yes",
    "values": "SELECT 1 AS one, NULL AS nothing, 'it''s, \"so\"' AS text, '' AS blank, 0.5 AS half, NAN::DOUBLE AS nan",
    "nested": "SELECT [1, NULL] AS l, {'x': 1, 'y': 'z'} AS s, MAP {'k': 1} AS m, 'ab'::BLOB AS b",
    "times": "SELECT DATE '2001-02-03' AS d, TIMESTAMP '2001-02-03 04:05:06.789' AS t, INTERVAL '1 month 2 days' AS i, "
    "TIMESTAMPTZ '2001-02-03 04:05:06+00' AS z, TIME '04:05:06' AS c",
}
_SIZE = re.compile(r"[\d,.]+ (bytes|KB)")
"""What depends on the length of the folder's path, and on who writes Parquet."""
OWN = ("snapdb", "database", "tables_digest")
"""Fields of a lineage that differ from run to run."""
FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown")


def exports(db: Database, folder: Path) -> str:
    """Every folder that COPY writes, of snapshots and of batches in each format."""
    lines: list[str] = []
    for snapshot, formats in SNAPSHOTS.items():
        for format_ in formats:
            more = ", SPLIT kind" if (snapshot, format_) == ("town_now", "npz") else ""
            statement = f"COPY SNAPSHOT {snapshot} TO '{{}}' (FORMAT {format_}{more})"
            lines += _folder(db, statement, folder / "exports" / f"{snapshot}-{format_}", folder)
    for sampler, formats in BATCHES.items():
        for format_ in formats:
            more = ", EPOCHS 2" if format_ == "arrow" else ""
            path = folder / "exports" / f"{sampler}-{format_}"
            lines += _folder(db, f"COPY (SAMPLE USING {sampler}) TO '{{}}' (FORMAT {format_}{more})", path, folder)
            batches = snapdb.read_batches(path)
            lines += [f"read: {batches.epochs} {of_batches(batches, ids=True)}", ""]
    return normal("\n".join(lines), folder)


def _folder(db: Database, statement: str, path: Path, folder: Path) -> Iterator[str]:
    path.parent.mkdir(exist_ok=True)
    yield f"## {statement.format(path.name)}"
    yield f"-> {_SIZE.sub('<bytes>', str(db.execute(statement.format(path)).message))}"
    for number, file in enumerate(sorted(path.rglob("*.*"))):
        parts = [normal(part, folder) for part in READERS[file.suffix.lstrip(".")](file)]
        yield f"{file.relative_to(path)}: {len(parts)} parts {digest(parts)}"
        yield from (f"  {part}" for part in parts if not number or file.name == "manifest.json")


def _arrays(arrays: dict[str, Any]) -> Iterator[str]:
    for name, value in sorted(arrays.items()):
        kind = getattr(value, "dtype", type(value).__name__)
        shape = tuple(getattr(value, "shape", ()))
        known = json.loads(value) if name == "facts" and isinstance(value, str) else value
        yield f"{name} {kind} {shape} {digest(_known(known))}"


def _known(value: Any) -> Any:
    """Plain values without what differs from run to run."""
    match value:
        case dict():
            return {key: _known(one) for key, one in value.items() if key not in OWN}
        case list():
            return [_known(one) for one in value]
        case _:
            return value


def _npz(file: Path) -> Iterator[str]:
    with np.load(file, allow_pickle=False) as arrays:
        yield from _arrays({name: _bytes_of_facts(name, arrays[name]) for name in arrays.files})


def _bytes_of_facts(name: str, value: Any) -> Any:
    if name != "facts":
        return value
    return str(value) if value.dtype.kind == "U" else bytes(value.tobytes()).decode()


def _table(table: pa.Table) -> Iterator[str]:
    for field in table.schema:
        values = table.column(field.name).to_pylist()
        plain = _known(json.loads(values[0])) if field.name == "facts" else values
        yield f"{field.name} {field.type} {len(values)} {digest(plain)}"


def _pt(file: Path) -> Iterator[str]:
    value = torch.load(file, weights_only=file.name != "data.pt")
    if not isinstance(value, dict):
        stores = {f"{store._key}": dict(store.items()) for store in value.stores}
        yield from (f"{key} {line}" for key, store in stores.items() for line in _arrays(store))
        return
    yield from _arrays(
        {
            name: _bytes_of_facts(name, one.numpy()) if name == "facts" and hasattr(one, "numpy") else one
            for name, one in value.items()
        }
    )


def _safetensors(file: Path) -> Iterator[str]:
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    if "__metadata__" in header:  # of batches
        yield f"metadata {digest(_known(_parsed(header['__metadata__'])))}"
    yield from _arrays(load_file(file))


def _parsed(value: Any) -> Any:
    return {key: json.loads(one) if one[:1] == "{" else one for key, one in value.items()}


def _manifest(file: Path) -> Iterator[str]:
    yield json.dumps(_unsized(json.loads(file.read_text())), ensure_ascii=False)


def _unsized(value: Any) -> Any:
    """A manifest without sizes and digests, which depend on the folder's path and on libraries."""
    match value:
        case dict():
            return {
                key: f"<{key}>" if key in ("bytes", "seal", "sha256") else _unsized(one) for key, one in value.items()
            }
        case list():
            return [_unsized(one) for one in value]
        case _:
            return value


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    "npz": _npz,
    "parquet": lambda file: _table(pq.read_table(file)),
    "arrow": lambda file: _table(pa.ipc.open_file(file).read_all()),
    "pt": _pt,
    "safetensors": _safetensors,
    "json": _manifest,
}


def written(db: Database, folder: Path) -> str:
    """Every file that COPY writes of a table and of a query, and every look of the command line."""
    lines = []
    place = folder / "written"
    place.mkdir()
    for ending in (*TABLES, "csv.gz"):
        path = place / f"kinds.{ending}"
        result = db.execute(f"COPY ({SHOWN}) TO '{path}'")
        lines += [
            f"## {path.name}",
            f"-> {_SIZE.sub('<bytes>', normal(str(result.message), folder))}",
            *_shown(path),
            "",
        ]
    for name, query in QUERIES.items():
        for look in FORMATS:
            done = CliRunner().invoke(main, ["--no-config", "--format", look, "-c", query])
            lines += [f"## {name} as {look}", done.stdout + done.stderr]
    for look in ("parquet", "arrows"):
        path = place / f"plain.{look}"
        done = CliRunner().invoke(main, ["--no-config", "-o", str(path), "-c", QUERIES["plain"]])
        table = pq.read_table(path) if look == "parquet" else pa.ipc.open_stream(path).read_all()
        lines += [f"## -o {path.name} {done.exit_code}", *_table(table), ""]
    return "\n".join(lines) + "\n"


def _shown(path: Path) -> list[str]:
    match path.suffix:
        case ".gz":
            return gzip.decompress(path.read_bytes()).decode().splitlines()
        case ".parquet":
            return list(_table(pq.read_table(path)))
        case ".arrow":
            return list(_table(pa.ipc.open_file(path).read_all()))
        case _:
            return path.read_text("utf-8").splitlines()
