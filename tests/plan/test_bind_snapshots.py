"""What statements about graphs and snapshots mean: windows, pins, layouts, what depends on what, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import snapdb
from snapdb.plan import Plan
from snapdb.types import ALL_TIME, FeatureHistory, FeatureSpec, Pin, PropertyGraph, Snapshot, Window
from tests.support.inside import bind_text
from tests.support.inside.plan import (
    CreateGraphPlan,
    CreateSnapshotPlan,
    DiffGraphPlan,
    DiffSnapshotPlan,
    DropPlan,
    ExpirePlan,
    ExplainPlan,
    NothingPlan,
    RefreshPlan,
    ShowPlan,
)
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person (pid BIGINT NOT NULL, born TIMESTAMP, age INT, emb FLOAT[2], idx INT[], val FLOAT[], name VARCHAR);
CREATE TABLE pay (pid INT, code VARCHAR, since DATE, step BIGINT, amount DOUBLE);
CREATE TABLE bought (a BIGINT, b BIGINT, ts TIMESTAMP, until DATE, step INT, qty INT);
CREATE TABLE viewed (a BIGINT, b BIGINT, ts TIMESTAMPTZ);
INSERT INTO bought VALUES (1, 2, '2026-03-31 12:00', '2026-05-01', 40, 1), (2, 1, NULL, NULL, NULL, 2),
  (1, 2, '2026-01-01', NULL, 7, 3);
INSERT INTO viewed VALUES (1, 2, '2026-03-31 14:00:00+02'), (1, 2, '2026-02-01')
"""
ENDS = "SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person"
GRAPH = f"""CREATE PROPERTY GRAPH shop VERTEX TABLES (person KEY (pid) FEATURES (age AS x))
  EDGE TABLES (bought {ENDS} EVENT TIME (ts) NULLS STATIC, viewed {ENDS} EVENT TIME (ts))"""
STEPS = f"CREATE PROPERTY GRAPH steps VERTEX TABLES (person KEY (pid)) EDGE TABLES (bought {ENDS} EVENT TIME (step))"
PLAIN = f"CREATE PROPERTY GRAPH plain VERTEX TABLES (person KEY (pid)) EDGE TABLES (bought {ENDS})"


class World:
    """Tables in a database, with graphs and snapshots that were bound and not built."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.graphs: dict[str, PropertyGraph] = {}
        self.snapshots: dict[str, Snapshot] = {}

    def bind(self, text: str, parameters: Any = None) -> Plan:
        return bind_text(self.db, text, parameters, graphs=dict(self.graphs), snapshots=dict(self.snapshots))

    def graph(self, text: str) -> PropertyGraph:
        plan = self.bind(text.replace("CREATE PROPERTY", "CREATE OR REPLACE PROPERTY"))
        assert isinstance(plan, CreateGraphPlan)
        self.graphs[plan.graph.name.lower()] = plan.graph
        return plan.graph

    def create(self, text: str) -> CreateSnapshotPlan:
        plan = self.bind(text)
        assert isinstance(plan, CreateSnapshotPlan)
        return plan

    def snapshot(self, text: str, *, created: int = 0, refreshed: int | None = None) -> Snapshot:
        p = self.create(text)
        made = Snapshot(
            len(self.snapshots),
            p.name,
            p.graph,
            p.version,
            p.window,
            p.unit,
            p.filters,
            "full",
            0,
            0,
            0,
            created,
            "",
            p.pin,
            p.layout,
            refreshed,
        )
        self.snapshots[p.name.lower()] = made
        return made

    def refresh(self, text: str) -> RefreshPlan:
        plan = self.bind(text)
        assert isinstance(plan, RefreshPlan)
        return plan

    def expire(self, text: str, parameters: Any = None) -> dict[str, str | None]:
        plan = self.bind(text, parameters)
        assert isinstance(plan, ExpirePlan)
        return {snapshot.name: reason for snapshot, reason in plan.snapshots}

    def refuses(self, text: str, code: str, *named: str, at: str) -> None:
        """Requires that a statement is refused with a code, at a place of its own text."""
        with refused(code, *named, at=at) as caught:
            self.bind(text)
        assert caught.value.text == text


@pytest.fixture
def world(db: Any) -> World:
    """A world of one's own, for tests that write to it."""
    db.script(SHOP)
    return World(db)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with three graphs that all tests share: they only read it."""
    with snapdb.connect(tmp_path_factory.mktemp("shop") / "shop.snapdb") as db:
        db.script(SHOP)
        made = World(db)
        for text in (GRAPH, STEPS, PLAIN):
            made.graph(text)
        yield made


def micros(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc,arg-type]


def test_vertices_are_born_and_edges_may_end(shop: World) -> None:
    graph = shop.graph(
        f"CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (pid) EVENT TIME (born) NULLS STATIC)"
        f" EDGE TABLES (bought {ENDS} EVENT TIME (ts, UNTIL))"
    )
    (person,), (bought,) = graph.vertices, graph.edges
    assert (person.event_time, person.nulls_static) == ("born", True)
    assert (bought.event_time, bought.event_end, bought.nulls_static) == ("ts", "until", False)


def test_features_have_types_and_histories(shop: World) -> None:
    graph = shop.graph(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (pid) FEATURES (emb AS x TYPE half, age AS x TYPE FP16,"
        " (idx, val) AS words TYPE double SPARSE [9], amount FROM Pay KEY (PID) EVENT TIME (since) AS pay DEFAULT 0))"
    )
    assert graph.vertices[0].features == (
        FeatureSpec("x", ("emb", "age"), None, "float16"),
        FeatureSpec("words", ("idx", "val"), None, "float64", True, 9),
        FeatureSpec("pay", ("amount",), 0, "float32", history=FeatureHistory("pay", ("pid",), "since")),
    )


@pytest.mark.parametrize(
    ("feature", "place", "code"),
    [
        ("age TYPE flot16", "flot16", "unknown-feature-type"),
        ("age TYPE int8 DEFAULT 0.5", "DEFAULT 0.5", "feature-default"),
        ("age TYPE int8 DEFAULT 128", "DEFAULT 128", "feature-default"),
        ("age TYPE bool DEFAULT 2", "DEFAULT 2", "feature-default"),
        ("age TYPE int64 DEFAULT 9223372036854775808", "DEFAULT 9223372036854775808", "feature-default"),
        ("age TYPE half DEFAULT -1e6", "DEFAULT -1e6", "feature-default"),
        ("age TYPE int8, emb TYPE int16", "emb", "feature-mix"),
        ("age DEFAULT 0, emb", "emb", "feature-mix"),
        ("(idx, val, age) AS w SPARSE", "SPARSE", "sparse-columns"),
        ("age AS w SPARSE", "age", "column-type"),
        ("(idx, val) AS w SPARSE DEFAULT 0", "DEFAULT 0", "feature-default"),
        ("(val, idx) AS w SPARSE", "val", "column-type"),
        ("(idx, age) AS w SPARSE", "age", "column-type"),
        ("(idx, val) AS w SPARSE, age AS w", "age", "duplicate-name"),
        ("(idx, val) AS w SPARSE FROM pay KEY (pid) EVENT TIME (since)", "SPARSE", "not-supported"),
        ("amount FROM pays KEY (pid) EVENT TIME (since)", "pays", "unknown-table"),
        ("age FROM pay KEY (pid) EVENT TIME (since)", "age", "unknown-column"),
        ("amount FROM pay KEY (code) EVENT TIME (since)", "code", "key-mismatch"),
        ("amount FROM pay KEY (pid, code) EVENT TIME (since)", "pid", "key-mismatch"),
        ("amount FROM pay KEY (pid) EVENT TIME (code)", "code", "column-type"),
        ("amount FROM pay KEY (pid) EVENT TIME (step)", "step", "mixed-times"),
        ("name AS n", "name", "column-type"),
    ],
)
def test_a_feature_that_does_not_fit_is_refused_at_its_place(shop: World, feature: str, place: str, code: str) -> None:
    vertices = f"person KEY (pid) EVENT TIME (born) FEATURES ({feature})"
    shop.refuses(f"CREATE PROPERTY GRAPH wrong VERTEX TABLES ({vertices})", code, at=place)


@pytest.mark.parametrize(
    ("clauses", "place", "code"),
    [
        ("EVENT TIME (ts, step)", "step", "mixed-times"),
        ("EVENT TIME (ts, ts)", "ts", "duplicate-name"),
        ("FEATURES ((step, qty) AS w SPARSE)", "SPARSE", "not-supported"),
        ("FEATURES (amount FROM pay KEY (pid) EVENT TIME (since))", None, "not-supported"),
    ],
)
def test_an_edge_that_does_not_fit_is_refused_at_its_place(
    shop: World, clauses: str, place: str | None, code: str
) -> None:
    text = PLAIN.replace("GRAPH plain", "GRAPH edges").replace(ENDS, f"{ENDS} {clauses}")
    shop.refuses(text, code, at=place or "FROM pay KEY (pid) EVENT TIME (since)")


@pytest.mark.parametrize(
    ("length", "start"),
    [
        ("INTERVAL '7 days'", micros(2026, 3, 24, 12)),
        ("INTERVAL 36 HOURS", micros(2026, 3, 30)),
        ("INTERVAL (1 + 1) DAY", micros(2026, 3, 29, 12)),
        ("INTERVAL '1 month'", micros(2026, 2, 28, 12)),
    ],
)
def test_a_window_ends_at_the_latest_event(shop: World, length: str, start: int) -> None:
    plan = shop.create(f"CREATE SNAPSHOT s OF shop FOR EVENT_TIME WINDOW {length}")
    # 14:00+02 of viewed is 12:00 of bought, and NULL is static.
    assert plan.window == Window(start + 1, micros(2026, 3, 31, 12) + 1, closed=True)
    assert (plan.unit, plan.pin) == ("timestamp", Pin(head=True, window=length))


def test_only_the_edges_of_the_snapshot_count_for_its_window(world: World) -> None:
    world.graph(GRAPH)
    world.db.execute("DELETE FROM bought WHERE qty = 1")
    text = "CREATE SNAPSHOT s OF shop ELEMENTS (bought) FOR EVENT_TIME WINDOW INTERVAL 1 DAY"
    assert world.create(text).window.stop == micros(2026, 1, 1) + 1
    assert world.create(text + " AT (VERSION => 6)").window.stop == micros(2026, 3, 31, 12) + 1


def test_a_window_of_integers_is_a_number(shop: World) -> None:
    plan = shop.create("CREATE SNAPSHOT s OF steps FOR EVENT_TIME WINDOW 10 AT (VERSION => 5)")
    assert (plan.window, plan.unit) == (Window(31, 41, closed=True), "integer")
    assert plan.pin == Pin(window="10")
    ending = shop.create("CREATE SNAPSHOT s OF steps FOR EVENT_TIME WINDOW 10 ENDING 5")
    assert (ending.window, ending.pin) == (Window(-4, 6, closed=True), Pin(head=True))
    assert shop.create("CREATE SNAPSHOT s OF steps FOR EVENT_TIME AS OF 5").window == Window(None, 6, closed=True)


def test_vertices_alone_may_have_event_times(shop: World) -> None:
    shop.graph("CREATE PROPERTY GRAPH born VERTEX TABLES (person KEY (pid) EVENT TIME (born))")
    plan = shop.create("CREATE SNAPSHOT s OF born FOR EVENT_TIME AS OF DATE '2026-01-01'")
    assert (plan.window.stop, plan.unit) == (micros(2026, 1, 1) + 1, "timestamp")
    text = "CREATE SNAPSHOT s OF born FOR EVENT_TIME WINDOW INTERVAL 1 DAY"
    shop.refuses(text, "needs-event-time", "ENDING", at="INTERVAL 1 DAY")
    assert shop.create(text + " ENDING DATE '2026-01-01'").window.stop == micros(2026, 1, 1) + 1


@pytest.mark.parametrize(
    ("graph", "clause", "place", "code"),
    [
        ("shop", "WINDOW 7", "7", "time-kind"),
        ("steps", "WINDOW INTERVAL '7 days'", "INTERVAL '7 days'", "time-kind"),
        ("shop", "WINDOW INTERVAL 9000000 YEARS", "INTERVAL 9000000 YEARS", "query"),
        ("shop", "WINDOW INTERVAL (qty) DAYS", "qty", "unknown-column"),
        ("shop", "WINDOW INTERVAL '-1 day'", "INTERVAL '-1 day'", "out-of-range"),
        ("shop", "WINDOW INTERVAL 0 DAYS ENDING DATE '2026-01-01'", "INTERVAL 0 DAYS", "out-of-range"),
        ("steps", "WINDOW - 1", "- 1", "out-of-range"),
        ("steps", "WINDOW 1 ENDING DATE '2026-01-01'", "DATE '2026-01-01'", "time-kind"),
        ("plain", "WINDOW 1", "FOR EVENT_TIME WINDOW 1", "needs-event-time"),
    ],
)
def test_a_window_that_cannot_be_is_refused(shop: World, graph: str, clause: str, place: str, code: str) -> None:
    shop.refuses(f"CREATE SNAPSHOT s OF {graph} FOR EVENT_TIME {clause}", code, at=place)


def test_a_pin_keeps_what_was_relative(world: World) -> None:
    world.graph(GRAPH)
    world.db.execute('CREATE TAG "o\'clock"')
    text = "CREATE SNAPSHOT s OF shop FOR EVENT_TIME AS OF DATE '2026-01-01'"
    assert world.create(text).pin == Pin(head=True)
    assert world.create(text + " AT (TAG => 'o''clock')").pin == Pin(tag="o'clock")
    assert not world.create(text + " AT (VERSION => 6)").pin.moves
    assert not world.create(text + " AT (TIMESTAMP => now())").pin.moves


def test_a_layout_is_kept_as_it_was_asked_for(shop: World) -> None:
    text = "CREATE SNAPSHOT s OF shop WITH (layout = 'full')"
    assert shop.create(text).layout == "full"
    assert shop.create(text.replace("full", "ends") + " FOR EVENT_TIME AS OF DATE '2026-01-01'").layout == "ends"
    assert shop.create("CREATE SNAPSHOT s OF shop").layout is None


def test_a_refresh_moves_what_was_relative(world: World) -> None:
    world.graph(GRAPH)
    world.db.execute("CREATE TAG june")
    before = world.snapshot("CREATE SNAPSHOT head OF shop WITH (layout = bitmap) WHERE bought.qty > 1")
    world.snapshot("CREATE SNAPSHOT tagged OF shop AT (TAG => 'june')")
    world.snapshot("CREATE SNAPSHOT week OF shop FOR EVENT_TIME WINDOW INTERVAL '7 days'")
    world.snapshot("CREATE SNAPSHOT old OF shop FOR EVENT_TIME WINDOW INTERVAL '7 days' AT (VERSION => 6)")
    world.db.execute("INSERT INTO bought VALUES (1, 1, '2026-04-30', NULL, 50, 5)")
    head = world.refresh("REFRESH SNAPSHOT Head DRY RUN")
    assert (head.create.version, head.before, head.full, head.dry_run) == (7, before, False, True)
    assert (head.create.filters, head.create.layout, head.create.replaces) == (before.filters, "bitmap", before)
    assert (head.create.window, head.create.unit, head.create.refreshes) == (ALL_TIME, "timestamp", True)
    assert head.create.tables["bought"].rows == 4
    assert world.refresh("REFRESH SNAPSHOT tagged").create.version == 6
    world.db.execute("CREATE OR REPLACE TAG june")
    assert world.refresh("REFRESH SNAPSHOT tagged").create.version == 7
    week = world.refresh("REFRESH SNAPSHOT week FULL")
    assert (week.create.window, week.full) == (Window(micros(2026, 4, 23) + 1, micros(2026, 4, 30) + 1, True), True)
    assert week.create.pin == Pin(head=True, window="INTERVAL '7 days'")
    old = world.refresh("REFRESH SNAPSHOT old").create
    assert (old.version, old.window) == (6, world.snapshots["old"].window)


def test_nothing_moves_where_everything_was_fixed(world: World) -> None:
    world.graph(GRAPH)
    world.snapshot("CREATE SNAPSHOT s OF shop AT (VERSION => 6)")
    plan = world.bind("REFRESH SNAPSHOT s")
    assert isinstance(plan, NothingPlan)
    assert (
        plan.why == "nothing to refresh: s is pinned at version 6 and its window is fixed; "
        "write CREATE OR REPLACE SNAPSHOT to change it"
    )
    world.db.execute("DROP TABLE pay")
    assert world.refresh("REFRESH SNAPSHOT s FULL").create.version == 6


def test_a_refresh_says_what_does_not_fit_any_more(world: World) -> None:
    world.graph(GRAPH)
    world.graph(STEPS)
    world.db.execute("CREATE TAG june")
    world.snapshot("CREATE SNAPSHOT s OF shop WHERE bought.until > DATE '2026-01-01'")
    world.snapshot("CREATE SNAPSHOT tagged OF shop AT (TAG => 'june')")
    world.snapshot("CREATE SNAPSHOT w OF steps FOR EVENT_TIME AS OF 3")
    world.db.script("DROP TAG june; ALTER TABLE bought DROP COLUMN until")
    world.refuses("REFRESH SNAPSHOT s", "does-not-fit", "version 7", at="s")
    world.refuses("REFRESH SNAPSHOT tagged", "unknown-tag", "tagged", at="tagged")
    world.db.execute("CREATE OR REPLACE TABLE bought AS SELECT 1 AS a, 2 AS b, now() AS ts, now() AS step, 1 AS until")
    world.refuses("REFRESH SNAPSHOT w", "does-not-fit", "timestamps", at="w")
    world.db.execute("DROP TABLE viewed")
    world.refuses("REFRESH SNAPSHOT s FULL", "does-not-fit", '"viewed"', at="s")
    world.refuses("REFRESH SNAPSHOT z", "unknown-snapshot", '"z"', at="z")


def test_graphs_and_snapshots_are_compared_where_they_can_be(world: World) -> None:
    world.graph(GRAPH)
    world.graph(
        PLAIN.replace("person KEY", "person AS man KEY")
        .replace("person DEST", "man DEST")
        .replace("bought SOURCE", "bought AS paid SOURCE")
        .replace("REFERENCES person", "REFERENCES man")
    )
    world.snapshot("CREATE SNAPSHOT a OF shop")
    world.snapshot("CREATE SNAPSHOT b OF shop AT (VERSION => 5)")
    world.snapshot("CREATE SNAPSHOT other OF plain")
    plan = world.bind("DIFF SNAPSHOT b WITH a ROWS")
    assert isinstance(plan, DiffSnapshotPlan)
    assert (plan.after.name, plan.before.name, plan.detail) == ("b", "a", "ROWS")
    world.refuses("DIFF SNAPSHOT a WITH other", "nothing-in-common", at="other")
    graph = world.bind("DIFF GRAPH shop FROM VERSION 5")
    assert isinstance(graph, DiffGraphPlan)
    assert (graph.before, graph.after, graph.detail) == (5, 6, "SUMMARY")
    assert (graph.tables_before["viewed"].rows, graph.tables_after["viewed"].rows) == (0, 2)
    world.refuses("DIFF GRAPH shop FROM VERSION 2 TO VERSION 6", "does-not-fit", '"bought"', at="VERSION 2")
    world.refuses("DIFF PROPERTY GRAPH shop FROM VERSION 6 TO VERSION 3 FEATURES", "does-not-fit", at="VERSION 3")


def test_snapshots_expire_by_age_number_and_graph_but_not_when_tagged(world: World) -> None:
    world.graph(GRAPH)
    world.graph(PLAIN)
    world.db.execute("CREATE TAG v1 AT (VERSION => 5)")
    now = int(datetime.now(UTC).timestamp()) * 1_000_000
    day = 86_400_000_000
    world.snapshot("CREATE SNAPSHOT refreshed OF shop", created=now - 90 * day, refreshed=now - day)
    world.snapshot("CREATE SNAPSHOT a OF shop", created=now - 50 * day)
    world.snapshot("CREATE SNAPSHOT tagged OF shop AT (VERSION => 5)", created=now - 60 * day)
    world.snapshot("CREATE SNAPSHOT b OF shop", created=now - 40 * day)
    world.snapshot("CREATE SNAPSHOT p OF plain", created=now - 45 * day)
    old = world.expire("EXPIRE SNAPSHOTS OLDER THAN INTERVAL '30 days' DRY RUN")
    young = old.pop("refreshed")
    assert young is not None
    assert young.startswith("not older than ")
    assert old == {"tagged": "version 5 is tagged v1", "a": None, "p": None, "b": None}
    assert list(old) == ["tagged", "a", "p", "b"]
    last = world.expire("EXPIRE SNAPSHOTS RETAIN LAST 2")
    assert {name for name, reason in last.items() if reason is None} == {"a"}
    assert last["b"] == "among the last 2 of graph shop"
    both = world.expire("EXPIRE SNAPSHOTS OF shop OLDER THAN ($age) RETAIN LAST 1", {"age": datetime.now(UTC)})
    assert {name for name, reason in both.items() if reason is None} == {"a", "b"}
    assert "p" not in both
    assert set(world.expire("EXPIRE SNAPSHOTS OLDER THAN DATE '2000-01-01'").values()) == {
        "not older than 2000-01-01 00:00:00+00:00"
    }
    assert None not in world.expire("EXPIRE SNAPSHOTS OLDER THAN (INTERVAL 1 YEAR)").values()


@pytest.mark.parametrize(
    ("clauses", "place", "code"),
    [
        ("OLDER THAN 7", "7", "time-kind"),
        ("OLDER THAN INTERVAL '-1 day'", "INTERVAL '-1 day'", "out-of-range"),
        ("OLDER THAN 'last year'", "'last year'", "bad-value"),
        ("OF shops RETAIN LAST 1", "shops", "unknown-graph"),
        ("RETAIN LAST 0", "RETAIN LAST 0", "out-of-range"),
    ],
)
def test_an_expiry_that_means_nothing_is_refused(shop: World, clauses: str, place: str, code: str) -> None:
    shop.refuses(f"EXPIRE SNAPSHOTS {clauses}", code, at=place)


def test_a_drop_names_what_depends_on_it_and_cascades(world: World) -> None:
    graph = world.graph(
        "CREATE PROPERTY GRAPH g VERTEX TABLES ("
        "person KEY (pid) FEATURES (amount FROM pay KEY (pid) EVENT TIME (since)))"
    )
    made = world.snapshot("CREATE SNAPSHOT s OF g")
    world.refuses("DROP TABLE Pay", "in-use", "graph g, snapshot s", "DROP TABLE pay CASCADE", at="Pay")
    plan = world.bind("DROP TABLE pay CASCADE")
    assert isinstance(plan, DropPlan)
    assert plan.dependants == (made, graph)
    world.refuses("DROP PROPERTY GRAPH g RESTRICT", "in-use", "snapshot s", at="g")
    only = world.bind("DROP GRAPH g CASCADE")
    assert isinstance(only, DropPlan)
    assert only.dependants == (made,)
    assert world.bind("DROP TABLE viewed CASCADE") == world.bind("DROP TABLE viewed")
    world.refuses("ALTER TABLE pay DROP COLUMN amount", "in-use", "graph g", at="amount")
    world.refuses("ALTER TABLE pay RENAME since TO at", "in-use", "graph g", at="since")
    for number in range(12):
        world.snapshot(f"CREATE SNAPSHOT n{number} OF g")
    world.refuses("DROP GRAPH g", "in-use", "snapshot n6, 5 more", at="g")


def test_a_table_whose_history_changed_does_not_fit(world: World) -> None:
    world.graph(
        "CREATE PROPERTY GRAPH g VERTEX TABLES ("
        "person KEY (pid) FEATURES (amount FROM pay KEY (pid) EVENT TIME (since)))"
    )
    world.refuses("CREATE SNAPSHOT s OF g AT (VERSION => 1)", "does-not-fit", '"pay"', at="AT (VERSION => 1)")
    for columns, named in [
        ("1 AS pid, 2 AS amount", '"since"'),
        ("'x' AS pid, now() AS since, 2 AS amount", "pay.pid is VARCHAR, but pid of person is BIGINT"),
        ("1 AS pid, 0.5::DOUBLE AS since, 2 AS amount", "event time"),
        ("1 AS pid, now() AS since, 'x' AS amount", "feature"),
    ]:
        world.db.execute(f"CREATE OR REPLACE TABLE pay AS SELECT {columns}")
        world.refuses("CREATE SNAPSHOT s OF g", "does-not-fit", named, at="g")


def test_an_explain_holds_the_plan_of_its_statement(world: World) -> None:
    world.graph(GRAPH)
    world.snapshot("CREATE SNAPSHOT fixed OF shop AT (VERSION => 6)")
    inner = "CREATE SNAPSHOT s OF shop"
    plan = world.bind(f"EXPLAIN ANALYZE (FORMAT json) {inner}")
    assert plan == ExplainPlan(world.bind(inner), inner, analyze=True, json=True)
    nothing = world.bind("EXPLAIN REFRESH SNAPSHOT fixed")
    assert isinstance(nothing, ExplainPlan)
    assert isinstance(nothing.plan, NothingPlan)
    with refused("unknown-graph", at="nowhere"):
        world.bind("EXPLAIN CREATE SNAPSHOT s OF nowhere")


def test_the_snapshots_of_a_graph_are_listed_by_its_name(shop: World) -> None:
    plan = shop.bind("SHOW SNAPSHOTS OF SHOP LIKE 'a%'")
    assert isinstance(plan, ShowPlan)
    assert (plan.what, plan.of, plan.like) == ("SNAPSHOTS", "shop", "a%")
    shop.refuses("SHOW SNAPSHOTS OF bought", "unknown-graph", '"bought"', at="bought")
