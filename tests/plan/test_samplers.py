"""Named samplers: kept whole, sampled by name, with clauses replaced, and errors shown where they were written."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict, fields, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb import Database
from snapdb.errors import Span
from snapdb.plan.samples import CreateSamplerPlan, SamplePlan
from snapdb.sql import parse
from snapdb.types import Refresh
from tests.support.checks import problems
from tests.support.crashing import crash_everywhere, script
from tests.support.format_one import UNSCHEDULED
from tests.support.inside import catalog_db_of, committed_catalog_of, engine_of
from tests.support.inside.plan import DropPlan, ExpirePlan, _resolve
from tests.support.inside.sql import Clauses, RefreshClause, Sample, SampleUsing, WalkClauses
from tests.support.plans import planned
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS SELECT 'p' || range AS name, range % 7 AS grp, 1.0 + range % 3 AS wealth FROM range(30);
CREATE TABLE knows AS SELECT 'p' || range % 30 AS a, 'p' || (range * 7 + 1) % 30 AS b, range AS t, 1.0 + range % 4 AS w
  FROM range(120);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name) FEATURES (wealth AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t));
CREATE SNAPSHOT s OF g;
"""
TRAIN = "SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (knows => [3, 2])"
LINKS = "SAMPLE FROM s SEEDS EDGES knows (SELECT e_id, t AS seed_time FROM knows WHERE t % 9 = 0) FANOUT (knows => [3])"
TIMED = (
    "SAMPLE FROM s SEEDS (SELECT name, 60 + grp AS seed_time FROM person) AS person FANOUT (knows => [3, 2]) "
    "TEMPORAL < SEED_TIME"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samplers") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
        for name, text in (("train", TRAIN), ("links", LINKS), ("timed", TIMED)):
            db.execute(f"CREATE SAMPLER {name} AS {text}")
    return path


@pytest.fixture
def shop(made: Path) -> Iterator[Database]:
    """The samplers above, to be looked at."""
    with snapdb.connect(made, read_only=True) as db:
        yield db


@pytest.fixture
def own(db: Database) -> Database:
    """A shop of the test's own."""
    db.script(f"{SHOP}; CREATE SAMPLER train AS {TRAIN}")
    return db


def batches(stream: Any) -> list[Any]:
    """Everything of a stream's batches that a trainer sees."""
    return [
        (
            {kind: ids.tolist() for kind, ids in batch.n_id.items()},
            {key: index.tolist() for key, index in batch.edge_index.items()},
            {key: ids.tolist() for key, ids in batch.e_id.items()},
            batch.lineage,
        )
        for batch in stream
    ]


def shown(error: snapdb.SnapdbError) -> str:
    """What the error underlines."""
    assert error.text is not None
    assert error.span is not None
    return error.text[error.span.start : error.span.stop]


REPLACED = {
    "seeds": ("train", "SEEDS (SELECT name FROM person WHERE grp < 3) AS person"),
    "fanouts": ("train", "FANOUT (knows OUT => [2], DEFAULT => [1])"),
    "method": ("train", "METHOD LATEST"),
    "weights": ("train", "WEIGHT BY w"),
    "replace": ("train", "WITH REPLACEMENT"),
    "temporal": ("timed", "TEMPORAL <= SEED_TIME"),
    "within": ("timed", "WITHIN 20"),
    "negatives": ("links", "NEGATIVES 2 PER POSITIVE"),
    "known": ("links", "EXCLUDE KNOWN BEFORE SEED_TIME NEGATIVES 1 PER POSITIVE"),
    "exclude": ("links", "EXCLUDE SEEDS BOTH DIRECTIONS"),
    "subset": ("train", "SUBSET 50 PERCENT PER EPOCH"),
    "allow_duplicates": ("train", "ALLOW DUPLICATES SEEDS (SELECT 'p1' FROM range(3)) AS person"),
    "layout": ("train", "LAYOUT BLOCKS"),
    "reuse_hops": ("train", "REUSE HOPS"),
    "order": ("train", "FIXED"),
    "batch": ("train", "BATCH 7"),
    "repeatable": ("train", "REPEATABLE (42)"),
    "epochs": ("train", "EPOCHS 2"),
    "refresh": ("train", "REFRESH FCR EVERY 2 BATCHES"),
    "device": ("train", "ON 'cpu'"),
    "backend": ("train", "WITH numba"),
    "memory": ("train", "WITH (memory = '1GB')"),
    "ids": ("train", "WITH (ids = 'int32')"),
}


def test_every_clause_is_replaced_somewhere_below() -> None:
    assert set(REPLACED) == {field.name for field in fields(Clauses)} - {"walk"}


WALK = (
    "WALK FROM s SEEDS (SELECT name FROM person) AS person LENGTH 4 PER SEED 2 ALONG (knows) RETURN 0.5 INOUT 2 "
    "RESTART 0.1 TIME RESPECTING WINDOW 2 NEGATIVES 3"
)
REPLACED_OF_WALKS = {
    "length": ("LENGTH 4", "LENGTH 3"),
    "per_seed": ("PER SEED 2", "PER SEED 1"),
    "along": ("ALONG (knows)", "ALONG (knows IN)"),
    "back": ("RETURN 0.5", "RETURN 4"),
    "inout": ("INOUT 2", "INOUT 0.25"),
    "restart": ("RESTART 0.1", "RESTART 0.9"),
    "clock": ("TIME RESPECTING", "TIME RESPECTING STRICT BACKWARD"),
    "window": ("WINDOW 2", "WINDOW 1"),
    "contrasts": ("NEGATIVES 3", "NEGATIVES 1"),
}


@pytest.mark.parametrize("field", REPLACED_OF_WALKS)
def test_a_clause_of_walks_replaces_that_of_the_sampler(own: Database, field: str) -> None:
    before, other = REPLACED_OF_WALKS[field]
    assert {*REPLACED_OF_WALKS, "direction"} == {field.name for field in fields(WalkClauses)}
    own.execute(f"CREATE OR REPLACE SAMPLER walks AS {WALK}")
    whole = WALK.replace(before, other)
    assert own.execute(f"WALK USING walks {other}").fetchall() == own.execute(whole).fetchall()
    with own.stream(f"WALK USING walks {other}") as stream:
        assert [one.to_sql() for one in parse(stream.spec.text)] == [one.to_sql() for one in parse(whole)]


@pytest.mark.parametrize("field", REPLACED)
def test_a_clause_that_is_said_stands_in_place_of_the_samplers_own(shop: Database, field: str) -> None:
    sampler, clauses = REPLACED[field]
    text = {"train": TRAIN, "links": LINKS, "timed": TIMED}[sampler]
    if field in ("seeds", "allow_duplicates"):
        text = re.sub(r" SEEDS .* AS person", "", text)
    text = text.replace(" FANOUT (knows => [3, 2])", "") if field == "fanouts" else text
    text = text.replace(" TEMPORAL < SEED_TIME", "") if field == "temporal" else text
    using = shop.execute(f"SAMPLE USING {sampler} {clauses}").fetchall()
    assert using
    assert using == shop.execute(f"{text} {clauses}").fetchall()


def test_a_stream_of_a_name_or_of_using_is_that_of_the_whole_statement(shop: Database) -> None:
    expected = batches(shop.stream(TRAIN))
    assert batches(shop.stream("train")) == batches(shop.stream(" TRAIN ")) == expected
    assert expected[0][3]["sampler"] == TRAIN
    whole = f"{TRAIN.replace('[3, 2]', '[4]')} BATCH 8"
    assert batches(shop.stream("SAMPLE USING train BATCH 8 FANOUT (knows => [4])")) == batches(shop.stream(whole))


def test_a_stream_of_a_sampler_takes_seeds_and_parameters(shop: Database) -> None:
    few = "SELECT name FROM person WHERE grp = 1"
    assert batches(shop.stream("train", seeds=few)) == batches(shop.stream(TRAIN, seeds=few))
    asked = "SAMPLE USING train SEEDS (SELECT name FROM person WHERE grp = $group) AS person"
    given = [batch.ids("person").to_pylist() for batch in shop.stream(asked, params={"group": 1})]
    assert given == [batch.ids("person").to_pylist() for batch in shop.stream(TRAIN, seeds=few)]
    with refused("unknown-column", at="nobody"):
        shop.stream("train", seeds="SELECT nobody FROM person")


def test_the_samplers_own_layout_and_comments_stay(own: Database) -> None:
    own.execute("""CREATE SAMPLER spread AS SAMPLE FROM s -- of everyone
        BATCH 8 /* small */ SEEDS (SELECT name -- the key
          FROM person) AS person
        FANOUT (knows => [3])""")
    (batch, *_) = own.stream("SAMPLE USING spread BATCH /* large */ 64")
    assert (
        batch.lineage["sampler"]
        == """SAMPLE FROM s -- of everyone
        BATCH /* large */ 64 /* small */ SEEDS (SELECT name -- the key
          FROM person) AS person
        FANOUT (knows => [3])"""
    )


def test_whichever_clauses_are_replaced_the_rest_is_kept(own: Database) -> None:
    chance = random.Random(6)
    train = committed_catalog_of(own).sampler("train")
    known = {field: clauses for field, (sampler, clauses) in REPLACED.items() if sampler == "train"}
    del known["memory"]  # of WITH (…) too, which is one clause
    said = [*(known | {"allow_duplicates": "ALLOW DUPLICATES"}).values(), "KEEP SEEDS", "WITHIN 3"]
    for _ in range(60):
        mine = chance.sample(said, 4)
        (using,) = parse("/* é */ SAMPLE USING train " + " -- and\n".join(mine))
        assert isinstance(using, SampleUsing)
        whole, _ = _resolve(using, train)
        (base,) = parse(TRAIN)
        assert isinstance(base, Sample)
        named = {f.name: getattr(using.clauses, f.name) for f in fields(Clauses)}
        assert whole.clauses == replace(base.clauses, **{name: s for name, s in named.items() if s is not None})


@pytest.mark.parametrize(
    ("clause", "place", "code"),
    [
        ("BATCH 0", "BATCH 0", "out-of-range"),
        ("EPOCHS -1", "EPOCHS -1", "out-of-range"),
        ("REPEATABLE (-1)", "REPEATABLE (-1)", "out-of-range"),
        ("SUBSET 0 PERCENT PER EPOCH", "SUBSET 0 PERCENT PER EPOCH", "out-of-range"),
        ("FANOUT (know => [2])", "know", "unknown-edge-type"),
        ("SEEDS (SELECT nam FROM person) AS person", "nam", "unknown-column"),
        ("SEEDS (SELECT name FROM person) AS persons", "persons", "unknown-vertex-type"),
        ("SEEDS (SELECT 'q1') AS person", "SELECT 'q1'", "unknown-seed"),
        ("SEEDS (SELECT name, random() AS y FROM person) AS person", "random", "not-repeatable"),
        ("METHOD TOPK", "METHOD TOPK", "needs-weight"),
        ("METHOD LABOR DEPENDENT BATCHES 0", "METHOD LABOR DEPENDENT BATCHES 0", "out-of-range"),
        ("WEIGHT BY knows.x", "x", "unknown-column"),
        ("METHOD LABOR WITH REPLACEMENT", "WITH REPLACEMENT", "clauses-clash"),
        ("TEMPORAL < SEED_TIME", "TEMPORAL < SEED_TIME", "needs-seed-time"),
        ("WITHIN 3", "3", "needs-temporal"),
        ("NEGATIVES 3 PER POSITIVE", "NEGATIVES 3 PER POSITIVE", "needs-seed-edges"),
        ("EXCLUDE KNOWN", "EXCLUDE KNOWN", "needs-seed-edges"),
        ("KEEP SEEDS", "KEEP SEEDS", "needs-seed-edges"),
        ("ON 'gpu'", "ON 'gpu'", "unknown-device"),
        ("FANOUT (knows => [5000]) WITH torch", "FANOUT (knows => [5000])", "out-of-range"),
        ("BATCH 7 REFRESH FCR AMPLIFY 0.5", "REFRESH FCR AMPLIFY 0.5", "out-of-range"),
    ],
)
def test_a_wrong_clause_is_shown_in_the_statement(shop: Database, clause: str, place: str, code: str) -> None:
    statement = f"SELECT 1;\n  SAMPLE /* é */ USING train {clause};"
    with refused(code, at=place) as caught:
        shop.script(statement)
    assert caught.value.text == statement
    assert "in sampler" not in caught.value.message


@pytest.mark.parametrize(
    ("sampler", "clause", "place", "code"),
    [
        ("timed", "SEEDS (SELECT name FROM person) AS person", "TEMPORAL < SEED_TIME", "needs-seed-time"),
        ("links", "SEEDS (SELECT name FROM person) AS person", "NEGATIVES 1 PER POSITIVE", "needs-seed-edges"),
        ("heavy", "METHOD LATEST", "WEIGHT BY w", "clauses-clash"),
    ],
)
def test_what_no_longer_fits_is_shown_in_the_samplers_own_text(
    own: Database, sampler: str, clause: str, place: str, code: str
) -> None:
    own.execute(f"CREATE SAMPLER timed AS {TIMED}")
    own.execute(f"CREATE SAMPLER links AS {LINKS} NEGATIVES 1 PER POSITIVE BATCH 9")
    own.execute(f"CREATE SAMPLER heavy AS {TRAIN} BATCH 4 WEIGHT BY w")
    with refused(code, f"in sampler {sampler}: ", at=place) as caught:
        own.execute(f"SAMPLE USING {sampler} {clause} EPOCHS 1").fetchall()
    assert "USING" not in str(caught.value)


def test_seeds_that_went_are_shown_in_the_samplers_own_text(own: Database) -> None:
    own.script("""CREATE TABLE chosen AS SELECT 'p1' AS name;
        CREATE SAMPLER few AS SAMPLE FROM s FANOUT (knows => [2]) SEEDS (SELECT name FROM chosen) AS person;
        INSERT INTO chosen VALUES ('p77');""")
    for attempt in (lambda: own.execute("SAMPLE USING few BATCH 3").fetchall(), lambda: own.stream("few")):
        with refused("unknown-seed", at="SELECT name FROM chosen") as raised:
            attempt()
        assert shown(raised.value) == "SELECT name FROM chosen"
    own.execute("DROP TABLE chosen")
    with refused("unknown-table", '"chosen"', at="chosen") as missing:
        own.stream("few")
    assert shown(missing.value) == "chosen"
    assert own.execute("SAMPLE USING few SEEDS (SELECT 'p1') AS person").fetchall()


def test_what_is_found_when_batches_are_made_is_shown_where_it_was_written(own: Database) -> None:
    own.execute(f"CREATE SAMPLER small AS {TRAIN} WITH (memory = '1KB')")
    with refused("memory", "1.00", "KB", at="WITH (memory = '1KB')") as raised:
        own.stream("small")
    assert shown(raised.value) == "WITH (memory = '1KB')"
    said = "SAMPLE USING small WITH (memory = '2KB')"
    with refused("memory", "2.00", "KB", at="WITH (memory = '2KB')") as raised:
        own.stream(said)
    assert (raised.value.text, shown(raised.value)) == (said, "WITH (memory = '2KB')")
    with refused("memory", "3.00", "KB") as raised:
        own.stream("small", memory="3KB")
    assert raised.value.span is None


def test_a_refresh_clause_is_read_in_any_order_and_bound_exactly(shop: Database) -> None:
    (fcr,) = parse(f"{TRAIN} REFRESH FCR DEGREE ABOVE 100 SHARED AMPLIFY 2 EVERY 50 BATCHES BATCH 3")
    assert isinstance(fcr, Sample)
    assert fcr.clauses.refresh == RefreshClause("FCR", None, 50, Decimal(2), None, None, True, 100, Span(0, 0))
    (otf,) = parse(f"{TRAIN} REFRESH OTF 12.5 PERCENT SCOPE VISITED FETCH 60 PERCENT EVERY AUTO")
    assert isinstance(otf, Sample)
    assert otf.clauses.refresh == RefreshClause(
        "OTF", Decimal("12.5"), "AUTO", None, Decimal(60), "VISITED", False, None, Span(0, 0)
    )
    bound = []
    for statement in (fcr, otf):
        plan = shop.plan(statement)
        assert isinstance(plan, SamplePlan)
        bound.append(plan.spec.refresh)
    assert bound == [
        Refresh("FCR", 50, shared=True, above=100),
        Refresh("OTF", None, share=Fraction(1, 8), fetch=Fraction(3, 5), visited=True),
    ]


@pytest.mark.parametrize(
    ("clause", "place", "code"),
    [
        ("REFRESH FCR SHARED SHARED", "SHARED", "duplicate-clause"),
        ("REFRESH FCR EVERY AUTO EVERY 3 BATCHES", "EVERY 3 BATCHES", "duplicate-clause"),
        ("REFRESH FCR FETCH 3 PERCENT", "FETCH", "unexpected-word"),
        ("REFRESH FBL SHARED", "SHARED", "unexpected-word"),
        ("REFRESH FCR CACHE near", "CACHE", "unexpected-word"),
        ("REFRESH FCR USING CACHE near", "USING", "unexpected-word"),
        ("REFRESH FCR 10 BATCHES", "10", "unexpected-word"),
        ("REFRESH FCR EVERY AUTO BATCHES", "BATCHES", "unexpected-word"),
        ("REFRESH OTF EVERY 3 BATCHES", "EVERY", "unexpected-word"),
        ("REFRESH OTF 0x1F PERCENT", "0x1F", "bad-number"),
        ("REFRESH FCR EVERY 1.5 BATCHES", "1.5", "bad-number"),
        ("REFRESH FCR REFRESH FBL", "REFRESH FBL", "duplicate-clause"),
        ("REFRESH SOMETIMES", "SOMETIMES", "unexpected-word"),
    ],
)
def test_a_refresh_clause_that_cannot_be_read_is_shown(clause: str, place: str, code: str) -> None:
    with refused(code, at=place):
        parse(f"SAMPLE USING train {clause}")


def test_a_name_leads_to_the_nearest_sampler(shop: Database) -> None:
    with refused("unknown-sampler", '"train"', at="trian"):
        shop.execute("SAMPLE USING trian BATCH 3")
    with refused("unknown-sampler", '"train"', at="trian"):
        shop.stream("trian")
    with refused("unknown-sampler", "SAMPLE FROM", at="s"):
        shop.execute("SAMPLE USING s")
    with refused("unknown-snapshot", "SAMPLE USING", at="train"):
        shop.execute(TRAIN.replace("FROM s SEEDS", "FROM train SEEDS"))
    with refused("unknown-sampler", '"nobody"', at="nobody"):
        shop.execute("DESCRIBE SAMPLER nobody")
    for text in ("", "SELECT 1", "SAMPLE USING train; SAMPLE USING train"):
        with refused("not-a-sample"):
            shop.stream(text)
    with refused("unknown-statement"):
        shop.stream("train; train")
    with pytest.raises(TypeError, match="a sampler's name or the text"):
        shop.stream(3)  # type: ignore[arg-type]


def test_samplers_have_names_of_their_own(own: Database) -> None:
    for name in ("person", "s", "sample", '"SAMPLE"', '"my sampler"', "batch", "using", '"a ""b"""'):
        with pytest.raises(snapdb.BindError) if name == '"SAMPLE"' else nullcontext():
            own.execute(f"CREATE SAMPLER {name} AS {TRAIN} BATCH 6")
    expected = batches(own.stream(f"{TRAIN} BATCH 6"))
    for name in ("person", "sample", "SAMPLE", '"my sampler"', "batch", "Using", '"a ""b"""'):
        assert batches(own.stream(name)) == expected
        assert len(own.execute(f"SAMPLE USING {name} BATCH 5").fetchall()) > 0
    assert own.execute("SELECT count(*) FROM person").fetchone() == (30,)
    own.execute("CREATE TABLE train (a INT)")
    own.execute("DROP SAMPLER person")
    assert own.execute("SELECT count(*) FROM person").fetchone() == (30,)
    for name, code in (('""', "empty-name"), (f'"{"x" * 201}"', "bad-name")):
        with refused(code):
            own.execute(f"CREATE SAMPLER {name} AS {TRAIN}")


def test_a_sampler_is_made_once_and_replaced_when_that_is_said(own: Database) -> None:
    with refused("exists", "CREATE OR REPLACE SAMPLER", at="Train") as raised:
        own.execute(f"CREATE SAMPLER Train AS {TRAIN}")
    assert (shown(raised.value), raised.value.code) == ("Train", "exists")
    again = own.execute(
        "CREATE SAMPLER IF NOT EXISTS TRAIN AS SAMPLE FROM nowhere SEEDS (FROM x) AS y FANOUT (z => [1])"
    )
    assert again.message == 'sampler "train" already exists'
    made = own.execute(
        "CREATE OR REPLACE SAMPLER Train AS SAMPLE USING train BATCH 4 SEEDS EDGES knows (SELECT e_id FROM knows)"
    )
    assert made.message == "sampler Train of snapshot s: batches of 4 knows edges, 2 hops"
    (row,) = own.execute("SHOW SAMPLERS").fetchall()
    assert row[0] == "Train"
    assert own.execute("DROP SAMPLER train").message == "sampler Train dropped"
    assert own.execute("DROP SAMPLER IF EXISTS train").message == 'sampler "train" does not exist'
    with refused("unknown-sampler", at="train"):
        own.execute("DROP SAMPLER train")


def test_a_sampler_is_bound_when_it_is_made(own: Database) -> None:
    for text, place in (
        (TRAIN.replace("knows", "know"), "know"),
        (TRAIN.replace("SELECT name", "SELECT nam"), "nam"),
        (TRAIN.replace("FROM s", "FROM t"), "t"),
        ("SAMPLE USING nobody", "nobody"),
        ("SAMPLE USING train BATCH 0", "BATCH 0"),
    ):
        with pytest.raises(snapdb.BindError) as raised:
            own.execute(f"CREATE SAMPLER other AS {text}")
        assert shown(raised.value) == place
    with refused("refused", at="$g") as caught:
        own.execute(f"CREATE SAMPLER other AS {TRAIN.replace('SELECT name', 'SELECT $g')}", {"g": "p1"})
    assert caught.value.code == "refused"
    assert [row[0] for row in own.execute("SHOW SAMPLERS").fetchall()] == ["train"]


def test_a_sampler_of_a_sampler_is_a_whole_one(own: Database) -> None:
    own.execute("CREATE SAMPLER small AS SAMPLE USING train BATCH 4")
    own.execute("CREATE SAMPLER tiny AS SAMPLE USING small FANOUT (knows => [1]) BATCH 2")
    own.execute("CREATE OR REPLACE SAMPLER train AS SAMPLE USING train FIXED")
    own.execute("DROP SAMPLER small")
    text = f"{TRAIN.replace('[3, 2]', '[1]')} BATCH 2"
    assert batches(own.stream("tiny")) == batches(own.stream(text))
    (batch, *_) = own.stream("train")
    assert batch.lineage["sampler"] == f"{TRAIN} FIXED"


def test_a_stream_counts_epochs_itself(own: Database) -> None:
    own.execute(f"CREATE SAMPLER long AS {TRAIN} EPOCHS 3")
    assert {row[0] for row in own.execute("SAMPLE USING long").fetchall()} == {0, 1, 2}
    assert len(own.stream("long")) == len(own.stream(TRAIN))
    with refused("epochs-in-stream", "EPOCHS", at="EPOCHS 2") as raised:
        own.stream("SAMPLE USING long EPOCHS 2")
    assert shown(raised.value) == "EPOCHS 2"


def test_a_sampler_is_told_clause_by_clause(shop: Database) -> None:
    rows = {clause: (value, said) for clause, value, said in shop.execute("DESCRIBE SAMPLER timed").fetchall()}
    assert rows["FROM"] == ("s", True)
    assert rows["SEEDS"] == ("(SELECT name, 60 + grp AS seed_time FROM person) AS person", True)
    assert rows["FANOUT"] == ("(knows => [3, 2])", True)
    assert rows["TEMPORAL"] == ("< SEED_TIME", True)
    assert (rows["BATCH"], rows["METHOD"], rows["WITHIN"]) == (("1024", False), ("UNIFORM", False), (None, False))
    assert len(rows) == 1 + len({field.name for field in fields(Clauses)} - {"walk"})
    links = {row[0]: row[1:] for row in shop.execute("DESCRIBE SAMPLER links").fetchall()}
    assert (links["SEEDS"][0], links["EXCLUDE SEEDS"]) == (
        "EDGES knows (SELECT e_id, t AS seed_time FROM knows WHERE t % 9 = 0)",
        ("EXCLUDE SEEDS", False),
    )


def test_every_default_that_is_told_is_what_holds(own: Database) -> None:
    said = {clause: value for clause, value, said in own.execute("DESCRIBE SAMPLER train").fetchall() if not said}
    clauses = [f"{name} {said[name]}" for name in ("METHOD", "SUBSET", "LAYOUT", "BATCH", "REPEATABLE", "EPOCHS", "ON")]
    clauses += [said["REPLACEMENT"], said["ORDER"], f"REFRESH {said['REFRESH']}"]
    plain = own.execute("SAMPLE USING train").fetchall()
    assert own.execute(f"SAMPLE USING train {' '.join(clauses)}").fetchall() == plain


def test_samplers_are_shown(shop: Database) -> None:
    shown_ = shop.execute("SHOW SAMPLERS LIKE 'l%'")
    (row,) = [dict(zip(shown_.columns, row, strict=True)) for row in shown_.fetchall()]
    assert (row["name"], row["snapshot"], row["batch"], row["hops"], row["method"]) == (
        "links",
        "s",
        1024,
        1,
        "UNIFORM",
    )
    assert (row["seeds"], row["statement"]) == ("knows", LINKS)


def test_what_samplers_depend_on_is_not_dropped_from_under_them(own: Database) -> None:
    with refused("in-use", at="s") as raised:
        own.execute("DROP SNAPSHOT s")
    assert raised.value.code == "in-use"
    with refused("in-use", at="knows"):
        own.execute("DROP TABLE knows")
    own.execute("CREATE SNAPSHOT later OF g")
    rows = own.execute("EXPIRE SNAPSHOTS RETAIN LAST 1").fetchall()
    assert (rows[0][0], rows[0][1], rows[0][6]) == ("s", "keep", "sampler train uses it")
    assert own.execute("DROP SNAPSHOT s CASCADE").message == "snapshot s dropped, with sampler train"
    own.execute(f"CREATE SAMPLER a AS {TRAIN.replace('FROM s ', 'FROM LATER ')}")
    dropped = own.execute("DROP GRAPH g CASCADE").message
    assert dropped == "graph g dropped, with sampler a, snapshot later"
    assert own.execute("SHOW SAMPLERS").fetchall() == own.execute("CHECK DATABASE").fetchall() == []
    again = own.execute("DROP TABLE knows")
    assert str(again.message).endswith("table knows dropped")


def test_a_sampler_stays_when_its_snapshot_is_replaced_or_refreshed(own: Database) -> None:
    own.execute("INSERT INTO knows VALUES ('p1', 'p2', 500, 1)")
    own.execute("REFRESH SNAPSHOT s")
    assert batches(own.stream("train")) == batches(own.stream(TRAIN))
    own.execute("CREATE OR REPLACE SNAPSHOT S OF g FOR EVENT_TIME AS OF 50")
    assert batches(own.stream("train")) == batches(own.stream(TRAIN))
    own.execute("CREATE OR REPLACE SNAPSHOT s OF g ELEMENTS (person)")
    with refused("unknown-edge-type", at="knows") as raised:
        own.stream("train")
    assert (raised.value.text, shown(raised.value)) == (TRAIN, "knows")
    assert own.execute("CHECK DATABASE").fetchall() == []


def test_samplers_are_explained_and_audited_by_name(shop: Database) -> None:
    told = [str(row[0]) for row in shop.execute("EXPLAIN SAMPLE USING timed BATCH 5").fetchall()]
    assert any("batches of 5 from s" in line for line in told)
    audited = shop.execute("AUDIT SAMPLE USING timed WITHIN 5").fetchall()
    assert audited == shop.execute(f"AUDIT {TIMED} WITHIN 5").fetchall() != []


def test_who_may_only_read_makes_no_sampler(shop: Database, own: Database) -> None:
    with refused("read-only"):
        shop.execute(f"CREATE SAMPLER other AS {TRAIN}")
    with refused("read-only", at="DROP SAMPLER train"):
        shop.execute("DROP SAMPLER train")
    own.execute("BEGIN")
    for statement in (f"CREATE SAMPLER other AS {TRAIN}", "DROP SAMPLER train"):
        with refused("not-in-transaction"):
            own.execute(statement)
        own.execute("ROLLBACK")
        own.execute("BEGIN")


def test_what_happens_meanwhile_is_a_conflict(db: Database) -> None:
    db.script(f"{SHOP}; CREATE SAMPLER train AS {TRAIN}")
    catalog = engine_of(db).bind_context.catalog
    train, s = catalog.sampler("train"), catalog.snapshot("s")
    drop_sampler = planned(db, lambda e: DropPlan(train, 0))
    drop_snapshot = planned(db, lambda e: DropPlan(s, 0, (train,)))
    drop_alone = planned(db, lambda e: DropPlan(s, 0))
    sample = db.plan(parse("SAMPLE USING train")[0])
    assert isinstance(sample, SamplePlan)
    again = planned(db, lambda e: CreateSamplerPlan(train, None, sample))
    instead = planned(db, lambda e: CreateSamplerPlan(train, train, sample))
    expire = planned(db, lambda e: ExpirePlan(((s, None),), False))
    with snapdb.connect(db.path) as other:
        with refused("snapshot-moved"):
            drop_alone()
        assert expire()[0][1] == "keep"
        with refused("sampler-moved"):
            again()
        other.execute("CREATE OR REPLACE SAMPLER train AS SAMPLE USING train BATCH 3")
        for run in (drop_sampler, drop_snapshot, instead):
            with refused("sampler-moved"):
                run()
        other.execute("DROP SNAPSHOT s CASCADE")
        with refused("snapshot-moved"):
            again()
        assert other.execute("CHECK DATABASE").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE SAMPLER train AS SAMPLE USING train BATCH 2",
        "DROP SNAPSHOT s CASCADE",
        "DROP TABLE knows CASCADE",
    ],
)
def test_a_crash_leaves_the_old_or_the_new_samplers(made: Path, tmp_path: Path, statement: str) -> None:
    assert crash_everywhere(made, tmp_path / "copy.snapdb", script(statement)) > 0


def test_a_database_without_samplers_is_upgraded(own: Database) -> None:
    path = own.path
    own.close()
    with closing(sqlite3.connect(path / "catalog.sqlite", isolation_level=None)) as connection:
        connection.executescript(f"{UNSCHEDULED} DROP TABLE samplers; DROP TABLE caches; PRAGMA user_version = 3;")
    with refused("old-format"):
        snapdb.connect(path)
    assert snapdb.upgrade(path) == f"{path}: format 3 → 7; the old catalog was saved as catalog.sqlite.format-3"
    with snapdb.connect(path) as db:
        assert db.execute("SHOW SAMPLERS").fetchall() == db.execute("CHECK DATABASE").fetchall() == []
        db.execute(f"CREATE SAMPLER train AS {TRAIN}")
        assert batches(db.stream("train")) == batches(db.stream(TRAIN))


def test_a_sampler_that_keeps_no_sample_says_so(own: Database) -> None:
    for text in ("SELECT 1", "SAMPLE FROM", "SAMPLE USING train", ""):
        with catalog_db_of(own).writing() as connection:
            connection.execute("DELETE FROM samplers WHERE folded = 'bad'")
            stored = asdict(committed_catalog_of(own).sampler("train"))
            row = json.dumps({**stored, "id": 9, "name": "bad", "text": text})
            connection.execute("INSERT INTO samplers VALUES (9, 'bad', 'bad', 's', ?)", (row,))
        own._session._head = None
        for statement in ("SAMPLE USING bad", "DESCRIBE SAMPLER bad"):
            with refused("damaged-catalog", "SAMPLE"):
                own.execute(statement).fetchall()
    own.execute("CREATE OR REPLACE SAMPLER bad AS SAMPLE USING train")
    assert own.execute("SAMPLE USING bad").fetchall()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("definition = '{'", "cannot read the definition of sampler 'train'"),
        ("name = 'other'", "sampler 'other' has the lookup name 'train'"),
        ("folded = 'x', name = 'x'", "sampler 'x' is defined as another one"),
        (
            'snapshot = \'t\', definition = replace(definition, \'"snapshot": "s"\', \'"snapshot": "t"\')',
            "sampler 'train' is of snapshot 't', which does not exist",
        ),
    ],
)
def test_check_finds_damaged_samplers(own: Database, damage: str, said: str) -> None:
    with closing(sqlite3.connect(own.path / "catalog.sqlite", isolation_level=None)) as connection:
        connection.execute(f"UPDATE samplers SET {damage}")
    assert said in [problem.problem for problem in problems(own.path)]


MARKET = """
CREATE TABLE person AS SELECT range AS id FROM range(6);
CREATE TABLE film AS SELECT range AS id FROM range(6);
CREATE TABLE knows AS SELECT range % 6 AS a, range * 5 % 6 AS b, 1.0 AS w FROM range(12);
CREATE TABLE saw AS SELECT range % 6 AS a, range * 5 % 6 AS b FROM range(12);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id), film KEY (id)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person WEIGHT (w),
  saw SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES film);
CREATE SNAPSHOT s OF g;
"""
PERSON = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person"


@pytest.mark.parametrize(
    ("default", "said"),
    [
        ("DEFAULT BOTH => [5, 3]", "knows BOTH => [5, 3], saw BOTH => [5, 3]"),
        ("DEFAULT OUT => [5, 3]", "knows OUT => [5, 3], saw OUT => [5, 3]"),
        ("DEFAULT IN => [5, 3]", "DEFAULT => [5, 3]"),
        (
            "DEFAULT IN => [5, 0], DEFAULT OUT => [0, 3]",
            "knows => [5, 0], knows OUT => [0, 3], saw => [5, 0], saw OUT => [0, 3]",
        ),
        ("knows => [1, 1], DEFAULT BOTH => [5, 3]", "knows => [1, 1], saw BOTH => [5, 3]"),
    ],
)
def test_default_stands_for_every_type_that_is_not_named_in_a_direction(db: Database, default: str, said: str) -> None:
    db.script(MARKET)
    rows = db.execute(f"{PERSON} FANOUT ({default})").fetchall()
    assert rows == db.execute(f"{PERSON} FANOUT ({said})").fetchall() != []
    batch = db.stream(f"{PERSON} FANOUT ({default})")[0]
    same = db.stream(f"{PERSON} FANOUT ({said})")[0]
    assert {key: index.tolist() for key, index in batch.edge_index.items()} == {
        key: index.tolist() for key, index in same.edge_index.items()
    }


@pytest.mark.parametrize("again", ["DEFAULT => [2]", "DEFAULT BOTH => [2]", "DEFAULT IN => [2]"])
def test_default_has_each_direction_once(db: Database, again: str) -> None:
    db.script(MARKET)
    with refused("duplicate-fanout", "DEFAULT") as raised:
        db.execute(f"{PERSON} FANOUT (DEFAULT IN => [2], {again})")
    assert shown(raised.value) == again


@pytest.mark.parametrize(
    ("fanout", "unreached"),
    [
        ("DEFAULT => [5, 5]", "saw IN"),
        ("saw IN => [5], saw OUT => [5]", "saw IN"),
        ("saw IN => [5, 5], saw OUT => [5, 0]", ""),  # the second hop expands films
        ("saw => [5]", "saw IN"),
        ("saw => [0], knows => [3]", ""),
        ("DEFAULT BOTH => [5, 5]", ""),
        ("DEFAULT BOTH => [5]", ""),
        ("saw => [5] METHOD TOPK", "saw IN"),
    ],
)
def test_an_edge_type_that_no_hop_reaches_is_reported(db: Database, fanout: str, unreached: str) -> None:
    db.script(MARKET)
    fanout, topk, rest = fanout.partition(" METHOD")
    text = f"{PERSON} FANOUT ({fanout}){topk}{rest}{' WEIGHT BY saw.a' if topk else ''}"
    told = str(db.execute(f"CREATE SAMPLER k AS {text}"))
    notice = f"not reachable from the seeds: {unreached}"
    assert (notice in told) if unreached else ("not reachable" not in told)
    explained = " ".join(str(db.execute(f"EXPLAIN (FORMAT json) {text}").fetchone()).split())
    assert ("saw IN" in explained and "not reachable from the seeds" in explained) or not unreached
    if "BOTH" not in fanout:  # of which EXPLAIN shows each relation, and one of two may be idle
        assert ("not reachable" in explained) == bool(unreached)


def test_the_type_of_seed_edges_is_reported_too(db: Database) -> None:
    """Its rows are opened for what negatives know, and yet no hop draws from them."""
    db.script(MARKET)
    text = "SAMPLE FROM s SEEDS EDGES saw (SELECT e_id FROM saw) NEGATIVES 1 PER POSITIVE EXCLUDE KNOWN FANOUT "
    assert "not reachable" not in str(db.execute(f"CREATE SAMPLER a AS {text} (saw => [3])"))
    told = str(
        db.execute(
            "CREATE SAMPLER b AS SAMPLE FROM s SEEDS EDGES knows (SELECT e_id FROM knows) "
            "FANOUT (knows => [3], saw => [3])"
        )
    )
    assert "not reachable from the seeds: saw IN" in told
