"""What SAMPLE returns is what the oracle returns, over random graphs, windows, filters, deletes and directions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from tests.support.oracle import FULL, Direction, Edge, EdgeKey, Fanout, Graph, Order, rows

TIMED: dict[EdgeKey, bool] = {("u", "a", "u"): True, ("u", "b", "v"): True, ("v", "C", "u"): False}
"""Edge types, and whether they have event time."""
GRAPH = """CREATE PROPERTY GRAPH g VERTEX TABLES (u KEY (id), v KEY (id)) EDGE TABLES (
  a SOURCE KEY (x) REFERENCES u DESTINATION KEY (y) REFERENCES u EVENT TIME (t),
  b SOURCE KEY (x) REFERENCES u DESTINATION KEY (y) REFERENCES v EVENT TIME (t),
  C SOURCE KEY (x) REFERENCES v DESTINATION KEY (y) REFERENCES u)"""


@dataclass(frozen=True)
class World:
    """The keys and edges that a database was given; an edge stands beside the size its row has."""

    keys: dict[str, list[int]]
    """By dense id."""
    edges: dict[EdgeKey, list[tuple[Edge, int]]]


def load(db: Any, r: random.Random) -> World:
    """Fills a database with random vertices and edges, some edges deleted again, and a graph over them."""
    keys = {name: sorted(r.sample(range(-99, 99), r.randint(2, 20))) for name in "uv"}
    for name, found in keys.items():
        db.execute(f"CREATE TABLE {name} (id INTEGER)")
        db.execute(f"INSERT INTO {name} VALUES {', '.join(f'({k})' for k in r.sample(found, len(found)))}")
    world = World(keys, {edge: list(fill(db, r, keys, edge)) for edge in TIMED})
    db.execute(GRAPH)
    return world


def fill(db: Any, r: random.Random, keys: dict[str, list[int]], edge: EdgeKey) -> Iterator[tuple[Edge, int]]:
    """Fills an edge table in a few commits, and takes the rows of size 0 away."""
    source, name, destination = edge
    db.execute(f"CREATE TABLE {name} (x INTEGER, y INTEGER, t BIGINT, size INTEGER)")
    ids = iter(range(10**9))
    for _ in range(r.randint(1, 3)):
        values = []
        for _ in range(r.randint(1, 60)):
            s, d, t, size = (r.randrange(n) for n in (len(keys[source]), len(keys[destination]), 10, 5))
            values.append(f"({keys[source][s]}, {keys[destination][d]}, {t}, {size})")
            stored = Edge(s, d, next(ids), t if TIMED[edge] else None)
            if size > 0:
                yield stored, size
        db.execute(f"INSERT INTO {name} VALUES {', '.join(values)}")
    db.execute(f"DELETE FROM {name} WHERE size = 0")


def snapshot(world: World, start: int = -1, stop: int = 10, size: int = 0, smallest: int = -99) -> Graph:
    """The edges with start ≤ time < stop, at least that size in a, and both ends at least `smallest` where in v."""
    counts = {name: len(found) for name, found in world.keys.items()}

    def holds(key: EdgeKey, edge: Edge, weight: int) -> bool:
        in_time = edge.time is None or start <= edge.time < stop
        ends = zip((key[0], key[2]), (edge.source, edge.destination), strict=True)
        alive = all(name != "v" or world.keys["v"][node] >= smallest for name, node in ends)
        return in_time and alive and (key[1] != "a" or weight >= size)

    return Graph(counts, {k: [e for e, w in stored if holds(k, e, w)] for k, stored in world.edges.items()})


def check(db: Any, r: random.Random, name: str, world: World, graph: Graph) -> None:
    """Compares one random SAMPLE of a snapshot with the oracle's rows."""
    hops = r.randint(1, 3)
    chosen = r.sample(list(TIMED), r.randint(1, 3))
    directions: list[Direction] = [r.choice(get_args(Direction)) for _ in chosen]
    fanouts: list[Fanout] = [
        (edge, direction, r.choices([0, 1, 2, 3, 5, FULL], k=hops))
        for edge, direction in zip(chosen, directions, strict=True)
    ]
    nodes = r.sample(range(len(world.keys["u"])), r.randint(1, len(world.keys["u"])))
    order: Order = r.choice(get_args(Order))
    seed, batch, epochs = r.choice([0, 42, 2**63 + 5, 2**64 - 1]), r.randint(1, 8), r.randint(1, 2)
    values = ", ".join(f"({world.keys['u'][node]}, {place})" for place, node in enumerate(nodes))
    found = db.execute(
        f"SAMPLE FROM {name} SEEDS (SELECT id FROM (SELECT * FROM (VALUES {values}) q(id, place)) "
        f"{'ORDER BY id DESC' if order == 'IN ORDER' else ''}) AS u "
        f"FANOUT ({', '.join(f'{edge[1]} {direction} => {counts}' for edge, direction, counts in fanouts)}) "
        f"BATCH {batch} REPEATABLE ({seed}) {order} EPOCHS {epochs}"
    ).fetchall()
    asked = sorted(nodes, reverse=order == "IN ORDER")
    expected = rows(graph, asked, "u", fanouts, seed, batch, order, epochs)
    ends = {name: (world.keys[source], world.keys[destination]) for source, name, destination in TIMED}
    assert found == [
        (*row[:4], ends[row.type][0][row.source], ends[row.type][1][row.destination], row.e_id) for row in expected
    ]


@pytest.mark.parametrize("seed", range(2))
def test_sample_returns_what_the_oracle_returns(db: Any, seed: int) -> None:
    r = random.Random(seed)
    world = load(db, r)
    smallest = world.keys["v"][len(world.keys["v"]) // 2]
    db.execute("CREATE SNAPSHOT whole OF g")
    db.execute("CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 5")
    db.execute("CREATE SNAPSHOT middle OF g FOR EVENT_TIME FROM 3 TO 7")
    db.execute(f"CREATE SNAPSHOT part OF g WHERE a.size >= 3 AND v.id >= {smallest}")
    for name, graph in {
        "whole": snapshot(world),
        "early": snapshot(world, stop=6),
        "middle": snapshot(world, 3, 7),
        "part": snapshot(world, size=3, smallest=smallest),
    }.items():
        for _ in range(4):
            check(db, r, name, world, graph)
