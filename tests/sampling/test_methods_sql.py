"""SAMPLE draws by hashes what a SELECT of the same arithmetic finds: a third reading of the sampling contract."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.sql_oracle import Chain, smallest

EDGE = ("person", "knows", "person")
PEOPLE = 40


@pytest.fixture
def graph(db: Any) -> Any:
    """People who know each other, with parallel edges and self loops, in a snapshot `now`."""
    r = random.Random(3)
    known = ", ".join(
        f"({r.randrange(PEOPLE)}, {r.choice([0, 1, r.randrange(PEOPLE)])}, {r.choice([1, 2, 0.5])})" for _ in range(400)
    )
    db.script(f"""CREATE TABLE person (id BIGINT);
        INSERT INTO person SELECT range FROM range({PEOPLE});
        CREATE TABLE knows (a BIGINT, b BIGINT, weight DOUBLE);
        INSERT INTO knows VALUES {known};
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES (
          knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person WEIGHT (weight));
        CREATE SNAPSHOT now OF g""")
    return db


@pytest.mark.parametrize("direction", ["IN", "OUT"])
@pytest.mark.parametrize("method", ["BOTTOMK", "LABOR", "PRIORITY"])
def test_sample_by_hashes_is_what_a_select_finds(graph: Any, method: str, direction: str) -> None:
    text = (
        "SAMPLE FROM now SEEDS (SELECT id FROM person WHERE id % 5 = 0) AS person "
        f"FANOUT (knows {direction} => [4, 2, 1]) METHOD {method} REPEATABLE (18446744073709551615) BATCH 100 EPOCHS 3 "
    )
    numba, torch = (graph.execute(f"{text}WITH {backend}").fetchall() for backend in ("numba", "torch"))
    assert numba == torch
    for batch in range(3):
        drawn = sorted((hop, a, b, e) for number, hop, _, _, a, b, e in numba if number == batch)
        seeds = f"SELECT range AS node FROM range({PEOPLE}) WHERE range % 5 = 0"
        edges = "(SELECT a AS source, b AS destination, e_id, weight FROM now.knows)"
        select = smallest(method, edges, EDGE, direction, seeds, [4, 2, 1], seed=2**64 - 1, batch=batch)
        assert drawn == graph.execute(select).fetchall()
        assert {hop for hop, *_ in drawn} == {0, 1, 2}


def test_hashes_in_sql_give_the_contracts_vectors(db: Any) -> None:
    chain = Chain()
    chain.then("SELECT 0::UHUGEINT AS h, 0::UHUGEINT AS z")
    for part in (42, 2, 7, 1, 0x860DA7D90BDD38F6, 123456):
        chain.fold(str(part))
    assert db.execute(chain.text(f"SELECT h::UBIGINT FROM {chain.last}")).fetchall() == [(0xF0A625C1C1AB29D8,)]
