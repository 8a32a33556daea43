"""Mapping string keys to dense ids: assigning ids and mapping edges, compared with plain DuckDB on the same files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.report import table
from benchmarks.storage_bench import OPTIONS, Bench, Figures, Goal, Section, fresh, memory_cells, turns
from benchmarks.storage_data import likes_file, user_file

EDGES = 100_000_000
USERS = 10_000_000
ITEMS = 1000

USER = "CREATE TABLE customer AS SELECT * FROM '{}'"
PEOPLE = "CREATE PROPERTY GRAPH people VERTEX TABLES (customer KEY (name))"
TASTE = """CREATE PROPERTY GRAPH taste VERTEX TABLES (customer KEY (name), item KEY (item))
  EDGE TABLES (likes SOURCE KEY (name) REFERENCES customer (name) DESTINATION KEY (item) REFERENCES item (item))"""

ALLOT, GRAPH, DISTINCT = "the ids alone", "CREATE PROPERTY GRAPH", "plain DuckDB's SELECT DISTINCT … ORDER BY"

WAYS = {"known": "snapdb, with all keys ever allotted", "dense": "snapdb, with the keys of the rows at this version"}
BOTH = "snapdb, both ends with e_id, as topologies are made"
PLAIN, PLAIN_BOTH = "plain DuckDB's join, one end", "plain DuckDB's joins, both ends"


def measure_keys(bench: Bench) -> Section:
    """Measure both parts, each with its own number of rows."""
    users, edges = bench.count(USERS), bench.count(EDGES)
    allotted = _allotting(bench, user_file(users))
    checks, mapped = _mapping(bench, users, edges)
    text = (
        f"### Allotting {users:,} distinct string keys\n\nFrom a table in no order, on a fresh database each time. All "
        f"three write a sorted Parquet file of the keys (the plain one without fsync and sha256); `{GRAPH}` then "
        "checks that no key is NULL or there twice.\n\n"
        + _table(allotted, DISTINCT)
        + f"\n### Mapping {edges:,} edges to them\n\nThe ids are summed, so that nothing is fetched; the sums were "
        "equal. The plain joins read the same segment files and files of the keys with the ids stored beside them "
        f"(snapdb counts rows instead). The graph with these edges took {checks['seconds']:.1f} s to create, its "
        "checks that both ends are there included.\n\n"
        + _table({name: mapped[name] for name in (PLAIN, *WAYS.values())}, PLAIN)
        + f"\nBoth ends, the other one being a BIGINT key of {ITEMS:,} items:\n\n"
        + _table({name: mapped[name] for name in (PLAIN_BOTH, BOTH)}, PLAIN_BOTH)
    )
    return Section("String keys", text, _goals(allotted, mapped))


def _allotting(bench: Bench, file: Path) -> dict[str, Figures]:
    def prepared() -> Path:
        database = bench.place("allot.snapdb")
        fresh("statement", database=database, sql=USER.format(file))
        return database

    def graph() -> Figures:
        database = prepared()
        return fresh("statement", warm=[database], database=database, sql=PEOPLE)

    def allot() -> Figures:
        database = prepared()
        return fresh("allot_keys", warm=[database], database=database, table="customer", key="name")

    out = bench.place("distinct.parquet")
    distinct = f"COPY (SELECT DISTINCT name FROM '{file}' ORDER BY name) TO '{out}' {OPTIONS}"
    return turns(bench, {DISTINCT: lambda: fresh("plain", warm=[file], sql=distinct), ALLOT: allot, GRAPH: graph})


def _mapping(bench: Bench, users: int, edges: int) -> tuple[Figures, dict[str, Figures]]:
    """Return the figures for creating the graph, and for the joins by name."""
    database = bench.place("map.snapdb")
    for sql in (
        USER.format(user_file(users)),
        f"CREATE TABLE item AS SELECT range AS item FROM range({ITEMS})",
        f"CREATE TABLE likes AS SELECT * FROM '{likes_file(edges, users, ITEMS)}'",
    ):
        fresh("statement", database=database, sql=sql)
    checks = fresh("statement", database=database, sql=TASTE)
    engine = partial(fresh, "map_keys", database=database, graph="taste", edge="likes", warm=[database])
    told = engine(way=None)
    keys, items = (_keys_file(bench, name, sql) for name, sql in zip(("keys", "items"), told["keys"], strict=True))
    rows = f"read_parquet({told['files']})"
    one = f"SELECT sum(k.id) FROM {rows} e JOIN '{keys}' k ON e.name = k.key"
    both = one.replace("sum(k.id)", "sum(k.id), sum(i.id)") + f" JOIN '{items}' i ON e.item = i.key"
    warm = [keys, *map(Path, told["files"])]
    seen = turns(
        bench,
        {
            PLAIN: lambda: fresh("plain", warm=warm, sql=one),
            **{said: partial(engine, way=way) for way, said in WAYS.items()},
            PLAIN_BOTH: lambda: fresh("plain", warm=warm, sql=both),
            BOTH: partial(engine, way="both"),
        },
    )
    for plain, ours in ((PLAIN, WAYS["known"]), (PLAIN, WAYS["dense"]), (PLAIN_BOTH, BOTH)):
        if seen[plain]["result"] != seen[ours]["result"]:
            raise SystemExit(f"{ours} gave {seen[ours]['result']}, {plain} {seen[plain]['result']}")
    return checks, seen


def _keys_file(bench: Bench, name: str, known: str) -> Path:
    """Write a Parquet file with an id map's keys and their ids."""
    path = bench.place(f"{name}.parquet")
    fresh("plain", sql=f"COPY (SELECT k0 AS key, dense AS id FROM ({known})) TO '{path}' {OPTIONS}")
    return path


def _goals(allotted: dict[str, Figures], mapped: dict[str, Figures]) -> tuple[Goal, ...]:
    pairs = (
        ("map one end's string keys against a plain join", mapped[WAYS["known"]], mapped[PLAIN]),
        ("map both ends, as topologies are made, against plain joins", mapped[BOTH], mapped[PLAIN_BOTH]),
        ("allot string keys against SELECT DISTINCT … ORDER BY", allotted[ALLOT], allotted[DISTINCT]),
    )
    ratios = [(what, ours["seconds"] / plain["seconds"]) for what, ours, plain in pairs]
    return tuple(Goal(what, "≤ 1.2x its time", f"{ratio:.2f}x", ratio <= 1.2) for what, ratio in ratios)


def _table(seen: dict[str, Figures], baseline: str) -> str:
    heads = ("what", "seconds", "rounds", f"time against {baseline}", "peak RSS, MiB", "peak PSS, MiB")
    base = seen[baseline]["seconds"]
    rows = [
        (name, f"{row['seconds']:.2f}", row["spread"], f"{row['seconds'] / base:.2f}x", *memory_cells(row))
        for name, row in seen.items()
    ]
    return table(heads, rows)
