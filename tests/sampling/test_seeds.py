"""What a seed query gives: which seeds, in which order, at which times, and what is wrong with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import snapdb
from snapdb import Database
from snapdb.graph import GraphView
from snapdb.sampling import SeedExpansion, Seeds, batches_before, batches_in, epoch_order
from snapdb.types import EdgeType, Fanout, SampleSpec
from tests.support import oracle
from tests.support.graphs import EdgeList, MemoryGraph, all_seeds, sample_spec, ties
from tests.support.inside.execute import _find_ends
from tests.support.refusals import refused

KNOWS = EdgeType("person", "knows", "person")
LIKES = EdgeType("person", "likes", "film")
STATIC = -(2**63)
DAY = 86_400_000_000


def persons(db: Database) -> Database:
    """Persons, who joined at some time, know each other and like films; edge ids have holes."""
    db.script("""
        CREATE TABLE person (name VARCHAR, joined BIGINT, fame DOUBLE);
        INSERT INTO person VALUES ('ann', 1, 0.5), ('bob', 2, 2), ('cem', NULL, 0), ('dee', 9, 1);
        CREATE TABLE film (code BIGINT, shown BIGINT);
        INSERT INTO film SELECT range * 10, range FROM range(5);
        CREATE TABLE knows (a VARCHAR, b VARCHAR, t BIGINT, closeness DOUBLE);
        INSERT INTO knows VALUES
          ('ann', 'bob', 3, 1), ('gone', 'gone', 0, 1), ('bob', 'ann', 3, 2), ('ann', 'cem', 5, NULL);
        DELETE FROM knows WHERE a = 'gone';
        INSERT INTO knows VALUES ('dee', 'ann', 12, 4), ('ann', 'bob', 4, 5), ('bob', 'bob', 20, 6);
        CREATE TABLE likes (who VARCHAR, film BIGINT, t BIGINT);
        INSERT INTO likes VALUES ('ann', 10, 4), ('bob', 40, 6), ('cem', 0, 2);
        CREATE PROPERTY GRAPH g
          VERTEX TABLES (person KEY (name) EVENT TIME (joined) NULLS STATIC, film KEY (code))
          EDGE TABLES (
            knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t),
            likes SOURCE KEY (who) REFERENCES person DESTINATION KEY (film) REFERENCES film EVENT TIME (t));
        CREATE SNAPSHOT s OF g FOR EVENT_TIME AS OF 15
    """)
    return db


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Persons and films, for tests that change nothing."""
    with snapdb.connect(tmp_path_factory.mktemp("seeds") / "world.snapdb") as database:
        yield persons(database)


@pytest.fixture
def own(db: Database) -> Database:
    """The same, for a test alone."""
    return persons(db)


def opened(db: Database, query: str, clauses: str = "", **more: Any) -> tuple[GraphView, Seeds]:
    """The view and the seeds of a sampler over snapshot s; `query` is all between SEEDS and FANOUT."""
    with db.stream(f"SAMPLE FROM s SEEDS {query} FANOUT (knows => [2]) {clauses}", **more) as stream:
        return stream.view, stream.seeds


def read(db: Database, query: str, clauses: str = "", **more: Any) -> Seeds:
    return opened(db, query, clauses, **more)[1]


def test_vertices_come_by_dense_id_then_time_then_target(world: Database) -> None:
    query = "(SELECT * FROM (VALUES ('bob', 9, 1), ('ann', 7, 5), ('ann', 3, 9)) v(name, seed_time, y)) AS person"
    seeds = read(world, query)
    assert seeds.ids.tolist() == [0, 0, 1]
    assert seeds.time is not None
    assert seeds.time.tolist() == [3, 7, 9]
    assert seeds.y is not None
    assert seeds.y.tolist() == [9, 5, 1]
    assert seeds.ends is None
    assert seeds.query_order is None


def test_the_columns_after_the_key_may_come_in_any_order(world: Database) -> None:
    seeds = read(world, "(SELECT name, 7 AS y, 20 AS SEED_TIME FROM s.person) AS person")
    assert seeds.time is not None
    assert seeds.time.tolist() == [20] * 4
    assert seeds.y is not None
    assert seeds.y.tolist() == [7] * 4


def test_the_same_seed_at_two_times_is_two_seeds(world: Database) -> None:
    assert read(world, "(SELECT 'ann', unnest([4, 5]) AS seed_time) AS person").ids.tolist() == [0, 0]


def test_the_same_seed_twice_is_an_error_unless_duplicates_are_allowed(world: Database) -> None:
    query = "(SELECT name, 50 AS seed_time, y FROM s.person, (SELECT unnest([2, 1]) AS y)) AS person"
    with refused("duplicate-seeds", "ALLOW DUP"):
        read(world, query)
    seeds = read(world, query, "ALLOW DUPLICATES")
    assert seeds.ids.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert seeds.y is not None
    assert seeds.y.tolist() == [1, 2] * 4


def test_further_columns_come_with_their_seeds_in_types_that_hold_them(world: Database) -> None:
    values = (
        "0.5::FLOAT AS share, fame, 1.25 AS price, joined > 2 IS TRUE AS late, sum(1) OVER () AS n, 7::UTINYINT AS Code"
    )
    seeds = read(world, f"(SELECT name, {values}, [fame, 1]::DOUBLE[2] AS pair FROM s.person) AS person")
    assert list(seeds.columns) == ["Code", "fame", "late", "n", "pair", "price", "share"]
    assert {name: str(values.dtype) for name, values in seeds.columns.items()} == {
        "Code": "int64",
        "fame": "float64",
        "late": "bool",
        "n": "int64",
        "pair": "float64",
        "price": "float64",
        "share": "float32",
    }
    assert seeds.columns["fame"].tolist() == [0.5, 2, 0, 1]
    assert seeds.columns["late"].tolist() == [False, False, False, True]
    assert seeds.columns["pair"].tolist() == [[0.5, 1], [2, 1], [0, 1], [1, 1]]


def test_a_target_may_be_several_numbers(world: Database) -> None:
    whole = read(world, "(SELECT name, [joined, NULL, 3]::BIGINT[3] AS y FROM s.person) AS person")
    assert whole.y is not None
    assert whole.y.tolist() == [[1, -1, 3], [2, -1, 3], [-1, -1, 3], [9, -1, 3]]
    real = read(world, "(SELECT name, CASE WHEN joined > 1 THEN [fame, 1]::FLOAT[2] END AS y FROM s.person) AS person")
    assert real.y is not None
    assert (real.y.dtype, real.y.shape) == (np.float32, (4, 2))
    assert np.isnan(real.y).tolist() == [[True] * 2, [False] * 2, [True] * 2, [False] * 2]
    flags = read(world, "(SELECT name, [fame > 1, true]::BOOLEAN[2] AS y FROM s.person) AS person")
    assert flags.y is not None
    assert flags.y.tolist() == [[0, 1], [1, 1], [0, 1], [0, 1]]
    none = read(world, "(SELECT name, [1, 2]::FLOAT[2] AS y, true AS b FROM s.person WHERE false) AS person")
    assert none.y is not None
    assert (none.y.shape, none.columns["b"].shape) == ((0, 2), (0,))


def test_seeds_that_agree_in_all_else_come_by_their_columns_whatever_the_query_gives_first(world: Database) -> None:
    rows = "(VALUES ('ann', 2, 1.5, 0), ('ann', 1, 2.5, 0), ('ann', 1, 0.5, 0), ('ann', 1, 0.5, -1)) v(name, b, a, y)"
    found = [
        read(world, f"(SELECT {order} FROM {rows} ORDER BY {by}) AS person", "ALLOW DUPLICATES")
        for order, by in (("*", "b, a, y"), ("name, y, [a, 7]::DOUBLE[2] AS a, b", "a DESC, y DESC"))
    ]
    for seeds in found:
        assert seeds.y is not None
        assert seeds.y.tolist() == [-1, 0, 0, 0]
        assert seeds.columns["b"].tolist() == [1, 1, 2, 1]
    assert found[0].columns["a"].tolist() == found[1].columns["a"][:, 0].tolist() == [0.5, 0.5, 1.5, 2.5]


def test_a_streams_state_knows_the_columns_of_its_seeds(world: Database) -> None:
    def state(more: str) -> dict[str, Any]:
        query = f"SAMPLE FROM s SEEDS (SELECT name{more} FROM s.person) AS person FANOUT (knows => [2])"
        with world.stream(query) as stream:
            return stream.state_dict()

    states = [state(more) for more in ("", ", 1 AS w", ", 2 AS w", ", 1.0::DOUBLE AS w", ", 1 AS v")]
    assert len({found["seeds"] for found in states}) == len(states)


def test_edges_come_by_time_then_edge_id(world: Database) -> None:
    seeds = read(world, "EDGES knows (SELECT e_id, t AS seed_time, e_id * 2 AS y FROM s.knows WHERE t > 1 AND t < 20)")
    assert seeds.ids.tolist() == [0, 2, 5, 3, 4]
    assert seeds.time is not None
    assert seeds.time.tolist() == [3, 3, 4, 5, 12]
    assert seeds.y is not None
    assert seeds.y.tolist() == [0, 4, 10, 6, 8]
    assert seeds.type == "person"


def test_seed_edges_know_their_ends(world: Database) -> None:
    seeds = read(world, "EDGES knows (SELECT e_id FROM s.knows)")
    assert seeds.ends is not None
    found = list(zip(seeds.ids.tolist(), *(ends.tolist() for ends in seeds.ends), strict=True))
    assert found == [(0, 0, 1), (2, 1, 0), (3, 0, 2), (4, 3, 0), (5, 0, 1)]
    likes = read(world, "EDGES likes (SELECT e_id FROM s.likes WHERE film > 0)")
    assert likes.ends is not None
    assert [ends.tolist() for ends in likes.ends] == [[0, 1], [1, 4]]


@pytest.mark.parametrize(
    ("e_id", "shown"),
    [*((str(n), str(n)) for n in (1, 6, 99, -1, 2**62)), ("NULL", "NULL"), (f"{2**64 - 1}::UBIGINT", str(2**64 - 1))],
)
def test_an_edge_that_is_not_in_the_snapshot_is_no_seed(world: Database, e_id: str, shown: str) -> None:
    with refused("unknown-seed", "1 of 2", f"({shown})", "SELECT e_id FROM s.knows"):
        read(world, f"EDGES knows (SELECT unnest([0, {e_id}]) AS e_id)")


def test_a_seed_has_a_time_where_one_is_asked(world: Database) -> None:
    query = "(SELECT name, nullif(joined, 2) + 20 AS seed_time FROM s.person) AS person"
    with refused("seed-time", "seed_time"):
        read(world, query)


def test_a_seed_was_born_by_its_time(world: Database) -> None:
    assert read(world, "(SELECT name, coalesce(joined, 0) AS seed_time FROM s.person) AS person").ids.size == 4
    with refused("seed-not-there-yet", at="SELECT name, 0 AS seed_time FROM s.person"):
        read(world, "(SELECT name, 0 AS seed_time FROM s.person) AS person")


def test_the_ends_of_a_seed_edge_were_born_by_its_time(world: Database) -> None:
    with refused("seed-not-there-yet", "e_id"):
        read(world, "EDGES knows (SELECT e_id, CASE WHEN e_id IN (0, 4) THEN 1 ELSE 2 END AS seed_time FROM s.knows)")


def test_births_are_read_where_seeds_have_times(world: Database) -> None:
    view, _ = opened(world, "(SELECT name, 20 AS seed_time FROM s.person) AS person")
    assert {name: born.tolist() for name, born in view.born.items()} == {"person": [1, 2, STATIC, 9]}
    assert opened(world, "(SELECT name FROM s.person) AS person")[0].born == {}


def test_times_are_microseconds_where_the_graph_counts_in_timestamps(db: Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(3);
        CREATE TABLE knows AS SELECT 0 AS a, 1 AS b, TIMESTAMP '1970-01-02' AS t;
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES
          (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
        CREATE SNAPSHOT s OF g
    """)
    for time, expected in (
        ("DATE '1970-01-03'", 2 * DAY),
        ("TIMESTAMP '1969-12-31'", -DAY),
        ("TIMESTAMP_S '1970-01-01 00:00:01'", 1_000_000),
        ("TIMESTAMPTZ '1970-01-02 01:00:00+01'", DAY),
    ):
        seeds = read(db, f"(SELECT id, {time} AS seed_time FROM person) AS person")
        assert seeds.time is not None
        assert seeds.time.tolist() == [expected] * 3
    with refused("seed-time", "seed_time"):
        read(db, "(SELECT id, 'infinity'::TIMESTAMP AS seed_time FROM person) AS person")
    with refused("seed-type", "seed_time", at="SELECT id, 5 AS seed_time FROM person"):
        read(db, "(SELECT id, 5 AS seed_time FROM person) AS person")


def test_a_time_beyond_64_bits_is_refused(world: Database) -> None:
    with refused("seed-time"):
        read(world, f"(SELECT name, {2**64 - 1}::UBIGINT AS seed_time FROM s.person) AS person")


def test_in_order_is_the_order_of_the_query(world: Database) -> None:
    seeds = read(world, "EDGES knows (SELECT e_id, t AS seed_time FROM s.knows ORDER BY e_id DESC)", "IN ORDER")
    assert seeds.ids[epoch_order(seeds, 0, 3, "IN ORDER")].tolist() == [5, 4, 3, 2, 0]


def test_weights_of_another_column_are_read_by_edge_id(own: Database) -> None:
    own.execute("CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 4")
    sample = "SAMPLE FROM {} SEEDS (SELECT name FROM {}.person) AS person FANOUT (knows => [2]) WEIGHT BY closeness"
    with own.stream(sample.format("early", "early")) as stream:
        weights = stream.view.weights["knows"]
    assert weights[[0, 2, 5]].tolist() == [1, 2, 5]
    with refused("bad-weight", "e_id", at="WEIGHT BY closeness"):
        own.execute(sample.format("s", "s"))


def test_weights_are_those_of_the_snapshots_version(own: Database) -> None:
    own.execute("CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 4")
    own.execute("UPDATE knows SET closeness = 100")
    sample = (
        "SAMPLE FROM early SEEDS (SELECT name FROM early.person) AS person FANOUT (knows => [2]) WEIGHT BY closeness"
    )
    with own.stream(sample) as stream:
        assert stream.view.weights["knows"][[0, 2, 5]].tolist() == [1, 2, 5]


def test_negatives_are_weighed_by_a_column_or_by_degree(world: Database) -> None:
    edges = "EDGES knows (SELECT e_id FROM s.knows)"
    by_column, _ = opened(world, edges, "NEGATIVES 1 PER POSITIVE WEIGHTED BY fame")
    assert by_column.destination_weights is not None
    assert by_column.destination_weights.tolist() == [0.5, 2, 0, 1]
    by_degree, _ = opened(world, edges, "NEGATIVES 1 PER POSITIVE WEIGHTED BY DEGREE")
    assert by_degree.destination_weights is not None
    assert by_degree.destination_weights.tolist() == [2, 2, 1, 0]


@pytest.mark.parametrize(("value", "shown"), [("NULL", "nan"), ("-1", "-1.0"), ("'inf'", "inf")])
def test_a_weight_of_negatives_is_finite_and_not_negative(own: Database, value: str, shown: str) -> None:
    own.script(
        f"ALTER TABLE person ADD COLUMN rank DOUBLE; UPDATE person SET rank = 1; "
        f"UPDATE person SET rank = {value} WHERE name = 'bob'; CREATE OR REPLACE SNAPSHOT s OF g"
    )
    with refused("bad-negatives", "1 vertex of person", "rank", f"(bob: {shown}"):
        read(own, "EDGES knows (SELECT e_id FROM s.knows)", "NEGATIVES 1 PER POSITIVE WEIGHTED BY rank")


def test_a_sample_gives_the_neighbourhoods_of_negatives_too(own: Database) -> None:
    own.execute("INSERT INTO likes SELECT 'dee', film.code, 12 FROM film")
    own.execute("CREATE OR REPLACE SNAPSHOT s OF g")
    sample = (
        "SAMPLE FROM s SEEDS EDGES likes (SELECT e_id, 13 AS seed_time FROM s.likes WHERE who != 'dee') "
        "FANOUT (likes => [FULL]) BATCH 100 KEEP SEEDS "
    )
    reached = {row[5] for row in own.execute(sample).fetchall()}
    assert reached == {0, 10, 40}
    more = own.execute(sample + "NEGATIVES 4 PER POSITIVE EXCLUDE KNOWN").fetchall()
    assert {row[5] for row in more} == {0, 10, 20, 30, 40}


def test_seeds_from_outside_may_have_times(world: Database) -> None:
    given = pa.table({"e_id": [4, 0], "seed_time": [12, 3]})
    seeds = read(world, "EDGES knows (SELECT e_id FROM s.knows)", seeds=given)
    assert seeds.ids.tolist() == [0, 4]
    assert seeds.time is not None
    assert seeds.time.tolist() == [3, 12]


def test_the_error_points_to_the_seed_query(world: Database) -> None:
    with refused("unknown-seed", "(77)", at="SELECT 77 AS e_id"):
        world.execute("SAMPLE FROM s SEEDS EDGES knows (SELECT 77 AS e_id) FANOUT (knows => [2])")


# Edges found in rows of every form


@pytest.mark.parametrize("before", [None, 5])
def test_ends_are_found_for_all_edges_of_the_rows_and_no_others(before: int | None) -> None:
    graph = replace(ties(), before=before)
    edge = EdgeType("customer", "bought", "product")
    listed = graph.edges[edge]
    assert listed.time is not None
    told: list[float] = []
    asked = np.concatenate([np.arange(200)[::-1], [7, 7, -5, 200, 2**62]])
    sources, destinations = _find_ends(graph.view(), edge, asked, 200, told.append)
    there = np.array([0 <= i < 200 and (before is None or listed.time[i] < before) for i in asked])
    assert ((sources >= 0) == there).all()
    assert sources[there].tolist() == listed.source[asked[there]].tolist()
    assert destinations[there].tolist() == listed.destination[asked[there]].tolist()
    assert told[0] == 0


def test_an_edge_id_beyond_its_table_is_damage() -> None:
    edge = EdgeType("customer", "bought", "product")
    with refused("corrupt", "CHECK DATABASE"):
        _find_ends(ties().view(), edge, np.arange(3), 150, lambda share: None)


# Which seeds an epoch takes


def subset_spec(share: Fraction | None, batch_size: int = 4) -> SampleSpec:
    return sample_spec("person", Fanout(KNOWS, "IN", (2,)), batch_size=batch_size, subset=share)


@pytest.mark.parametrize(
    "share", [None, Fraction(1), Fraction(1, 3), Fraction(7, 20), Fraction(1, 1000), Fraction(99, 100)]
)
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_batches_are_counted_as_one_by_one(share: Fraction | None, count: int) -> None:
    spec = subset_spec(share)
    seeds = all_seeds(MemoryGraph({"person": count}, {KNOWS: EdgeList.of([])}), "person")
    total = 0
    for epoch in range(2 * count + 3):
        order = epoch_order(seeds, 42, epoch, "SHUFFLE", share)
        assert order.tolist() == oracle.epoch_seeds(count, 42, epoch, "SHUFFLE", None, share)
        assert batches_before(count, spec, epoch) == total
        assert batches_in(count, spec, epoch) == -(-order.size // 4)
        total += batches_in(count, spec, epoch)


@pytest.mark.parametrize("order", ["SHUFFLE", "FIXED", "IN ORDER"])
def test_subsets_take_every_seed_once_before_any_again(order: Any) -> None:
    seeds = all_seeds(MemoryGraph({"person": 50}, {KNOWS: EdgeList.of([])}), "person")
    rounds = [
        np.concatenate([epoch_order(seeds, 1, 7 * turn + epoch, order, Fraction(3, 20)) for epoch in range(7)])
        for turn in range(2)
    ]
    assert all(sorted(taken.tolist()) == list(range(50)) for taken in rounds)
    assert np.array_equal(*rounds) == (order != "SHUFFLE")


def test_a_subset_is_a_share_of_the_seeds_and_counts_its_own_batches(world: Database) -> None:
    sample = "SAMPLE FROM s SEEDS (SELECT name FROM s.person) AS person FANOUT (knows => [FULL]) BATCH 1 {} EPOCHS 2"
    rows = world.execute(sample.format("SUBSET 50 PERCENT PER EPOCH")).fetchall()
    assert len(rows) == 5
    assert {row[0] for row in rows} <= {0, 1, 2, 3}
    assert len(world.execute(sample.format("")).fetchall()) == 10


def test_both_back_ends_give_the_same_rows(world: Database) -> None:
    for query in (
        "(SELECT name, 14 AS seed_time FROM s.person) AS person FANOUT (knows BOTH => [2, 2]) TEMPORAL < SEED_TIME",
        "EDGES knows (SELECT e_id, 14 AS seed_time FROM s.knows) FANOUT (knows => [2, 2]) NEGATIVES 2 PER POSITIVE",
    ):
        sample = f"SAMPLE FROM s SEEDS {query} BATCH 3 EPOCHS 2"
        rows = world.execute(sample).fetchall()
        assert rows
        assert world.execute(f"{sample} ON 'cpu' WITH torch").fetchall() == rows


def test_every_form_gives_the_same_seeds_and_negatives(db: Database) -> None:
    edges = "SELECT (range * 7) % 311 AS a, (range * range) % 301 AS b, range AS t FROM range"
    db.script(f"""
        CREATE TABLE person AS SELECT range AS id FROM range(320);
        CREATE TABLE knows AS {edges}(3000);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES
          (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
        CREATE SNAPSHOT first OF g;
        INSERT INTO knows {edges}(3000, 3050)
    """)
    sample = (
        "SAMPLE FROM s SEEDS EDGES knows (SELECT e_id FROM s.knows ORDER BY e_id) FANOUT (knows => [2]) "
        "NEGATIVES 3 PER POSITIVE EXCLUDE KNOWN"
    )
    found = []
    for form in ("ends", "bitmap", "materialized"):  # on a patch of the first snapshot's rows
        db.execute(f"CREATE OR REPLACE SNAPSHOT s OF g FOR EVENT_TIME AS OF 3010 WITH (layout = {form})")
        assert db.execute("SHOW SNAPSHOTS LIKE 's'").arrow()["form"].to_pylist() == [form]
        with db.stream(sample, threads=0) as stream:
            entrance = SeedExpansion(stream.view, stream.spec, stream.seeds)
            entries = [entrance.entry(np.arange(3011), epoch) for epoch in range(2)]
        found.append([[group.ids.tolist() for group in entry.groups] for entry in entries])
    assert found[0] == found[1] == found[2]
    sources, destinations, negatives = found[0][0]
    rows = db.execute("SELECT a, b FROM s.knows ORDER BY e_id").fetchall()
    assert list(zip(sources, destinations, strict=True)) == rows
    assert not set(rows) & set(zip(np.repeat(sources, 3).tolist(), negatives, strict=True))


def test_ids_and_times_beyond_what_there_can_be_are_refused(db: Database) -> None:
    persons(db)
    traversed = "FANOUT (knows => [2])"
    with refused("unknown-seed", at="SELECT 18446744073709551616::HUGEINT AS e_id"):
        db.execute(
            f"SAMPLE FROM s SEEDS EDGES knows (SELECT 18446744073709551616::HUGEINT AS e_id) {traversed}"
        ).fetchall()
    reserved = "SELECT 'ann', (-9223372036854775808)::BIGINT AS seed_time"
    with refused("seed-time", '"seed_time"'):
        db.execute(f"SAMPLE FROM s SEEDS ({reserved}) AS person {traversed} TEMPORAL < SEED_TIME").fetchall()


@pytest.mark.parametrize(
    "nothing",
    [[], np.array([]), torch.tensor([]), pa.array([], pa.null()), {"id": []}],
    ids=lambda given: str(type(given)),
)
def test_no_ids_at_all_fit_every_key(world: Database, nothing: Any) -> None:
    for query in (
        "(SELECT name FROM person) AS person",
        "(SELECT code FROM film) AS film",
        "EDGES knows (SELECT e_id FROM s.knows)",
    ):
        assert read(world, query, seeds=nothing).ids.tolist() == []
    later = {"seed_time": [], "e_id": []}
    found = read(world, "EDGES knows (SELECT e_id, t AS seed_time FROM s.knows)", "TEMPORAL < SEED_TIME", seeds=later)
    assert (found.ids.tolist(), found.time is None) == ([], False)


def test_no_ids_at_all_fit_a_key_of_several_columns(db: Database) -> None:
    db.script("""
        CREATE TABLE place AS SELECT uuid() AS a, DATE '2020-01-01' + range::INT AS b FROM range(3);
        CREATE PROPERTY GRAPH g VERTEX TABLES (place KEY (a, b));
        CREATE SNAPSHOT s OF g
    """)
    sample = "SAMPLE FROM s SEEDS (SELECT a, b FROM place) AS place FANOUT (DEFAULT => [1])"
    with db.stream(sample, seeds=[]) as stream:
        assert (len(stream), list(stream)) == (0, [])
