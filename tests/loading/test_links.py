"""Seed edges: a batch names their ends and negatives, as a model scores them and as PyG's loaders name them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

import snapdb
from snapdb.loading import Batch
from snapdb.types import EdgeType
from tests.support.refusals import refused

BOUGHT = EdgeType("customer", "bought", "product")
FANOUT = "FANOUT (bought BOTH => [3, 2]) BATCH 16 REPEATABLE (3)"
EDGES = "SEEDS EDGES bought (SELECT e_id, ts % 3 AS y FROM now.bought)"
TIMED = "SEEDS EDGES bought (SELECT e_id, ts AS seed_time FROM now.bought WHERE ts > 50)"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snapdb.Database]:
    """Customers 1000… buy products p0…; customer 1000 bought every product but p7."""
    with snapdb.connect(tmp_path_factory.mktemp("links") / "shop.snapdb") as db:
        db.script("""
            CREATE TABLE customer AS SELECT 1000 + range AS id, range % 2 AS club FROM range(20);
            CREATE TABLE product AS SELECT 'p' || range AS id, [range, 1]::FLOAT[2] AS f FROM range(12);
            CREATE TABLE bought AS
              SELECT 1001 + hash(range) % 19 AS who, 'p' || hash(range + 7) % 12 AS what, range AS ts FROM range(90)
              UNION ALL SELECT 1000, 'p' || range, 90 + range - (range > 7)::INT FROM range(12) WHERE range <> 7;
            CREATE PROPERTY GRAPH shop
              VERTEX TABLES (customer KEY (id) TARGET (club AS y), product KEY (id) FEATURES (f AS x))
              EDGE TABLES (bought SOURCE KEY (who) REFERENCES customer DESTINATION KEY (what) REFERENCES product
                EVENT TIME (ts));
            CREATE SNAPSHOT now OF shop;
        """)
        yield db


def batches(db: snapdb.Database, seeds: str, more: str = "", **options: Any) -> list[Batch]:
    with db.stream(f"SAMPLE FROM now {seeds} {more} {FANOUT}", **options) as stream:
        return list(stream)


def ends(batch: Batch) -> list[tuple[int, str]]:
    """The pairs by the user's ids."""
    assert batch.edge_label_index is not None
    source, destination = (pa.array(row.numpy()) for row in batch.edge_label_index)
    pairs = zip(batch.ids("customer").take(source), batch.ids("product").take(destination), strict=True)
    return [(s.as_py(), d.as_py()) for s, d in pairs]


def rows(db: snapdb.Database) -> list[tuple[int, str]]:
    """The ends of every edge, by edge id."""
    return [(who, what) for who, what in db.execute("SELECT who, what FROM now.bought ORDER BY e_id").fetchall()]


def test_pairs_are_the_seed_edges_then_their_negatives(shop: snapdb.Database) -> None:
    listed = rows(shop)
    for batch in batches(shop, EDGES, "NEGATIVES 2 PER POSITIVE"):
        assert batch.seed_type == BOUGHT
        assert (batch.src_index, batch.edge_label) != (None, None)
        size, pairs = batch.batch_size, ends(batch)
        assert pairs[:size] == [listed[i] for i in batch.input_id.tolist()]  # no times: ordered by edge id
        assert [source for source, _ in pairs[size:]] == [s for s, _ in pairs[:size] for _ in range(2)]
        assert batch.edge_label is not None
        assert batch.edge_label.dtype == torch.float32
        assert batch.edge_label.tolist() == [1.0] * size + [0.0] * 2 * size


def test_the_ends_are_also_there_one_by_one(shop: snapdb.Database) -> None:
    for count, shape in ((1, ()), (3, (3,))):
        batch = batches(shop, EDGES, f"NEGATIVES {count} PER POSITIVE")[0]
        index, size = batch.edge_label_index, batch.batch_size
        assert index is not None
        assert batch.src_index is not None
        assert batch.dst_pos_index is not None
        assert batch.dst_neg_index is not None
        assert torch.equal(torch.stack([batch.src_index, batch.dst_pos_index]), index[:, :size])
        assert batch.dst_neg_index.shape == (size, *shape)
        assert torch.equal(batch.dst_neg_index.reshape(-1), index[1, size:])


def test_without_negatives_there_are_only_the_seed_edges(shop: snapdb.Database) -> None:
    batch = batches(shop, EDGES)[0]
    assert batch.dst_neg_index is None
    assert batch.edge_label is not None
    assert batch.edge_label.tolist() == [1.0] * 16
    assert batch.negatives_missing == 0


def test_negatives_that_could_not_be_drawn_are_counted_and_marked(shop: snapdb.Database) -> None:
    eager = "SEEDS EDGES bought (SELECT e_id FROM now.bought WHERE who = 1000)"
    (batch,) = batches(shop, eager, "NEGATIVES 3 PER POSITIVE EXCLUDE KNOWN")
    assert batch.batch_size == 11
    assert batch.negatives_missing == 22
    assert batch.dst_neg_index is not None
    assert batch.dst_neg_index[:, 1:].tolist() == [[-1, -1]] * 11
    assert ends(batch)[11:] == [(1000, "p7")] * 11
    assert "11 bought edges as seeds with 11 negatives (22 could not be drawn)" in repr(batch)


def test_each_seed_edge_has_a_tree_with_its_ends_and_negatives(shop: snapdb.Database) -> None:
    for batch in batches(shop, TIMED, "NEGATIVES 2 PER POSITIVE TEMPORAL < SEED_TIME"):
        trees = torch.arange(batch.batch_size)
        assert batch.src_index is not None
        assert batch.dst_pos_index is not None
        assert batch.dst_neg_index is not None
        assert torch.equal(batch.batch["customer"][batch.src_index], trees)
        assert torch.equal(batch.batch["product"][batch.dst_pos_index], trees)
        assert torch.equal(batch.batch["product"][batch.dst_neg_index], trees[:, None].expand(-1, 2))
        assert batch.seed_time is not None
        assert batch.seed_time.tolist() == [51 + i for i in batch.input_id.tolist()]  # ordered by time


def test_targets_of_seed_edges_are_the_querys_and_never_their_sources(shop: snapdb.Database) -> None:
    asked = batches(shop, EDGES)[0]
    assert asked.y is not None
    assert asked.y.tolist() == [i % 3 for i in asked.input_id.tolist()]
    assert batches(shop, TIMED)[0].y is None


def test_no_batch_sees_its_seed_edges(shop: snapdb.Database) -> None:
    kept = batches(shop, EDGES, "KEEP SEEDS")
    for batch in batches(shop, EDGES, "NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN"):
        assert set(batch.audit().values()) == {0}
        seeds = set(ends(batch)[: batch.batch_size])
        assert seeds.isdisjoint(seen(batch))
    assert any(set(ends(batch)) & seen(batch) for batch in kept)


def seen(batch: Batch) -> set[tuple[int, str]]:
    """The pairs of message passing, by the user's ids."""
    product, customer = batch.edge_index[EdgeType("product", "rev_bought", "customer")]
    source, destination = batch.edge_index[BOUGHT]
    found = zip([*source.tolist(), *customer.tolist()], [*destination.tolist(), *product.tolist()], strict=True)
    who, what = batch.ids("customer").to_pylist(), batch.ids("product").to_pylist()
    return {(who[s], what[d]) for s, d in found}


def test_pairs_move_and_travel_with_their_batch(shop: snapdb.Database) -> None:
    batch = batches(shop, TIMED, "NEGATIVES 2 PER POSITIVE TEMPORAL <= SEED_TIME")[0]
    there, copy = batch.to("meta"), pickle.loads(pickle.dumps(batch))
    for name in ("edge_label_index", "edge_label", "src_index", "dst_pos_index", "dst_neg_index", "seed_time"):
        assert getattr(there, name).device.type == "meta"
        assert torch.equal(getattr(copy, name), getattr(batch, name))
    assert there.batch["product"].device.type == "meta"
    assert torch.equal(copy.batch["product"], batch.batch["product"])
    assert copy.seed_type == BOUGHT


def test_arrow_has_a_table_of_the_pairs(shop: snapdb.Database) -> None:
    batch = batches(shop, TIMED, "NEGATIVES 2 PER POSITIVE TEMPORAL < SEED_TIME")[0]
    tables = batch.to_arrow()
    table = tables["edge_label"]
    assert table.column_names == ["source", "destination", "edge_label", "input_id", "seed_time"]
    assert batch.edge_label_index is not None
    assert table["source"].to_pylist() == batch.edge_label_index[0].tolist()
    size, input_id = batch.batch_size, batch.input_id.tolist()
    assert table["input_id"].to_pylist() == input_id + [i for i in input_id for _ in range(2)]
    assert table["seed_time"].to_pylist() == [51 + i for i in table["input_id"].to_pylist()]
    assert tables["product"]["batch"].to_pylist() == batch.batch["product"].tolist()
    assert pa.compute.sum(table["edge_label"]).as_py() == size


def test_the_torch_back_end_gives_the_same_pairs(shop: snapdb.Database) -> None:
    more = "NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN TEMPORAL < SEED_TIME"
    for ours, theirs in zip(batches(shop, TIMED, more), batches(shop, TIMED, f"{more} WITH torch"), strict=True):
        for name in ("edge_label_index", "edge_label", "dst_neg_index", "seed_time", "input_id"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        assert torch.equal(ours.batch["customer"], theirs.batch["customer"])
        assert torch.equal(ours.x["product"], theirs.x["product"])
        assert torch.equal(ours.e_id[BOUGHT], theirs.e_id[BOUGHT])
        assert torch.equal(ours.edge_time[BOUGHT], theirs.edge_time[BOUGHT])


def test_epochs_draw_other_negatives_and_threads_change_nothing(shop: snapdb.Database) -> None:
    query = f"SAMPLE FROM now {EDGES} NEGATIVES 2 PER POSITIVE FIXED {FANOUT}"
    with shop.stream(query, threads=0) as stream, shop.stream(query, threads=3) as threaded:
        first, second = list(stream), list(stream)
        for ours, theirs in zip(first, threaded, strict=True):
            assert torch.equal(*(b.edge_label_index for b in (ours, theirs)))  # type: ignore[arg-type]
        assert first[0].input_id.tolist() == second[0].input_id.tolist()
        assert ends(first[0])[:16] == ends(second[0])[:16]
        assert ends(first[0])[16:] != ends(second[0])[16:]
        assert ends(stream[0])[16:] == ends(second[0])[16:]  # the epoch that was read last
        assert "edges as seeds" in repr(stream)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("static", ["ts INTEGER", "ts INTEGER, liked INTEGER"])
def test_a_seed_edge_without_a_time_is_kept_from_its_own_tree(tmp_path: Path, static: str, backend: str) -> None:
    """No bound hides it: its type has no event time, or it is one of those that are always there."""
    column = "NULL" if static == "ts INTEGER" else "NULL, NULL"
    time = "EVENT TIME (ts) NULLS STATIC" if static == "ts INTEGER" else ""
    with snapdb.connect(tmp_path / "p.snapdb") as db:
        db.script(f"""
            CREATE TABLE person AS SELECT range AS id FROM range(8);
            CREATE TABLE knows (a INTEGER, b INTEGER, {static});
            INSERT INTO knows SELECT range % 8, (range * 3 + 1) % 8, {column} FROM range(40);
            CREATE TABLE met AS SELECT range % 8 AS a, (range + 1) % 8 AS b, range AS ts FROM range(8);
            CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) EDGE TABLES (
              knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person {time},
              met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
            CREATE SNAPSHOT s OF g;
        """)
        said = "SEEDS EDGES knows (SELECT e_id, 5 AS seed_time FROM knows) FANOUT (knows BOTH => [FULL]) BATCH 10"
        kept = list(db.stream(f"SAMPLE FROM s {said} TEMPORAL < SEED_TIME ON 'cpu' WITH {backend}"))
        seen = list(db.stream(f"SAMPLE FROM s {said} TEMPORAL < SEED_TIME KEEP SEEDS ON 'cpu' WITH {backend}"))
        audited = db.execute(f"AUDIT SAMPLE FROM s {said} TEMPORAL < SEED_TIME").fetchall()
    assert sum(batch.audit()["exclusion"] for batch in kept) == 0
    assert {violations for *_, violations in audited} == {0}
    assert _own_pairs(kept) == 0
    assert _own_pairs(seen) > 0


def _own_pairs(found: list[Batch]) -> int:
    """Edges between the ends of the seed whose tree they are in, by way of the trees."""
    count = 0
    for batch in found:
        (index,) = batch.edge_index.values()
        assert batch.edge_label_index is not None
        source, destination = batch.edge_label_index
        trees = batch.batch["person"][index[1]]
        own = {(int(source[tree]), int(destination[tree])) for tree in range(batch.batch_size)}
        pairs = [(int(far), int(near)) for far, near in index.T]
        assert trees.numel() == len(pairs)
        count += sum(pair in own for pair in pairs)
    return count


SPLIT = """
CREATE TABLE listener AS SELECT 'l' || range AS id FROM range(40);
CREATE TABLE artist AS SELECT range AS id FROM range(30);
CREATE TABLE listens AS SELECT 'l' || (range % 40) AS u, (range * 7 + range // 40) % 30 AS a, range AS t,
  CASE WHEN range % 7 = 0 THEN 'test' ELSE 'train' END AS split FROM range(300);
CREATE TABLE knows AS SELECT 'l' || range AS a, 'l' || (range + 1) % 40 AS b FROM range(40);
CREATE PROPERTY GRAPH music VERTEX TABLES (listener KEY (id), artist KEY (id)) EDGE TABLES (
  listens SOURCE KEY (u) REFERENCES listener DESTINATION KEY (a) REFERENCES artist EVENT TIME (t),
  listens AS target_listens SOURCE KEY (u) REFERENCES listener DESTINATION KEY (a) REFERENCES artist EVENT TIME (t),
  knows SOURCE KEY (a) REFERENCES listener DESTINATION KEY (b) REFERENCES listener);
CREATE SNAPSHOT s OF music WHERE listens.split = 'train' AND target_listens.split = 'test';
"""
SPLIT_SEEDS = "SEEDS EDGES target_listens (SELECT e_id, t AS seed_time FROM s.target_listens) NEGATIVES 3 PER POSITIVE"
SPLIT_FANOUT = "FANOUT (listens OUT => [4], listens IN => [4]) BATCH 16"


@pytest.fixture(scope="module")
def split() -> Iterator[snapdb.Database]:
    with snapdb.connect() as db:
        db.script(SPLIT)
        yield db


def split_negatives(batches: Iterable[Batch]) -> list[tuple[str, int, int]]:
    """(source, destination, seed time) of each negative."""
    found = []
    for batch in batches:
        sources, others = batch.ids("listener").to_pylist(), batch.ids("artist").to_pylist()
        for i in range(batch.batch_size):
            for local in batch.dst_neg_index[i].tolist():
                if local >= 0:
                    found.append((sources[int(batch.src_index[i])], others[local], int(batch.seed_time[i])))
    return found


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("when", ["", "BEFORE SEED_TIME", "AT SEED_TIME"])
@pytest.mark.parametrize("types", [(), ("listens",), ("target_listens",), ("LISTENS", "target_listens")])
def test_known_is_what_the_listed_types_say(
    split: snapdb.Database, backend: str, when: str, types: tuple[str, ...]
) -> None:
    among = f"IN ({', '.join(types)})" if types else ""
    text = f"SAMPLE FROM s {SPLIT_SEEDS} EXCLUDE KNOWN {when} {among} {SPLIT_FANOUT} WITH {backend}"
    drawn = split_negatives(split.stream(text))
    looked_at = {name.lower() for name in types or ("target_listens",)}
    edges = {name: split.execute(f"SELECT u, a, t FROM s.{name}").fetchall() for name in ("listens", "target_listens")}
    known = {"": lambda t, s: True, "BEFORE SEED_TIME": lambda t, s: t < s, "AT SEED_TIME": lambda t, s: t == s}[when]
    wrong = {
        name: sum(any(known(t, s) for u, a, t in rows if (u, a) == (source, other)) for source, other, s in drawn)
        for name, rows in edges.items()
    }
    assert len(drawn) > 100
    assert all(wrong[name] == 0 for name in looked_at)
    if when != "AT SEED_TIME":  # each edge has a moment of its own, and no other edge that moment
        assert all(wrong[name] > 0 for name in edges.keys() - looked_at)
    assert sum(row[2] for row in split.execute(f"AUDIT {text}").fetchall()) == 0


def test_an_audit_of_two_types_counts_each_negative_once(split: snapdb.Database) -> None:
    """The batches of a sampler without the clause, held against the rule of one with it."""
    plain = split_negatives(split.stream(f"SAMPLE FROM s {SPLIT_SEEDS} {SPLIT_FANOUT}"))
    edges = set(split.execute("SELECT u, a FROM listens").fetchall())
    assert sum(pair[:2] in edges for pair in plain) > 0
    batch = split.stream(f"SAMPLE FROM s {SPLIT_SEEDS} EXCLUDE KNOWN IN (listens) {SPLIT_FANOUT}")[0]
    assert batch.lineage["rules"]["known"] is None  # its own seeds may be negatives of one another
    assert batch.audit()["exclusion"] == 0


def test_seeds_of_another_type_are_not_in_message_passing(split: snapdb.Database) -> None:
    for batch in split.stream(f"SAMPLE FROM s {SPLIT_SEEDS} EXCLUDE KNOWN IN (listens, target_listens) {SPLIT_FANOUT}"):
        assert {key.edge for key in batch.edge_index} == {"listens", "rev_listens"}
        assert sum(index.shape[1] for index in batch.edge_index.values()) > 0


def test_what_is_listed_travels_with_lineage_samplers_and_explanations(split: snapdb.Database) -> None:
    known = "EXCLUDE KNOWN EVER IN (listens, target_listens)"
    text = f"SAMPLE FROM s {SPLIT_SEEDS} {known} {SPLIT_FANOUT}"
    batch = split.stream(text)[1]
    again = split.replay(batch.lineage, 1, epoch=0)
    assert torch.equal(batch.edge_label_index, again.edge_label_index)
    split.execute(f"CREATE OR REPLACE SAMPLER k AS {text}")
    told = {row[0]: row[1] for row in split.execute("DESCRIBE SAMPLER k").fetchall()}
    assert told["EXCLUDE KNOWN"] == "EVER IN (listens, target_listens)"
    assert "known destinations EVER by listens and target_listens" in " ".join(
        str(split.execute(f"EXPLAIN (FORMAT json) {text}").fetchone()).split()
    )
    other = split.stream(
        "SAMPLE USING k EXCLUDE KNOWN IN (listens) IN ORDER SEEDS EDGES target_listens "
        "(SELECT e_id, t AS seed_time FROM s.target_listens ORDER BY e_id)"
    )
    assert len(split_negatives(other)) > 100


@pytest.mark.parametrize(
    ("types", "place", "code"),
    [
        ("listen", "listen", "unknown-edge-type"),
        ("listens, knows", "knows", "other-ends"),
        ("listens, Listens", "Listens", "duplicate-name"),
        ("", ")", "unexpected-word"),
    ],
)
def test_a_type_that_cannot_be_looked_at_is_shown(split: snapdb.Database, types: str, place: str, code: str) -> None:
    text = f"SAMPLE FROM s {SPLIT_SEEDS} {SPLIT_FANOUT} EXCLUDE KNOWN IN ({types})"
    with refused(code, at=place):
        split.execute(text)
