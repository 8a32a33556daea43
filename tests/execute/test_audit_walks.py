"""AUDIT WALK and WalkBatch.audit() count nothing of a correct engine, and every violation that is planted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import snapdb
from snapdb import Database, WalkBatch
from snapdb.plan import bind
from snapdb.plan.samples import SamplePlan
from snapdb.sql import parse
from snapdb.types import Temporal
from tests.support.inside import engine_of
from tests.support.inside.execute import _WALK_CHECKS, _audited_walks, _WalkTruth, open_sample
from tests.support.inside.loading import StreamSource
from tests.support.shops import SHOP
from tests.support.streams import open_stream

SEEDS = "SEEDS (SELECT cid, 150 + cid % 40 AS seed_time FROM customer) AS customer BATCH 16"
FRIENDS = f"s {SEEDS} LENGTH 6 PER SEED 2 ALONG (follows BOTH)"
BASKETS = f"s {SEEDS} LENGTH 5 ALONG (bought, bought IN)"
STATEMENTS = (
    FRIENDS,
    f"{FRIENDS} RETURN 0.25 INOUT 4 WINDOW 2 NEGATIVES 3",
    f"{FRIENDS} TEMPORAL < SEED_TIME WINDOW 6 NEGATIVES 2",
    f"{FRIENDS} TEMPORAL <= SEED_TIME WITHIN 15 RESTART 0.3",
    f"{FRIENDS} TIME RESPECTING",
    f"{FRIENDS} TEMPORAL < SEED_TIME TIME RESPECTING STRICT BACKWARD WITH torch",
    f"{BASKETS} WEIGHT BY bought.qty",
    f"{BASKETS} TEMPORAL < SEED_TIME WITHIN 20 TIME RESPECTING STRICT",
    f"late {SEEDS} LENGTH 5 ALONG (bought, bought IN, follows, follows IN) EPOCHS 2",
)


@pytest.fixture(scope="module")
def shop() -> Iterator[Database]:
    with snapdb.connect() as db:
        db.script(SHOP)
        yield db


@dataclass
class Case:
    """A statement, opened: its walks can be changed before they are audited."""

    truth: _WalkTruth
    opened: StreamSource
    plan: SamplePlan

    def batches(self) -> list[WalkBatch]:
        with open_stream(self.opened.view, self.opened.seeds, self.plan.spec, threads=1) as stream:
            return list(stream)

    def counts(self, batches: list[WalkBatch], *, chunk: int = 1 << 20, **changes: Any) -> Counter[str]:
        """Violations by check; `changes` are fields of the statement that the audit believes in."""
        spec = replace(self.truth.spec, **changes)
        truth, found = replace(self.truth, spec=spec), Counter[str]()
        assert spec.walk is not None
        for rows in _audited_walks(truth, spec.walk, self.opened.seeds, batches, chunk):
            for row in rows.to_pylist():
                found[row["check"]] += row["violations"]
        return +found


@contextmanager
def opened(db: Database, statement: str) -> Iterator[Case]:
    engine = engine_of(db)
    (parsed,) = parse(f"WALK FROM {statement}")
    plan = bind(parsed, engine.bind_context)
    assert isinstance(plan, SamplePlan)
    found = open_sample(engine, plan)
    try:
        yield Case(_WalkTruth.of(engine, plan), found, plan)
    finally:
        found.lease.release()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_correct_walks_break_no_rule(shop: Database, statement: str) -> None:
    rows = shop.execute(f"AUDIT WALK FROM {statement}").fetchall()
    assert rows
    assert [row for row in rows if row[2]] == []
    batches = len(rows) // len(_WALK_CHECKS)
    assert [row[:2] for row in rows] == [(number, check) for number in range(batches) for check in _WALK_CHECKS]
    for batch in shop.stream(f"WALK FROM {statement.partition(' EPOCHS')[0]}"):
        assert not any(batch.audit().values())


def forged(batch: WalkBatch, change: Callable[[torch.Tensor, torch.Tensor], None]) -> WalkBatch:
    """Return a batch whose walks and edges were changed."""
    walks, e_id = batch.walks.clone(), batch.e_id.clone()
    change(walks, e_id)
    return replace(batch, walks=walks, edges={**batch.edges, "e_id": e_id})


def test_planted_violations_are_counted(shop: Database) -> None:
    with opened(shop, FRIENDS) as case:
        first, *others = case.batches()
        whole = int((first.walks >= 0).all(dim=1).nonzero()[0, 0])

        def counted(change: Callable[[torch.Tensor, torch.Tensor], None]) -> Counter[str]:
            return case.counts([forged(first, change), *others], chunk=100)

        def another_edge(walks: torch.Tensor, e_id: torch.Tensor) -> None:
            e_id[whole, 2] = int(e_id.max()) + 1_000_000

        def another_vertex(walks: torch.Tensor, e_id: torch.Tensor) -> None:
            walks[whole, -1] = (walks[whole, -1] + 1) % 40

        def another_seed(walks: torch.Tensor, e_id: torch.Tensor) -> None:
            walks[whole, 0] = (walks[whole, 0] + 1) % 40

        def ends_early(walks: torch.Tensor, e_id: torch.Tensor) -> None:
            walks[whole, 3:], e_id[whole, 2:] = -1, -1

        def jumps(walks: torch.Tensor, e_id: torch.Tensor) -> None:
            e_id[whole, 1] = -1
            walks[whole, 2] = (walks[whole, 0] + 1) % 40

        assert case.counts([first, *others]) == Counter()
        assert counted(another_edge)["snapshot"] == 1
        assert counted(another_vertex)["snapshot"] == 1
        assert counted(another_seed)["steps"] >= 1
        assert counted(ends_early) == Counter({"dead end": 1})
        assert counted(jumps)["steps"] == 1


def test_times_that_the_walks_did_not_respect_are_counted(shop: Database) -> None:
    with opened(shop, FRIENDS) as case:
        batches, walk = case.batches(), case.plan.spec.walk
        assert walk is not None
        late = case.counts(batches, temporal=Temporal(inclusive=False, within=None))
        assert set(late) == {"time"}
        assert set(case.counts(batches, walk=replace(walk, clock="forward"))) == {"time"}
    with opened(shop, f"{FRIENDS} TEMPORAL < SEED_TIME TIME RESPECTING") as case:
        batches, walk = case.batches(), case.plan.spec.walk
        assert walk is not None
        # Without the bounds and the clock, some of the walks could have gone on.
        assert set(case.counts(batches, temporal=None, walk=replace(walk, clock="any"))) == {"dead end"}


def test_wrong_pairs_are_counted(shop: Database) -> None:
    with opened(shop, f"{FRIENDS} WINDOW 2 NEGATIVES 2") as case:
        first, *others = case.batches()
        assert first.pairs is not None
        assert first.negatives is not None
        pairs, negatives = first.pairs.clone(), first.negatives.clone()
        pairs[0, 3], negatives[5, 1] = (pairs[0, 3] + 1) % 40, 40
        assert case.counts([replace(first, pairs=pairs), *others]) == Counter(pairs=1)
        assert case.counts([replace(first, negatives=negatives), *others]) == Counter(pairs=1)
        assert replace(first, pairs=pairs).audit()["pairs"] == 1


def test_a_batch_audits_itself(shop: Database) -> None:
    walks: Any = shop.stream(f"WALK FROM {FRIENDS}")
    batch = walks[0]
    clocked = {**batch.lineage, "rules": {**batch.lineage["rules"]}}
    clocked["rules"]["walk"] = {**clocked["rules"]["walk"], "clock": "forward", "strict": True}
    assert replace(batch, lineage=clocked).audit()["time"] > 0
    assert replace(batch, temporal=Temporal(inclusive=False, within=3)).audit()["time"] > 0
    assert replace(batch, lineage={**batch.lineage, "window": [185, 190]}).audit()["snapshot"] >= 0
    assert forged(batch, lambda walks, e_id: walks[:, 0].add_(1)).audit()["steps"] >= 0
    moved = batch.walks.clone()
    moved[0, 0] = (moved[1, 0] + 1) % 40
    assert replace(batch, walks=moved).audit()["steps"] > 0
