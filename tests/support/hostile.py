"""A database all of whose names and values look like HTML, scripts or paths."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import snapdb
from snapdb.errors import SnapdbError
from snapdb.sql_engine import quote as quoted
from snapdb.sql_engine import text_literal as literal
from tests.support.thoroughness import SOAK

_TEXTS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "' onmouseover='alert(4)",
    "javascript:alert(5)",
    "{{ 7 * 7 }}",
    "</textarea></pre><script>alert(6)</script>",
    "\u202egnp.exe",
    "a\\u0000b",
    "😀 é 漢字",
    "a/b?c=d#e&f",
    "..",
    "%2e%2e%2f",
    "x" * 190,
    "--",
    "a  b c",
    "]]>",
    "<!--",
    "&lt;b&gt;",
]


def _names() -> list[str]:
    """The texts, and under `make soak` pairs of them, 200 names in all."""
    pairs = [f"{one}{other}"[:190] for one, other in product(_TEXTS, repeat=2)]
    return [*_TEXTS, *pairs[:: len(pairs) // 200][: 200 - len(_TEXTS)]] if SOAK else list(_TEXTS)


HOSTILE = _names()


def create_hostile(path: Path) -> None:
    """Create the database."""
    with snapdb.connect(path) as own:
        for i, name in enumerate(HOSTILE):
            key, task = quoted(name), quoted(f"t {name}")
            graph, node, edge = quoted(f"g {name}"), quoted(f"v {name}"), quoted(f"e {name}")
            snapshot, table, value = quoted(f"s {name}"), quoted(f"{name} {i}"), literal(name)
            with own.transaction(name):
                own.execute(f"CREATE TABLE {table} AS SELECT {value} || range AS {key} FROM range(4)")
                own.execute(f"CREATE TABLE e{i} AS SELECT {value} || range AS a, {value} || 1 AS b FROM range(4)")
            own.script(f"""
                CREATE PROPERTY GRAPH {graph} VERTEX TABLES ({table} AS {node} KEY ({key})) EDGE TABLES
                  (e{i} AS {edge} SOURCE KEY (a) REFERENCES {node} DESTINATION KEY (b) REFERENCES {node});
                CREATE SNAPSHOT {snapshot} OF {graph};
                CREATE SAMPLER {quoted(f"r {name}")} AS SAMPLE FROM {snapshot}
                  SEEDS (SELECT {key} FROM {table}) AS {node} FANOUT ({edge} => [2]) BATCH 2;
                CREATE TASK {task} SCHEDULE EVERY INTERVAL '1 day' AS SELECT {value} FROM nowhere;
            """)
            with pytest.raises(SnapdbError):
                own.execute(f"EXECUTE TASK {task}")
