"""A stream of random walks: the same batches on any threads, ranks and workers, resumed, replayed and exported."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import snapdb
from snapdb import Database, InputError, WalkBatch
from tests.support.refusals import refused
from tests.support.shops import SHOP

PATH = "WALK FROM s SEEDS (SELECT cid, y AS y, cid * 0.5 AS half FROM customer) AS customer"
FRIENDS = (
    f"{PATH} LENGTH 6 PER SEED 3 ALONG (follows BOTH) RETURN 0.25 INOUT 4 WINDOW 2 NEGATIVES 3 BATCH 7 REPEATABLE (5)"
)
BASKETS = f"{PATH} LENGTH 4 ALONG (bought, bought IN) RESTART 0.2 WEIGHT BY bought.qty WINDOW 4 BATCH 9"
TIMED = (
    "WALK FROM s SEEDS (SELECT cid, 150 + cid % 40 AS seed_time FROM customer) AS customer LENGTH 5 PER SEED 2 "
    "ALONG (bought, bought IN) TEMPORAL < SEED_TIME WITHIN 60 TIME RESPECTING BACKWARD WINDOW 2 NEGATIVES 2 BATCH 8"
)
WALKS = pytest.mark.parametrize("walk", [FRIENDS, BASKETS, TIMED], ids=["friends", "baskets", "timed"])

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on machines of one core


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with snapdb.connect(tmp_path_factory.mktemp("walks") / "shop.snapdb") as db:
        db.script(SHOP)
        yield db


def printed(batch: WalkBatch) -> bytes:
    """Everything that a batch contains."""
    tensors = [batch.walks, batch.pairs, batch.negatives, batch.y, batch.seed_time, batch.input_id, batch.e_id]
    arrays = [np.ascontiguousarray(one).tobytes() for one in (*tensors, batch.edge_time) if one is not None]
    keys = json.dumps([values.to_pylist() for values in batch.user_ids.values()])
    columns = json.dumps({name: values.tolist() for name, values in batch.seed_columns.items()})
    return b"".join([*arrays, keys.encode(), columns.encode(), repr((batch.index, batch.lineage["epoch"])).encode()])


def prints(batches: Iterable[Any]) -> list[bytes]:
    return list(map(printed, batches))


@WALKS
def test_the_batches_are_those_of_any_threads(shop: Database, walk: str) -> None:
    whole = prints(shop.stream(walk, threads=0))
    assert len(whole) == len(shop.stream(walk))
    assert prints(shop.stream(walk, threads=3, prefetch=2)) == whole
    stream = shop.stream(walk)
    assert printed(stream[2]) == whole[2]
    assert prints(stream.map_style()[i] for i in range(2)) == whole[:2]


@WALKS
def test_the_torch_back_end_walks_the_same_walks(shop: Database, walk: str) -> None:
    def arrays(text: str) -> list[list[Any]]:
        batches: Any = shop.stream(text)
        return [
            [
                batch.walks.tolist(),
                batch.e_id.tolist(),
                *(None if t is None else t.tolist() for t in (batch.pairs, batch.negatives)),
            ]
            for batch in batches
        ]

    assert arrays(f"{walk} WITH torch") == arrays(f"{walk} WITH numba")


@WALKS
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_walks_the_same_walks(shop: Database, walk: str) -> None:
    batches: Any = shop.stream(walk, device="cuda")
    assert prints(batch.to("cpu") for batch in batches) == prints(shop.stream(walk, threads=0))
    walked: Any = shop.stream(f"{walk} ON 'cuda' WITH torch")
    assert prints(batch.to("cpu") for batch in walked) == prints(shop.stream(walk, threads=0))


@WALKS
def test_ranks_and_workers_share_an_epoch(shop: Database, walk: str) -> None:
    whole = prints(shop.stream(walk, threads=0))
    ranks = [prints(shop.stream(walk, rank=rank, world_size=2)) for rank in range(2)]
    assert [ranks[i % 2][i // 2] for i in range(len(whole))] == whole
    stream = shop.stream(walk, threads=1)
    for context in ("fork", "spawn")[: 2 if walk == FRIENDS else 1]:
        loader: Any = DataLoader(stream, batch_size=None, num_workers=2, multiprocessing_context=context)
        stream.set_epoch(0)
        assert prints(loader) == whole
    with refused("collate", "batch_size=None"):
        next(iter(DataLoader(stream, batch_size=2, num_workers=0)))


@WALKS
def test_a_state_resumes_with_other_ranks(shop: Database, walk: str) -> None:
    whole = prints(shop.stream(walk, threads=0))
    stream: Any = shop.stream(walk)
    reading = iter(stream)
    taken = [printed(next(reading)) for _ in range(2)]
    state = json.loads(json.dumps(stream.state_dict()))
    assert taken == whole[:2]
    ranks: list[Any] = [shop.stream(walk, rank=rank, world_size=2) for rank in range(2)]
    for one in ranks:
        one.load_state_dict(state)
    rest = [prints(one) for one in ranks]
    assert [rest[i % 2][i // 2] for i in range(len(whole) - 2)] == whole[2:]


def test_a_state_belongs_to_its_walk(shop: Database) -> None:
    state = shop.stream(FRIENDS).state_dict()
    with pytest.raises(InputError, match="its walk is"):
        shop.stream(FRIENDS.replace("LENGTH 6", "LENGTH 7")).load_state_dict(state)
    hops = (
        "SAMPLE FROM s SEEDS (SELECT cid, y AS y, cid * 0.5 AS half FROM customer) AS customer BATCH 7 REPEATABLE (5)"
    )
    sample = shop.stream(f"{hops} FANOUT (follows BOTH => [1]) WITH REPLACEMENT")
    with pytest.raises(InputError, match="its walk is"):
        sample.load_state_dict(state)
    with pytest.raises(InputError, match="its walk is"):
        shop.stream(FRIENDS).load_state_dict(sample.state_dict())


@WALKS
def test_a_batch_is_replayed_from_its_lineage(shop: Database, walk: str) -> None:
    stream: Any = shop.stream(walk)
    stream.set_epoch(1)
    batch = list(stream)[1]
    again: Any = snapdb.replay(json.loads(json.dumps(batch.lineage)), 1, database=shop)
    assert printed(again) == printed(batch)
    rows = shop.replay_rows(batch.lineage, 1).to_pydict()
    whole = pa.table(shop.execute(f"{walk} EPOCHS 2")).to_pydict()
    number = len(stream) + 1
    places = [i for i, one in enumerate(whole["batch"]) if one == number]
    assert rows == {name: [values[i] for i in places] for name, values in whole.items()}


@WALKS
@pytest.mark.parametrize("file_format", ["arrow", "parquet", "npz", "safetensors", "pt"])
def test_an_export_returns_the_same_batches(shop: Database, walk: str, file_format: str, tmp_path: Path) -> None:
    shop.execute(f"COPY ({walk}) TO '{tmp_path}/out' (FORMAT {file_format}, EPOCHS 2)")
    folder = snapdb.read_batches(tmp_path / "out")
    assert folder.epochs == [0, 1]
    assert all(isinstance(batch, WalkBatch) for batch in folder)
    stream = shop.stream(walk)
    assert prints(folder) == [*prints(stream), *prints(stream)]
    assert not any(any(batch.audit().values()) for batch in folder)


def test_a_batch_has_walks_from_its_seeds(shop: Database) -> None:
    batch: Any = shop.stream(FRIENDS)[0]
    assert batch.walks.shape == (21, 7)
    assert batch.vertex_types == ("customer",) * 7
    assert (batch.walks[:, 0].reshape(7, 3) == batch.walks[::3, :1]).all()
    assert batch.ids(0).to_pylist()[::3] == shop_keys(shop, batch)
    assert batch.ids("customer").to_pylist()[:7] == [batch.ids(i)[0].as_py() for i in range(7)]
    assert batch.num_nodes == 40
    assert (batch.pairs >= 0).all()
    assert batch.negatives.shape == (batch.pairs.shape[1], 3)
    assert batch.y.shape == (7,)
    assert batch.seed_columns["half"].shape == (7,)
    assert batch.audit() == {"steps": 0, "time": 0, "snapshot": 0, "pairs": 0}
    with pytest.raises(IndexError):
        batch.ids(7)
    with refused("missing", "'product' does not exist here"):
        batch.ids("product")
    with pytest.raises(AttributeError, match="a batch of random walks has no 'edge_index'"):
        _ = batch.edge_index
    with pytest.raises(AttributeError, match="a batch of random walks has no 'to_dgl'"):
        _ = batch.to_dgl


def shop_keys(shop: Database, batch: Any) -> list[int]:
    """The keys of the seeds, which the seed query's other column also has."""
    return [int(2 * half) for half in batch.seed_columns["half"].tolist()]


def test_node_numbers_are_unique_over_vertex_types(shop: Database) -> None:
    batch: Any = shop.stream(BASKETS)[0]
    assert dict(batch.node_offsets) == {"customer": 0, "product": 40}
    assert batch.num_nodes == 64
    assert batch.vertex_types == ("customer", "product", "customer", "product", "customer")
    assert batch.ids(1).type == "string"
    assert batch.edge_time is not None
    tables = batch.to_arrow()
    assert tables["walks"].column_names == ["walk", "step", "key", "type", "e_id", "batch"]
    assert tables["walks"].num_rows == batch.walks.numel()
    assert tables["pairs"]["center"].to_pylist() == batch.pairs[0].tolist()
    other: Any = shop.stream(TIMED)[0]
    assert other.to_arrow()["pairs"]["negatives"].to_pylist() == other.negatives.tolist()


def test_a_batch_travels_and_is_shown(shop: Database) -> None:
    batch: Any = shop.stream(BASKETS)[0]
    assert printed(pickle.loads(pickle.dumps(batch))) == printed(batch)
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in moved.tensors()} == {"meta"}
    assert moved.e_id.device.type == "meta"
    assert (
        repr(batch) == f"WalkBatch((0, 0): 9 walks of 4 steps from 9 seeds of customer; {batch.pairs.shape[1]} pairs)"
    )
    page = batch._repr_html_()
    assert "edge_time" in page
    assert "read on access" not in batch.to("cpu")._repr_html_() or "e_id" in page


def test_rows_are_the_batches_of_the_stream(shop: Database) -> None:
    rows = pa.table(shop.execute(BASKETS))
    stream: Any = shop.stream(BASKETS)
    tables = [batch.to_arrow()["walks"] for batch in stream]
    for name in ("step", "key", "type", "e_id", "batch"):
        assert rows[name].to_pylist() == [value for table in tables for value in table[name].to_pylist()]
    assert sorted(set(rows["walk"].to_pylist())) == list(range(40))


def test_samplers_of_walks_stream_and_transform(shop: Database) -> None:
    shop.execute(f"CREATE OR REPLACE SAMPLER baskets AS {BASKETS}")
    lengths: Any = shop.stream("baskets", transform=lambda batch: len(batch.walks))
    assert list(lengths) == [9, 9, 9, 9, 4]
    assert prints(shop.stream("WALK USING baskets WINDOW 4")) == prints(shop.stream("baskets"))
    with refused("other-sampler", "WALK USING baskets"):
        shop.stream("SAMPLE USING baskets")
    with refused("not-a-sample", "random walks"):
        shop.draw("baskets")
    with refused("walks", "stream.walker"):
        _ = shop.stream("baskets").sampler
    with refused("walks", "stream.sampler"):
        _ = shop.stream("SAMPLE FROM s SEEDS (SELECT cid FROM customer) AS customer FANOUT (follows => [1])").walker
    assert shop.stream("baskets").walker.node_types == ("customer", "product")
    with refused("id-type", "int64"):
        shop.stream("baskets", ids="int32")
    subset: Any = shop.stream("WALK USING baskets SUBSET 50 PERCENT PER EPOCH")
    first, second = list(subset), list(subset)
    ids = [int(i) for batch in (*first, *second) for i in batch.input_id]
    assert sorted(ids) == list(range(40))


def test_other_seeds_and_parameters(shop: Database) -> None:
    given: Any = shop.stream(FRIENDS.replace(", y AS y, cid * 0.5 AS half", ""), seeds=[4, 2])[0]
    assert given.ids(0).to_pylist() == [4, 4, 4, 2, 2, 2] or given.ids(0).to_pylist() == [2, 2, 2, 4, 4, 4]
    asked = "WALK FROM s SEEDS (SELECT cid FROM customer WHERE cid < $most) AS customer LENGTH 2 ALONG (follows BOTH)"
    batch: Any = shop.stream(asked, params={"most": 6})[0]
    assert len(batch.walks) == 3
    again: Any = snapdb.replay(batch.lineage, 0, database=shop)
    assert torch.equal(again.walks, batch.walks)


def test_a_memory_limit_bounds_walks(shop: Database) -> None:
    assert prints(shop.stream(FRIENDS, memory="20MB")) == prints(shop.stream(FRIENDS))
    with pytest.raises(InputError, match="BATCH, LENGTH, PER SEED or WINDOW"):
        list(shop.stream(FRIENDS, memory=1000))


def test_a_stream_of_walks_follows_its_snapshot(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "ring.snapdb") as db:
        db.script("""
            CREATE TABLE person AS SELECT range AS id FROM range(3);
            CREATE TABLE knows AS SELECT range AS a, (range + 1) % 3 AS b FROM range(3);
            CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
              EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
            CREATE SNAPSHOT now OF g;
        """)
        stream: Any = db.stream("WALK FROM now SEEDS (FROM person SELECT id) AS person LENGTH 2", follow=True)
        (before,) = stream
        assert len(before.walks) == 3
        db.script("INSERT INTO person VALUES (3); INSERT INTO knows VALUES (3, 0); REFRESH SNAPSHOT now")
        (after,) = stream
        assert sorted(after.ids(2).to_pylist()) == [0, 1, 1, 2]
