"""Problems that CHECK DATABASE reports, and corruption of catalog cells."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.inside.storage import CatalogDb, Problem, check_database, open_db_dir


def problems(path: Path) -> list[Problem]:
    """Return the problems that a check finds, regardless of the catalog's state."""
    db_dir = open_db_dir(path, read_only=True)
    catalog_db = CatalogDb(db_dir)
    try:
        return list(check_database(catalog_db))
    finally:
        catalog_db.close()


def hostile(random_: random.Random, value: Any, outside: Path) -> Any:
    """Return an invalid or malicious replacement for a cell's value."""
    out = random_.choice(("secret.parquet", "secret.txt", "snapshot", "snapshot/manifest.json"))
    plain = [
        None,
        "",
        -1,
        0,
        1,
        2**62,
        -(2**63),
        1.5,
        "x",
        b"\x00\xff",
        "\x00",
        "null",
        "[]",
        "{}",
        "[[]]",
        '[["a"]]',
        "[" * 5000,
        '{"a": ' * 3000,
        "é☃",
        "INTEGER",
        "Infinity",
        "NaN",
        f"../outside/{out}",
        str(outside / out),
        f"tables/../../outside/{out}",
        "..",
        ".",
        "/",
        "\x00../x",
        f"INT) FROM read_text('{outside}/secret.txt')--",
        f"x', read_text('{outside}/secret.txt')) --",
        f"'), ('{outside}/secret.parquet",
        '"; DROP TABLE t; --',
        "' OR 1=1 --",
        f"(SELECT content FROM read_text('{outside}/secret.txt'))",
    ]
    if isinstance(value, str) and value.startswith(("{", "[")) and random_.random() < 0.7:
        return json.dumps(mangled(random_, json.loads(value), plain))
    if isinstance(value, int) and random_.random() < 0.5:
        return value + random_.choice((-1, 1, 7, 10**6, -(10**6)))
    return random_.choice(plain)


def mangled(random_: random.Random, value: Any, choices: list[Any]) -> Any:
    """Return JSON in which one random value is replaced."""
    if isinstance(value, dict) and value and random_.random() < 0.9:
        key = random_.choice(list(value))
        return {**value, key: mangled(random_, value[key], choices)}
    if isinstance(value, list) and value and random_.random() < 0.9:
        place = random_.randrange(len(value))
        return [mangled(random_, v, choices) if i == place else v for i, v in enumerate(value)]
    return random_.choice([c for c in choices if not isinstance(c, bytes)])


def spoil(path: Path, random_: random.Random, outside: Path, among: Sequence[str] = ()) -> str:
    """Corrupt one cell of the catalog, or of one of the given tables, and return a description."""
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        known = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        tables = list(among) or known
        tables = [t for t in tables if connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0]]
        table = random_.choice(tables)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        row, place = random_.choice(rows), random_.randrange(len(columns))
        value = hostile(random_, row[place], outside)
        same = " AND ".join(f"{c} IS ?" for c in columns)
        try:
            connection.execute(f"UPDATE {table} SET {columns[place]} = ? WHERE {same}", (value, *row))
            connection.commit()
        except (sqlite3.Error, OverflowError) as refused:
            return f"refused: {refused}"
    return f"{table}.{columns[place]} = {str(value)[:200]!r} where it was {row[place]!r}"
