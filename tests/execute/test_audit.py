"""AUDIT SAMPLE and Batch.audit() count nothing of a correct engine, and every violation that is planted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import snapdb
from snapdb import Database
from snapdb.loading import Batch
from snapdb.plan import bind
from snapdb.plan.samples import SamplePlan
from snapdb.sql import parse
from snapdb.types import Negatives, Relation, Temporal
from tests.support.inside import engine_of
from tests.support.inside.execute import _CHECKS, _audited, _Truth, open_sample
from tests.support.inside.graph import Adjacency, EdgeColumn
from tests.support.inside.loading import StreamSource
from tests.support.shops import SHOP
from tests.support.streams import open_stream

NODES = "SEEDS (SELECT cid, 150 + cid % 40 AS seed_time FROM customer) AS customer"
EDGES = "SEEDS EDGES bought (SELECT e_id, 160 + e_id % 40 AS seed_time FROM bought)"
FRIENDS = "SEEDS EDGES follows (SELECT e_id, since AS seed_time FROM follows)"
FANOUT = "FANOUT (bought OUT => [3, 2], follows BOTH => [4, 2], bought => [0, 3]) BATCH 16"
STATEMENTS = (
    f"s {NODES} {FANOUT}",
    f"s {NODES} {FANOUT} TEMPORAL < SEED_TIME",
    f"s {NODES} {FANOUT} TEMPORAL <= SEED_TIME WITHIN 20 METHOD LATEST",
    f"s {NODES} {FANOUT} TEMPORAL < SEED_TIME WITHIN 0 METHOD BOTTOMK LAYOUT BLOCKS",
    f"s {NODES} {FANOUT} TEMPORAL < SEED_TIME WITHIN 35 METHOD LABOR WITH torch",
    f"late {NODES} {FANOUT} SUBSET 60 PERCENT PER EPOCH EPOCHS 3",
    f"late {EDGES} FANOUT (DEFAULT => [5, 5]) TEMPORAL <= SEED_TIME NEGATIVES 3 PER POSITIVE EXCLUDE KNOWN EVER",
    f"s {EDGES} {FANOUT} NEGATIVES 4 PER POSITIVE WEIGHTED BY DEGREE EXCLUDE KNOWN",
    f"s {FRIENDS} {FANOUT} EXCLUDE SEEDS BOTH DIRECTIONS",
    f"s {FRIENDS} {FANOUT} TEMPORAL <= SEED_TIME NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN BEFORE SEED_TIME",
    f"s {FRIENDS} {FANOUT} TEMPORAL <= SEED_TIME NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN AT SEED_TIME WITHIN 9",
)


@pytest.fixture(scope="module")
def shop() -> Iterator[Database]:
    with snapdb.connect() as db:
        db.script(SHOP)
        yield db


@dataclass
class Case:
    """A statement, opened: what it makes can be changed before it is audited."""

    truth: _Truth
    opened: StreamSource
    plan: SamplePlan

    def batches(self, **changes: Any) -> list[Batch]:
        """One epoch; `changes` are fields of the view that are others."""
        view = replace(self.opened.view, **changes)
        with open_stream(view, self.opened.seeds, self.plan.spec, threads=1) as stream:
            return list(stream)

    def counts(self, batches: list[Batch], *, chunk: int = 1 << 20, **changes: Any) -> Counter[str]:
        """Violations by check; `changes` are fields of the statement that the audit believes in."""
        truth = replace(self.truth, spec=replace(self.truth.spec, **changes))
        relations = [relation for fanout in self.plan.spec.fanouts for relation in fanout.relations]
        found: Counter[str] = Counter()
        for rows in _audited(truth, self.opened, relations, batches, chunk):
            for row in rows.to_pylist():
                found[row["check"]] += row["violations"]
        return found


@contextmanager
def opened(db: Database, statement: str) -> Iterator[Case]:
    engine = engine_of(db)
    (parsed,) = parse(f"SAMPLE FROM {statement}")
    plan = bind(parsed, engine.bind_context)
    assert isinstance(plan, SamplePlan)
    found = open_sample(engine, plan)
    try:
        yield Case(_Truth.of(engine, plan), found, plan)
    finally:
        found.lease.release()


def none() -> Counter[str]:
    return Counter(dict.fromkeys(_CHECKS, 0))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_correct_engine_breaks_no_rule(shop: Database, statement: str) -> None:
    rows = shop.execute(f"AUDIT SAMPLE FROM {statement}").fetchall()
    assert rows
    assert [row for row in rows if row[2]] == []
    batches = len(rows) // len(_CHECKS)
    assert [row[:2] for row in rows] == [(number, check) for number in range(batches) for check in _CHECKS]
    for batch in shop.stream(f"SAMPLE FROM {statement.partition(' EPOCHS')[0]}"):
        assert not any(batch.audit().values())


def test_the_batches_are_those_of_the_sample_whatever_the_chunk(shop: Database) -> None:
    with opened(shop, f"late {NODES} {FANOUT} TEMPORAL < SEED_TIME") as case:
        batches = case.batches()
        assert case.counts(batches, chunk=1) == case.counts(batches) == none()
        spoilt = [replace(b, y=torch.cat([b.y, b.y])) for b in batches if b.y is not None]
        assert (
            case.counts(spoilt, chunk=1)
            == case.counts(spoilt)
            == none() | Counter({"target horizon": sum(b.batch_size for b in batches)})
        )


def test_no_seeds_give_no_rows_but_their_columns(shop: Database) -> None:
    found = shop.execute(f"AUDIT SAMPLE FROM s SEEDS (SELECT cid FROM customer WHERE cid < 0) AS customer {FANOUT}")
    assert found.columns == ["batch", "check", "violations"]
    assert found.fetchall() == []


def shifted(case: Case, edge: str, by: int) -> Callable[[Relation], Adjacency]:
    """The snapshot's adjacency, whose edges of a type seem to have happened `by` earlier."""

    def adjacency(relation: Relation) -> Adjacency:
        found = case.opened.view.adjacency(relation)
        if relation.edge.edge != edge or found.time is None:
            return found
        earlier = [None if part is None else np.where(part > -(2**63), part - by, part) for part in found.time]
        return replace(found, time=EdgeColumn(*earlier))

    return adjacency


@pytest.mark.parametrize("edge", ["bought", "follows"])
def test_edges_of_the_future_are_seen_though_the_snapshots_arrays_deny_it(shop: Database, edge: str) -> None:
    with opened(shop, f"s {NODES} {FANOUT} TEMPORAL < SEED_TIME") as case:
        batches = case.batches(adjacency=shifted(case, edge, 25))
        rows = shop.execute(f"SELECT e_id, {'ts' if edge == 'bought' else 'since'} FROM s.{edge}").fetchall()
        times = dict(rows)
        late = 0
        for batch in batches:
            for key in batch.edge_index:
                if edge in key.edge:
                    seed = batch.seed_time[batch.batch[key.destination][batch.edge_index[key][1]]]
                    ids = zip(batch.e_id[key].tolist(), seed.tolist(), strict=True)
                    late += sum(times[e_id] is not None and times[e_id] >= s for e_id, s in ids)
        assert late > 10
        assert case.counts(batches) == none() | Counter(time=late)
        assert sum(b.audit()["time"] for b in batches) == 0  # the batch alone knows no other times


def test_edges_that_are_too_old_or_have_ended_are_seen(shop: Database) -> None:
    statement = f"s {NODES} {FANOUT} TEMPORAL <= SEED_TIME"
    with opened(shop, statement) as case:
        batches = case.batches()
        assert case.counts(batches) == none()
        narrow = case.counts(batches, temporal=Temporal(True, 10))
        assert narrow["time"] > 0
        assert +narrow == Counter(time=narrow["time"])
        strict = case.counts(batches, temporal=Temporal(False, None))
        assert 0 < strict["time"] < narrow["time"]
        told = sum(replace(b, temporal=Temporal(False, None)).audit()["time"] for b in batches)
        assert 0 < told <= strict["time"]  # a batch does not know when edges end, nor when vertices are born


def test_an_edge_between_two_trees_is_seen(shop: Database) -> None:
    with opened(shop, f"s {NODES} {FANOUT} TEMPORAL <= SEED_TIME") as case:
        batch = case.batches()[0]
        mixed = {name: torch.where(trees == 3, 4, trees) for name, trees in batch.batch.items()}
        mixed["product"] = batch.batch["product"]
        spoilt = replace(batch, batch=mixed)
        assert case.counts([spoilt])["time"] > 0
        assert spoilt.audit()["time"] > 0


def test_edges_that_the_snapshot_has_not_are_seen(shop: Database) -> None:
    with opened(shop, f"late {NODES} {FANOUT}") as case, opened(shop, f"s {NODES} {FANOUT}") as other:
        held = {row[0] for row in shop.execute("SELECT e_id FROM late.bought").fetchall()}
        batches = other.batches()
        strangers = [
            e_id
            for batch in batches
            for key, ids in batch.e_id.items()
            if "bought" in key.edge
            for e_id in ids.tolist()
            if e_id not in held
        ]
        assert strangers
        found = case.counts(batches)["snapshot"]
        held = {row[0] for row in shop.execute("SELECT e_id FROM late.follows").fetchall()}
        for batch in batches:
            found -= sum(
                e_id not in held for key, x in batch.e_id.items() if "follows" in key.edge for e_id in x.tolist()
            )
        assert found == len(strangers)


def test_an_edge_with_other_ends_is_not_the_snapshots(shop: Database) -> None:
    with opened(shop, f"s {NODES} {FANOUT}") as case:
        batch = case.batches()[0]
        (key,) = (key for key in batch.edge_index if key.edge == "rev_bought")
        wrong = dict(batch.edge_index)
        wrong[key] = torch.stack([wrong[key][0].roll(1), wrong[key][1]])
        moved = int((batch.n_id["product"][wrong[key][0]] != batch.n_id["product"][batch.edge_index[key][0]]).sum())
        assert moved
        assert case.counts([replace(batch, edge_index=wrong)]) == none() | Counter(snapshot=moved)


def test_edges_after_the_window_are_seen_by_the_batch(shop: Database) -> None:
    with opened(shop, f"s {NODES} {FANOUT}") as case:
        batches = [replace(b, lineage={**b.lineage, "window": [None, 170]}) for b in case.batches()]
        late = sum(int((t >= 170).sum()) for b in batches for t in b.edge_time.values())
        assert sum(b.audit()["snapshot"] for b in batches) == late > 0


@pytest.mark.parametrize("temporal", ["", "TEMPORAL <= SEED_TIME"])
@pytest.mark.parametrize("exclude", ["PAIR", "BOTH"])
def test_seed_pairs_that_a_batch_may_see_are_seen(shop: Database, temporal: str, exclude: Any) -> None:
    fanout = "FANOUT (follows => [FULL, FULL], follows OUT => [FULL, FULL]) BATCH 16"
    with opened(shop, f"s {FRIENDS} {fanout} {temporal} KEEP SEEDS") as case:
        batches, link = case.batches(), case.plan.spec.link
        assert link is not None
        assert case.counts(batches) == none()
        found = case.counts(batches, link=replace(link, exclude=exclude))
        rules = {**batches[0].lineage["rules"], "exclude": exclude}
        told = sum(replace(b, lineage={**b.lineage, "rules": rules}).audit()["exclusion"] for b in batches)
        assert found == none() | Counter(exclusion=told)
        assert told >= sum(b.batch_size for b in batches)  # each seed edge itself, at least


@pytest.mark.parametrize("known", ["EVER", "BEFORE", "AT"])
def test_negatives_that_are_known_are_seen(shop: Database, known: Any) -> None:
    with opened(shop, f"s {EDGES} {FANOUT} NEGATIVES 5 PER POSITIVE") as case:
        batches, link = case.batches(), case.plan.spec.link
        assert link is not None
        assert case.counts(batches) == none()
        found = case.counts(batches, link=replace(link, negatives=Negatives(5, None, known)))
        edges = shop.execute("SELECT cid, pid, ts FROM s.bought").fetchall()
        when: dict[Any, list[Any]] = {}
        for cid, pid, ts in edges:
            when.setdefault((cid, pid), []).append(ts)
        expected = 0
        for b in batches:
            for i in range(b.batch_size):
                s = int(b.seed_time[i])
                source = b.ids("customer")[int(b.src_index[i])].as_py()
                for local in b.dst_neg_index[i].tolist():
                    times = when.get((source, b.ids("product")[local].as_py()), [])
                    expected += any({"EVER": True, "BEFORE": t is None or t < s, "AT": t == s}[known] for t in times)
        assert found == none() | Counter(exclusion=expected)
        assert expected > 0


def test_a_positive_among_the_negatives_is_seen_by_the_batch(shop: Database) -> None:
    with opened(shop, f"s {EDGES} {FANOUT} NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN") as case:
        batch = case.batches()[0]
        pairs = batch.edge_label_index
        assert pairs is not None
        pairs = torch.cat([pairs, pairs[:, :3]], dim=1)
        assert replace(batch, edge_label_index=pairs).audit()["exclusion"] == 3


def test_values_that_were_not_known_yet_are_seen(shop: Database) -> None:
    with opened(shop, f"s {NODES} {FANOUT} TEMPORAL < SEED_TIME") as case:
        batches = case.batches()
        fresh = case.opened.view.node_features["customer"]["fee"]
        spoilt, wrong = [], 0
        for batch in batches:
            latest = torch.from_numpy(fresh.read(batch.n_id["customer"].numpy()))
            wrong += int((latest != batch.features["customer"]["fee"]).sum())
            features = {**batch.features, "customer": {**batch.features["customer"], "fee": latest}}
            spoilt.append(replace(batch, features=features))
        assert wrong > 10
        assert case.counts(spoilt) == none() | Counter({"feature time": wrong})


def test_vertices_that_were_not_born_are_seen(shop: Database) -> None:
    statement = f"s SEEDS (SELECT cid, 200 AS seed_time FROM customer) AS customer {FANOUT} TEMPORAL <= SEED_TIME"
    with opened(shop, statement) as case:
        batches = case.batches()
        times = case.opened.seeds.time
        assert times is not None
        earlier = case.opened._replace(seeds=replace(case.opened.seeds, time=times - 100))
        found = replace(case, opened=earlier).counts(batches)
        born = dict(shop.execute("SELECT cid, born FROM customer").fetchall())
        young = [b.ids("customer")[: b.batch_size].to_pylist() for b in batches]
        assert found["target horizon"] == sum((born[cid] or 0) > 100 for ids in young for cid in ids) > 0
        assert found["time"] > 0


def test_vertices_that_are_not_in_the_snapshot_are_seen(shop: Database) -> None:
    shop.execute("CREATE SNAPSHOT few OF shop FOR EVENT_TIME AS OF 190 WHERE product.price < 10")
    try:
        with opened(shop, f"s {EDGES} {FANOUT} NEGATIVES 2 PER POSITIVE") as case:
            batches = case.batches()
            engine = engine_of(shop)
            few = engine.bind_context.catalog.snapshots["few"]
            truth = _Truth.of(engine, replace(case.plan, snapshot=few))
            found = replace(case, truth=truth).counts(batches)
            entered = [i for b in batches for i in (*b.dst_pos_index.tolist(), *b.dst_neg_index.flatten().tolist())]
            assert found["snapshot"] > len(entered) // 2
    finally:
        shop.execute("DROP SNAPSHOT few")


def test_a_batch_that_travelled_is_audited_as_well(shop: Database) -> None:
    with shop.stream(f"SAMPLE FROM s {NODES} {FANOUT} TEMPORAL < SEED_TIME") as stream:
        batch = stream[0].to("cpu")
    assert batch.audit() == {"time": 0, "snapshot": 0, "exclusion": 0, "target horizon": 0}
    assert isinstance(batch.ids("customer"), pa.Array)


def test_link_rules_are_those_of_the_statement(shop: Database) -> None:
    with shop.stream(f"SAMPLE FROM s {FRIENDS} {FANOUT} NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN") as stream:
        said = stream[0].lineage["rules"]
    assert said == {"exclude": "PAIR", "known": "EVER", "both": ["follows"], "lasting": ["follows"]}


def test_composite_keys_and_timestamps_are_held_against_sql_too(db: Database) -> None:
    db.script("""
        CREATE TABLE place AS SELECT range % 7 AS x, 'row ' || range // 7 AS y FROM range(35);
        CREATE TABLE road AS SELECT range * 3 % 7 AS x, 'row ' || range % 5 AS y, range * 5 % 7 AS to_x,
          'row ' || range * 2 % 5 AS to_y, DATE '2026-01-01' + (range * 13 % 60)::INTEGER AS opened FROM range(200);
        CREATE PROPERTY GRAPH map VERTEX TABLES (place KEY (x, y)) EDGE TABLES (
          road SOURCE KEY (x, y) REFERENCES place DESTINATION KEY (to_x, to_y) REFERENCES place EVENT TIME (opened));
        CREATE SNAPSHOT m OF map;
    """)
    seeds = "SEEDS EDGES road (SELECT e_id, opened AS seed_time FROM road)"
    rest = "FANOUT (road BOTH => [5, 5]) BATCH 50 NEGATIVES 2 PER POSITIVE"
    for clauses in ("TEMPORAL < SEED_TIME WITHIN INTERVAL '9 days' EXCLUDE KNOWN BEFORE SEED_TIME", "EXCLUDE KNOWN"):
        found = db.execute(f"AUDIT SAMPLE FROM m {seeds} {rest} {clauses}").fetchall()
        assert len(found) == 4 * len(_CHECKS)
        assert not any(violations for _, _, violations in found)
    with opened(db, f"m {seeds} {rest} TEMPORAL <= SEED_TIME") as case:
        batches = case.batches()
        assert case.counts(batches) == none()
        day = 86_400_000_000
        assert case.counts(case.batches(adjacency=shifted(case, "road", day)))["time"] > 0
        assert case.counts(batches, temporal=Temporal(True, day))["time"] > 0
        assert case.counts(batches, temporal=Temporal(False, None))["time"] > 0
