"""Parquet files to load: made once by DuckDB and kept beside the generated graphs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.storage_bench import OPTIONS, fresh

FOLDER = Path(__file__).resolve().parent / "data" / "storage"

NODES = 10_000_000
"""Numbers that the ends of `edge_file` are drawn from."""

KEY = "'user-' || lpad(CAST({} * 618033988749 % 1000000000000 AS VARCHAR), 12, '0')"
"""The key of a user's number. The factor has no divisor in common with 10, so no two below 10^7 are alike."""


def edge_file(rows: int) -> Path:
    """src BIGINT, dst BIGINT, ts TIMESTAMP: ends drawn by hash, times ascending."""
    end = f"CAST(hash({{}}) % {NODES} AS BIGINT)"
    return _made(
        f"edge-{rows}",
        f"SELECT {end.format('i')} AS src, {end.format('-1 - i')} AS dst, "
        f"TIMESTAMP '2026-01-01' + to_microseconds(i * 300000) AS ts FROM range({rows}) AS r(i)",
    )


def likes_file(rows: int, users: int, items: int) -> Path:
    """name VARCHAR, item BIGINT: users drawn by hash, by their keys."""
    key = KEY.format(f"CAST(hash(i) % {users} AS BIGINT)")
    return _made(
        f"likes-{rows}-{users}-{items}",
        f"SELECT {key} AS name, CAST(hash(-1 - i) % {items} AS BIGINT) AS item FROM range({rows}) AS r(i)",
    )


def user_file(users: int) -> Path:
    """name VARCHAR: distinct keys, in no order."""
    return _made(f"user-{users}", f"SELECT {KEY.format('i')} AS name FROM range({users}) AS r(i)")


def _made(name: str, query: str) -> Path:
    """The file of that name; it is written on first use."""
    path = FOLDER / f"{name}.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        fresh("plain", sql=f"COPY ({query}) TO '{part}' {OPTIONS}")
        part.rename(path)
    return path
