"""Nothing from outside the window of a snapshot can be seen: not in SQL, not in samples, seeds, features or targets.

A shop is looked at through a window; then rows are planted before and after it, and it is looked at again.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import torch

from snapdb import Database
from snapdb.loading import Batch
from tests.support.refusals import refused

START, STOP = 100, 200
"""The window; everything that is not planted happens in it."""
SHOP = """
CREATE TABLE customer AS SELECT range * 2 AS cid, [range, 1]::FLOAT[2] AS emb, range % 3 AS y, 90 + range AS born
  FROM range(30);
CREATE TABLE product AS SELECT 'p' || lpad(range::VARCHAR, 2, '0') AS pid, range * 1.5 AS price FROM range(12);
CREATE TABLE bought AS SELECT (range * 7 % 30) * 2 AS cid, 'p' || lpad((range * 5 % 12)::VARCHAR, 2, '0') AS pid,
  120 + range * 11 % 80 AS ts, range % 4 AS qty FROM range(200);
CREATE TABLE follows AS SELECT (range * 3 % 30) * 2 AS a, (range * 11 % 30) * 2 AS b, 120 + range % 80 AS since,
  CASE WHEN range % 3 > 0 THEN 150 + range % 60 END AS til FROM range(90) WHERE 150 + range % 60 > 120 + range % 80;
CREATE TABLE plan AS SELECT (range % 30) * 2 AS cid, range AS fee, 60 + range AS at FROM range(130);
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (
    customer KEY (cid) EVENT TIME (born) TARGET (y)
      FEATURES (emb AS x, fee AS fee FROM plan KEY (cid) EVENT TIME (at) DEFAULT -1),
    product KEY (pid) FEATURES (price))
  EDGE TABLES (
    bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product EVENT TIME (ts)
      FEATURES (qty) WEIGHT (qty),
    follows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer EVENT TIME (since, til));
"""
PLANTED = {
    "later edges": f"""INSERT INTO bought SELECT range * 2, 'p' || lpad((range % 12)::VARCHAR, 2, '0'),
        {STOP} + range, 666 FROM range(30)""",
    "lasting edges that begin later": f"INSERT INTO follows SELECT range * 2, 0, {STOP}, NULL FROM range(30)",
    "later vertices and their edges": f"""
        INSERT INTO customer SELECT 1 + range * 2, [666, 666]::FLOAT[2], range % 3, {STOP} + range % 2 FROM range(30);
        INSERT INTO bought SELECT 1 + range * 2, 'p05', {STOP - 20}, 666 FROM range(30);
        INSERT INTO follows SELECT 1 + range * 2, (29 - range) * 2, {STOP - 20}, NULL FROM range(30)""",
    "later values": f"INSERT INTO plan SELECT range * 2, 666, {STOP} + range % 2 FROM range(30)",
    "earlier edges": f"""
        INSERT INTO bought SELECT range * 2, 'p05', {START} - 1 - range, 666 FROM range(30);
        INSERT INTO follows SELECT range * 2, 0, {START} - 1 - range, {START} - range % 2 FROM range(30)""",
}
CLAUSES = {
    "range": f"FOR EVENT_TIME FROM {START} TO {STOP}",
    "between": f"FOR EVENT_TIME BETWEEN {START} AND {STOP - 1}",
    "ending": f"FOR EVENT_TIME WINDOW {STOP - START} ENDING {STOP - 1}",
    "as_of": f"FOR EVENT_TIME AS OF {STOP - 1}",
}
SAMPLES = {
    "in": ("customer", "cid", "follows IN => [FULL, 2], bought OUT => [3, 0], bought IN => [0, 2]"),
    "out": ("customer", "cid", "follows OUT => [3, 2], bought OUT => [FULL, 2]"),
    "both": ("customer", "cid", "follows BOTH => [5, FULL]"),
    "products": ("product", "pid", "bought BOTH => [4, FULL]"),
}


def batches(db: Database, snapshot: str, kind: str, key: str, fanout: str) -> list[Batch]:
    """All batches of a sample with every vertex of a type as seed."""
    seeds = f"SEEDS (SELECT {key} FROM {snapshot}.{kind}) AS {kind}"
    with db.stream(f"SAMPLE FROM {snapshot} {seeds} FANOUT ({fanout}) BATCH 16", threads=1) as stream:
        return list(stream)


def everything(db: Database, snapshot: str) -> dict[str, str]:
    """Digests of all that can be seen of a snapshot: rows by SQL, batches with ids, times, features and targets."""
    seen: dict[str, Any] = {}
    for element in ("customer", "product", "bought", "follows"):
        seen[element] = sorted(map(repr, db.execute(f"SELECT * FROM {snapshot}.{element}").fetchall()))
    for name, (kind, key, fanout) in SAMPLES.items():
        said = seen.setdefault(name, [])
        for batch in batches(db, snapshot, kind, key, fanout):
            tensors = [*batch.n_id.values(), *batch.edge_index.values(), *batch.e_id.values()]
            tensors += [found for features in batch.features.values() for found in features.values()]
            for columns in (batch.edge_time, batch.edge_weight, batch.edge_attr):
                tensors += [columns[edge] for edge in columns]
            said += [(tuple(t.shape), t.numpy().tobytes()) for t in tensors]
            said += [batch.ids(kind).to_pylist(), [] if batch.y is None else batch.y.tolist()]
    return {name: hashlib.sha256(repr(found).encode()).hexdigest() for name, found in seen.items()}


@pytest.fixture
def shop(db: Database) -> Database:
    """The shop with a snapshot for each way to say the window, and what is seen of each."""
    db.script(SHOP)
    for name, clause in CLAUSES.items():
        db.execute(f"CREATE SNAPSHOT {name} OF shop {clause}")
    return db


def test_nothing_that_is_planted_outside_the_window_is_seen_in_it(shop: Database) -> None:
    before = {name: everything(shop, name) for name in CLAUSES}
    for what, planted in PLANTED.items():
        shop.script(planted)
        for name in CLAUSES:
            if name == "as_of" and what == "earlier edges":
                continue  # they are in
            shop.execute(f"REFRESH SNAPSHOT {name}")
            assert everything(shop, name) == before[name], (what, name)
    for layout in ("bitmap", "materialized"):
        shop.execute(f"CREATE OR REPLACE SNAPSHOT again OF shop {CLAUSES['range']} WITH (layout = '{layout}')")
        assert everything(shop, "again") == before["range"], layout
    assert everything(shop, "as_of") == before["as_of"]
    shop.execute("REFRESH SNAPSHOT as_of FULL")
    later = shop.execute("SELECT count(*) FROM as_of.bought WHERE qty = 666").fetchall()
    assert later == [(30,)], "the earlier edges, and they alone"


def test_a_snapshot_of_an_old_version_sees_nothing_that_came_since(shop: Database) -> None:
    version = shop.execute("SHOW VERSIONS").fetchall()[-1][0]
    before = everything(shop, "range")
    shop.script(f"""
        INSERT INTO bought SELECT range * 2, 'p05', {START} + range, 666 FROM range(30);
        UPDATE customer SET emb = [666, 666]::FLOAT[2], y = 2 - y; UPDATE product SET price = 666;
        UPDATE plan SET fee = 666; UPDATE bought SET qty = 666 WHERE ts % 3 = 0;
        DELETE FROM follows WHERE since % 5 = 0; UPDATE customer SET born = 0 WHERE cid < 20;
        CREATE SNAPSHOT newest OF shop {CLAUSES["range"]};
        CREATE SNAPSHOT old OF shop AT (VERSION => {version}) {CLAUSES["range"]};
    """)
    assert everything(shop, "range") == before
    assert everything(shop, "old") == before
    newest = everything(shop, "newest")
    assert all(newest[name] != found for name, found in before.items())
    shop.script(PLANTED["later edges"])
    shop.execute("VACUUM RETAIN INTERVAL '0 seconds'")
    assert everything(shop, "old") == before


def test_times_of_what_is_sampled_lie_in_the_window(shop: Database) -> None:
    for planted in PLANTED.values():
        shop.script(planted)
    shop.execute(f"CREATE OR REPLACE SNAPSHOT range OF shop {CLAUSES['range']}")
    born = dict(shop.execute("SELECT cid, born FROM customer").fetchall())
    for kind, key, fanout in SAMPLES.values():
        for batch in batches(shop, "range", kind, key, fanout):
            moments = [edge for edge in batch.edge_time if edge[1] in ("bought", "rev_bought")]
            assert ("bought" in fanout) == bool(moments)
            for edge in moments:
                times = batch.edge_time[edge]
                assert ((times >= START) & (times < STOP)).all()
                assert (batch.edge_attr[edge] < 666).all()
            assert all(born[cid] < STOP for cid in batch.ids("customer").to_pylist())
            features = batch.features["customer"]
            assert (features["x"] < 666).all()
            assert (features["fee"] < 666).all()


def test_a_value_counts_from_just_after_its_moment(shop: Database) -> None:
    def fees(clause: str) -> torch.Tensor:
        shop.execute(f"CREATE OR REPLACE SNAPSHOT one OF shop FOR EVENT_TIME {clause}")
        found: Batch = batches(shop, "one", "customer", "cid", "follows => [0]")[0]
        return found.features["customer"]["fee"][0]

    shop.execute(f"INSERT INTO plan SELECT range * 2, 666, {STOP} FROM range(30)")
    assert fees(f"FROM 0 TO {STOP}") < 666
    assert fees(f"AS OF {STOP - 1}") < 666
    assert fees(f"BETWEEN 0 AND {STOP}") == 666
    assert fees(f"AS OF {STOP}") == 666
    assert fees(f"FROM 0 TO {STOP + 1}") == 666


@pytest.mark.parametrize("clause", [CLAUSES["range"], CLAUSES["as_of"]])
def test_a_vertex_of_the_future_is_refused_as_a_seed_from_wherever_it_comes(shop: Database, clause: str) -> None:
    shop.script(PLANTED["later vertices and their edges"])
    shop.execute(f"CREATE OR REPLACE SNAPSHOT one OF shop {clause}")
    with refused("unknown-seed", at="SELECT 1 AS cid"):
        shop.execute("SAMPLE FROM one SEEDS (SELECT 1 AS cid) AS customer FANOUT (follows => [2])").fetchall()
    named = shop.execute(
        "SAMPLE FROM one SEEDS (SELECT cid FROM customer) AS customer FANOUT (follows => [0]) BATCH 99"
    )
    assert named.fetchall() == []  # customer is that of the snapshot here
    stream = "SAMPLE FROM one SEEDS (SELECT cid FROM one.customer) AS customer FANOUT (follows => [2])"
    with refused("unknown-seed"):
        shop.stream(stream, seeds=torch.tensor([1]))


def test_filters_and_kept_elements_do_not_open_the_window(shop: Database) -> None:
    for planted in PLANTED.values():
        shop.script(planted)
    shop.execute(f"CREATE SNAPSHOT one OF shop {CLAUSES['range']} ELEMENTS (bought) WHERE bought.qty >= 2")
    found = shop.execute("SELECT min(ts), max(ts), max(qty) FROM one.bought").fetchall()[0]
    assert START <= found[0] <= found[1] < STOP
    assert found[2] == 3
    shop.execute(f"CREATE SNAPSHOT none OF shop {CLAUSES['range']} WHERE bought.qty = 666")
    assert shop.execute("SELECT count(*) FROM none.bought").fetchone() == (0,)
    sample = "SAMPLE FROM none SEEDS (SELECT pid FROM none.product) AS product FANOUT (bought => [FULL])"
    assert shop.execute(sample).fetchall() == []
