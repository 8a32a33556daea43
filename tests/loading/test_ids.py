"""Batches with int32 ids: the same numbers in half the bytes, by every method, layout, policy and back end."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import snapdb
from snapdb import Batch, Database
from snapdb.types import Fanout
from tests.support.graphs import all_seeds, sample_spec, ties
from tests.support.refusals import refused
from tests.support.streams import KNOWS, open_stream, prints

GRAPH = """
CREATE TABLE person AS SELECT range AS id, [range, range % 5]::FLOAT[2] AS f FROM range(200);
CREATE TABLE film AS SELECT range AS id FROM range(30);
CREATE TABLE met AS SELECT hash(range) % 200 AS a, hash(range + 1) % 200 AS b, range AS t, 0.5 + range % 3 AS w,
  [range]::FLOAT[1] AS f FROM range(4000);
CREATE TABLE liked AS SELECT hash(range) % 200 AS a, hash(range) % 30 AS b FROM range(900);
CREATE PROPERTY GRAPH town
  VERTEX TABLES (person KEY (id) FEATURES (f AS x), film KEY (id))
  EDGE TABLES (
    met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t) WEIGHT (w)
      FEATURES (f AS edge_attr),
    liked SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES film);
CREATE SNAPSHOT now OF town;
INSERT INTO met SELECT hash(range) % 200, hash(range + 7) % 200, range, 1, [1] FROM range(500);
DELETE FROM met WHERE t % 11 = 0;
REFRESH SNAPSHOT now;
"""
NODES = "SAMPLE FROM now SEEDS (SELECT id FROM person) AS person FANOUT (met BOTH => [9, 4], liked => [3, 3])"
MET = NODES.replace(", liked => [3, 3]", "")
TIMED, TIMED_MET = (text.replace("SELECT id", "SELECT id, 2000 AS seed_time") for text in (NODES, MET))
CASES = {
    "uniform": NODES,
    "long fanout": NODES.replace("[9, 4]", "[30, 20]"),
    "every edge": NODES.replace("[9, 4]", "[FULL, 2]"),
    "blocks": f"{NODES} LAYOUT BLOCKS",
    "replacement": f"{NODES} WITH REPLACEMENT",
    "weights": f"{MET} WEIGHT BY w",
    "priority": f"{MET} METHOD PRIORITY WEIGHT BY w",
    "labor": f"{NODES} METHOD LABOR",
    "latest": f"{TIMED_MET} METHOD LATEST TEMPORAL <= SEED_TIME",
    "temporal": f"{TIMED} TEMPORAL < SEED_TIME",
    "fcr": f"{NODES} REFRESH FCR EVERY 3 BATCHES",
    "otf": f"{NODES} REFRESH OTF 50 PERCENT EVERY 2 BATCHES AMPLIFY 2 FETCH 50 PERCENT",
    "otf, temporal": f"{TIMED} TEMPORAL < SEED_TIME REFRESH OTF 50 PERCENT EVERY 2 BATCHES",
    "links": "SAMPLE FROM now SEEDS EDGES met (SELECT e_id FROM now.met) FANOUT (met => [3]) NEGATIVES 2 PER POSITIVE",
}
"""Statements but for BATCH."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with snapdb.connect(tmp_path_factory.mktemp("ids") / "db") as opened:
        opened.script(GRAPH)
        yield opened


def narrowed(batch: Batch) -> list[Tensor]:
    """What has node ids."""
    single = (batch.edge_label_index, batch.src_index, batch.dst_pos_index, batch.dst_neg_index)
    return [*batch.n_id.values(), *batch.edge_index.values(), *(ids for ids in single if ids is not None)]


def others(batch: Batch) -> list[Tensor]:
    """All other tensors of a batch, those that are read later too."""
    lazy = (batch.e_id, batch.edge_time, batch.edge_weight, batch.batch, batch.seed_columns)
    named = (*batch.features.values(), *batch.edge_features.values())
    values = [each[key] for each in (*lazy, *named) for key in each]
    return [
        *values,
        batch.input_id,
        *(each for each in (batch.y, batch.seed_time, batch.edge_label) if each is not None),
    ]


def assert_same_but_for_the_type(wide: Batch, narrow: Batch) -> None:
    assert [ids.dtype for ids in narrowed(wide)] == [torch.int64] * len(narrowed(wide))
    assert [ids.dtype for ids in narrowed(narrow)] == [torch.int32] * len(narrowed(wide))
    pairs = zip(narrowed(wide), narrowed(narrow), strict=True)
    assert all(torch.equal(one, other.long()) for one, other in pairs)
    same = zip(others(wide), others(narrow), strict=True)
    assert all(one.dtype == other.dtype and torch.equal(one, other) for one, other in same)
    assert wide.num_sampled_edges == narrow.num_sampled_edges
    assert wide.num_sampled_nodes == narrow.num_sampled_nodes


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_batches_in_half_the_bytes(db: Database, case: str, backend: str) -> None:
    statement = f"{CASES[case]} BATCH 64 REPEATABLE (3) WITH {backend}"
    wide, narrow = list(db.stream(statement)), list(db.stream(statement, ids="int32"))
    assert len(wide) > 1
    for one, other in zip(wide, narrow, strict=True):
        assert_same_but_for_the_type(one, other)


def test_with_says_it_too_and_the_argument_counts_more(db: Database) -> None:
    plain = f"{NODES} BATCH 64"
    statement = f"{plain} WITH (memory = '1GB', ids = 'int32')"
    assert prints(db.stream(statement)) == prints(db.stream(plain, ids="int32"))
    assert prints(db.stream(statement, ids="int64")) == prints(db.stream(plain))
    db.execute(f"CREATE OR REPLACE SAMPLER narrow AS {statement}")
    assert prints(db.stream("narrow")) == prints(db.stream(statement))
    described = {row[0]: row[1] for row in db.execute("DESCRIBE SAMPLER narrow").fetchall()}
    assert "int32" in described["WITH (ids)"]
    assert db.execute(statement).fetchall() == db.execute(plain).fetchall()  # SAMPLE has the user's keys


def test_what_is_no_type_of_ids_is_refused(db: Database) -> None:
    with refused("bad-ids", at="'int16'"):
        db.stream(f"{NODES} WITH (ids = 'int16')")
    with refused("unknown-option", at="id"):
        db.stream(f"{NODES} WITH (id = 'int32')")
    with refused("duplicate-clause", at="ids = 'int64'"):
        db.stream(f"{NODES} WITH (ids = 'int32', ids = 'int64')")
    wrong: Any = "int16"
    with pytest.raises(ValueError, match="ids must be 'int64' or 'int32', found 'int16'"):
        db.stream(NODES, ids=wrong)


def test_ids_that_do_not_fit_are_refused() -> None:
    graph = ties()
    view = replace(graph.view(), node_counts={**graph.view().node_counts, "shop": 2**31})
    spec = sample_spec("customer", Fanout(KNOWS, "IN", (2,)), batch_size=4)
    seeds = all_seeds(graph, "customer")
    assert len(list(open_stream(view, seeds, spec, ids="int32"))) > 0  # no shop is reached
    large = replace(view, node_counts={**view.node_counts, "customer": 2**31})
    with refused("id-type", "customer", "2,147,483,648", "leave ids out"):
        open_stream(large, seeds, spec, ids="int32")


def test_a_state_fits_streams_of_either_type(db: Database) -> None:
    statement = f"{NODES} BATCH 64"
    wide, narrow = db.stream(statement), db.stream(statement, ids="int32")
    taken = iter(wide)
    next(taken)
    narrow.load_state_dict(wide.state_dict())
    assert_same_but_for_the_type(next(taken), next(iter(narrow)))


def test_a_batch_is_replayed_with_its_type(db: Database) -> None:
    batch = db.stream(f"{NODES} BATCH 64", ids="int32")[1]
    again = db.replay(batch.lineage, 1)
    assert_same_but_for_the_type(db.stream(f"{NODES} BATCH 64")[1], again)
    with refused("lineage", "int16"):
        db.replay({**batch.lineage, "ids": "int16"}, 1)


def test_batches_are_sent_exported_and_adapted(db: Database, tmp_path: Path) -> None:
    statement = f"{NODES} BATCH 64 WITH (ids = 'int32')"
    batch = db.stream(statement)[0]
    wide = db.stream(statement, ids="int64")[0]
    assert_same_but_for_the_type(wide, pickle.loads(pickle.dumps(batch)))
    assert [block.num_sources for block in batch.to_blocks()] == [block.num_sources for block in wide.to_blocks()]
    db.execute(f"COPY ({statement}) TO '{tmp_path / 'out'}' (FORMAT npz)")
    stored = np.load(sorted((tmp_path / "out").rglob("*.npz"))[0])
    kinds = {name: stored[name].dtype for name in stored.files}
    assert {kind for name, kind in kinds.items() if "n_id" in name or "edge_index" in name} == {np.dtype(np.int32)}
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    for store in batch.to_pyg().stores:
        assert all(store[name].dtype == torch.int64 for name in ("n_id", "edge_index") if name in store)
