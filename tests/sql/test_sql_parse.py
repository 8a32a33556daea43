"""Text becomes statements whose names and SQL fragments keep their places."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

import pytest

from snapdb.sql import parse
from tests.support.inside.sql import (
    AddColumn,
    AlterTable,
    Audit,
    Begin,
    CheckDatabase,
    Clauses,
    Commit,
    CopyFrom,
    CreateGraph,
    CreateSnapshot,
    CreateTable,
    CreateTag,
    Delete,
    Describe,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Drop,
    DropColumn,
    ExpireSnapshots,
    Explain,
    Insert,
    Name,
    Query,
    RefreshSnapshot,
    RenameColumn,
    Rollback,
    Sample,
    Show,
    SqlFragment,
    Statement,
    TimeBound,
    Update,
    Vacuum,
    VersionBound,
    WindowBound,
)

SHOP = """
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (customer KEY (cid) TARGET (churn AS y)
                   FEATURES (emb AS x, (age, income) AS profile DEFAULT -1.5, height),
                 product AS item KEY (pid, "Shop") ON DUPLICATE KEY LAST)
  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer (cid) DESTINATION KEY (pid, shop) REFERENCES item
               ON DANGLING SKIP FEATURES (basket AS edge_attr DEFAULT 0) WEIGHT (qty) EVENT TIME (ts))
"""


def one(text: str) -> Statement:
    (statement,) = parse(text)
    return statement


def places(value: object) -> Iterator[Name | SqlFragment]:
    """Every name and SQL fragment anywhere in a statement."""
    if isinstance(value, Name | SqlFragment):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from places(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from places(item)


def texts(names: tuple[Name, ...]) -> list[str]:
    return [str(name) for name in names]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1), b AS MATERIALIZED (SELECT 2) SELECT * FROM a, b",
        "VALUES (1), (2)",
        "FROM 'x.parquet'",
        "TABLE bought",
        "PIVOT t ON a USING sum(b)",
        "UNPIVOT t ON a INTO NAME n VALUE v",
        "SUMMARIZE bought",
        "DESCRIBE q.bought",
        "DESCRIBE 'a.parquet'",
        "DESC SELECT 1",
        "DESCRIBE snapshot",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT 'DROP; TABLE', $other, $name -- DELETE",
    ],
)
def test_a_read_is_one_island(text: str) -> None:
    statement = one(f"  {text.removesuffix(' -- DELETE')} ; -- end")
    assert isinstance(statement, Query)
    assert statement.query.text == statement.text == text.removesuffix(" -- DELETE")


def test_spans_count_in_the_whole_text() -> None:
    text = "SELECT 1;; -- first\nDROP TABLE a; /* last */ DELETE FROM b WHERE x = ';' ;"
    first, drop, delete = parse(text)
    assert [s.text for s in (first, drop, delete)] == ["SELECT 1", "DROP TABLE a", "DELETE FROM b WHERE x = ';'"]
    assert all(statement.source == text for statement in (first, drop, delete))
    assert isinstance(delete, Delete)
    assert delete.where is not None
    assert text[slice(*delete.where.span)] == delete.where.text == "x = ';'"


def test_a_table_is_created_from_columns() -> None:
    statement = one("create table if not exists Orders (a INT NOT NULL, b DECIMAL(9, 2) /* money */) message 'm'")
    assert isinstance(statement, CreateTable)
    assert statement.name.text == "Orders"
    assert statement.definition is not None
    assert statement.definition.text == "a INT NOT NULL, b DECIMAL(9, 2)"
    assert (statement.query, statement.or_replace, statement.if_not_exists) == (None, False, True)
    assert statement.message == "m"


def test_a_table_is_created_from_a_query() -> None:
    statement = one("CREATE OR REPLACE TABLE t AS (SELECT 1 AS message) UNION SELECT 2")
    assert isinstance(statement, CreateTable)
    assert statement.query is not None
    assert statement.query.text == "(SELECT 1 AS message) UNION SELECT 2"
    assert (statement.definition, statement.or_replace, statement.message) == (None, True, None)


@pytest.mark.parametrize(
    ("text", "columns", "query"),
    [
        ("INSERT INTO t SELECT * FROM 'x' MESSAGE 'day'", [], "SELECT * FROM 'x'"),
        ('INSERT INTO t (a, "B c") VALUES (1, 2) MESSAGE $$day$$', ["a", "B c"], "VALUES (1, 2)"),
        ("INSERT INTO t (SELECT a FROM b) MESSAGE 'day'", [], "(SELECT a FROM b)"),
        ("INSERT INTO t (FROM b) MESSAGE 'day'", [], "(FROM b)"),
        ("INSERT INTO t (at) (SELECT 1) MESSAGE 'day'", ["at"], "(SELECT 1)"),
        ("INSERT INTO t WITH a AS (SELECT 1) FROM a MESSAGE 'day'", [], "WITH a AS (SELECT 1) FROM a"),
        ("INSERT INTO t (values, type) FROM a JOIN b ON conflict MESSAGE 'day'", None, "FROM a JOIN b ON conflict"),
    ],
)
def test_an_insert_takes_a_query(text: str, columns: list[str] | None, query: str) -> None:
    statement = one(text)
    assert isinstance(statement, Insert)
    assert columns is None or texts(statement.columns) == columns
    assert (statement.query.text, statement.message) == (query, "day")


def test_a_message_is_only_read_at_the_end() -> None:
    statement = one("INSERT INTO t SELECT message FROM message WHERE message = 'x'")
    assert isinstance(statement, Insert)
    assert statement.message is None


def test_a_delete_takes_a_condition_or_none() -> None:
    where, all_rows = parse(
        "DELETE FROM t WHERE a IN (SELECT b FROM u WHERE c) MESSAGE 'it''s'; DELETE FROM t MESSAGE 'x'"
    )
    assert isinstance(where, Delete)
    assert isinstance(all_rows, Delete)
    assert where.where is not None
    assert (where.where.text, where.message) == ("a IN (SELECT b FROM u WHERE c)", "it's")
    assert (all_rows.where, all_rows.message) == (None, "x")


def test_an_update_is_cut_at_commas_from_and_where_outside_brackets() -> None:
    statement = one(
        'UPDATE t AS x SET a = 1, "b, c" = (SELECT max(d) FROM u WHERE e), f = extract(year FROM ts), '
        "g = a IS NOT DISTINCT FROM b FROM u JOIN v ON u.a IS DISTINCT FROM v.a WHERE x.k = u.k MESSAGE 'm'"
    )
    assert isinstance(statement, Update)
    assert (str(statement.table), str(statement.alias), statement.message) == ("t", "x", "m")
    assert [(str(column), value.text) for column, value in statement.assignments] == [
        ("a", "1"),
        ("b, c", "(SELECT max(d) FROM u WHERE e)"),
        ("f", "extract(year FROM ts)"),
        ("g", "a IS NOT DISTINCT FROM b"),
    ]
    assert statement.others is not None
    assert statement.others.text == "u JOIN v ON u.a IS DISTINCT FROM v.a"
    assert statement.where is not None
    assert statement.where.text == "x.k = u.k"


@pytest.mark.parametrize(
    ("text", "alias", "others", "where"),
    [
        ("UPDATE t SET a = b = c", None, None, None),
        ("UPDATE t x SET a = b = c WHERE d", "x", None, "d"),
        ("UPDATE t SET a = b = c FROM u", None, "u", None),
        (
            "UPDATE t SET a = b = c FROM (SELECT 1 WHERE e) u, v WHERE d.where",
            None,
            "(SELECT 1 WHERE e) u, v",
            "d.where",
        ),
    ],
)
def test_an_update_needs_only_its_assignments(
    text: str, alias: str | None, others: str | None, where: str | None
) -> None:
    statement = one(text)
    assert isinstance(statement, Update)
    ((column, value),) = statement.assignments
    assert (str(column), value.text) == ("a", "b = c")
    assert (statement.alias and statement.alias.text) == alias
    assert (statement.others and statement.others.text) == others
    assert (statement.where and statement.where.text) == where
    assert statement.message is None


def test_a_delete_may_read_other_tables() -> None:
    statement = one("DELETE FROM t x USING u JOIN v USING (k) WHERE x.a = u.a MESSAGE 'm'")
    assert isinstance(statement, Delete)
    assert statement.others is not None
    assert statement.where is not None
    assert (str(statement.alias), statement.others.text, statement.where.text, statement.message) == (
        "x",
        "u JOIN v USING (k)",
        "x.a = u.a",
        "m",
    )


def test_a_table_is_altered_by_one_column() -> None:
    text = (
        "ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS c DECIMAL(9, 2) NOT NULL DEFAULT 'x' MESSAGE 'm';"
        "ALTER TABLE t ADD c INT; ALTER TABLE t DROP COLUMN IF EXISTS c; ALTER TABLE t RENAME to TO d"
    )
    statements = [statement for statement in parse(text) if isinstance(statement, AlterTable)]
    full, plain, drop, rename = statements
    assert isinstance(full.action, AddColumn)
    assert (full.action.definition.text, full.action.if_not_exists) == ("c DECIMAL(9, 2) NOT NULL DEFAULT 'x'", True)
    assert (full.if_exists, full.message) == (True, "m")
    assert isinstance(plain.action, AddColumn)
    assert (plain.action.definition.text, plain.action.if_not_exists, plain.if_exists) == ("c INT", False, False)
    assert isinstance(drop.action, DropColumn)
    assert (str(drop.action.column), drop.action.if_exists, drop.if_exists) == ("c", True, False)
    assert isinstance(rename.action, RenameColumn)
    assert (str(rename.action.column), str(rename.action.new)) == ("to", "d")


def test_a_copy_keeps_its_options() -> None:
    text = "COPY t (a, b) FROM 'it''s.csv' WITH (FORMAT csv, HEADER, auto_detect FALSE, DELIMITER ';', SKIP 2, x -0.5)"
    statement = one(text + " MESSAGE 'm'")
    assert isinstance(statement, CopyFrom)
    assert (statement.path, statement.message, texts(statement.columns)) == ("it's.csv", "m", ["a", "b"])
    assert text[slice(*statement.path_span)] == "'it''s.csv'"
    options = {str(option): value for option, value in statement.options}
    expected = {"FORMAT": "csv", "HEADER": True, "auto_detect": False, "DELIMITER": ";", "SKIP": 2, "x": -0.5}
    assert options == expected
    assert isinstance(options["SKIP"], int)


def test_a_property_graph_keeps_every_clause() -> None:
    statement = one(SHOP)
    assert isinstance(statement, CreateGraph)
    customer, item = statement.vertices
    x, profile, height = customer.features
    assert (texts(x.columns), str(x.name), x.default) == (["emb"], "x", None)
    assert (texts(profile.columns), str(profile.name), profile.default) == (["age", "income"], "profile", -1.5)
    assert (texts(height.columns), height.name) == (["height"], None)
    assert (str(customer.target), customer.on_duplicate, customer.alias) == ("churn", "ERROR", None)
    assert (str(item.table), str(item.alias), texts(item.key)) == ("product", "item", ["pid", "Shop"])
    assert item.on_duplicate == "LAST"
    (bought,) = statement.edges
    assert (texts(bought.source_key), str(bought.source), texts(bought.source_columns)) == (
        ["cid"],
        "customer",
        ["cid"],
    )
    assert (texts(bought.destination_key), str(bought.destination)) == (["pid", "shop"], "item")
    assert bought.destination_columns == ()
    assert bought.event_time is not None
    assert (texts(bought.event_time.columns), bought.event_time.nulls_static) == (["ts"], False)
    assert (str(bought.weight), bought.on_dangling) == ("qty", "SKIP")
    assert bought.features[0].default == 0


def test_elements_have_event_times_and_features_have_types_and_histories() -> None:
    statement = one(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (a, b) EVENT TIME (born) NULLS STATIC FEATURES ("
        "emb TYPE fp16 AS x, (i, v) SPARSE [8189] AS w, (i, v) AS u SPARSE, "
        "pay DEFAULT -1 FROM h KEY (c, d) EVENT TIME (since) TYPE int8)) "
        "EDGE TABLES (e SOURCE KEY (s) REFERENCES p DESTINATION KEY (t) REFERENCES p EVENT TIME (t0, t1) NULLS ERROR)"
    )
    assert isinstance(statement, CreateGraph)
    (p,), (e,) = statement.vertices, statement.edges
    assert p.event_time is not None
    assert e.event_time is not None
    assert (texts(p.event_time.columns), p.event_time.nulls_static) == (["born"], True)
    assert (texts(e.event_time.columns), e.event_time.nulls_static) == (["t0", "t1"], False)
    x, w, u, pay = p.features
    assert (str(x.dtype), x.sparse, x.history) == ("fp16", None, None)
    assert w.sparse is not None
    assert u.sparse is not None
    assert (texts(w.columns), str(w.name), w.sparse.value, u.sparse.value) == (["i", "v"], "w", 8189, None)
    assert statement.source[slice(*w.sparse.span)] == "SPARSE [8189]"
    assert pay.history is not None
    assert pay.default_span is not None
    assert (str(pay.history.table), texts(pay.history.key), str(pay.history.event_time)) == ("h", ["c", "d"], "since")
    assert (pay.default, str(pay.dtype)) == (-1, "int8")
    assert statement.source[slice(*pay.default_span)] == "DEFAULT -1"


def test_node_and_relationship_tables_are_the_same() -> None:
    synonym = SHOP.replace("VERTEX TABLES", "NODE TABLES").replace("EDGE TABLES", "RELATIONSHIP TABLES")
    assert [str(name) for name in places(one(synonym))] == [str(name) for name in places(one(SHOP))]


def test_a_snapshot_keeps_its_bounds() -> None:
    statement = one(
        "CREATE SNAPSHOT q3 OF shop AT (version => 40 + 1) FOR EVENT_TIME FROM DATE '2026-07-01' TO (now() - x) "
        "ELEMENTS (customer, bought) WHERE bought.qty BETWEEN (1) AND 2"
    )
    assert isinstance(statement, CreateSnapshot)
    assert statement.at is not None
    assert (statement.at.kind, statement.at.value.text) == ("VERSION", "40 + 1")
    assert statement.source[slice(*statement.at.span)] == "AT (version => 40 + 1)"
    assert isinstance(statement.event_time, TimeBound)
    assert statement.event_time.start is not None
    assert (statement.event_time.kind, statement.event_time.start.text) == ("FROM", "DATE '2026-07-01'")
    assert statement.event_time.stop.text == "now() - x"
    assert texts(statement.elements) == ["customer", "bought"]
    assert statement.where is not None
    assert statement.where.text == "bought.qty BETWEEN (1) AND 2"


@pytest.mark.parametrize(
    ("clause", "kind", "start", "stop"),
    [
        ("AS OF 400", "AS OF", None, "400"),
        ("AS OF - 5", "AS OF", None, "- 5"),
        ("AS OF '2026-01-01'", "AS OF", None, "'2026-01-01'"),
        ("BETWEEN 1 AND 2", "BETWEEN", "1", "2"),
        ("between (1) and (2)", "BETWEEN", "1", "2"),
        ("FROM TIMESTAMP '2026-01-01' TO TIMESTAMPTZ '2026-01-02'", "FROM", "TIMESTAMP '2026-01-01'", None),
    ],
)
def test_a_window_is_a_point_a_half_open_or_a_closed_range(
    clause: str, kind: str, start: str | None, stop: str | None
) -> None:
    statement = one(f"CREATE SNAPSHOT s OF g FOR EVENT_TIME {clause}")
    assert isinstance(statement, CreateSnapshot)
    bound = statement.event_time
    assert isinstance(bound, TimeBound)
    assert (bound.kind, bound.start and bound.start.text) == (kind, start)
    assert stop is None or bound.stop.text == stop


@pytest.mark.parametrize(
    ("clause", "length", "ending"),
    [
        ("WINDOW 100", "100", None),
        ("WINDOW INTERVAL '7 days' ENDING 5", "INTERVAL '7 days'", "5"),
        ("WINDOW INTERVAL 7 DAYS AT (VERSION => 1)", "INTERVAL 7 DAYS", None),
        ("WINDOW interval '7' days ELEMENTS (a)", "interval '7' days", None),
        ("window INTERVAL (f(2) + 1) MONTH ending (now() - x) WITH (layout = 'full')", None, "now() - x"),
    ],
)
def test_a_window_has_a_length_and_may_end_at_a_time(clause: str, length: str | None, ending: str | None) -> None:
    statement = one(f"CREATE SNAPSHOT s OF g FOR EVENT_TIME {clause} WHERE a.b > 0")
    assert isinstance(statement, CreateSnapshot)
    bound = statement.event_time
    assert isinstance(bound, WindowBound)
    assert bound.length.text == (length or "INTERVAL (f(2) + 1) MONTH")
    assert (bound.ending and bound.ending.text) == ending


@pytest.mark.parametrize("value", ["'ends'", "ENDS", "'Ends'"])
def test_a_layout_is_asked_for_by_name(value: str) -> None:
    statement = one(f"CREATE SNAPSHOT s OF g WITH (Layout = {value}) AT (VERSION => 1)")
    assert isinstance(statement, CreateSnapshot)
    assert statement.layout is not None
    assert statement.layout.value == "ends"
    assert statement.source[slice(*statement.layout.span)] == value


def test_a_refresh_may_be_full_or_dry() -> None:
    for text, full, dry_run in [("", False, False), ("FULL", True, False), ("full dry run", True, True)]:
        statement = one(f"REFRESH SNAPSHOT full {text}")
        assert isinstance(statement, RefreshSnapshot)
        assert (str(statement.name), statement.full, statement.dry_run) == ("full", full, dry_run)


@pytest.mark.parametrize(
    ("text", "graph", "older", "last", "dry_run"),
    [
        ("OLDER THAN INTERVAL '30 days'", None, "INTERVAL '30 days'", None, False),
        ("OF g RETAIN LAST 3 DRY RUN", "g", None, 3, True),
        ("OF of RETAIN LAST 3 OLDER THAN INTERVAL 30 DAYS DRY RUN", "of", "INTERVAL 30 DAYS", 3, True),
        ("OLDER THAN TIMESTAMP '2026-01-01' RETAIN LAST 0", None, "TIMESTAMP '2026-01-01'", 0, False),
        ("OLDER THAN (now() - $age)", None, "now() - $age", None, False),
    ],
)
def test_snapshots_expire_by_age_and_by_number(
    text: str, graph: str | None, older: str | None, last: int | None, dry_run: bool
) -> None:
    statement = one(f"EXPIRE SNAPSHOTS {text}")
    assert isinstance(statement, ExpireSnapshots)
    assert (statement.graph and statement.graph.text, statement.older and statement.older.text) == (graph, older)
    assert (statement.last, statement.dry_run) == (last, dry_run)


@pytest.mark.parametrize(
    ("before", "inner", "analyze", "json"),
    [
        ("EXPLAIN", "CREATE SNAPSHOT s OF g", False, False),
        ("EXPLAIN ANALYZE", "CREATE OR REPLACE SNAPSHOT s OF g WHERE a.b > 0", True, False),
        ("EXPLAIN (FORMAT json)", "REFRESH SNAPSHOT s FULL", False, True),
        ("explain analyze (format text)", "refresh snapshot s", True, False),
        ("EXPLAIN (ANALYZE, FORMAT JSON)", "CREATE SNAPSHOT IF NOT EXISTS s OF g", True, True),
    ],
)
def test_an_explain_holds_its_statement(before: str, inner: str, analyze: bool, json: bool) -> None:
    statement = one(f"  {before} {inner} ;")
    assert isinstance(statement, Explain)
    assert (statement.statement.text, statement.analyze, statement.json) == (inner, analyze, json)
    assert isinstance(statement.statement, RefreshSnapshot if "REFRESH" in inner.upper() else CreateSnapshot)


def test_graphs_and_snapshots_are_compared() -> None:
    first, second, third, fourth = parse(
        "DIFF GRAPH from FROM VERSION 1 TO TAG 'x' ROWS; DIFF PROPERTY GRAPH g FROM TIMESTAMP now() - b FEATURES;"
        "DIFF SNAPSHOT from WITH rows; DIFF SNAPSHOT b WITH a FEATURES"
    )
    assert isinstance(first, DiffGraph)
    assert isinstance(second, DiffGraph)
    assert (str(first.graph), bound(first.start), bound(first.stop)) == ("from", ("VERSION", "1"), ("TAG", "'x'"))
    assert (bound(second.start), second.stop, second.detail) == (("TIMESTAMP", "now() - b"), None, "FEATURES")
    assert first.detail == "ROWS"
    assert isinstance(third, DiffSnapshot)
    assert isinstance(fourth, DiffSnapshot)
    assert (str(third.after), str(third.before), third.detail) == ("from", "rows", "SUMMARY")
    assert fourth.detail == "FEATURES"


def test_a_drop_may_take_what_depends_on_it() -> None:
    for text, name, cascade in [("t CASCADE", "t", True), ("cascade", "cascade", False), ("t restrict", "t", False)]:
        statement = one(f"DROP TABLE {text}")
        assert isinstance(statement, Drop)
        assert (str(statement.name), statement.cascade) == (name, cascade)


def test_the_snapshots_of_a_graph_can_be_shown() -> None:
    statement = one("SHOW SNAPSHOTS OF g LIKE 'a%'")
    assert isinstance(statement, Show)
    assert (statement.what, str(statement.of), statement.like) == ("SNAPSHOTS", "g", "a%")


def test_the_clauses_of_a_sample_come_in_any_order() -> None:
    clauses = ["SEEDS (SELECT id FROM t) AS batch", "FANOUT (a OUT => [-1, FULL], b => [0], DEFAULT => [5, 5])"]
    clauses += ["BATCH 1_0", "REPEATABLE (42)", "IN ORDER", "EPOCHS 3"]
    for turn in range(len(clauses)):
        statement = one("SAMPLE FROM q3 " + " ".join(clauses[turn:] + clauses[:turn]))
        assert isinstance(statement, Sample)
        assert (statement.seeds.query.text, str(statement.seeds.type)) == ("SELECT id FROM t", "batch")
        a, b, rest = statement.fanouts
        assert (str(a.edge), a.direction, a.counts) == ("a", "OUT", (-1, -1))
        assert (str(b.edge), b.direction, b.counts) == ("b", "IN", (0,))
        assert (rest.edge, rest.direction, rest.counts) == (None, "IN", (5, 5))
        said = statement.clauses
        assert [clause and clause.value for clause in (said.batch, said.repeatable, said.epochs)] == [10, 42, 3]
        assert said.order is not None
        assert said.order.value == "IN ORDER"
        assert said.batch is not None
        assert statement.source[slice(*said.batch.span)] == "BATCH 1_0"


SAMPLE = "SAMPLE FROM s SEEDS (FROM t) AS v FANOUT (e => [2]) "


def sample(clauses: str) -> Clauses:
    statement = one(SAMPLE + clauses)
    assert isinstance(statement, Sample)
    return statement.clauses


def test_a_sample_says_how_its_edges_are_drawn() -> None:
    uniform, labor = sample("METHOD UNIFORM").method, sample("METHOD labor DEPENDENT BATCHES 16").method
    assert uniform is not None
    assert labor is not None
    assert (uniform.method, uniform.dependent) == ("UNIFORM", 1)
    assert (labor.method, labor.dependent) == ("LABOR", 16)
    weights = sample('WEIGHT BY e.w, "method"."by"').weights
    assert weights is not None
    assert [(str(edge), str(column)) for edge, column in weights.value] == [("e", "w"), ("method", "by")]
    alone = sample("WEIGHT BY w").weights
    assert alone is not None
    assert alone.value[0][0] is None
    for clause, replace in [("WITH", True), ("WITHOUT", False)]:
        said = sample(f"{clause} REPLACEMENT").replace
        assert said is not None
        assert said.value is replace


def test_three_clauses_of_a_sample_begin_with_with() -> None:
    clauses = ["WITH REPLACEMENT", "WITH torch", "WITH (memory = '1.5GiB')"]
    for turn in range(3):
        statement = sample(" ".join(clauses[turn:] + clauses[:turn]))
        assert statement.replace is not None
        assert statement.backend is not None
        assert statement.memory is not None
        assert (statement.replace.value, statement.backend.value, statement.memory.value) == (True, "torch", 3 << 29)
        assert (SAMPLE + " ".join(clauses[turn:] + clauses[:turn]))[slice(*statement.memory.span)] == clauses[2]


def test_a_sample_says_what_its_seeds_see() -> None:
    for written, inclusive in [("TEMPORAL < SEED_TIME", False), ("temporal<=seed_time", True)]:
        said = sample(written).temporal
        assert said is not None
        assert said.value is inclusive
    for length in [
        "3600",
        "-1",
        "INTERVAL '30 days'",
        "INTERVAL '30' DAYS",
        "INTERVAL 2 hours",
        "INTERVAL (2 * 3) DAYS",
    ]:
        within = sample(f"WITHIN {length} BATCH 3").within
        assert within is not None
        assert within.value.text == length


def test_seeds_may_be_edges() -> None:
    statement = one(
        "SAMPLE FROM s SEEDS EDGES edges (SELECT e_id FROM seeds) FANOUT (edges => [2]) NEGATIVES 5 PER POSITIVE "
        "WEIGHTED BY price EXCLUDE KNOWN AT SEED_TIME EXCLUDE SEEDS BOTH DIRECTIONS"
    )
    assert isinstance(statement, Sample)
    assert (statement.seeds.edges, str(statement.seeds.type)) == (True, "edges")
    assert statement.seeds.query.text == "SELECT e_id FROM seeds"
    said = statement.clauses
    assert said.negatives is not None
    assert (said.negatives.count, str(said.negatives.weight)) == (5, "price")
    assert said.known is not None
    assert said.exclude is not None
    assert (said.known.value, said.exclude.value) == ("AT", "BOTH")


@pytest.mark.parametrize(
    ("clauses", "known", "exclude"),
    [
        ("EXCLUDE KNOWN", "EVER", None),
        ("EXCLUDE KNOWN EVER EXCLUDE SEEDS", "EVER", "PAIR"),
        ("EXCLUDE SEEDS EXCLUDE KNOWN BEFORE SEED_TIME", "BEFORE", "PAIR"),
        ("KEEP SEEDS", None, "NONE"),
    ],
)
def test_what_is_kept_out_is_said(clauses: str, known: str | None, exclude: str | None) -> None:
    statement = sample(clauses)
    assert (statement.known and statement.known.value) == known
    assert (statement.exclude and statement.exclude.value) == exclude


def test_degree_is_a_word_and_a_name_in_quotes() -> None:
    for written, weight in [("DEGREE", "DEGREE"), ("degree", "DEGREE"), ("w", None), ('"degree"', None)]:
        negatives = sample(f"NEGATIVES 1 PER POSITIVE WEIGHTED BY {written}").negatives
        assert negatives is not None
        if weight is None:
            assert isinstance(negatives.weight, Name)
        else:
            assert negatives.weight == weight


def test_a_sample_says_how_to_batch_and_where() -> None:
    statement = sample(
        "SUBSET 12.50 PERCENT PER EPOCH ALLOW DUPLICATES LAYOUT BLOCKS REUSE HOPS ON 'cuda:1' WITH numba"
    )
    assert statement.subset is not None
    assert statement.layout is not None
    assert (str(statement.subset.value), statement.layout.value) == ("12.50", "BLOCKS")
    assert statement.allow_duplicates
    assert statement.reuse_hops
    assert statement.device is not None
    assert statement.backend is not None
    assert (statement.device.value, statement.backend.value) == ("cuda:1", "numba")
    nodes = sample("LAYOUT NODES").layout
    assert nodes is not None
    assert nodes.value == "NODES"


def test_a_sample_is_explained_or_audited_with_its_own_text() -> None:
    explain, audit = parse(f"EXPLAIN (ANALYZE, FORMAT json) {SAMPLE}; AUDIT {SAMPLE}")
    assert isinstance(explain, Explain)
    assert isinstance(explain.statement, Sample)
    assert (explain.analyze, explain.json, explain.statement.text) == (True, True, SAMPLE.strip())
    assert isinstance(audit, Audit)
    assert (audit.text, audit.sample.text) == (f"AUDIT {SAMPLE.strip()}", SAMPLE.strip())
    plain = one(f"EXPLAIN {SAMPLE}")
    assert isinstance(plain, Explain)
    assert (plain.analyze, plain.json) == (False, False)
    query = one("EXPLAIN FROM sample")
    assert isinstance(query, Explain)
    assert isinstance(query.statement, Query)


def test_what_a_sample_does_not_say_is_none() -> None:
    statement = one("SAMPLE FROM s SEEDS (FROM t) AS v FANOUT (e => [2])")
    assert isinstance(statement, Sample)
    assert statement.clauses == Clauses(statement.seeds, statement.clauses.fanouts)
    assert statement.source[slice(*statement.fanout_span)] == "FANOUT (e => [2])"
    assert statement.source[slice(*statement.seeds.span)] == "SEEDS (FROM t) AS v"


def bound(found: VersionBound | None) -> tuple[str, str] | None:
    return None if found is None else (found.kind, found.value.text)


def test_a_tag_names_a_version() -> None:
    newest, june, again = parse(
        "CREATE TAG x; CREATE OR REPLACE TAG x AT (timestamp => now() - a); CREATE TAG IF NOT EXISTS x AT (TAG => 'y')"
    )
    assert isinstance(newest, CreateTag)
    assert isinstance(june, CreateTag)
    assert isinstance(again, CreateTag)
    assert (str(newest.name), newest.at, newest.or_replace, newest.if_not_exists) == ("x", None, False, False)
    assert (bound(june.at), june.or_replace) == (("TIMESTAMP", "now() - a"), True)
    assert (bound(again.at), again.if_not_exists) == (("TAG", "'y'"), True)


def test_a_difference_has_one_end_or_two() -> None:
    both, one_end = parse("DIFF TABLE from FROM VERSION $a + 1 TO TAG 'x' ROWS; DIFF TABLE t FROM TIMESTAMP now() - b")
    assert isinstance(both, DiffTable)
    assert isinstance(one_end, DiffTable)
    assert (str(both.table), bound(both.start), bound(both.stop)) == ("from", ("VERSION", "$a + 1"), ("TAG", "'x'"))
    assert both.source[slice(*both.start.span)] == "VERSION $a + 1"
    assert (bound(one_end.start), one_end.stop) == (("TIMESTAMP", "now() - b"), None)
    assert (both.rows, one_end.rows) == (True, False)


def test_a_transaction_begins_and_ends_in_several_words() -> None:
    for text in ("BEGIN", "begin transaction", "BEGIN WORK", "START TRANSACTION"):
        assert isinstance(one(text), Begin)
    for text, message in [("COMMIT", None), ("END WORK", None), ("COMMIT TRANSACTION MESSAGE 'm'", "m")]:
        statement = one(text)
        assert isinstance(statement, Commit)
        assert statement.message == message
    for text in ("ROLLBACK", "ABORT", "ROLLBACK WORK"):
        assert isinstance(one(text), Rollback)


@pytest.mark.parametrize(
    ("text", "table", "retain", "dry_run"),
    [
        ("VACUUM", None, None, False),
        ("VACUUM t", "t", None, False),
        ("VACUUM DRY RUN", None, None, True),
        ("VACUUM RETAIN INTERVAL '7 days'", None, "INTERVAL '7 days'", False),
        ("VACUUM t RETAIN INTERVAL 1 HOUR DRY RUN", "t", "INTERVAL 1 HOUR", True),
    ],
)
def test_a_vacuum_takes_a_table_and_a_time(text: str, table: str | None, retain: str | None, dry_run: bool) -> None:
    statement = one(text)
    assert isinstance(statement, Vacuum)
    assert (statement.table and statement.table.text, statement.retain and statement.retain.text) == (table, retain)
    assert statement.dry_run is dry_run


def test_a_database_is_checked_by_name() -> None:
    assert isinstance(one("check database"), CheckDatabase)


def test_what_was_can_be_shown_and_described() -> None:
    tables, table, versions, tags, tag = parse(
        "SHOW TABLES AT (VERSION => ?) LIKE 'a%'; DESCRIBE TABLE t AT (TAG => 'x'); SHOW VERSIONS OF t LIKE 'b%';"
        "SHOW TAGS LIKE 'c%'; DROP TAG IF EXISTS x"
    )
    assert isinstance(tables, Show)
    assert (tables.what, bound(tables.at), tables.like) == ("TABLES", ("VERSION", "?"), "a%")
    assert isinstance(table, Describe)
    assert (table.kind, str(table.name), bound(table.at)) == ("TABLE", "t", ("TAG", "'x'"))
    assert isinstance(versions, Show)
    assert (versions.what, str(versions.of), versions.like) == ("VERSIONS", "t", "b%")
    assert isinstance(tags, Show)
    assert (tags.what, tags.of, tags.at, tags.like) == ("TAGS", None, None, "c%")
    assert isinstance(tag, Drop)
    assert (tag.kind, str(tag.name), tag.if_exists) == ("TAG", "x", True)


def test_what_there_is_can_be_shown_described_and_dropped() -> None:
    like, versions = parse("SHOW property graphs LIKE 's%'; SHOW VERSIONS")
    snapshot, graph, drop = parse("DESC SNAPSHOT q; DESCRIBE PROPERTY GRAPH g; DROP GRAPH IF EXISTS g")
    assert isinstance(like, Show)
    assert (like.what, like.like) == ("GRAPHS", "s%")
    assert isinstance(versions, Show)
    assert (versions.what, versions.like) == ("VERSIONS", None)
    assert isinstance(snapshot, Describe)
    assert (snapshot.kind, str(snapshot.name)) == ("SNAPSHOT", "q")
    assert isinstance(graph, Describe)
    assert graph.kind == "GRAPH"
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.if_exists) == ("GRAPH", True)


WORDS = [
    "at",
    "type",
    "source",
    "weight",
    "target",
    "features",
    "timestamp",
    "batch",
    "seeds",
    "graph",
    "message",
    "version",
]
WORDS += [
    "of",
    "order",
    "from",
    "to",
    "in",
    "full",
    "table",
    "snapshot",
    "event",
    "time",
    "on",
    "edge",
    '"KEY"',
    '"default"',
    "edges",
    "method",
    "seed_time",
    "with",
    "within",
    "known",
    "both",
]


@pytest.mark.parametrize("word", WORDS)
def test_keywords_are_names_where_only_a_name_can_stand(word: str) -> None:
    text = (
        f"CREATE TABLE {word} (a INT); INSERT INTO {word} ({word}, b) SELECT 1, 2; DELETE FROM {word} WHERE {word} > 1;"
        f"COPY {word} ({word}) FROM 'x' ({word} {word}); DROP TABLE {word}; DESCRIBE SNAPSHOT {word};"
        f"CREATE PROPERTY GRAPH {word} VERTEX TABLES ({word} AS {word} KEY ({word}) FEATURES ({word} AS {word})"
        f" TARGET ({word})) EDGE TABLES ({word} SOURCE KEY ({word}) REFERENCES {word} ({word}) DESTINATION KEY ({word})"
        f" REFERENCES {word} EVENT TIME ({word}) WEIGHT ({word}));"
        f"CREATE SNAPSHOT {word} OF {word} AT (VERSION => 1) ELEMENTS ({word}, {word}) WHERE {word}.{word} > 0;"
        f"SAMPLE FROM {word} SEEDS (SELECT 1) AS {word} FANOUT ({word} => [1], {word} IN => [1], {word} OUT => [2]);"
        f"AUDIT SAMPLE FROM {word} SEEDS EDGES {word} (SELECT 1) FANOUT ({word} BOTH => [1]) WEIGHT BY {word}.{word}"
        f" NEGATIVES 1 PER POSITIVE WEIGHTED BY {word};"
        f"UPDATE {word} AS {word} SET {word} = 1 WHERE 1 > {word}; DELETE FROM {word} AS {word} WHERE {word} > 1;"
        f"ALTER TABLE {word} RENAME COLUMN {word} TO {word}; ALTER TABLE {word} DROP COLUMN {word};"
        f"CREATE TAG {word} AT (VERSION => 1); DROP TAG {word}; DIFF TABLE {word} FROM VERSION 1 TO TAG 'x' ROWS;"
        f"VACUUM {word} RETAIN INTERVAL '1 hour'; SHOW VERSIONS OF {word}"
    )
    statements = parse(text)
    assert len(statements) == 19
    plain = word.strip('"')
    for statement in statements:
        assert plain in {place.text for place in places(statement)}


@pytest.mark.parametrize("word", ["KEY", "default", "As", "select", "where"])
def test_a_reserved_word_is_a_name_when_it_is_quoted(word: str) -> None:
    statement = one(f'CREATE TABLE "{word}" (a INT)')
    assert isinstance(statement, CreateTable)
    assert statement.name.text == word


def test_parameters_stay_in_islands() -> None:
    statements = parse("SAMPLE FROM s SEEDS (SELECT $a) AS v FANOUT (e => [1]); DELETE FROM t WHERE a = ?")
    sample, delete = statements
    assert isinstance(sample, Sample)
    assert isinstance(delete, Delete)
    assert sample.seeds.query.text == "SELECT $a"


def test_parameters_stay_in_updates_and_times() -> None:
    update, tag = parse("UPDATE t SET a = ?, b = ? FROM u AT (TAG => ?) WHERE c = ?; CREATE TAG x AT (TAG => $name)")
    assert isinstance(update, Update)
    assert [value.text for _, value in update.assignments] == ["?", "?"]
    assert isinstance(tag, CreateTag)
    assert bound(tag.at) == ("TAG", "$name")


def test_an_island_leaves_comments_around_it_out() -> None:
    statement = one("SAMPLE FROM s SEEDS (/* a */ SELECT 1 -- b\n) AS v FANOUT (e => [1])")
    assert isinstance(statement, Sample)
    assert statement.seeds.query.text == "SELECT 1"


def test_the_language_loads_no_engine(fresh_process: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    done = fresh_process(
        "import sys, snapdb.sql; snapdb.sql.parse('DROP TABLE t');"
        "print(*({'duckdb', 'numba', 'numpy', 'pandas', 'pyarrow', 'torch'} & set(sys.modules)))"
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
