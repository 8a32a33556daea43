"""Damage anywhere in a database's files is named, or changes nothing; it never becomes a wrong result or a crash."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb import Database, SnapdbError
from tests.support.checks import hostile, spoil
from tests.support.refusals import refused
from tests.support.thoroughness import SOAK

pytestmark = pytest.mark.slow

SETUP = """
CREATE TABLE person AS SELECT range AS id, 'p' || range AS name, [range, 1]::FLOAT[2] AS emb, range % 2 AS label
  FROM range(40);
CREATE TABLE knows AS SELECT range % 40 AS a, (range * 7 + 1) % 40 AS b, range AS at, range / 8 AS w FROM range(200);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (emb AS x) TARGET (label AS y))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id)
               EVENT TIME (at) WEIGHT (w) FEATURES (w AS edge_attr));
CREATE TABLE plain (word VARCHAR, n HUGEINT);
INSERT INTO plain VALUES ('one', 1), ('two', 2), (NULL, NULL);
INSERT INTO plain SELECT 'w' || range, range FROM range(300);
DELETE FROM plain WHERE n % 3 = 1;
UPDATE plain SET word = upper(word) WHERE n < 20;
ALTER TABLE plain ADD COLUMN extra INTEGER DEFAULT 7;
INSERT INTO person VALUES (100, 'late', [5, 5], 1);
INSERT INTO knows VALUES (100, 3, 500, 1), (3, 100, 501, 2);
DELETE FROM knows WHERE at = 7;
CREATE SNAPSHOT whole OF g;
CREATE SNAPSHOT early OF g FOR EVENT_TIME AS OF 50;
CREATE SNAPSHOT narrow OF g FOR EVENT_TIME FROM 20 TO 60 WHERE knows.w > 3;
CREATE TAG good AT (VERSION => 6);
"""

SAMPLES = [
    f"SAMPLE FROM {s} SEEDS (SELECT id FROM person) AS person FANOUT (knows => [3, 2]) BATCH 16 REPEATABLE (4)"
    for s in ("whole", "early", "narrow")
]
QUESTIONS = [
    "SHOW TABLES",
    "SHOW VERSIONS",
    "SHOW GRAPHS",
    "SHOW TAGS",
    "DESCRIBE GRAPH g",
    "DESCRIBE SNAPSHOT narrow",
    "DESCRIBE TABLE plain",
    "SELECT * FROM plain",
    "SELECT * FROM person",
    "SELECT * FROM knows",
    "SELECT * FROM plain AT (VERSION => 4)",
    "SELECT * FROM plain AT (TAG => 'good')",
    "DIFF TABLE plain FROM VERSION 4 TO VERSION 7 ROWS",
    "SELECT * FROM whole.knows",
    "SELECT * FROM early.knows",
    "SELECT * FROM narrow.person",
    *SAMPLES,
]
UPKEEP = ["CHECK DATABASE", "VACUUM DRY RUN", "VACUUM RETAIN INTERVAL '0 seconds'", "VACUUM plain"]

TIMES = 10 if SOAK else 1

KINDS = {
    "segments": "tables/*/*.parquet",
    "ids": "ids/**/*.parquet",
    "topologies": "topology/**/*.npy",
    "features": "features/**/*.npy",
    "snapshots": "snapshots/**/*.npy",
    "manifests": "**/manifest.json",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with everything in it; tests damage copies."""
    path = tmp_path_factory.mktemp("made") / "test.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
    return path


@pytest.fixture(scope="module")
def answers(made: Path) -> dict[str, list[Any]]:
    """What every question is answered when nothing is damaged."""
    with snapdb.connect(made, read_only=True) as db:
        return {question: ask(db, question) for question in QUESTIONS}


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes fresh copies, always in the same place."""

    def fresh() -> Path:
        shutil.rmtree(tmp_path / "x.snapdb", ignore_errors=True)
        return Path(shutil.copytree(made, tmp_path / "x.snapdb"))

    return fresh


def published(made: Path, kind: str) -> list[Path]:
    """The files of a kind, without those that a commit replaced and VACUUM would remove."""
    with closing(sqlite3.connect(f"file:{made / 'catalog.sqlite'}?mode=ro", uri=True)) as connection:
        garbage = {row[0] for row in connection.execute("SELECT path FROM garbage")}
    found = [p.relative_to(made) for p in made.glob(KINDS[kind])]
    files = sorted(path for path in found if str(path) not in garbage)
    assert files
    return files


def ask(db: Database, question: str) -> list[Any]:
    """The rows, in no particular order, as text, which tells NaN from NULL and has no microscopic differences."""
    return sorted(map(repr, db.execute(question).fetchall()))


def flip(path: Path, random_: random.Random) -> str:
    """Change one bit, or cut the file, somewhere."""
    whole = bytearray(path.read_bytes())
    if random_.random() < 0.2:
        size = random_.randrange(len(whole))
        path.write_bytes(whole[:size])
        return f"{path.name} cut to {size} of {len(whole)} bytes"
    place, bit = random_.randrange(len(whole)), random_.randrange(8)
    whole[place] ^= 1 << bit
    path.write_bytes(whole)
    return f"{path.name}: bit {bit} of byte {place} of {len(whole)}"


def survey(path: Path, questions: Sequence[str], **options: Any) -> Iterator[tuple[str, list[Any] | SnapdbError]]:
    """The answer to every question, or the error; anything else that is raised fails the test."""
    try:
        db = snapdb.connect(path, **options)
    except SnapdbError as error:
        yield "connect", error
        return
    with db:
        for question in questions:
            try:
                yield question, ask(db, question)
            except SnapdbError as error:
                yield question, error


def check_damage(path: Path, answers: dict[str, list[Any]], kind: str, named: Sequence[str], what: str) -> None:
    """The damage is found by verification and by CHECK DATABASE, by name, and nothing answers wrongly before."""
    for question, found in survey(path, QUESTIONS, verify=True):
        if isinstance(found, SnapdbError):
            assert any(name in found.message for name in named), f"{what}: {question}: {found}"
            break
        assert found == answers[question], f"{what}: {question} answers otherwise though the database was verified"
    for question, found in survey(path, QUESTIONS):
        assert isinstance(found, SnapdbError) or question in answers, what
    try:
        with snapdb.connect(path) as db:
            problems = [row[1] for row in db.execute("CHECK DATABASE").fetchall()]
    except SnapdbError as error:
        problems = [error.message]
    assert any(name in problem for problem in problems for name in named), f"{what}: CHECK DATABASE found {problems}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named(
    kind: str, made: Path, answers: dict[str, list[Any]], copy: Callable[[], Path]
) -> None:
    random_ = random.Random(f"damage {kind}")
    files = published(made, kind)
    for file in random_.sample(files, min(4 * TIMES, len(files))):
        path = copy()
        what = flip(path / file, random_)
        # A manifest that was damaged may name files that never were: then those are missing.
        named = [file.name] if kind != "manifests" else [file.name, f"{file.parent}/"]
        check_damage(path, answers, kind, named, f"{file.parent}/{what}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_file_is_named(kind: str, made: Path, answers: dict[str, list[Any]], copy: Callable[[], Path]) -> None:
    files = published(made, kind)
    file = random.Random(f"lost {kind}").choice(files)
    path = copy()
    (path / file).unlink()
    check_damage(path, answers, kind, [file.name], f"{file} is gone")


def test_a_damaged_catalog_is_refused_or_changes_nothing(
    answers: dict[str, list[Any]], copy: Callable[[], Path]
) -> None:
    random_ = random.Random("damage catalog")
    for _ in range(8 * TIMES):
        path = copy()
        what = flip(path / "catalog.sqlite", random_)
        for question, found in survey(path, QUESTIONS, verify=True):
            if not isinstance(found, SnapdbError):
                assert found == answers[question], f"{what}: {question} answers otherwise though it was verified"
        # Without verification a flipped byte may give a wrong answer, but only SnapdbErrors are raised.
        assert list(survey(path, QUESTIONS)), what


def test_a_damaged_log_of_the_catalog_gives_an_older_version_or_an_error(
    tmp_path: Path, answers: dict[str, list[Any]]
) -> None:
    random_ = random.Random("damage log")
    with snapdb.connect(tmp_path / "live.snapdb") as db:
        history: list[list[Any]] = []
        for version in range(1, 9):
            db.execute(f"CREATE TABLE t{version} AS SELECT {version} AS a")
            history.append(ask(db, "SHOW VERSIONS"))
        assert (db.path / "catalog.sqlite-wal").stat().st_size
        for _ in range(8 * TIMES):
            path = tmp_path / "x.snapdb"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(db.path, path)
            what = flip(path / "catalog.sqlite-wal", random_)
            (path / "catalog.sqlite-shm").unlink(missing_ok=True)
            try:
                with snapdb.connect(path, verify=True) as other:
                    versions = ask(other, "SHOW VERSIONS")
                    assert versions in [[], *history], what
                    for i in range(1, len(versions) + 1):
                        assert ask(other, f"SELECT * FROM t{i}") == [f"({i},)"], what
            except SnapdbError:
                continue


SECRET = "the secret of the neighbour"


@pytest.fixture
def outside(tmp_path: Path, made: Path) -> Iterator[Path]:
    """Files beside the database that must not be read, and must still be there in the end."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    columns = {"word": pa.array([SECRET]), "n": pa.array([1], pa.decimal128(38)), "extra": pa.array([1], pa.int32())}
    pq.write_table(pa.table(columns), folder / "secret.parquet")
    shutil.copytree(next((made / "snapshots").iterdir()), folder / "snapshot")
    before = contents(folder)
    yield folder
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def use(path: Path, what: str) -> None:
    """Everything that can be done with a database raises nothing but SnapdbErrors, and tells no secret."""
    for options in ({"verify": True, "read_only": True}, {}):
        try:
            db = snapdb.connect(path, **options)
        except SnapdbError:
            continue
        with db:
            for statement in (*QUESTIONS, *UPKEEP, "INSERT INTO plain (word, n) VALUES ('new', 1)"):
                try:
                    found = repr(db.execute(statement).fetchall())
                except SnapdbError as error:
                    found = str(error)
                except Exception as error:
                    raise AssertionError(f"{what}: {statement}: {type(error).__name__}: {error}") from error
                assert SECRET not in found, f"{what}: {statement}"


def test_a_spoiled_catalog_raises_only_errors_of_snapdb_and_touches_nothing_outside(
    copy: Callable[[], Path], outside: Path
) -> None:
    random_ = random.Random("spoil")
    for _ in range(10 * TIMES):
        path = copy()
        use(path, spoil(path, random_, outside))


def test_a_spoiled_manifest_raises_only_errors_of_snapdb_and_touches_nothing_outside(
    made: Path, copy: Callable[[], Path], outside: Path
) -> None:
    random_ = random.Random("manifests")
    manifests = sorted(p.relative_to(made) for p in made.rglob("manifest.json"))
    for _ in range(10 * TIMES):
        path, file = copy(), random_.choice(manifests)
        text = hostile(random_, (path / file).read_text(), outside)
        (path / file).write_text(str(text))
        use(path, f"{file} is {str(text)[:300]}")


@pytest.mark.parametrize("name", ["../outside/secret.parquet", "/etc/hostname", "tables/../../outside/secret.parquet"])
@pytest.mark.parametrize("table", ["segments", "artefacts", "snapshots", "garbage"])
def test_a_path_that_leads_out_is_refused_and_nothing_there_is_removed(
    table: str, name: str, copy: Callable[[], Path], outside: Path
) -> None:
    path = copy()
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        if table == "garbage":
            connection.execute("INSERT INTO garbage VALUES (?, 0)", (name,))
        elif table == "segments":
            size = (outside / "secret.parquet").stat().st_size
            connection.execute(
                "UPDATE segments SET path = ?, bytes = ? WHERE id = (SELECT max(id) FROM segments "
                "WHERE kind = 'rows' AND table_id = 3)",
                (name, size),
            )
        else:
            connection.execute(f"UPDATE {table} SET path = ? WHERE rowid = (SELECT min(rowid) FROM {table})", (name,))
        connection.commit()
    with refused("damaged-file"), snapdb.connect(path, verify=True) as db:
        db.execute("VACUUM RETAIN INTERVAL '0 seconds'")  # what is only garbage is looked at by nobody else
    use(path, f"{table} names {name}")


def test_a_manifest_that_leads_out_is_refused_by_every_sample(
    made: Path, copy: Callable[[], Path], tmp_path: Path
) -> None:
    """Even where everything there is as it should be: it is not ours."""
    for part in ("features", "topology"):
        path = copy()
        with snapdb.connect(path) as db:
            (snapshot,) = (
                m.parent
                for m in path.glob("snapshots/*/manifest.json")
                if "rows-" not in m.read_text() and "ends-" not in m.read_text()
            )
            assert db.execute(SAMPLES[0]).fetchall()
        manifest = json.loads((snapshot / "manifest.json").read_text())
        element = manifest["layout"]["edges"][0]
        shutil.copytree(path / element[part], tmp_path / part)
        element[part] = f"../{part}"
        (snapshot / "manifest.json").write_text(json.dumps(manifest))
        with snapdb.connect(path) as db, pytest.raises(snapdb.CorruptError):
            db.execute(SAMPLES[0]).fetchall()


def test_a_definition_that_leads_out_is_refused_by_every_sample(copy: Callable[[], Path], tmp_path: Path) -> None:
    path = copy()
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        ((definition,),) = connection.execute("SELECT definition FROM snapshots WHERE name = 'whole'").fetchall()
        shutil.copytree(path / json.loads(definition)["path"], tmp_path / "elsewhere")
        changed = json.dumps({**json.loads(definition), "path": "../elsewhere"})
        connection.execute("UPDATE snapshots SET definition = ? WHERE name = 'whole'", (changed,))
        connection.commit()
    with snapdb.connect(path) as db, pytest.raises(snapdb.CorruptError):
        db.execute(SAMPLES[0]).fetchall()
