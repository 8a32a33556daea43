"""Parquet files to load. DuckDB writes them once, and they are stored next to the generated graphs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.storage_bench import OPTIONS, fresh

FOLDER = Path(__file__).resolve().parent / "data" / "storage"

NODES = 10_000_000
"""The number of distinct values from which the ends of `edge_file` are drawn."""

KEY = "'user-' || lpad(CAST({} * 618033988749 % 1000000000000 AS VARCHAR), 12, '0')"
"""An SQL expression for the key of a user number. The factor is coprime to 10, so numbers below 10^7 have distinct
keys."""


def edge_file(rows: int) -> Path:
    """Return a file of src BIGINT, dst BIGINT and ts TIMESTAMP, with ends drawn by hash and ascending times."""
    end = f"CAST(hash({{}}) % {NODES} AS BIGINT)"
    return _made(
        f"edge-{rows}",
        f"SELECT {end.format('i')} AS src, {end.format('-1 - i')} AS dst, "
        f"TIMESTAMP '2026-01-01' + to_microseconds(i * 300000) AS ts FROM range({rows}) AS r(i)",
    )


def likes_file(rows: int, users: int, items: int) -> Path:
    """Return a file of name VARCHAR and item BIGINT, with the keys of users that are drawn by hash."""
    key = KEY.format(f"CAST(hash(i) % {users} AS BIGINT)")
    return _made(
        f"likes-{rows}-{users}-{items}",
        f"SELECT {key} AS name, CAST(hash(-1 - i) % {items} AS BIGINT) AS item FROM range({rows}) AS r(i)",
    )


def user_file(users: int) -> Path:
    """Return a file of name VARCHAR with distinct keys in no particular order."""
    return _made(f"user-{users}", f"SELECT {KEY.format('i')} AS name FROM range({users}) AS r(i)")


def _made(name: str, query: str) -> Path:
    """Return the file with this name. The first call writes it."""
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        fresh("plain", sql=f"COPY ({query}) TO '{part}' {OPTIONS}")
        part.rename(path)
    return path
