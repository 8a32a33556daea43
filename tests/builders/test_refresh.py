"""REFRESH SNAPSHOT: whatever changed, the refreshed snapshot delivers the bytes of one that is built anew."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import snapdb
from tests.support.refreshing import fingerprint, start
from tests.support.thoroughness import SOAK

NAMES = ("whole", "week", "picked")


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


STEPS = 50 if SOAK else 16
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
