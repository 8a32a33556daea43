"""What people need in their first week: columns of seeds, ages of edges, degrees, weights, several labels, new ids."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import snapdb
from snapdb import Batch, Database
from snapdb.train import fit
from tests.support.refusals import refused

CALLED = ("person", "called", "person")
WROTE = ("person", "wrote", "note")
FOREVER = 2**63 - 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Persons who call each other at times of which some are not known, and write notes at no time."""
    with snapdb.connect(tmp_path_factory.mktemp("week") / "one.snapdb") as db:
        db.script("""
            CREATE TABLE person AS SELECT range AS id, [range % 5, range % 3]::FLOAT[2] AS f FROM range(60);
            CREATE TABLE note AS SELECT range AS id FROM range(9);
            CREATE TABLE called AS SELECT range * 7 % 60 AS a, range * 11 % 59 AS b,
              CASE WHEN range % 10 > 0 THEN range END AS t FROM range(600);
            CREATE TABLE wrote AS SELECT range % 60 AS who, range % 9 AS what FROM range(90);
            CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (f AS x), note KEY (id)) EDGE TABLES (
              called SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t) NULLS STATIC,
              wrote SOURCE KEY (who) REFERENCES person DESTINATION KEY (what) REFERENCES note);
            CREATE SNAPSHOT s OF g
        """)
        yield db


def sampled(db: Database, seeds: str, clauses: str = "", fanout: str = "called BOTH => [4, 3]") -> Batch:
    """The first batch of 20 persons, or of 20 edges."""
    with db.stream(f"SAMPLE FROM s SEEDS {seeds} FANOUT ({fanout}) BATCH 20 {clauses}", threads=0) as stream:
        return stream[0]


# Columns of seeds


def test_the_columns_of_seeds_are_in_the_batch_and_in_its_other_forms(world: Database) -> None:
    seeds = (
        "(SELECT id, id * 0.5::FLOAT AS weight, [id, 1]::FLOAT[2] AS pair, id % 2 = 0 AS even FROM person) AS person"
    )
    batch = sampled(world, seeds)
    id_, columns = torch.tensor(batch.ids("person")[:20].to_pylist()), batch.seed_columns
    expected = {
        "even": id_ % 2 == 0,
        "pair": torch.stack([id_, torch.ones(20)], dim=1).float(),
        "weight": id_.float() / 2,
    }
    assert list(columns) == list(batch.only.seed_columns) == list(expected)
    data, table = batch.to_pyg(), batch.to_arrow()["person"]
    copied = pickle.loads(pickle.dumps(batch))
    for name, values in expected.items():
        assert torch.equal(columns[name], values)
        assert torch.equal(data[name], values)
        assert torch.equal(batch.to("cpu").seed_columns[name], values)
        assert torch.equal(copied.seed_columns[name], values)
        assert table[name][:20].to_pylist() == values.tolist()
        assert table[name].null_count == table.num_rows - 20
        assert any(values is tensor for values in columns.values() for tensor in batch.tensors())
        assert f"seed_columns[&#x27;{name}&#x27;]" in batch._repr_html_()
    assert batch.audit() == dict.fromkeys(batch.audit(), 0)


def test_the_columns_of_seed_edges_are_with_their_edge_type(world: Database) -> None:
    seeds = "EDGES called (SELECT e_id, e_id * 2 AS double, [1, a]::FLOAT[2] AS y FROM s.called)"
    batch = sampled(world, seeds, "NEGATIVES 2 PER POSITIVE", "called => [3], wrote OUT => [2]")
    assert batch.y is not None
    store = batch.to_pyg()[CALLED]
    assert torch.equal(store["double"], batch.seed_columns["double"])
    assert torch.equal(store["y"], batch.y)
    assert batch.y.shape == (20, 2)
    table = batch.to_arrow()["edge_label"]
    assert table["double"].to_pylist() == batch.seed_columns["double"].tolist() + [None] * 40
    assert table["y"].to_pylist() == batch.y.tolist() + [None] * 40
    assert pa.types.is_fixed_size_list(table["y"].type)


def test_a_column_that_seeds_do_not_give_says_where_they_would(world: Database) -> None:
    with refused("missing", "'weight'", "'w'", "SEEDS"):
        sampled(world, "(SELECT id, 1 AS w FROM person) AS person").seed_columns["weight"]


def test_both_back_ends_and_a_data_loader_carry_them(world: Database) -> None:
    query = "SAMPLE FROM s SEEDS (SELECT id, id AS w FROM person) AS person FANOUT (called => [2]) BATCH 20"
    found = []
    for clause in ("", " ON 'cpu' WITH torch"):
        with world.stream(query + clause, threads=0) as stream:
            found.append([batch.seed_columns["w"] for batch in stream])
    for numba, other in zip(*found, strict=True):
        assert torch.equal(numba, other)
    assert sorted(torch.cat(found[0]).tolist()) == list(range(60))


# Ages of edges


def test_an_edge_is_as_old_as_it_was_at_its_seeds_time(world: Database) -> None:
    batch = sampled(world, "(SELECT id, 300 + id AS seed_time FROM person) AS person", "TEMPORAL < SEED_TIME")
    age, time, index = batch.edge_age[CALLED], batch.edge_time[CALLED], batch.edge_index[CALLED]  # type: ignore[index]
    assert batch.seed_time is not None
    trees = batch.batch["person"].tolist()
    expected = [
        FOREVER if at == -(2**63) else int(batch.seed_time[trees[node]]) - at
        for at, node in zip(time.tolist(), index[1].tolist(), strict=True)
    ]
    assert age.tolist() == batch.only.edge_age.tolist() == expected
    assert FOREVER in expected
    assert min(expected) > 0


def test_edges_have_ages_where_they_have_times_and_seeds_have_trees(world: Database) -> None:
    timed = "(SELECT id, 300 AS seed_time FROM person) AS person"
    both = sampled(world, timed, "TEMPORAL < SEED_TIME", "called => [3], wrote OUT => [2]")
    assert list(both.edge_age) == [CALLED]
    for batch, key in ((both, ("note", "rev_wrote", "person")), (sampled(world, timed), CALLED)):
        with refused("missing", "EVENT TIME", "CREATE PROPERTY GRAPH", "TEMPORAL"):
            batch.edge_age[key]  # type: ignore[index]


def test_the_age_of_a_seed_edges_neighbours_counts_from_the_edges_time(world: Database) -> None:
    seeds = "EDGES called (SELECT e_id, t AS seed_time FROM s.called WHERE t > 200)"
    batch = sampled(world, seeds, "NEGATIVES 1 PER POSITIVE TEMPORAL < SEED_TIME", "called => [3]")
    assert batch.seed_time is not None
    trees = batch.batch["person"][batch.edge_index[CALLED][1]]  # type: ignore[index]
    known = batch.edge_time[CALLED] >= 0  # type: ignore[index]
    age = batch.edge_age[CALLED]  # type: ignore[index]
    assert torch.equal((age + batch.edge_time[CALLED])[known], batch.seed_time[trees][known])  # type: ignore[index]


# Degrees, hops, ids


def test_a_degree_at_each_event_is_the_degree_before_the_seeds_time(db: Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(30);
        CREATE TABLE called AS SELECT range * 7 % 30 AS a, range * 11 % 29 AS b, range // 3 AS t FROM range(300);
        CREATE TABLE degree AS SELECT b AS id, t, row_number() OVER (PARTITION BY b ORDER BY t) AS calls FROM called;
        CREATE PROPERTY GRAPH g
          VERTEX TABLES (person KEY (id) FEATURES (calls AS degree FROM degree KEY (id) EVENT TIME (t) DEFAULT 0))
          EDGE TABLES (called SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
        CREATE SNAPSHOT s OF g
    """)
    seeds = "(SELECT id, 10 + id AS seed_time FROM person) AS person"
    batch = sampled(db, seeds, "TEMPORAL < SEED_TIME", "called => [FULL]")
    found = batch.features["person"]["degree"][:20, 0].tolist()
    counted = "SELECT count(*) FILTER (t < 10 + id) FROM person LEFT JOIN called ON b = id GROUP BY id ORDER BY id"
    degrees = [row[0] for row in db.execute(counted).fetchall()]
    assert found == [degrees[i] for i in batch.n_id["person"][:20].tolist()]
    assert len(set(found)) > 3


def test_nought_stops_a_direction_at_a_hop(world: Database) -> None:
    batch = sampled(world, "(SELECT id FROM person) AS person", "", "called IN => [4, 0], called OUT => [0, 4]")
    into, out = batch.num_sampled_edges.values()
    assert into[0] > 0
    assert out[1] > 0
    assert (into[1], out[0]) == (0, 0)


def test_ids_that_came_later_keep_those_of_before_and_are_served_by_a_later_snapshot(db: Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range * 2 AS id, range AS f FROM range(20);
        CREATE TABLE called AS SELECT range * 14 % 40 AS a, range * 2 % 40 AS b FROM range(60);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (f))
          EDGE TABLES (called SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
        CREATE SNAPSHOT s OF g;
        CREATE SAMPLER train AS SAMPLE FROM s SEEDS (SELECT id FROM s.person) AS person FANOUT (called => [4]);
        INSERT INTO person VALUES (1, 100), (3, 200);
        INSERT INTO called VALUES (0, 1), (1, 3);
        CREATE SNAPSHOT later OF g
    """)
    with refused("unknown-seed"):
        db.stream("train", seeds=[3, 0, 1])
    query = "SAMPLE FROM later SEEDS (SELECT id FROM person) AS person FANOUT (called => [4])"
    with db.stream(query, seeds=[3, 0, 1], threads=0) as stream:
        batch = stream[0]
    seen = dict(zip(batch.ids("person").to_pylist(), batch.n_id["person"].tolist(), strict=True))
    assert {seen[1], seen[3]} == {20, 21}
    with db.stream("train", threads=0) as stream:
        before = dict(zip(stream[0].ids("person").to_pylist(), stream[0].n_id["person"].tolist(), strict=True))
    assert all(before[name] == number for name, number in seen.items() if name not in (1, 3))
    assert batch.x["person"][batch.ids("person").to_pylist().index(3)].tolist() == [200]


# Training with weights and several labels


class Guess(nn.Module):
    """The same logits for every seed."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.linspace(-1, 1, classes))

    def forward(self, batch: Batch, x: Tensor | None = None) -> Tensor:
        return self.logits.expand(batch.batch_size, -1)


def first_loss(db: Database, columns: str, classes: int, weight: str | None = None) -> float:
    """What the first step loses, before anything is learned."""
    batch = sampled(db, f"(SELECT id, {columns} FROM person WHERE id < 20) AS person")
    return fit(Guess(classes), [batch], epochs=1, weight=weight).losses[0]


def test_a_weight_of_seeds_weighs_their_losses(world: Database) -> None:
    y, weight = torch.arange(20) % 3, torch.arange(20) / 4
    loss = -torch.log_softmax(torch.linspace(-1, 1, 3), 0)[y]
    given = "id % 3 AS y, id / 4 AS weight"
    assert first_loss(world, given, 3, "weight") == pytest.approx(float((loss * weight).sum() / weight.sum()), rel=1e-5)
    assert first_loss(world, given, 3) == pytest.approx(float(loss.mean()), rel=1e-5)


def test_seeds_that_weigh_nothing_teach_nothing(world: Database) -> None:
    batch = sampled(world, "(SELECT id, (id < 9)::INTEGER AS y, (id < 9)::INTEGER AS w FROM person) AS person")
    model = Guess(2)
    fit(model, [batch], epochs=200, lr=0.1, weight="w")
    assert torch.softmax(model.logits, 0)[1] > 0.95


def test_a_weight_that_seeds_do_not_give_is_refused(world: Database) -> None:
    with refused("missing", "'wait'", "'weight'"):
        first_loss(world, "1 AS y, 1 AS weight", 2, "wait")


def test_several_labels_are_each_a_yes_or_no_and_unknown_ones_teach_nothing(world: Database) -> None:
    logits = torch.linspace(-1, 1, 3)
    each = nn.functional.binary_cross_entropy_with_logits
    known = [each(logits[j], torch.tensor(float(i % (j + 2) == 0))) for i in range(20) for j in range(3) if i % 4 or j]
    y = "[(id % 2 = 0)::INTEGER, (id % 3 = 0)::INTEGER, (id % 4 = 0)::INTEGER]"
    y = f"list_transform({y}, lambda v, j: CASE WHEN id % 4 > 0 OR j > 1 THEN v END)::INTEGER[3] AS y"
    assert first_loss(world, y, 3) == pytest.approx(float(torch.stack(known).mean()), rel=1e-5)


def test_several_float_targets_are_regressed_and_nan_is_no_target(world: Database) -> None:
    targets = np.array([[i, np.nan if i % 2 else 1] for i in range(20)])
    expected = np.nanmean((np.array([-1, 1]) - targets) ** 2)
    y = "[id, CASE WHEN id % 2 = 0 THEN 1 END]::FLOAT[2] AS y"
    assert first_loss(world, y, 2) == pytest.approx(float(expected), rel=1e-5)


def test_balanced_classes_are_a_seed_query_that_repeats(world: Database) -> None:
    rare = "(id % 10 = 0)::INTEGER"
    fewer = f"SELECT id, {rare} AS y FROM person QUALIFY row_number() OVER (PARTITION BY {rare} ORDER BY hash(id)) <= 6"
    more = f"SELECT id, {rare} AS y FROM person JOIN range(9) AS copies(copy) ON copy = 0 OR {rare} = 1"
    for query, clause, count in ((fewer, "", 12), (more, "ALLOW DUPLICATES", 108)):
        found = []
        for _ in range(2):
            text = f"SAMPLE FROM s SEEDS ({query}) AS person FANOUT (called => [2]) BATCH 200 {clause}"
            with world.stream(text, threads=0) as stream:
                found.append((stream[0].y, stream[0].n_id["person"]))
        assert found[0][0] is not None
        assert (len(found[0][0]), int(found[0][0].sum())) == (count, count // 2)
        assert torch.equal(found[0][1], found[1][1])
