"""What a SAMPLE statement means: each clause as a part of the sampler, and which of them do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import snapdb
from snapdb.errors import SnapdbError
from snapdb.plan import Plan
from snapdb.plan.samples import AuditPlan, SamplePlan, SeedColumns
from snapdb.types import FULL, Drawing, EdgeType, Fanout, Link, Negatives, SampleSpec, Temporal
from tests.support.inside import bind_text, engine_of
from tests.support.inside.plan import ExplainPlan, with_seeds
from tests.support.refusals import refused

TABLES = """
CREATE TABLE person AS SELECT range::INT AS pid, range * 0.5 AS pop, 'p' || range AS name, TIMESTAMP '2026-01-01' AS t,
  range AS step, range % 2 AS label FROM range(5);
CREATE TABLE shop AS SELECT range AS x, 'o' || range AS y FROM range(3);
CREATE TABLE bought AS SELECT range % 5 AS a, (range * 3) % 5 AS b, DATE '2026-01-01' + range::INT AS ts,
  range + 1 AS qty, 1.5::DOUBLE AS price, 'x' AS note FROM range(8);
CREATE TABLE viewed AS SELECT range % 5 AS a, (range * 2) % 5 AS b, range AS step, range AS qty FROM range(8);
CREATE TABLE at_shop AS SELECT range % 5 AS a, range % 3 AS x, 'o' || range % 3 AS y FROM range(6);
"""
ENDS = "SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person"
GRAPHS = f"""
CREATE PROPERTY GRAPH days VERTEX TABLES (person KEY (pid) TARGET (label AS y), shop KEY (x, y))
  EDGE TABLES (bought {ENDS} EVENT TIME (ts) WEIGHT (qty), viewed {ENDS},
               at_shop AS visits SOURCE KEY (a) REFERENCES person DESTINATION KEY (x, y) REFERENCES shop);
CREATE SNAPSHOT s OF days;
CREATE SNAPSHOT few OF days ELEMENTS (person, bought);
CREATE PROPERTY GRAPH steps VERTEX TABLES (person KEY (pid)) EDGE TABLES (viewed {ENDS} EVENT TIME (step));
CREATE SNAPSHOT n OF steps;
CREATE PROPERTY GRAPH plain VERTEX TABLES (person KEY (pid)) EDGE TABLES (viewed {ENDS});
CREATE SNAPSHOT p OF plain;
CREATE PROPERTY GRAPH mixed VERTEX TABLES (person KEY (pid)) EDGE TABLES (viewed {ENDS} EVENT TIME (step),
                                                                          bought {ENDS} EVENT TIME (ts));
CREATE SNAPSHOT m OF mixed;
ALTER TABLE bought DROP price
"""
NODES = "SAMPLE FROM s SEEDS (SELECT pid FROM person) AS person "
TIMED = "SAMPLE FROM s SEEDS (SELECT pid, t AS seed_time FROM person) AS person FANOUT (bought => [3, 2]) "
STEPS = "SAMPLE FROM n SEEDS (SELECT pid, step AS seed_time FROM person) AS person FANOUT (viewed => [3]) "
LINKS = "SAMPLE FROM s SEEDS EDGES bought (SELECT e_id, ts AS seed_time FROM bought) FANOUT (bought => [3]) "
BOUGHT = "FANOUT (bought => [3, 2]) "
BOTH = "FANOUT (bought => [3], viewed OUT => [2]) "
DAY = 86_400_000_000


class World:
    """Snapshots in a database, and what statements about them mean."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.context = engine_of(db).bind_context

    def bind(self, text: str) -> Plan:
        return bind_text(self.db, text)

    def plan(self, text: str) -> SamplePlan:
        plan = self.bind(text)
        assert isinstance(plan, SamplePlan)
        return plan

    def spec(self, text: str) -> SampleSpec:
        return self.plan(text).spec

    def refuses(self, text: str, code: str, *named: str, at: str) -> None:
        """Requires that a statement is refused with a code, at a place of its own text."""
        with refused(code, *named, at=at) as caught:
            self.bind(text)
        assert caught.value.text == text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with snapdb.connect(tmp_path_factory.mktemp("samples") / "db") as db:
        db.script(TABLES + GRAPHS)
        yield World(db)


def test_a_plain_sample_draws_uniformly(world: World) -> None:
    plan = world.plan(NODES + BOUGHT)
    bought = EdgeType("person", "bought", "person")
    assert plan.spec == SampleSpec(
        snapshot="s",
        seed_type="person",
        seed_query="SELECT pid FROM person",
        fanouts=(Fanout(bought, "IN", (3, 2)),),
        batch_size=1024,
        seed=0,
        order="SHUFFLE",
        text=(NODES + BOUGHT).strip(),
    )
    assert plan.columns == SeedColumns((0,), None, None)
    assert plan.epochs == 1


@pytest.mark.parametrize(
    ("clauses", "drawing"),
    [
        (BOUGHT + "METHOD UNIFORM WITHOUT REPLACEMENT", Drawing()),
        (BOUGHT + "METHOD UNIFORM WITH REPLACEMENT", Drawing(replace=True)),
        (BOUGHT + "WEIGHT BY Qty", Drawing(weights=(("bought", "qty"),), weighted=True)),
        (BOUGHT + "WEIGHT BY price WITH REPLACEMENT", Drawing("UNIFORM", True, (("bought", "price"),), True)),
        (BOTH + "WEIGHT BY qty", Drawing(weights=(("bought", "qty"), ("viewed", "qty")), weighted=True)),
        (BOTH + "WEIGHT BY VIEWED.step", Drawing(weights=(("viewed", "step"),), weighted=True)),
        (BOUGHT + "METHOD TOPK", Drawing("TOPK", weights=(("bought", "qty"),), weighted=True)),
        (BOUGHT + "METHOD TOPK WEIGHT BY qty", Drawing("TOPK", weights=(("bought", "qty"),), weighted=True)),
        (
            BOTH + "METHOD PRIORITY WEIGHT BY viewed.qty",
            Drawing("PRIORITY", weights=(("bought", "qty"), ("viewed", "qty")), weighted=True),
        ),
        (BOUGHT + "METHOD LATEST", Drawing("LATEST")),
        (BOTH + "METHOD LATEST", Drawing("LATEST")),
        (BOUGHT + "METHOD BOTTOMK", Drawing("BOTTOMK")),
        (BOUGHT + "METHOD LABOR", Drawing("LABOR")),
        (BOUGHT + "METHOD LABOR DEPENDENT BATCHES 64", Drawing("LABOR", dependent=64)),
    ],
)
def test_a_method_says_how_edges_are_drawn(world: World, clauses: str, drawing: Drawing) -> None:
    assert world.spec(NODES + clauses).drawing == drawing


def test_method_full_makes_every_number_full_but_nought(world: World) -> None:
    spec = world.spec(NODES + "FANOUT (bought => [3, 0, FULL], DEFAULT => [1, 2, 0]) METHOD FULL")
    assert [(f.edge.edge, f.counts) for f in spec.fanouts] == [
        ("bought", (FULL, 0, FULL)),
        ("viewed", (FULL, FULL, 0)),
        ("visits", (FULL, FULL, 0)),
    ]
    assert spec.drawing == Drawing("FULL")


def test_within_counts_in_the_unit_of_event_times(world: World) -> None:
    assert world.spec(TIMED + "TEMPORAL < SEED_TIME").temporal == Temporal(False, None)
    assert world.spec(TIMED + "TEMPORAL <= SEED_TIME WITHIN INTERVAL '30 days'").temporal == Temporal(True, 30 * DAY)
    assert world.spec(TIMED + "WITHIN INTERVAL (1 + 1) DAYS TEMPORAL < SEED_TIME").temporal == Temporal(False, 2 * DAY)
    assert world.spec(TIMED + "WITHIN INTERVAL '1 month' TEMPORAL < SEED_TIME").temporal == Temporal(False, 30 * DAY)
    assert world.spec(STEPS + "TEMPORAL < SEED_TIME WITHIN 3_600").temporal == Temporal(False, 3600)
    assert world.spec(STEPS + "TEMPORAL < SEED_TIME WITHIN 0").temporal == Temporal(False, 0)
    assert world.spec(STEPS + "TEMPORAL < SEED_TIME").disjoint
    assert not world.spec(STEPS).disjoint


def test_seed_edges_enter_with_both_ends_and_negatives(world: World) -> None:
    bought = EdgeType("person", "bought", "person")
    plan = world.plan(LINKS)
    assert (plan.spec.seed_type, plan.spec.link) == ("person", Link(bought, None, "PAIR"))
    assert world.spec(LINKS + "KEEP SEEDS").link == Link(bought, None, "NONE")
    assert world.spec(LINKS + "NEGATIVES 3 PER POSITIVE EXCLUDE SEEDS BOTH DIRECTIONS").link == Link(
        bought, Negatives(3, None, None), "BOTH"
    )
    for clause, weight, known in [
        ("WEIGHTED BY Pop", "pop", None),
        ("WEIGHTED BY DEGREE EXCLUDE KNOWN", "DEGREE", "EVER"),
        ("EXCLUDE KNOWN BEFORE SEED_TIME", None, "BEFORE"),
        ("EXCLUDE KNOWN AT SEED_TIME", None, "AT"),
    ]:
        link = world.spec(LINKS + "NEGATIVES 1 PER POSITIVE " + clause).link
        assert link is not None
        assert link.negatives == Negatives(1, weight, known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seeds", "columns"),
    [
        ("SEEDS (SELECT pid FROM person) AS person", SeedColumns((0,), None, None)),
        ("SEEDS (SELECT pid, label AS y, t AS seed_time FROM person) AS person", SeedColumns((0,), 2, 1)),
        (
            "SEEDS (SELECT pid, DATE '2026-02-03' AS Seed_Time, pid > 2 AS Y FROM person) AS person",
            SeedColumns((0,), 1, 2),
        ),
        ("SEEDS (SELECT x, y FROM shop) AS shop", SeedColumns((0, 1), None, None)),
        ("SEEDS (SELECT x, y AS name, x AS y FROM shop) AS shop", SeedColumns((0, 1), None, 2)),
        ("SEEDS EDGES bought (FROM bought SELECT e_id)", SeedColumns((0,), None, None)),
        ("SEEDS EDGES visits (SELECT 3)", SeedColumns((0,), None, None)),
        ("SEEDS EDGES bought (SELECT 1.5 AS y, ts AS seed_time, e_id FROM bought)", SeedColumns((2,), 1, 0)),
        (
            "SEEDS (SELECT pid, pop AS weight, [1, 2]::FLOAT[2] AS y, pop > 1 AS big FROM person) AS person",
            SeedColumns((0,), None, 2, others=(3, 1)),
        ),
        ("SEEDS EDGES bought (SELECT 0.5 AS share, e_id FROM bought)", SeedColumns((1,), None, None, others=(0,))),
    ],
)
def test_the_columns_of_a_seed_query_are_found(world: World, seeds: str, columns: SeedColumns) -> None:
    assert world.plan(f"SAMPLE FROM s {seeds} {BOUGHT}").columns == columns


def test_how_to_batch_is_kept_as_it_was_said(world: World) -> None:
    spec = world.spec(
        NODES.replace("FROM person)", "FROM person ORDER BY pid)")
        + BOUGHT
        + "LAYOUT BLOCKS REUSE HOPS ALLOW DUPLICATES SUBSET 12.5 PERCENT PER EPOCH IN ORDER"
    )
    assert (spec.layout, spec.reuse_hops, spec.allow_duplicates, spec.order) == ("BLOCKS", True, True, "IN ORDER")
    assert spec.subset == Fraction(1, 8)
    assert world.spec(NODES + BOUGHT + "SUBSET .1 PERCENT PER EPOCH").subset == Fraction(1, 1000)
    assert world.spec(NODES + BOUGHT + "SUBSET 1e2 PERCENT PER EPOCH").subset == 1


def test_where_batches_are_made(world: World) -> None:
    for clauses, device, backend in [
        ("ON 'cpu'", None, None),
        ("ON 'cpu' WITH torch", None, "torch"),
        ("ON 'CUDA' WITH numba", "cuda", "numba"),
        ("ON 'cuda:1'", "cuda:1", None),
    ]:
        spec = world.spec(NODES + BOUGHT + clauses)
        assert (spec.device, spec.backend) == (device, backend)
    assert world.spec(NODES + BOUGHT + "WITH (memory = '1.5 MiB')").memory == 1_572_864


def test_a_fanout_may_be_above_the_cap_of_torch_where_torch_does_not_draw_it(world: World) -> None:
    wide = NODES + "FANOUT (bought => [2000, 1]) "
    for clauses in [
        "",
        "ON 'cuda' WITH numba",
        "WITH torch WEIGHT BY qty",
        "WITH torch METHOD BOTTOMK",
        "WITH torch WITH REPLACEMENT",
        "WITH torch METHOD FULL",
    ]:
        assert world.spec(wide + clauses).fanouts[0].counts[0] in (2000, FULL)


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("SELECT pid FROM person ORDER BY pid DESC", (0,)),
        ("SELECT pid, label AS y FROM person p ORDER BY 2, p.PID", (1, 0)),
    ],
)
def test_in_order_goes_by_the_columns_of_the_seeds(world: World, query: str, order: tuple[int, ...]) -> None:
    plan = world.plan(f"SAMPLE FROM s SEEDS ({query}) AS person {BOUGHT} IN ORDER")
    assert plan.columns.order == order
    assert with_seeds(world.context, plan, "SELECT pid FROM person ORDER BY pid").columns.order == (0,)
    assert with_seeds(world.context, plan, [3, 1]).columns.order == ()
    with refused("no-order", "seeds="):
        with_seeds(world.context, plan, "SELECT pid FROM person")


REFUSED = [
    (NODES + BOUGHT + "IN ORDER", "IN ORDER", "no-order"),
    (
        f"SAMPLE FROM s SEEDS (SELECT pid FROM person ORDER BY label) AS person {BOUGHT} IN ORDER",
        "SELECT pid FROM person ORDER BY label",
        "no-order",
    ),
    (
        f"SAMPLE FROM s SEEDS (SELECT pid FROM person ORDER BY hash(pid)) AS person {BOUGHT} IN ORDER",
        "SELECT pid FROM person ORDER BY hash(pid)",
        "no-order",
    ),
    (NODES + BOUGHT + "METHOD LATEST WITH REPLACEMENT", "WITH REPLACEMENT", "clauses-clash"),
    (NODES + BOUGHT + "METHOD FULL WITH REPLACEMENT", "WITH REPLACEMENT", "clauses-clash"),
    *(
        (NODES + BOUGHT + f"WEIGHT BY qty METHOD {method}", "WEIGHT BY qty", "clauses-clash")
        for method in ("LATEST", "FULL", "BOTTOMK", "LABOR")
    ),
    (NODES + BOTH + "METHOD TOPK", "METHOD TOPK", "needs-weight"),
    (NODES + BOTH + "METHOD PRIORITY WEIGHT BY bought.qty", "METHOD PRIORITY", "needs-weight"),
    (NODES + "FANOUT (viewed => [1]) METHOD LATEST", "METHOD LATEST", "needs-event-time"),
    (NODES + BOUGHT + "WEIGHT BY qyt", "qyt", "unknown-column"),
    (NODES + BOUGHT + "WEIGHT BY note", "note", "column-type"),
    (NODES + BOTH + "WEIGHT BY price", "price", "unknown-column"),
    (NODES + BOTH + "WEIGHT BY bougt.qty", "bougt", "unknown-edge-type"),
    (NODES + BOUGHT + "WEIGHT BY viewed.qty", "viewed", "weight-not-walked"),
    (NODES + BOTH + "WEIGHT BY bought.qty, bought.price", "bought", "duplicate-name"),
    (NODES + BOTH + "WEIGHT BY qty, price", "qty", "ambiguous-weight"),
    (NODES + BOUGHT + "METHOD LABOR DEPENDENT BATCHES 0", "METHOD LABOR DEPENDENT BATCHES 0", "out-of-range"),
    (TIMED + "WITHIN INTERVAL '1 day'", "INTERVAL '1 day'", "needs-temporal"),
    (TIMED + "TEMPORAL < SEED_TIME WITHIN 5", "5", "time-kind"),
    (TIMED + "TEMPORAL < SEED_TIME WITHIN INTERVAL '-1 day'", "INTERVAL '-1 day'", "out-of-range"),
    (TIMED + "TEMPORAL < SEED_TIME WITHIN INTERVAL 'a day'", "INTERVAL 'a day'", "bad-value"),
    (STEPS + "TEMPORAL < SEED_TIME WITHIN INTERVAL '1 day'", "INTERVAL '1 day'", "time-kind"),
    (STEPS + "TEMPORAL < SEED_TIME WITHIN -1", "-1", "out-of-range"),
    (NODES + BOUGHT + "TEMPORAL < SEED_TIME", "TEMPORAL < SEED_TIME", "needs-seed-time"),
    (
        TIMED.replace("FROM s", "FROM p").replace("bought", "viewed") + "TEMPORAL <= SEED_TIME",
        "TEMPORAL <= SEED_TIME",
        "needs-event-time",
    ),
    (TIMED.replace("FROM s", "FROM m") + "TEMPORAL < SEED_TIME", "TEMPORAL < SEED_TIME", "mixed-times"),
    (TIMED.replace("FROM s", "FROM m"), "SELECT pid, t AS seed_time FROM person", "mixed-times"),
    (NODES + BOUGHT + "NEGATIVES 1 PER POSITIVE", "NEGATIVES 1 PER POSITIVE", "needs-seed-edges"),
    (NODES + BOUGHT + "EXCLUDE KNOWN EVER", "EXCLUDE KNOWN EVER", "needs-seed-edges"),
    (NODES + BOUGHT + "EXCLUDE SEEDS", "EXCLUDE SEEDS", "needs-seed-edges"),
    (NODES + BOUGHT + "KEEP SEEDS", "KEEP SEEDS", "needs-seed-edges"),
    (LINKS + "EXCLUDE KNOWN", "EXCLUDE KNOWN", "needs-negatives"),
    (
        LINKS.replace(", ts AS seed_time", "") + "NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN AT SEED_TIME",
        "EXCLUDE KNOWN AT SEED_TIME",
        "needs-seed-time",
    ),
    (LINKS + "NEGATIVES 0 PER POSITIVE", "NEGATIVES 0 PER POSITIVE", "out-of-range"),
    (LINKS + "NEGATIVES 1000001 PER POSITIVE", "NEGATIVES 1000001 PER POSITIVE", "out-of-range"),
    (LINKS + "NEGATIVES 1 PER POSITIVE WEIGHTED BY popp", "popp", "unknown-column"),
    (LINKS + "NEGATIVES 1 PER POSITIVE WEIGHTED BY name", "name", "column-type"),
    (LINKS.replace("EDGES bought", "EDGES bougth"), "bougth", "unknown-edge-type"),
    (LINKS.replace("EDGES bought", "EDGES person"), "person", "unknown-edge-type"),
    (NODES.replace("AS person", "AS bought") + BOUGHT, "bought", "unknown-vertex-type"),
    (NODES.replace("AS person", "AS persn") + BOUGHT, "persn", "unknown-vertex-type"),
    (NODES.replace("FROM s", "FROM few") + "FANOUT (viewed => [1])", "viewed", "unknown-edge-type"),
    (NODES + "FANOUT (bought => [1025, 5]) WITH torch", "FANOUT (bought => [1025, 5])", "out-of-range"),
    (NODES + BOUGHT + "ON 'gpu'", "ON 'gpu'", "unknown-device"),
    (NODES + BOUGHT + "SUBSET 0 PERCENT PER EPOCH", "SUBSET 0 PERCENT PER EPOCH", "out-of-range"),
    (NODES + BOUGHT + "SUBSET 100.1 PERCENT PER EPOCH", "SUBSET 100.1 PERCENT PER EPOCH", "out-of-range"),
    (NODES + BOUGHT + "SUBSET -5 PERCENT PER EPOCH", "SUBSET -5 PERCENT PER EPOCH", "out-of-range"),
    (NODES + BOUGHT + "SUBSET 1e-999999999 PERCENT PER EPOCH", "SUBSET 1e-999999999 PERCENT PER EPOCH", "out-of-range"),
    (NODES + BOUGHT + "BATCH 0", "BATCH 0", "out-of-range"),
    (NODES + BOUGHT + "EPOCHS 0", "EPOCHS 0", "out-of-range"),
    (NODES + BOUGHT + "REPEATABLE (-1)", "REPEATABLE (-1)", "out-of-range"),
]


@pytest.mark.parametrize(("text", "place", "code"), REFUSED)
def test_what_does_not_fit_is_refused_at_its_place(world: World, text: str, place: str, code: str) -> None:
    world.refuses(text, code, at=place)


@pytest.mark.parametrize(
    ("query", "kind", "code"),
    [
        ("SELECT name FROM person", "person", "seed-type"),
        ("SELECT t AS seed_time, pid FROM person", "person", "seed-columns"),
        ("SELECT x FROM shop", "shop", "seed-columns"),
        ("SELECT pid, name FROM person", "person", "seed-type"),
        ("SELECT pid, [pop] AS pops FROM person", "person", "seed-type"),
        ("SELECT pid, pop AS N_id FROM person", "person", "seed-columns"),
        ("SELECT pid, pop AS w, 2 AS W FROM person", "person", "duplicate-name"),
        ("SELECT pid, 1 AS y, 2 AS Y FROM person", "person", "duplicate-name"),
        ("SELECT pid, name AS y FROM person", "person", "seed-type"),
        ("SELECT pid, 1.5 AS seed_time FROM person", "person", "seed-type"),
        ("SELECT pid, 7 AS seed_time FROM person", "person", "seed-type"),
    ],
)
def test_columns_of_a_seed_query_that_do_not_fit_are_refused(world: World, query: str, kind: str, code: str) -> None:
    world.refuses(f"SAMPLE FROM s SEEDS ({query}) AS {kind} {BOUGHT}", code, at=query)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT ts AS seed_time FROM bought", "seed-columns"),
        ("SELECT note AS e_id FROM bought", "seed-type"),
        ("SELECT e_id, note FROM bought", "seed-type"),
        ("SELECT e_id, a AS source FROM bought", "seed-columns"),
    ],
)
def test_columns_of_seed_edges_that_do_not_fit_are_refused(world: World, query: str, code: str) -> None:
    world.refuses(f"SAMPLE FROM s SEEDS EDGES bought ({query}) {BOUGHT}", code, at=query)


def test_explain_and_audit_keep_the_text_of_the_sample(world: World) -> None:
    text = NODES + BOUGHT.strip()
    plan = world.plan(text)
    explained = world.bind("EXPLAIN ANALYZE (FORMAT json) " + text)
    assert isinstance(explained, ExplainPlan)
    assert isinstance(explained.plan, SamplePlan)
    assert (explained.text, explained.analyze, explained.json) == (text, True, True)
    audited = world.bind("AUDIT " + text)
    assert isinstance(audited, AuditPlan)
    assert explained.plan.spec == audited.sample.spec == plan.spec
    assert audited.text == "AUDIT " + text
    assert all(each.is_read() for each in (plan, explained, audited))


@pytest.mark.parametrize(
    ("text", "seeds", "columns"),
    [
        (NODES + BOUGHT, [3, 1], SeedColumns((0,), None, None)),
        (NODES + BOUGHT, "SELECT pid, 1 AS y FROM person", SeedColumns((0,), None, 1)),
        (STEPS + "TEMPORAL < SEED_TIME", {"pid": [1], "seed_time": [7], "y": [0.5]}, SeedColumns((0,), 1, 2)),
        (NODES + BOUGHT, {"pid": [1], "w": [2.0], "b": np.ones((1, 3))}, SeedColumns((0,), None, None, others=(2, 1))),
        (LINKS, np.arange(3), SeedColumns((0,), None, None)),
        (LINKS, {"seed_time": np.array(["2026-01-03"], "M8[us]"), "e_id": [1]}, SeedColumns((1,), 0, None)),
        (LINKS, "SELECT e_id FROM bought WHERE qty > 2", SeedColumns((0,), None, None)),
    ],
)
def test_seeds_from_outside_go_through_the_same_sampler(
    world: World, text: str, seeds: Any, columns: SeedColumns
) -> None:
    plan = world.plan(text)
    other = with_seeds(world.context, plan, seeds)
    assert other.columns == columns
    assert other.spec is plan.spec
    assert other.outside == (seeds if isinstance(seeds, str) else "")


@pytest.mark.parametrize(
    ("text", "seeds", "code"),
    [
        (STEPS + "TEMPORAL < SEED_TIME", [1, 2], "needs-seed-time"),
        (STEPS + "TEMPORAL < SEED_TIME", "SELECT pid FROM person", "needs-seed-time"),
        (NODES + BOUGHT, ["a"], "seed-type"),
        (NODES + BOUGHT, {"pid": [1], "age": ["old"]}, "seed-type"),
        (LINKS, ["a"], "seed-type"),
        (LINKS + "NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN BEFORE SEED_TIME", [1], "needs-seed-time"),
    ],
)
def test_seeds_from_outside_that_do_not_fit_are_refused(world: World, text: str, seeds: Any, code: str) -> None:
    plan = world.plan(text)
    with refused(code, "seeds=") as caught:
        with_seeds(world.context, plan, seeds)
    assert caught.value.text == (seeds if isinstance(seeds, str) else None)
    assert (caught.value.span is None) == (caught.value.text is None)


@pytest.mark.parametrize(
    ("seeds", "place"),
    [
        ("SELECT pdi FROM person", "pdi"),
        ("SELECT pid FROM person WHERE random() < 1", "random"),
        ("DROP TABLE t", "DROP TABLE t"),
    ],
)
def test_a_mistake_in_a_query_from_outside_is_shown_in_it(world: World, seeds: str, place: str) -> None:
    plan = world.plan(NODES + BOUGHT)
    with pytest.raises(SnapdbError) as caught:
        with_seeds(world.context, plan, seeds)
    assert caught.value.text == seeds
    assert caught.value.span is not None
    assert seeds[slice(*caught.value.span)] == place
