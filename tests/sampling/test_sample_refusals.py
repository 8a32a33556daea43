"""What is found to be wrong only when a sampler is opened or run is shown where the statement says it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import snapdb
from snapdb import Database
from tests.support.inside.loading import enough_memory
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE

NODES = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (wrote => [2, 2]) "
TIMED = NODES.replace("SELECT id", "SELECT id, TIMESTAMP '2026-01-09' AS seed_time")
LINKS = "SAMPLE FROM s SEEDS EDGES wrote (SELECT e_id FROM s.wrote) FANOUT (wrote => [2]) "
NEGATIVES = "NEGATIVES 2 PER POSITIVE WEIGHTED BY "


@pytest.fixture(scope="module")
def world() -> Iterator[Database]:
    db = snapdb.connect()
    db.script("""
        CREATE TABLE person AS SELECT range AS id, [range, 1]::FLOAT[2] AS f, 0 AS zero, if(range = 3, NULL, 1) AS gap
            FROM range(20);
        CREATE TABLE wrote AS SELECT hash(range) % 20 AS a, hash(range + 1) % 20 AS b, 0 AS zero, -1.0 AS less,
            TIMESTAMP '2026-01-01' + INTERVAL (range) HOURS AS day, if(range = 7, NULL, 1) AS gap, 'nan'::DOUBLE AS nan
            FROM range(100);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (f AS x)) EDGE TABLES (wrote
            SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (day));
        CREATE SNAPSHOT s OF g""")
    yield db
    db.close()


@pytest.mark.parametrize(
    ("sample", "clause", "code", "named"),
    [
        (NODES, "WEIGHT BY gap", "bad-weight", ("1 edge of wrote", "gap")),
        (NODES, "WEIGHT BY nan", "bad-weight", ("nan has 100",)),
        (NODES, "WEIGHT BY less", "bad-weight", ("less has 100",)),
        (LINKS, NEGATIVES + "gap", "bad-negatives", ("1 vertex of person", "gap")),
        (LINKS, NEGATIVES + "zero", "bad-negatives", ("person", "zero")),
    ],
)
@pytest.mark.parametrize("before", ["", "EXPLAIN ", "AUDIT "])
def test_weights_are_refused_at_their_clause(
    world: Database, before: str, sample: str, clause: str, code: str, named: tuple[str, ...]
) -> None:
    with refused(code, *named, at=clause):
        world.execute(f"{before}{sample}{clause} BATCH 4").fetchall()
    with refused(code, *named, at=clause):
        world.stream(f"{sample}{clause} BATCH 4")


def test_memory_that_is_too_small_is_shown_where_it_is_said(world: Database) -> None:
    clause = "WITH (memory = '2KB')"
    for statement in ("EXPLAIN ANALYZE " + NODES, "AUDIT " + NODES):
        with refused("memory", at=clause):
            world.execute(f"{statement}{clause} BATCH 4").fetchall()
    with refused("memory", at=clause):
        world.stream(f"{NODES}{clause} BATCH 4")
    with refused("memory", "1.00 KB") as caught:
        world.stream(f"{NODES}WITH (memory = '2GB')", memory=1000)
    assert caught.value.span is None


def test_a_batch_beyond_memory_names_itself_and_what_makes_it_smaller() -> None:
    with refused("memory", "batch 3 of epoch 2", "9 TB", "BATCH, FANOUT or NEGATIVES"), enough_memory(2, 3):
        raise MemoryError("9 TB")
    with pytest.raises(RuntimeError, match="another"), enough_memory(0, 0):
        raise RuntimeError("another")


@pytest.mark.parametrize(
    ("seeds", "code", "shown"),
    [
        ([1, None, 99], "unknown-seed", None),
        ({"id": [1], "k": ["a"]}, "seed-type", None),
        ("SELECT id + 19 FROM person", "unknown-seed", "SELECT id + 19 FROM person"),
        ("SELECT", "parse", "SELECT"),
    ],
)
def test_seeds_from_outside_are_not_blamed_on_the_statement(
    world: Database, seeds: Any, code: str, shown: str | None
) -> None:
    with refused(code, at=shown) as caught:
        world.stream(NODES, seeds=seeds)
    assert (caught.value.span is None) == (shown is None)


def test_a_seed_query_without_columns_is_shown(world: Database) -> None:
    with refused("parse", at="SELECT"):
        world.execute(NODES.replace("SELECT id FROM person", "SELECT"))


def test_a_length_that_changes_is_refused(world: Database) -> None:
    with refused("not-repeatable", at="random"):
        world.execute(TIMED + "TEMPORAL < SEED_TIME WITHIN INTERVAL (random() * 1000) HOURS")


def test_many_epochs_of_no_seeds_are_over_at_once(world: Database) -> None:
    nobody = NODES.replace("FROM person)", "FROM person WHERE id < 0)") + "EPOCHS 2147483647"
    assert world.execute(nobody).fetchall() == []
    assert world.execute("AUDIT " + nobody).fetchall() == []


def test_explain_stops_before_it_samples(world: Database) -> None:
    def stop(what: str, share: float | None) -> None:
        if what.startswith("opening"):
            threading.Thread(target=world.interrupt).start()
            assert world._session._stopped.wait(PATIENCE)

    world.progress = stop
    try:
        with refused("interrupted"):
            world.execute("EXPLAIN " + NODES).fetchall()
    finally:
        world.progress = None
    with world.stream(NODES) as stream:  # what stopped that statement does not stop this stream
        assert len(stream) == 1


def test_a_plan_is_shown_whole_and_says_a_length_as_people_do(world: Database) -> None:
    result = world.execute(f"EXPLAIN {TIMED} TEMPORAL < SEED_TIME WITHIN INTERVAL 36 HOURS BATCH 4")
    assert max(map(len, str(result).splitlines())) <= 80  # as shown; its rows are whole
    assert any("no older than 36 hours" in line for (line,) in result.fetchall())
    (told,) = world.execute(f"EXPLAIN (FORMAT json) {NODES}").fetchall()
    assert "1 batch of 1024" in json.loads(told[0])["plan"]["detail"]
    told_as_table = str(world.execute("EXPLAIN ANALYZE " + NODES.replace("[2, 2]", "[2, 2, 2, 2, 2, 2, 2, 2, 2, 2]")))
    assert told_as_table.count("Expand hop") == 10
    assert "shown" not in told_as_table.splitlines()[-1]


def test_what_no_argument_can_be_is_refused_in_our_words(world: Database) -> None:
    with pytest.raises(ValueError, match="memory must be an integer, found True"):
        world.stream(NODES, memory=True)
    with pytest.raises(ValueError, match="device 'meta' is not supported"):
        world.stream(NODES, device="meta")
    with pytest.raises(TypeError, match="the text of a SAMPLE or WALK statement, found 5"):
        world.stream(5)  # type: ignore[arg-type]
    with world.stream(NODES) as stream:
        with pytest.raises(ValueError, match="an epoch must be an integer"):
            stream.set_epoch(True)
        with pytest.raises(TypeError, match="must be a non-negative integer, found 'a'"):
            stream["a"]  # type: ignore[index]
        with refused("stream-state"):
            stream.load_state_dict(None)  # type: ignore[arg-type]
        for batch in (stream[0], stream[0].to("cpu")):
            with refused("missing", "'bought'", "'person'", "'wrote'"):
                batch.edge_index["bought"]  # type: ignore[index]
