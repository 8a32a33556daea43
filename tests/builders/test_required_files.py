"""What is never read is never required: files that a statement does not name may be missing."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import snapdb
from tests.support.refusals import refused
from tests.support.thoroughness import some

SHOP = """
CREATE TABLE person AS SELECT range AS id, range % 3 AS y FROM range(20);
CREATE TABLE town AS SELECT 'T' || range AS name FROM range(4);
CREATE TABLE knows AS SELECT range AS a, (range * 7 + 1) % 20 AS b, range AS t FROM range(20);
CREATE TABLE lives AS SELECT range AS who, 'T' || range % 4 AS town, range AS t FROM range(20);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id), town KEY (name)) EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (t),
  lives SOURCE KEY (who) REFERENCES person DESTINATION KEY (town) REFERENCES town EVENT TIME (t) ON DANGLING SKIP);
CREATE SNAPSHOT s OF g;
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(SHOP)
        yield db


def remove_table(db: snapdb.Database, name: str) -> Path:
    """Remove the only file of a table."""
    with closing(sqlite3.connect(f"file:{db.path}/catalog.sqlite?mode=ro", uri=True)) as connection:
        sql = "SELECT path FROM segments s JOIN tables t ON t.id = s.table_id WHERE t.name = ?"
        ((found,),) = connection.execute(sql, (name,)).fetchall()
    path = db.path / found
    path.unlink()
    return path


def test_a_query_asks_for_the_files_of_the_elements_that_it_names(shop: snapdb.Database, tmp_path: Path) -> None:
    gone = remove_table(shop, "knows")
    assert shop.execute("SELECT count(id), max(y) FROM s.person").fetchone() == (20, 2)
    assert shop.execute("SELECT count(*) FROM s.lives JOIN s.person p ON who = p.id WHERE t < 9").fetchone() == (9,)
    shop.execute(f"COPY s.town TO '{tmp_path}/town.csv'")
    for query in ("SELECT max(t) FROM s.knows", "SELECT max(t) FROM knows", f"COPY s.knows TO '{tmp_path}/k.csv'"):
        with refused("damaged-table", str(gone), recorded=False):
            shop.execute(query)


def test_an_element_asks_for_its_ends_where_they_decide(shop: snapdb.Database) -> None:
    gone = remove_table(shop, "town")
    assert shop.execute("SELECT max(t) FROM s.knows").fetchone() == (19,)
    with refused("damaged-table", str(gone), recorded=False):  # a dangling edge is left out
        shop.execute("SELECT max(t) FROM s.lives")


GRAPH = """
CREATE TABLE person AS SELECT range AS id, [range % 7, 1]::FLOAT[2] AS emb, range % 3 AS label FROM range(60);
CREATE TABLE town AS SELECT 'T' || range AS name, [range, 1]::FLOAT[2] AS emb FROM range(9);
CREATE TABLE knows AS SELECT range % 60 AS a, (range * 7 + 1) % 60 AS b, range AS t, range % 5 + 1 AS w,
  [range, 1]::FLOAT[2] AS f FROM range(400);
CREATE TABLE lives AS SELECT range AS who, 'T' || range % 9 AS town, range AS t FROM range(60);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) FEATURES (emb AS x) TARGET (label AS y), town KEY (name) FEATURES (emb AS x))
  EDGE TABLES (
  knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person
    EVENT TIME (t) WEIGHT (w) FEATURES (f AS edge_attr),
  lives SOURCE KEY (who) REFERENCES person DESTINATION KEY (town) REFERENCES town EVENT TIME (t));
CREATE SNAPSHOT s OF g;
"""
LATER = "INSERT INTO knows VALUES (1, 2, 900, 3, [4, 5]), (3, 1, 901, 2, [6, 7]); REFRESH SNAPSHOT s;"
SEEDS = (
    "SAMPLE FROM s SEEDS (SELECT id{} FROM person WHERE id < 40) AS person FANOUT (knows => [4, 3]) {} "
    "BATCH 16 REPEATABLE (7)"
)
TYPES = ["", "person", "town", "knows", "lives"]
"""By the number of their tables."""
ALWAYS = {
    "features/person/feature-x.npy",
    "features/person/target.npy",
    "features/person/manifest.json",
    "ids/person",
    "snapshots/manifest.json",
    "tables/person",
    "topology/knows/indices.npy",
    "topology/knows/indptr.npy",
    "topology/knows/manifest.json",
}
TIME, WEIGHT, E_ID = (f"topology/knows/{name}.npy" for name in ("time", "weight", "edge_id"))


@pytest.fixture(scope="module")
def town_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one snapshot; tests move files of it away, and back."""
    path = tmp_path_factory.mktemp("town") / "db"
    with snapdb.connect(path) as db:
        db.script(GRAPH)
    return path


def batches(path: Path, sample: str) -> list[Any]:
    """What every batch of an epoch holds that is read without being asked for."""
    with snapdb.connect(path) as db, db.stream(sample) as stream:
        return [
            [v.tolist() for v in (b.n_id["person"], *b.edge_index.values(), b.features["person"]["x"], b.y)]
            for b in stream
        ]


@contextmanager
def away(path: Path) -> Iterator[None]:
    """Without a file or directory during the block."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


def label(file: Path, path: Path) -> str:
    """A file of a database, by the names of its kind and its type."""
    kind, *parts = file.relative_to(path).parts
    if kind == "tables":
        with closing(sqlite3.connect(f"file:{path}/catalog.sqlite?mode=ro", uri=True)) as connection:
            sql = "SELECT t.name FROM segments s JOIN tables t ON t.id = s.table_id WHERE s.path = ?"
            return f"tables/{connection.execute(sql, (str(file.relative_to(path)),)).fetchone()[0]}"
    if kind == "snapshots":
        return f"{kind}/{parts[-1]}"
    return f"{kind}/{TYPES[int(parts[0])]}" + ("" if kind == "ids" else f"/{parts[-1]}")


def needed(path: Path, sample: str) -> set[str]:
    """The files without which a stream raises a CorruptError that names the file; others change nothing."""
    whole, found = batches(path, sample), {}
    for file in [p for p in path.rglob("*") if p.suffix in (".npy", ".parquet", ".json")]:
        with away(file):
            try:
                assert batches(path, sample) == whole, file
            except snapdb.CorruptError as error:
                found[file] = error.message
    assert all(str(file) in message for file, message in found.items())
    return {label(file, path) for file in found}


@pytest.mark.parametrize(
    ("time", "clauses", "more"),
    some(
        [
            ("", "WEIGHT BY w", {WEIGHT, E_ID}),
            (", 500 AS seed_time", "TEMPORAL < SEED_TIME", {TIME}),
            ("", "WITH torch", set()),
            ("", "", set()),
            (", 500 AS seed_time", "TEMPORAL < SEED_TIME WITH torch", {TIME}),
        ],
        3,
    ),
)
def test_a_stream_asks_for_the_files_that_its_batches_are_read_from(
    town_graph: Path, time: str, clauses: str, more: set[str]
) -> None:
    assert needed(town_graph, SEEDS.format(time, clauses)) == ALWAYS | more


def test_a_stream_over_patches_asks_for_the_files_that_its_batches_are_read_from(town_graph: Path) -> None:
    path = Path(shutil.copytree(town_graph, town_graph.with_name("patched")))
    with snapdb.connect(path) as db:
        db.script(LATER)
        layout = db.execute("SELECT count(*) FROM s.knows").fetchone()
    assert layout == (402,)
    patch = {"topology/knows/nodes.npy", "topology/knows/kept.npy"}
    found = needed(path, SEEDS.format("", ""))
    assert found - patch == ALWAYS
    assert not found & {TIME, WEIGHT, E_ID}


def test_columns_that_are_asked_for_later_name_the_file_that_is_missing(town_graph: Path) -> None:
    def only(name: str) -> Path:
        (found,) = (p for p in town_graph.rglob(name) if "/3/" in str(p))
        return found

    key = ("person", "knows", "person")
    with snapdb.connect(town_graph) as db, away(only("time.npy")), away(only("feature-edge_attr.npy")):
        with db.stream(SEEDS.format("", "")) as stream:
            batch = next(iter(stream))
        assert len(batch.e_id[key]) == len(batch.edge_weight[key])
        for each in (batch, pickle.loads(pickle.dumps(batch))):
            assert each.e_id[key].tolist() == batch.e_id[key].tolist()
            with refused("damaged-snapshot", str(only("time.npy.aside").with_suffix(""))):
                each.edge_time[key]
            with refused("damaged-snapshot", "edge_attr.npy"):
                each.edge_features[key]["edge_attr"]


def test_a_file_of_another_size_is_named_when_it_is_read(town_graph: Path) -> None:
    path = Path(shutil.copytree(town_graph, town_graph.with_name("cut")))
    sample = SEEDS.format("", "")
    whole = batches(path, sample)
    for name in ("topology/3/*/weight.npy", "topology/3/*/indices.npy"):
        (file,) = path.glob(name)
        file.write_bytes(file.read_bytes()[:-8])
        if name.endswith("weight.npy"):
            assert batches(path, sample) == whole
            with refused("damaged-snapshot", str(file)):
                batches(path, SEEDS.format("", "WEIGHT BY w"))
        else:
            with refused("damaged-snapshot", str(file)):
                batches(path, sample)


def test_directories_of_types_that_are_never_walked_may_be_missing(town_graph: Path) -> None:
    whole = batches(town_graph, SEEDS.format("", ""))
    directories = [
        f"{kind}/{number}" for kind, number in (("topology", 4), ("features", 2), ("features", 3), ("ids", 2))
    ]
    for name in directories:
        with away(town_graph / name):
            assert batches(town_graph, SEEDS.format("", "")) == whole
