"""REFRESH SNAPSHOT: whatever changed, the refreshed snapshot delivers the bytes of one that is built anew."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from pathlib import Path

import pytest

import snapdb

SAMPLES = {
    "customer": "FANOUT (bought OUT => [3, 2], bought => [0, 2], follows => [2, 2], follows OUT => [1, 2]) BATCH 64",
    "product": "FANOUT (bought => [3, 2], follows BOTH => [0, FULL]) BATCH 64",
}
KEYS = {"customer": "cid", "product": "pid"}


def start(path: Path, dangling: str = "ERROR") -> snapdb.Database:
    """Customers with string keys buy products and follow each other for a while."""
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


NAMES = ("whole", "week", "picked")


def fingerprint(db: snapdb.Database, name: str) -> dict[str, str]:
    """A digest of every batch that each sample delivers, with features, times, weights and the user's ids."""
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


def rebuilt(db: snapdb.Database, copy: Path) -> dict[str, dict[str, str]]:
    """What the snapshots deliver when they are built from the tables again, in a copy of the database."""
    shutil.copytree(db.path, copy)
    try:
        with snapdb.connect(copy) as other:
            for name in NAMES:
                other.execute(f"REFRESH SNAPSHOT {name} FULL")
            return {name: fingerprint(other, name) for name in NAMES}
    finally:
        shutil.rmtree(copy)


def steps(rng: random.Random, number: int, skip: bool) -> list[str]:
    """Statements of one random step."""
    base = 1000 * (number + 1)
    late, now = rng.randrange(500), 500 + number * 10
    anyone = f"'c' || {rng.randrange(40)}"
    choices = [
        f"INSERT INTO bought SELECT {anyone}, {7 * rng.randrange(25)}, {now} + i, 1 + i % 3, i FROM range(9) t(i)",
        f"INSERT INTO bought SELECT 'c' || i, {7 * rng.randrange(25)}, {late} - i, 2, -i FROM range(6) t(i)",
        f"INSERT INTO follows SELECT 'c' || (i * 3), {anyone}, {late}, {late} + i * 40 FROM range(5) t(i)",
        f"DELETE FROM bought WHERE ts % 17 = {rng.randrange(17)}",
        f"DELETE FROM follows WHERE since % 23 = {rng.randrange(23)}",
        f"UPDATE bought SET qty = qty + 1 WHERE pid = {7 * rng.randrange(25)}",
        f"UPDATE customer SET emb = [{number}, 7]::FLOAT[2], y = {rng.randrange(4)} WHERE cid = {anyone}",
        f"UPDATE product SET price = price + 1 WHERE pid % 5 = {rng.randrange(5)}",
        f"INSERT INTO customer SELECT 'c' || ({base} + i), [i, i]::FLOAT[2], i % 4, 0 FROM range(3) t(i)",
        f"INSERT INTO product VALUES ({base * 7}, 3.5); INSERT INTO bought VALUES ({anyone}, {base * 7}, {late}, 3, 0)",
        "VACUUM RETAIN INTERVAL '0 seconds'",
    ]
    if skip:
        choices += [
            f"DELETE FROM customer WHERE cid = {anyone}",
            f"DELETE FROM product WHERE pid = {7 * rng.randrange(25)}",
            f"INSERT INTO bought VALUES ('c{base + 5000}', 7, {late}, 1, 1), ('c{base + 1}', {base * 7}, {now}, 2, 2)",
            f"INSERT INTO customer SELECT c, [1, 1]::FLOAT[2], 1, 0 FROM (SELECT DISTINCT cid AS c FROM bought) "
            f"WHERE c NOT IN (SELECT cid FROM customer) AND hash(c) % 2 = {rng.randrange(2)}",
        ]
    return rng.choice(choices).split("; ")


STEPS = 50 if os.environ.get("SNAPDB_SOAK") else 16
"""Refreshes one after another; `make soak` makes more."""


@pytest.mark.parametrize(("dangling", "seed"), [("ERROR", 1), ("SKIP", 2)])
def test_a_chain_of_refreshes_delivers_what_a_rebuild_does(tmp_path: Path, dangling: str, seed: int) -> None:
    rng = random.Random(seed)
    works = set()
    with start(tmp_path / "db", dangling) as db:
        for number in range(STEPS):
            for statement in steps(rng, number, dangling == "SKIP"):
                db.execute(statement)
            compared = number % 17 == 15  # and at the last step
            refreshed = NAMES if compared else ("whole", rng.choice(NAMES[1:]))  # the others leap over steps
            said = [repr(db.execute(f"REFRESH SNAPSHOT {name}")) for name in refreshed]
            works |= {word for text in said for word in ("patched", "merged", "built") if word in text}
            if compared:
                wanted = rebuilt(db, tmp_path / "copy")
                assert {name: fingerprint(db, name) for name in NAMES} == wanted, f"after step {number}"
    assert {"patched", "merged"} <= works
