"""A graph that statements change, and digests of its snapshots."""

from __future__ import annotations

import hashlib
from pathlib import Path

import snapdb

SAMPLES = {
    "customer": "FANOUT (bought OUT => [3, 2], bought => [0, 2], follows => [2, 2], follows OUT => [1, 2]) BATCH 64",
    "product": "FANOUT (bought => [3, 2], follows BOTH => [0, FULL]) BATCH 64",
}


KEYS = {"customer": "cid", "product": "pid"}


def start(path: Path, dangling: str = "ERROR") -> snapdb.Database:
    """Create a database in which customers with string keys buy products and follow each other for a limited time."""
    db = snapdb.connect(path)
    db.script(f"""
        CREATE TABLE customer AS SELECT 'c' || i AS cid, [i, i / 3]::FLOAT[2] AS emb, i % 4 AS y, i * 10 AS born
            FROM range(40) t(i);
        CREATE TABLE product AS SELECT i * 7 AS pid, i::FLOAT AS price FROM range(25) t(i);
        CREATE TABLE bought AS SELECT 'c' || (i * 13 % 40) AS cid, (i * 5 % 25) * 7 AS pid, (i * 37 % 500) AS ts,
            1 + i % 3 AS qty, i::FLOAT AS basket FROM range(300) t(i);
        CREATE TABLE follows AS SELECT 'c' || (i % 40) AS a, 'c' || (i * 11 % 40) AS b, i % 400 AS since,
            CASE WHEN i % 3 = 0 THEN NULL ELSE i % 400 + i % 90 END AS until FROM range(150) t(i);
        CREATE PROPERTY GRAPH shop
            VERTEX TABLES (customer KEY (cid) FEATURES (emb AS x) TARGET (y), product KEY (pid) FEATURES (price AS x))
            EDGE TABLES (
                bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product EVENT TIME (ts)
                    WEIGHT (qty) FEATURES (basket AS edge_attr) ON DANGLING {dangling},
                follows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer
                    EVENT TIME (since, until) ON DANGLING {dangling});
        CREATE SNAPSHOT whole OF shop;
        CREATE SNAPSHOT week OF shop FOR EVENT_TIME WINDOW 200;
        CREATE SNAPSHOT picked OF shop WITH (layout = 'bitmap') WHERE bought.qty > 1 AND customer.y < 3;
    """)
    return db


def fingerprint(db: snapdb.Database, name: str) -> dict[str, str]:
    """Return digests of every sample's batches, including features, times, weights and the user's ids."""
    found = {}
    for seeds, fanout in SAMPLES.items():
        if db.execute(f"SELECT count(*) FROM {name}.{seeds}").fetchone()[0]:
            query = f"SAMPLE FROM {name} SEEDS (SELECT {KEYS[seeds]} FROM {name}.{seeds}) AS {seeds} {fanout}"
            found[seeds] = digest_of(db, query)
    return found


def digest_of(db: snapdb.Database, query: str) -> str:
    digest = hashlib.sha256()
    stream = db.stream(query, threads=1)
    for batch in stream:
        for kind in batch.n_id:
            digest.update(batch.n_id[kind].numpy().tobytes())
            digest.update(str(batch.ids(kind).to_pylist()).encode())
        for values in (*batch.x.values(), *batch.edge_index.values(), *batch.e_id.values()):
            digest.update(values.numpy().tobytes())
        for columns in (batch.edge_time, batch.edge_weight, batch.edge_attr):
            for edge in columns:
                digest.update(columns[edge].numpy().tobytes())
        if batch.y is not None:
            digest.update(batch.y.numpy().tobytes())
    stream.close()
    return digest.hexdigest()
