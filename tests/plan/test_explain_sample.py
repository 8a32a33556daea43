"""EXPLAIN SAMPLE foretells an epoch from a few batches; ANALYZE runs it and says what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapdb
from snapdb import Database
from tests.support.plans import explained, steps
from tests.support.refusals import refused
from tests.support.shops import SHOP

SEEDS = "SEEDS (SELECT cid, 150 + cid % 40 AS seed_time FROM customer) AS customer"
FANOUT = "FANOUT (bought OUT => [3, 2], follows BOTH => [4, FULL], bought => [0, 3])"
NODES = f"SAMPLE FROM s {SEEDS} {FANOUT}"
LINKS = """SAMPLE FROM s SEEDS EDGES bought (SELECT e_id FROM bought) FANOUT (bought => [2, 2], bought OUT => [2, 2])
  NEGATIVES 24 PER POSITIVE EXCLUDE KNOWN BATCH 100"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Database]:
    with snapdb.connect() as db:
        db.script(SHOP)
        yield db


CASES = {
    "plain": f"{NODES} BATCH 16",
    "blocks": f"{NODES} BATCH 16 LAYOUT BLOCKS",
    "temporal": f"{NODES} BATCH 16 TEMPORAL < SEED_TIME WITHIN 30 METHOD LATEST",
    "torch": f"{NODES} BATCH 16 WITH torch METHOD BOTTOMK",
    "subset": f"{NODES} BATCH 8 SUBSET 50 PERCENT PER EPOCH",
}


@pytest.mark.parametrize("case", CASES)
def test_an_epoch_of_few_batches_is_foretold_exactly(shop: Database, case: str) -> None:
    plan = explained(shop, CASES[case])
    for step in steps(plan):
        assert set(step) == {"operator", "detail", "estimates", "actual", "children"}
        assert {"rows", "bytes", "seconds"} <= set(step["estimates"])
        assert step["estimates"]["rows"] == step["actual"]["rows"], step
        assert step["estimates"]["bytes"] == step["actual"]["bytes"], step
        assert step["actual"]["ratio"].get("rows", 1.0) == 1.0 if "ratio" in step["actual"] else True
    operators = [step["operator"] for step in steps(plan)]
    assert operators == ["Stream", "Gather", *["Feature"] * 3, "Sample", *["Expand"] * 5, "Seeds"]


@pytest.mark.parametrize("case", ["plain", "blocks", "temporal", "torch"])
def test_the_edges_of_each_step_are_those_that_sql_counts(shop: Database, case: str) -> None:
    rows = shop.execute(CASES[case]).fetchall()
    traversed = {
        ("bought", "out"): "OUT",
        ("bought", "in"): "IN",
        ("follows", "in"): "BOTH",
        ("follows", "out"): "BOTH",
    }
    counted = Counter((hop, edge, traversed[edge, direction]) for _, hop, edge, direction, *_ in rows)
    plan = explained(shop, CASES[case])
    told = {}
    for step in steps(plan, "Expand"):
        hop, edge, direction = step["detail"].removeprefix("hop ").replace(":", "").split()[:3]
        told[int(hop), edge, direction] = step["actual"]["rows"]
    assert told == dict(counted)
    (sample,) = steps(plan, "Sample")
    assert sample["actual"]["rows"] == len(rows)


def test_the_nodes_and_bytes_are_those_of_the_batches(shop: Database) -> None:
    plan = explained(shop, CASES["plain"])
    with shop.stream(CASES["plain"]) as stream:
        batches = list(stream)
    (gather,) = steps(plan, "Gather")
    assert gather["actual"]["rows"] == sum(len(ids) for b in batches for ids in b.n_id.values())
    features = {step["detail"].partition(":")[0]: step["actual"]["bytes"] for step in steps(plan, "Feature")}
    named = {f"{kind}.{name}" for kind, own in batches[0].features.items() for name in own}
    assert features == {
        name: sum(b.features[name.partition(".")[0]][name.partition(".")[2]].nbytes for b in batches) for name in named
    }
    (first,) = (s for s in steps(plan, "Expand") if s["detail"].startswith("hop 0: bought OUT"))
    assert first["actual"]["frontier"] == sum(b.batch_size for b in batches)
    (second,) = (s for s in steps(plan, "Expand") if s["detail"].startswith("hop 1: bought IN"))
    assert second["actual"]["frontier"] == sum(b.num_sampled_nodes["product"][1] for b in batches)


def test_blocks_expand_all_nodes_so_far(shop: Database) -> None:
    frontier = {}
    for case in ("plain", "blocks"):
        expands = steps(explained(shop, CASES[case]), "Expand")
        frontier[case] = {step["detail"].partition("=>")[0]: step["actual"]["frontier"] for step in expands}
    assert frontier["blocks"]["hop 0: follows BOTH "] == frontier["plain"]["hop 0: follows BOTH "]
    assert frontier["blocks"]["hop 1: follows BOTH "] > frontier["plain"]["hop 1: follows BOTH "]


def test_a_long_epoch_is_told_from_four_batches_and_comes_close(shop: Database) -> None:
    plan = explained(shop, f"{NODES} BATCH 2")
    assert plan["detail"].startswith("20 batches of 2 from s: ")
    assert plan["detail"].endswith("estimated from 4 batches")
    for step in (*steps(plan, "Sample"), *steps(plan, "Gather"), *steps(plan, "Seeds")):
        assert 0.5 < step["actual"]["ratio"]["rows"] < 2, step


def test_explain_alone_makes_a_few_batches_and_no_epoch(shop: Database) -> None:
    said: list[str] = []
    shop.progress = lambda what, share: said.append(what)
    try:
        plan = explained(shop, f"{NODES} BATCH 2", analyze=False)
    finally:
        shop.progress = None
    assert said[-1] == "sampling a few batches of s"
    assert all(step["actual"] == {} for step in steps(plan))
    assert plan["estimates"]["rows"] == 20
    assert plan["estimates"]["seconds"] > 0


def test_the_seconds_of_the_parts_add_up(shop: Database) -> None:
    plan = explained(shop, f"{NODES} BATCH 4")
    for kind in ("estimates", "actual"):
        (sample,) = (step[kind]["seconds"] for step in steps(plan, "Sample"))
        assert sum(step[kind]["seconds"] for step in steps(plan, "Expand")) == pytest.approx(sample, abs=0.001)
        (gather,) = (step[kind]["seconds"] for step in steps(plan, "Gather"))
        assert sum(step[kind]["seconds"] for step in steps(plan, "Feature")) == pytest.approx(gather, abs=0.001)
    assert 0 < plan["actual"]["busy"] <= 1.1
    assert plan["actual"]["threads"] >= 1


def test_negatives_are_told_with_those_that_were_not_left(shop: Database) -> None:
    plan = explained(shop, LINKS)
    with shop.stream(LINKS) as stream:
        missing = sum(b.negatives_missing for b in stream)
        seeds = sum(b.batch_size for b in stream)
    (negatives,) = steps(plan, "Negatives")
    assert negatives["detail"] == "24 per positive among product, uniform, without known destinations EVER"
    assert negatives["actual"]["missing"] == missing > 0
    assert negatives["actual"]["rows"] == 24 * seeds - missing
    assert steps(plan, "Seeds")[0]["detail"] == "bought edges, SHUFFLE"


def test_methods_forms_and_back_ends_are_told_with_their_reasons(shop: Database) -> None:
    details = {}
    for name, statement in CASES.items():
        found = steps(explained(shop, statement, analyze=False))
        details[name] = {step["operator"]: step["detail"] for step in found}
    assert "WITH numba, the faster back end on the CPU" in details["plain"]["Stream"]
    assert "WITH torch, set by WITH" in details["torch"]["Stream"]
    assert details["plain"]["Sample"].startswith("METHOD UNIFORM: uniform without replacement (Floyd)")
    assert details["temporal"]["Sample"].startswith("METHOD LATEST: the latest edges")
    assert "edges with time < its time, no older than 30" in details["temporal"]["Sample"]
    assert details["subset"]["Seeds"] == "customer, SHUFFLE, 50 percent of them per epoch"
    plain = {s["detail"].partition(" =>")[0]: s["detail"] for s in steps(explained(shop, CASES["plain"]), "Expand")}
    assert " => 3, encoding " in plain["hop 1: bought IN"]
    assert " => 3, reverse adjacency sorted by source in memory" in plain["hop 0: bought OUT"]
    assert " => FULL, rows of both directions merged in memory" in plain["hop 1: follows BOTH"]


def test_the_text_fits_a_terminal_and_tells_of_each_operator(shop: Database) -> None:
    result = shop.execute(f"EXPLAIN ANALYZE {CASES['plain']}")
    assert max(map(len, repr(result).splitlines())) <= 80
    lines = [line for (line,) in result.fetchall()]
    assert lines[:2] == ["Bound", "  └ Stream of batches, by one thread"]
    lines = lines[lines.index("Plan") + 1 :]
    assert lines[0].startswith("  └ Stream 3 batches of 16 from s")
    said = [line.lstrip(" │").split()[0] for line in lines]
    assert said.count("expected") == said.count("actual") == len(steps(explained(shop, CASES["plain"])))
    stripped = [line.strip() for line in lines]
    seeds = stripped.index("└ Seeds customer, SHUFFLE")
    assert stripped[seeds + 1].startswith("expected rows 40, bytes 320, seconds ")


def test_no_seeds_take_nothing(shop: Database) -> None:
    plan = explained(shop, f"SAMPLE FROM s SEEDS (SELECT cid FROM customer WHERE cid < 0) AS customer {FANOUT}")
    assert all(step["estimates"]["rows"] == step["actual"]["rows"] == 0 for step in steps(plan))


def test_analyze_tells_how_far_it_is_and_can_be_interrupted(shop: Database) -> None:
    said: list[float | None] = []
    shop.progress = lambda what, share: said.append(share) if what == "sampling s" else None
    try:
        explained(shop, f"{NODES} BATCH 4")
        assert said == sorted(said)
        assert said[-1] == 1
        shop.progress = lambda what, share: shop.interrupt() if what == "sampling s" else None
        with refused("interrupted"):
            explained(shop, f"{NODES} BATCH 4")
    finally:
        shop.progress = None
    assert explained(shop, f"{NODES} BATCH 4")["actual"]["rows"] == 10


def test_what_was_explained_is_let_go(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(SHOP)
        for statement in (f"EXPLAIN ANALYZE {NODES}", f"AUDIT {NODES}"):
            db.execute(statement).fetchall()
        folders = [path for path in (tmp_path / "db" / "snapshots").iterdir() if path.is_dir()]
        db.script("DROP SNAPSHOT s; DROP SNAPSHOT late")
        assert len(folders) == 2
        assert not any(path.exists() for path in folders)
    with snapdb.connect(tmp_path / "db") as db:
        db.execute("CREATE SNAPSHOT s OF shop FOR EVENT_TIME AS OF 190")
    with snapdb.connect(tmp_path / "db", read_only=True) as db:
        assert explained(db, NODES)["actual"]["rows"] == 1
        assert not [row for row in db.execute(f"AUDIT {NODES}").fetchall() if row[2]]


def test_an_error_of_a_batch_is_that_of_the_explanation(shop: Database) -> None:
    with refused("memory", at="WITH (memory = '1KB')"):
        explained(shop, f"{NODES} WITH (memory = '1KB')")
