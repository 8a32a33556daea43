"""Lineage: what a batch says of itself is enough to make it again, whatever happened to its database since."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner

import snapdb
from snapdb import Batch, Database, SnapdbError
from snapdb_cli.main import main
from tests.support.inside.graph import definition_digest
from tests.support.refusals import refused

SHOP = """
CREATE TABLE person AS
  SELECT 'p' || range AS name, range % 7 AS grp, [range, range % 3]::FLOAT[2] AS f, range % 2 AS club,
         DATE '2026-01-01' + (range % 30)::INTEGER AS day
  FROM range(60);
CREATE TABLE film AS SELECT range AS code, 1.0 + range AS length FROM range(20);
CREATE TABLE knows AS
  SELECT 'p' || range % 60 AS a, 'p' || (range * 7 + 1) % 60 AS b, range AS t, 1.0 + range % 4 AS w FROM range(400);
CREATE TABLE likes AS SELECT 'p' || (range * 11) % 60 AS who, range % 20 AS what FROM range(150);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (name) FEATURES (f AS x) TARGET (club AS y) PROPERTIES (name, grp, day), film KEY (code))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t) WEIGHT (w)
      FEATURES (w AS edge_attr),
    likes SOURCE KEY (who) REFERENCES person DESTINATION KEY (what) REFERENCES film);
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT part OF g FOR EVENT_TIME FROM 40 TO 300 ELEMENTS (knows) WHERE knows.w > 1 AND (grp < 3 OR grp = 5);
CREATE SAMPLER train AS
  SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (knows => [3, 2]) BATCH 8 REPEATABLE (7);
"""
AFTERWARDS = """
DROP SAMPLER train;
UPDATE person SET grp = 0, f = [0, 0] WHERE grp > 2;
INSERT INTO person SELECT 'new' || range, 3, [9, 9], 1, DATE '2026-01-05' FROM range(10);
DELETE FROM knows WHERE t % 3 = 0;
INSERT INTO knows SELECT 'new1', 'p2', 50, 3.5;
REFRESH SNAPSHOT s;
CREATE OR REPLACE SNAPSHOT part OF g FOR EVENT_TIME AS OF 100;
DROP SNAPSHOT s;
DROP SNAPSHOT part;
DROP GRAPH g;
DROP TABLE likes;
DROP TABLE knows;
ALTER TABLE person RENAME COLUMN grp TO class;
CREATE TABLE knows AS SELECT 1 AS other;
VACUUM;
"""
"""Everything that a lineage names is other, or gone."""
IDS = [f"p{i}" for i in range(40, 10, -1)]
PLAIN = "SAMPLE FROM s SEEDS (SELECT name FROM person WHERE grp < 6) AS person FANOUT (knows => [3, 2]) BATCH 8"


class Case(NamedTuple):
    """A stream, and what `replay` is given beside the lineage."""

    query: str
    given: Mapping[str, Any] = {}
    again: Mapping[str, Any] = {}


CASES = {
    "plain": Case(PLAIN),
    "types": Case(
        "SAMPLE FROM s SEEDS (SELECT name, 1.0 + grp AS weight FROM person) AS person "
        "FANOUT (knows BOTH => [3, 2], likes OUT => [2, 2], likes => [0, 2]) BATCH 9 REPEATABLE (3)"
    ),
    "temporal": Case(
        "SAMPLE FROM s SEEDS (SELECT name, 100 + grp AS seed_time, grp AS y FROM person) AS person "
        "FANOUT (knows => [3, 2]) TEMPORAL < SEED_TIME WITHIN 60 METHOD LATEST BATCH 8"
    ),
    "links": Case(
        "SAMPLE FROM s SEEDS EDGES knows (SELECT e_id, t AS seed_time FROM s.knows WHERE t % 5 = 0) "
        "NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN BEFORE SEED_TIME FANOUT (knows => [3, 2]) "
        "TEMPORAL < SEED_TIME BATCH 16 REPEATABLE (5)"
    ),
    "window": Case("SAMPLE FROM part SEEDS (SELECT name FROM part.person) AS person FANOUT (knows OUT => [4]) BATCH 5"),
    "torch": Case(f"{PLAIN} WITH torch"),
    "subset": Case(f"{PLAIN} SUBSET 70 PERCENT PER EPOCH METHOD PRIORITY"),
    "sampler": Case("train"),
    "parameters": Case(
        "SAMPLE FROM s SEEDS (SELECT name FROM person WHERE day > $since AND grp IN $groups) AS person "
        "FANOUT (knows => [3]) BATCH 4",
        {"params": {"since": date(2026, 1, 4), "groups": [1, 2, 3, 4], "other": object()}},
    ),
    "select": Case("train", {"seeds": "SELECT name FROM person WHERE grp = ? OR grp = 2", "params": [1]}),
    "ids": Case(f"{PLAIN} IN ORDER".replace(" < 6", " < 6 ORDER BY name"), {"seeds": IDS}, {"seeds": IDS}),
}


def told(value: Any) -> Any:
    """A batch as plain values: every field, every tensor with its type."""
    match value:
        case Batch():
            own = {field.name: told(getattr(value, field.name)) for field in fields(value)}
            return own | {"ids": {kind: value.ids(kind).to_pylist() for kind in value.n_id}}
        case torch.Tensor():
            return (str(value.dtype), value.tolist())
        case pa.Array():
            return value.to_pylist()
        case Mapping():
            return {key: told(one) for key, one in value.items()}
        case _:
            return value


class Made(NamedTuple):
    """A database, and batch 1 of epoch 1 of every case as it was."""

    path: Path
    batches: dict[str, Any]

    def lineage(self, case: str) -> dict[str, Any]:
        """As JSON kept it."""
        kept: dict[str, Any] = json.loads(json.dumps(self.batches[case]["lineage"]))
        return kept


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    path = tmp_path_factory.mktemp("lineage") / "shop.snapdb"
    batches = {}
    with snapdb.connect(path) as db:
        db.script(SHOP)
        for name, case in CASES.items():
            with db.stream(case.query, threads=0, **case.given) as stream:
                stream.set_epoch(1)
                batches[name] = told(stream[1])
    return Made(path, batches)


@pytest.fixture(scope="module")
def shop(made: Made) -> Iterator[Database]:
    """The database as it was."""
    with snapdb.connect(made.path, read_only=True) as db:
        yield db


@pytest.fixture(scope="module")
def gone(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same database elsewhere, after it went on."""
    path = tmp_path_factory.mktemp("later") / "elsewhere.snapdb"
    shutil.copytree(made.path, path)
    with snapdb.connect(path) as db:
        db.script(AFTERWARDS)
        yield db


@pytest.fixture
def own(made: Made, tmp_path: Path) -> Path:
    """The database for the test alone."""
    return Path(shutil.copytree(made.path, tmp_path / "own.snapdb"))


def same(batch: Batch, kept: Mapping[str, Any]) -> bool:
    """Whether a batch is that which was kept; its lineage may say another place."""
    found = told(batch)
    place = {"database": found["lineage"]["database"]}
    return bool(found == {**kept, "lineage": kept["lineage"] | place})


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_made_again_from_its_lineage(made: Made, shop: Database, case: str) -> None:
    again = snapdb.replay(made.lineage(case), 1, shop, **CASES[case].again)
    assert told(again) == made.batches[case]


@pytest.mark.parametrize("case", CASES)
def test_a_batch_is_made_again_though_all_that_it_names_is_other_or_gone(made: Made, gone: Database, case: str) -> None:
    assert same(snapdb.replay(made.lineage(case), 1, gone, **CASES[case].again), made.batches[case])


@pytest.mark.parametrize(
    "then",
    [
        "INSERT INTO knows SELECT 'p1', 'p2', 9, 2.0; REFRESH SNAPSHOT s",
        "REFRESH SNAPSHOT s FULL",
        "CREATE OR REPLACE SNAPSHOT s OF g FOR EVENT_TIME AS OF 20",
        "DROP SNAPSHOT s CASCADE",
        "DROP SNAPSHOT s CASCADE; CREATE TABLE s AS SELECT 1 AS name",
        "DROP SNAPSHOT s CASCADE; CREATE SNAPSHOT another OF g; DELETE FROM person WHERE grp = 1",
        "CREATE OR REPLACE TABLE film AS SELECT 1 AS code",
    ],
)
def test_a_snapshot_may_have_been_refreshed_replaced_dropped_or_renamed(made: Made, own: Path, then: str) -> None:
    with snapdb.connect(own) as db:
        db.script(then)
        assert same(db.replay(made.lineage("plain"), 1), made.batches["plain"])


def test_what_is_pinned_again_leaves_nothing_behind(made: Made, own: Path) -> None:
    with snapdb.connect(own) as db:
        db.execute("DROP SNAPSHOT s CASCADE")
        before = [sorted((own / "snapshots").iterdir()), db.execute("SHOW SNAPSHOTS").fetchall()]
        batch = db.replay(made.lineage("types"), 1)
        assert before == [sorted((own / "snapshots").iterdir()), db.execute("SHOW SNAPSHOTS").fetchall()]
        with refused("no-such-batch"):
            db.replay(made.lineage("types"), 99)
        assert before == [sorted((own / "snapshots").iterdir()), db.execute("SHOW SNAPSHOTS").fetchall()]
        assert db.execute("CHECK DATABASE").fetchall() == []
    assert same(batch, made.batches["types"]), "it is whole though its files are gone"


def advised(error: SnapdbError) -> str:
    """The statement that pins a snapshot again, which ends the message."""
    return error.message.partition("or run there: ")[2]


def test_a_database_that_is_read_only_replays_what_stands_and_tells_how_to_pin_the_rest(made: Made, own: Path) -> None:
    with snapdb.connect(own, read_only=True) as db:
        assert same(db.replay(made.lineage("window"), 1), made.batches["window"])
    with snapdb.connect(own) as db:
        db.execute("CREATE OR REPLACE SNAPSHOT part OF g")
    with snapdb.connect(own, read_only=True) as db, refused("read-only") as caught:
        db.replay(made.lineage("window"), 1)
    statement = advised(caught.value)
    assert "FOR EVENT_TIME FROM 40 TO 300 ELEMENTS (person, knows) WHERE (" in statement
    with snapdb.connect(own) as db:
        db.execute(statement)
    with snapdb.connect(own, read_only=True) as db:
        assert same(db.replay(made.lineage("window"), 1), made.batches["window"])


BOUNDS = (
    "AS OF TIMESTAMP '2026-01-05 12:30:00'",
    "FROM TIMESTAMP '2026-01-02 00:00:00' TO TIMESTAMP '2026-01-05 00:00:00.000001'",
    "BETWEEN TIMESTAMP '2026-01-02' AND TIMESTAMP '2026-01-05'",
    "WINDOW INTERVAL '3 days'",
)


def test_the_statement_that_pins_a_window_of_timestamps_again_says_the_same_window(tmp_path: Path) -> None:
    path = tmp_path / "days.snapdb"
    names = [f"days {i}" for i in range(len(BOUNDS))]
    with snapdb.connect(path) as db:
        db.script("""
            CREATE TABLE v AS SELECT range AS id FROM range(9);
            CREATE TABLE e AS
              SELECT range % 9 AS a, (range * 2) % 9 AS b, TIMESTAMP '2026-01-01' + INTERVAL (range) HOUR AS ts
              FROM range(200);
            CREATE PROPERTY GRAPH "my graph" VERTEX TABLES (v KEY (id))
              EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v EVENT TIME (ts))""")
        for name, bounds in zip(names, BOUNDS, strict=True):
            db.execute(f'CREATE SNAPSHOT "{name}" OF "my graph" FOR EVENT_TIME {bounds}')
        query = 'SAMPLE FROM "{}" SEEDS (SELECT id FROM v) AS v FANOUT (e => [2]) BATCH 4'
        kept = [told(db.stream(query.format(name), threads=0)[1]) for name in names]
        db.script("; ".join(f'DROP SNAPSHOT "{name}"' for name in names))
    statements = []
    with snapdb.connect(path, read_only=True) as db:
        for one in kept:
            with refused("read-only") as caught:
                db.replay(one["lineage"], 1)
            statements.append(advised(caught.value))
    with snapdb.connect(path) as db:
        assert told(db.replay(kept[0]["lineage"], 1)) == kept[0]
        db.script(";".join(statements))
    with snapdb.connect(path, read_only=True) as db:
        assert [told(db.replay(one["lineage"], 1)) for one in kept] == kept


def test_a_database_that_moved_is_named(made: Made, own: Path) -> None:
    lineage = {**made.lineage("plain"), "database": str(own)}
    there = own.rename(own.with_name("moved.snapdb"))
    with refused("no-database", str(own)):
        snapdb.replay(lineage, 1)
    assert not own.exists(), "replay makes no database"
    for place in (there, str(there)):
        assert same(snapdb.replay(lineage, 1, place), made.batches["plain"])
    with snapdb.connect(there) as db:
        assert same(snapdb.replay(lineage, 1, database=db), made.batches["plain"])
        assert db.execute("SHOW SNAPSHOTS").fetchall(), "it stays open"
    with refused("no-database"):
        snapdb.replay(lineage, 1, own.parent / "nowhere")


def test_a_temporary_database_is_replayed_while_it_is_open() -> None:
    with snapdb.connect() as db:
        db.script(SHOP)
        with db.stream(PLAIN, threads=0) as stream:
            first = stream[0]
        assert told(snapdb.replay(first.lineage, 0)) == told(first)
    with refused("no-database"):
        snapdb.replay(first.lineage, 0)


def test_the_number_counts_within_an_epoch_over_all_ranks(made: Made, shop: Database) -> None:
    with shop.stream(PLAIN, threads=0, rank=1, world_size=2) as stream:
        stream.set_epoch(3)
        batch = list(stream)[1]
    assert batch.index == (3, 3)
    assert told(shop.replay(batch.lineage, 3)) == told(batch)
    assert told(shop.replay(made.lineage("plain"), 3, epoch=3)) == told(batch)


def test_a_replayed_batch_is_replayed_again(made: Made, shop: Database) -> None:
    twice = shop.replay(shop.replay(made.lineage("links"), 1).lineage, 1)
    assert told(twice) == made.batches["links"]


def test_the_rows_of_a_batch_are_those_of_sample(made: Made, shop: Database, gone: Database) -> None:
    rows = shop.execute(f"{CASES['types'].query} EPOCHS 2").arrow()
    with shop.stream(CASES["types"].query) as stream:
        wanted = rows.filter(pa.compute.equal(rows["batch"], len(stream) + 1))
    assert gone.replay_rows(made.lineage("types"), 1).equals(wanted)
    assert wanted.num_rows > 0


def test_lineage_is_plain_and_the_same_however_a_stream_is_read(made: Made, shop: Database) -> None:
    streams = [shop.stream("train", threads=threads, prefetch=1) for threads in (0, 2)]
    lineage = streams[0][2].lineage
    assert lineage == streams[1][2].lineage == streams[0].lineage
    for stream in streams:
        stream.close()
    assert json.loads(json.dumps(lineage, allow_nan=False)) == lineage
    assert (lineage["snapshot"], lineage["graph"], lineage["window"]) == ("s", "g", [None, None])
    assert lineage["version"] == lineage["tables_version"] == 4
    assert lineage["sampler"].startswith("SAMPLE FROM s SEEDS"), "the whole statement, and not the sampler's name"
    assert (lineage["rng"], lineage["seed"], lineage["generation"], lineage["epoch"]) == ("snapdb-1", 7, 0, 0)
    assert (lineage["database"], lineage["snapdb"]) == (str(made.path), snapdb.__version__)
    assert lineage["given_seeds"] is False
    assert "parameters" not in lineage


def test_parameters_and_seeds_from_python_are_kept_where_json_can(made: Made) -> None:
    assert made.lineage("parameters")["parameters"] == {"since": {"DATE": "2026-01-04"}, "groups": [1, 2, 3, 4]}
    assert made.lineage("select")["seed_query"] == CASES["select"].given["seeds"]
    assert made.lineage("select")["parameters"] == [1]
    assert made.lineage("ids")["given_seeds"] is True


def test_parameters_that_are_not_kept_are_given_again(shop: Database) -> None:
    query = "SAMPLE FROM s SEEDS (SELECT name FROM person WHERE grp < $most) AS person FANOUT (knows => [2]) BATCH 4"
    with shop.stream(query, threads=0, params={"most": 4}) as stream:
        kept = told(stream[1])
    assert kept["lineage"]["parameters"] == {"most": 4}
    without = {name: value for name, value in kept["lineage"].items() if name != "parameters"}
    with refused("not-in-lineage", "$most", "params=…"):
        shop.replay(without, 1)
    assert told(shop.replay(without, 1, params={"most": 4}))["n_id"] == kept["n_id"]
    with refused("other-seeds"):
        shop.replay(without, 1, params={"most": 5})


def test_seeds_from_python_are_given_again_and_must_be_the_same(made: Made, shop: Database) -> None:
    lineage = made.lineage("ids")
    with refused("not-in-lineage", "seeds=…"):
        shop.replay(lineage, 1)
    for given in (pa.array(IDS), np.array(IDS), {"name": IDS}):
        assert told(shop.replay(lineage, 1, seeds=given)) == made.batches["ids"]
    for given in (IDS[:-1], IDS[::-1], [*IDS[:-1], "p50"]):
        with refused("other-seeds"):
            shop.replay(lineage, 1, seeds=given)


def test_seeds_that_read_what_has_no_versions_must_still_be_the_same(own: Path) -> None:
    query = "SAMPLE FROM s SEEDS (SELECT name FROM wanted) AS person FANOUT (knows => [2]) BATCH 4"
    with snapdb.connect(own) as db:
        db.register("wanted", pa.table({"name": ["p1", "p2", "p3"]}))
        with db.stream(query, threads=0) as stream:
            kept = told(stream[0])
        assert told(db.replay(kept["lineage"], 0)) == kept
        db.register("wanted", pa.table({"name": ["p1", "p2", "p4"]}))
        with refused("other-seeds", "SEEDS"):
            db.replay(kept["lineage"], 0)
    with refused("unknown-table", at="wanted"):
        snapdb.replay(kept["lineage"], 0)


def test_another_database_and_an_older_copy_are_told_apart(made: Made, own: Path, tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "twin.snapdb") as twin:
        twin.script(SHOP)
        with refused("other-database", "version 4"):
            twin.replay(made.lineage("plain"), 1)
    with snapdb.connect(own) as db:
        db.execute("INSERT INTO film SELECT 99, 1.0")
        with db.stream(PLAIN, threads=0) as stream:
            newer = stream.lineage
    with refused("other-database", str(own), str(made.path), "version 5", "newest version is 4"):
        snapdb.replay(newer, 0, made.path)


def test_exported_batches_are_made_again_from_their_manifest(own: Path, tmp_path: Path) -> None:
    with snapdb.connect(own) as db:
        db.script(f"COPY (SAMPLE USING train EPOCHS 2) TO '{tmp_path / 'out'}' (FORMAT npz); DROP SNAPSHOT s CASCADE")
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        for batch in list(snapdb.read_batches(tmp_path / "out"))[::5]:
            epoch, number = batch.index
            assert told(db.replay(batch.lineage, number)) == told(batch)
            assert told(db.replay(manifest, number, epoch=epoch)) == told(batch)


def test_a_manifest_is_taken_as_a_lineage_and_that_of_a_snapshot_has_no_batches(made: Made) -> None:
    manifest = {"format": 1, "kind": "batches", "lineage": made.lineage("plain")}
    assert told(snapdb.replay(manifest, 1)) == made.batches["plain"]
    del manifest["lineage"]["epoch"]
    assert told(snapdb.replay(manifest, 1, epoch=1)) == made.batches["plain"]
    assert snapdb.replay(manifest, 1).index == (0, 1), "of the first epoch where none is said"
    with refused("lineage"):
        snapdb.replay({"lineage": {n: v for n, v in made.lineage("plain").items() if n not in ("sampler", "seeds")}}, 1)


ODD = [None, True, -1, 2**70, 1.5, "x", "", [], [1, 2], {}, {"graph": 1}]


NEEDED = (
    "rng",
    "snapshot",
    "version",
    "window",
    "definition",
    "pinned",
    "database",
    "tables_version",
    "tables_digest",
    "given_seeds",
    "sampler",
    "seeds",
    "seed",
)
_OPTIONAL = ("epoch", "parameters", "seed_query")
REFUSALS = (
    "lineage",
    "rng-scheme",
    "other-database",
    "other-seeds",
    "no-such-batch",
    "not-in-lineage",
    "not-a-query",
    "syntax",
    "read-only",
)


@pytest.mark.parametrize("name", [*NEEDED, *_OPTIONAL])
def test_a_lineage_that_is_cut_short_or_odd_is_refused_in_words(made: Made, shop: Database, name: str) -> None:
    lineage = made.lineage("plain")
    if name in NEEDED:
        with refused("lineage", "snapshot s" if name == "sampler" else f"it has no {name};"):
            shop.replay({key: value for key, value in lineage.items() if key != name}, 1)
    for value in ODD:
        if name in _OPTIONAL and value in (None, [], {}, [1, 2], {"graph": 1}):
            continue  # said or not, it is not asked for
        if name == "database" and isinstance(value, str):
            continue  # that is open already
        with pytest.raises(SnapdbError) as caught:
            shop.replay({**lineage, name: value}, 1)
        assert caught.value.code in REFUSALS, (value, str(caught.value))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rng": "snapdb-2", "snapdb": "9.0.0"}, "rng-scheme"),
        ({"rng": "pcg64"}, "rng-scheme"),
        ({"sampler": "SELECT 1"}, "lineage"),
        ({"sampler": "SAMPLE USING train"}, "lineage"),
        ({"sampler": "SAMPLE FROM"}, "lineage"),
        ({"sampler": PLAIN.replace("FROM s", "FROM part")}, "lineage"),
        ({"seed": 8}, "lineage"),
        ({"version": 5}, "lineage"),
        ({"window": [0]}, "lineage"),
        ({"window": [0, 2**63]}, "lineage"),
        ({"pinned": {"graph": None, "filters": [], "unit": None}}, "lineage"),
        ({"pinned": {"graph": 5}}, "lineage"),
        ({"definition": "0" * 64}, "lineage"),
        ({"parameters": {"a": {"DATE": "never"}}}, "lineage"),
        ({"parameters": {"a": {"WIDGET": "1"}}}, "lineage"),
    ],
)
def test_what_is_wrong_with_a_lineage_is_said(made: Made, shop: Database, changes: dict[str, Any], code: str) -> None:
    with refused(code, *sorted(changes)[:1]):
        shop.replay({**made.lineage("plain"), **changes}, 1)


def test_a_graph_that_was_made_up_is_refused(made: Made, own: Path) -> None:
    lineage = made.lineage("plain")
    lineage["pinned"]["graph"]["edges"][0]["table"] = "nowhere"
    lineage["definition"] = definition_digest(lineage["pinned"])
    with snapdb.connect(own) as db, refused("lineage", "version 4", '"nowhere"'):
        db.replay(lineage, 1)


@pytest.mark.parametrize("odd", [None, 17, "lineage.json", [], {}, b"{}"])
def test_what_is_no_lineage_is_refused(odd: Any) -> None:
    with refused("lineage"):
        snapdb.replay(odd, 0)


def test_a_batch_that_is_not_there_is_refused(made: Made, shop: Database) -> None:
    lineage = made.lineage("plain")
    with refused("no-such-batch", "batch 99", "epoch 1", "7 batches"):
        shop.replay(lineage, 99)
    for number in (-1, True, 1.0, "1", None, 2**40):
        with refused("no-such-batch", "a batch must be an integer from 0"):
            shop.replay(lineage, number)
    with refused("no-such-batch", "an epoch must be an integer from 0"):
        shop.replay(lineage, 0, epoch=-1)


def test_the_command_line_shows_the_rows_of_a_batch(made: Made, shop: Database, tmp_path: Path) -> None:
    def run(*words: str | Path, stdin: str | None = None) -> Any:
        return CliRunner().invoke(main, ["replay", *map(str, words)], input=stdin)

    kept = tmp_path / "lineage.json"
    kept.write_text(json.dumps(made.lineage("types")))
    wanted, first = (shop.replay_rows(made.lineage("types"), 2, epoch=epoch) for epoch in (None, 0))
    shown = run(kept, "--batch", "2", "--format", "json")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert json.loads(shown.stdout) == wanted.to_pylist()
    moved = shutil.copytree(made.path, tmp_path / "moved.snapdb")
    shown = run("-", "--batch", "2", "--epoch", "0", "--database", moved, "--format", "json", stdin=kept.read_text())
    assert json.loads(shown.stdout) == first.to_pylist()
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    for words, says in (
        ((deep, "--batch", "1"), "is not valid JSON"),
        ((kept, "--batch", "99"), "batch 99 does not exist"),
        ((kept, "--batch", "1", "--database", tmp_path / "no"), "(--database)"),
        ((__file__, "--batch", "1"), "is not valid JSON"),
    ):
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert says in refused.stderr
    assert run(kept).exit_code == run(tmp_path / "none.json", "--batch", "1").exit_code == 2


def test_a_replay_sees_nothing_of_an_open_transaction(own: Path, made: Made) -> None:
    with snapdb.connect(own) as db:
        db.execute("BEGIN")
        db.execute("DELETE FROM person")
        assert same(db.replay(made.lineage("plain"), 1), made.batches["plain"])
        assert db.transaction_state == "open"


def test_a_stream_goes_on_beside_replays(shop: Database) -> None:
    with shop.stream(PLAIN, threads=2) as stream:
        for batch in stream:
            assert told(shop.replay(batch.lineage, batch.index[1])) == told(batch)


# Edges of weight 0

ZEROS = """
CREATE TABLE person AS SELECT range AS id FROM range(40);
CREATE TABLE knows AS SELECT range * 7 % 40 AS a, range % 40 AS b, CASE WHEN range % 3 = 0 THEN 0 ELSE 1.0 END AS w,
  1.0 AS even FROM range(160);
INSERT INTO knows SELECT range, 39, 0.0, 1.0 FROM range(9);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person WEIGHT (w));
CREATE SNAPSHOT s OF g;
"""
BY_WEIGHT = {
    "weight by": "WEIGHT BY w",
    "with replacement": "WEIGHT BY w WITH REPLACEMENT",
    "priority": "METHOD PRIORITY",
    "refresh": "METHOD PRIORITY REFRESH FCR EVERY 2 BATCHES DEGREE ABOVE 3",
    "torch": "WEIGHT BY w WITH torch",
}
OTHERS = ("METHOD TOPK", "METHOD FULL", "WEIGHT BY even", "")


@pytest.fixture(scope="module")
def zeros() -> Iterator[Database]:
    """Of each node a third of the edges weigh nothing, and node 39 has more of them."""
    with snapdb.connect() as db:
        db.script(ZEROS)
        yield db


def weighed(how: str, fanout: str = "4") -> str:
    return f"SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [{fanout}]) {how} BATCH 16"


def nothing_weighs(db: Database, batch: Batch) -> int:
    """How many of a batch's edges have weight 0."""
    ids = batch.e_id["person", "knows", "person"].tolist()
    return int(db.execute("SELECT count(*) FROM s.knows WHERE w = 0 AND e_id IN $ids", {"ids": ids}).fetchone()[0])


@pytest.mark.parametrize("how", BY_WEIGHT)
def test_a_lineage_says_that_edges_of_weight_0_are_never_drawn_and_without_it_they_are_as_formerly(
    zeros: Database, how: str
) -> None:
    with zeros.stream(weighed(BY_WEIGHT[how]), threads=0) as stream:
        batches = list(stream)
    assert [nothing_weighs(zeros, batch) for batch in batches] == [0, 0, 0]
    kept = json.loads(json.dumps(batches[1].lineage))
    assert kept["zero_weight"] == "NEVER"
    assert told(zeros.replay(kept, 1)) == told(batches[1])
    old = {name: value for name, value in kept.items() if name != "zero_weight"}
    again = zeros.replay(old, 1)
    assert again.lineage == old
    assert nothing_weighs(zeros, again) > 0


@pytest.mark.parametrize("how", OTHERS)
def test_a_lineage_says_nothing_of_weight_0_where_that_changes_nothing(zeros: Database, how: str) -> None:
    with zeros.stream(weighed(how), threads=0) as stream:
        assert "zero_weight" not in stream.lineage
        assert told(zeros.replay(stream.lineage, 1)) == told(stream[1])
    with zeros.stream(weighed("WEIGHT BY w", "FULL"), threads=0) as stream:
        assert "zero_weight" not in stream.lineage
        assert sum(nothing_weighs(zeros, batch) for batch in stream) == 63


def test_a_lineage_of_another_rule_of_weight_0_is_refused(zeros: Database) -> None:
    with zeros.stream(weighed("WEIGHT BY w"), threads=0) as stream, refused("lineage", "'SOMETIMES'"):
        zeros.replay({**stream.lineage, "zero_weight": "SOMETIMES"}, 1)


def test_a_state_of_before_weight_0_meant_never_is_refused_where_that_matters(zeros: Database) -> None:
    with zeros.stream(weighed("WEIGHT BY w"), threads=0) as stream:
        state = stream.state_dict()
        stream.load_state_dict(state)
        state.pop("zero_weight")
        with refused("stream-state", "zero_weight", "set_epoch"):
            stream.load_state_dict(state)
    with zeros.stream(weighed("WEIGHT BY even"), threads=0) as stream:
        state = stream.state_dict()
        state.pop("zero_weight")
        stream.load_state_dict(state)
