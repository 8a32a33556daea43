"""Codes of a text target and widths of features: a pure function of the graph's declaration and the version.

A random history of statements over one graph; a model in plain Python says what every snapshot must deliver.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdb
from snapdb import Database
from snapdb.loading import Batch
from snapdb.storage.arrays import feature_files
from tests.support.refusals import refused
from tests.support.thoroughness import SOAK

STEPS = 1500 if SOAK else 60
"""Random steps of a history, each of one statement or a few; the long form is for `make soak`."""
SEED = int(os.environ.get("SNAPDB_SEED", "7"))

WORDS = ["red", "blue", "green", "azure", "Zinc", "ö", "it's", "", "10", "9", "tan", "pink", "grey", "black"]
DECLARED = ["tan", *reversed(WORDS[:10]), "pink", "grey", "black"]
COLUMNS = "id BIGINT, label VARCHAR, idx INTEGER[], val FLOAT[], prof FLOAT[]"
ELEMENT = "(idx, val) AS bag SPARSE, prof AS prof DEFAULT 0"
SAMPLE = "SEEDS (SELECT id FROM {0}.p) AS p FANOUT (e => [2]) BATCH 100000"


def create_graph(classes: str) -> str:
    return (
        f"CREATE OR REPLACE PROPERTY GRAPH g VERTEX TABLES (p KEY (id) FEATURES ({ELEMENT})"
        f" TARGET (label{classes} AS y))"
        " EDGE TABLES (e SOURCE KEY (a) REFERENCES p DESTINATION KEY (b) REFERENCES p ON DANGLING SKIP)"
    )


def declared() -> str:
    return f" CLASSES ({', '.join(literal(word) for word in DECLARED)})"


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class State:
    """What a snapshot delivers of its vertices, or must."""

    classes: tuple[str, ...]
    bag: int
    prof: int
    y: Mapping[int, int]


@dataclass
class Model:
    """The contract, step by step: at each version the values that are new get the next codes in their order."""

    classes: list[str] = field(default_factory=list)
    bag: int = 0
    then: dict[int, tuple[tuple[str, ...], int, dict[int, tuple[Any, ...]]]] = field(default_factory=dict)
    """By version: the classes, the width, and the rows by id."""

    def commit(self, version: int, rows: dict[int, tuple[Any, ...]], passing: tuple[str, ...] = ()) -> None:
        """A version with these rows; `passing` are labels of rows that the version added and removed."""
        fresh = {label for label, *_ in rows.values() if label is not None} | set(passing)
        self.classes += sorted(fresh - set(self.classes))
        self.bag = max([self.bag, *(1 + max(idx) for _, idx, _ in rows.values() if idx)])
        self.then[version] = (tuple(self.classes), self.bag, rows)

    def state(self, version: int, classes: list[str] | None) -> State:
        """What a snapshot of a version has; `classes` are those that the graph declares."""
        grown, bag, rows = self.then[version]
        names = grown if classes is None else tuple(classes)
        y = {id_: -1 if label is None else names.index(label) for id_, (label, *_) in rows.items()}
        return State(names, bag, next((len(prof) for *_, prof in rows.values() if prof is not None), 0), y)


@dataclass
class History:
    """A database, its model, and the counts of what was done and compared."""

    db: Database
    path: Path
    rng: random.Random
    model: Model = field(default_factory=Model)
    classes: list[str] | None = None
    """Those that the graph declares."""
    snapshots: dict[str, tuple[int, list[str] | None]] = field(default_factory=dict)
    """By name, the version and the declared classes of each."""
    following: set[str] = field(default_factory=set)
    """Snapshots that were made of the head, which REFRESH moves."""
    lineages: list[tuple[dict[str, Any], list[int], list[Any]]] = field(default_factory=list)
    next_id: int = 0
    length: int = 2
    """Of the lists in `prof`."""
    number: int = 0
    statements: int = 0
    compared: dict[str, int] = field(default_factory=dict)

    def run(self, *texts: str) -> None:
        for text in texts:
            self.statements += 1
            self.db.execute(text)

    @property
    def version(self) -> int:
        return int(self.db.execute("SELECT max(version) FROM snapdb.versions").fetchall()[0][0])

    @property
    def rows(self) -> dict[int, tuple[Any, ...]]:
        found = self.db.execute("SELECT id, label, idx, prof FROM p").fetchall()
        return {id_: (label, list(idx), prof) for id_, label, idx, prof in found}

    def changed(self, *texts: str, passing: tuple[str, ...] = ()) -> None:
        """Statements that change p, and the version that they make."""
        before = self.version
        self.run(*texts)
        if (version := self.version) != before:
            self.model.commit(version, self.rows, passing)

    def person(self) -> str:
        """A row of someone new, as SQL."""
        rng, self.next_id = self.rng, self.next_id + 1
        seen = 2 + len(self.model.classes)
        label = None if rng.random() < 0.1 else rng.choice(WORDS[: min(len(WORDS), seen)])
        idx = sorted(rng.sample(range(rng.choice([3, 3, 6, 4 + self.number // 3])), rng.randrange(3)))
        prof = [rng.random()] * self.length if rng.random() < 0.3 else None
        return f"({self.next_id}, {literal(label)}, {idx}, {[1.0] * len(idx)}, {literal(prof)})"

    def compare(self, what: str, name: str) -> None:
        """What a snapshot delivers, exports and says, against the model."""
        version, classes = self.snapshots[name]
        expected = self.model.state(version, classes)
        if not expected.y:
            return
        self.compared[what] = self.compared.get(what, 0) + 1
        with self.db.stream(f"SAMPLE FROM {name} {SAMPLE.format(name)}") as stream:
            batch = stream[0]
        assert delivered(batch) == expected, f"{what}: {name} of version {version} after {self.statements} statements"
        if self.rng.random() < 0.3:
            self.lineages.append((batch.lineage, batch.ids("p").to_pylist(), batch.y.tolist()))

    def export(self, name: str) -> None:
        """The arrays of an export, against the model."""
        version, classes = self.snapshots[name]
        expected = self.model.state(version, classes)
        self.compared["export"] = self.compared.get("export", 0) + 1
        self.run(f"COPY SNAPSHOT {name} TO '{self.path.parent / f'out{self.number}'}' (FORMAT npz)")
        assert exported(self.path.parent / f"out{self.number}") == (expected.classes, expected.bag, expected.y)
        shutil.rmtree(self.path.parent / f"out{self.number}")

    def replay(self) -> None:
        """A batch of long ago, whatever has become of its snapshot."""
        lineage, ids, y = self.rng.choice(self.lineages)
        again = self.db.replay(lineage, 0)
        gone = lineage["snapshot"] not in self.snapshots
        for what in ("replay", *(("replay of what is gone",) if gone else ())):
            self.compared[what] = self.compared.get(what, 0) + 1
        assert (again.ids("p").to_pylist(), again.y.tolist(), again.lineage) == (ids, y, lineage)


def delivered(batch: Batch) -> State:
    names = batch.lineage["classes"]["p"]["names"]
    features = batch.features["p"]
    assert batch.lineage["widths"]["p"] == {"bag": features["bag"].shape[1]}
    y = dict(zip(batch.ids("p").to_pylist()[: batch.batch_size], batch.y.tolist(), strict=True))
    return State(tuple(names), features["bag"].shape[1], features["prof"].shape[1], y)


def exported(folder: Path) -> tuple[tuple[str, ...], int, dict[int, int]]:
    """The classes, the width of `bag` and the codes by id in the folder of an export."""
    (arrays,) = (found for found in map(np.load, folder.rglob("*.npz")) if "ids" in found)
    names = tuple(arrays["y_classes"].tolist()) if "y_classes" in arrays else ()
    return names, int(arrays["bag.shape"][1]), dict(zip(arrays["ids"].tolist(), arrays["y"].tolist(), strict=True))


def start(path: Path, rng: random.Random) -> History:
    history = History(snapdb.connect(path), path, rng)
    history.run(f"CREATE TABLE p ({COLUMNS})", "CREATE TABLE e (a BIGINT, b BIGINT)", create_graph(""))
    history.model.commit(history.version, {})
    history.changed(f"INSERT INTO p VALUES {', '.join(history.person() for _ in range(6))}")
    return history


def step(h: History) -> None:
    """One random step: a change of the data, or of the snapshots, and what must hold after it."""
    rng, h.number = h.rng, h.number + 1
    [kind] = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])
    KINDS[kind][1](h)
    if h.lineages and rng.random() < 0.1:
        h.replay()


def insert(h: History) -> None:
    h.changed(f"INSERT INTO p VALUES {', '.join(h.person() for _ in range(h.rng.randrange(1, 5)))}")


def insert_edges(h: History) -> None:
    h.run(f"INSERT INTO e VALUES ({h.rng.randrange(h.next_id + 1)}, {h.rng.randrange(h.next_id + 1)})")
    h.model.then[h.version] = h.model.then[max(h.model.then)]


def update(h: History) -> None:
    label = h.rng.choice(WORDS[: 2 + len(h.model.classes)])
    h.changed(f"UPDATE p SET label = {literal(label)} WHERE id % 7 = {h.rng.randrange(7)}")


def delete(h: History) -> None:
    h.changed(f"DELETE FROM p WHERE id % 11 = {h.rng.randrange(11)}")


def delete_class(h: History) -> None:
    if h.model.classes:
        h.changed(f"DELETE FROM p WHERE label = {literal(h.rng.choice(h.model.classes))}")


def change_length(h: History) -> None:
    h.changed("DELETE FROM p WHERE prof IS NOT NULL")
    h.length = h.rng.randrange(1, 5)


def transaction(h: History) -> None:
    """A version that adds two kinds of rows, and removes one of them again."""
    kept, gone = h.person(), h.rng.choice(WORDS)
    row = f"({h.next_id + 1}, {literal(gone)}, [], [], NULL)"
    h.next_id += 1
    texts = ("BEGIN", f"INSERT INTO p VALUES {kept}, {row}", f"DELETE FROM p WHERE id = {h.next_id}", "COMMIT")
    h.changed(*texts, passing=(gone,))


def alter(h: History) -> None:
    h.changed(f"ALTER TABLE p ADD COLUMN extra_{h.number} INTEGER DEFAULT {h.number}")
    h.changed(f"ALTER TABLE p DROP COLUMN extra_{h.number}")


def replace_table(h: History) -> None:
    """Another table of the same name: its history begins here."""
    h.model.classes, h.model.bag = [], 0
    h.changed("CREATE OR REPLACE TABLE p AS SELECT * FROM p WHERE id % 3 > 0")


def replace_graph(h: History) -> None:
    h.classes = None if h.classes else DECLARED
    h.run(create_graph(declared() if h.classes else ""))


def tag(h: History) -> None:
    h.run(f"CREATE TAG t{h.number} AT (VERSION => {h.rng.choice(list(h.model.then))})")


def create(h: History) -> None:
    h.run(f"CREATE SNAPSHOT s{h.number} OF g")
    h.snapshots[f"s{h.number}"] = (h.version, h.classes)
    h.following.add(f"s{h.number}")
    h.compare("new", f"s{h.number}")


def create_at(h: History) -> None:
    version = h.rng.choice(list(h.model.then))
    at = f"VERSION => {version}"
    if h.rng.random() < 0.3:
        h.run(f"CREATE TAG at{h.number} AT ({at})")
        at = f"TAG => 'at{h.number}'"
    h.run(f"CREATE SNAPSHOT s{h.number} OF g AT ({at})")
    h.snapshots[f"s{h.number}"] = (version, h.classes)
    h.compare("at a version", f"s{h.number}")


def refresh(h: History, how: str = "") -> None:
    """A snapshot of the head, refreshed: as one that is new, and one that is built anew."""
    if h.following & h.snapshots.keys():
        name = h.rng.choice(sorted(h.following & h.snapshots.keys()))
        h.run(f"REFRESH SNAPSHOT {name}{how}")
        h.snapshots[name] = (h.version, h.snapshots[name][1])
        h.compare(f"refresh{how.lower()}", name)


def drop(h: History) -> None:
    for name in h.rng.sample(sorted(h.snapshots), min(len(h.snapshots), h.rng.choice([1, 1, 2, 99]))):
        h.run(f"DROP SNAPSHOT {name}")
        del h.snapshots[name]


def vacuum(h: History) -> None:
    h.run("VACUUM RETAIN INTERVAL '0 seconds'")


def look_again(h: History) -> None:
    """Any snapshot that stands is what it was."""
    if h.snapshots:
        h.compare("again", h.rng.choice(sorted(h.snapshots)))


def export(h: History) -> None:
    if h.snapshots:
        h.export(h.rng.choice(sorted(h.snapshots)))


KINDS = {
    "insert": (6, insert),
    "insert edges": (2, insert_edges),
    "update": (2, update),
    "delete": (2, delete),
    "delete a class": (2, delete_class),
    "change the length of lists": (1, change_length),
    "transaction": (1, transaction),
    "alter": (0.5, alter),
    "replace the table": (0.2, replace_table),
    "replace the graph": (0.7, replace_graph),
    "tag": (0.5, tag),
    "create": (3, create),
    "create at a version": (4, create_at),
    "refresh": (6, refresh),
    "refresh full": (2, lambda h: refresh(h, " FULL")),
    "drop": (3, drop),
    "vacuum": (2, vacuum),
    "look again": (1, look_again),
    "export": (1, export),
}


def history(path: Path, seed: int, steps: int) -> History:
    """A random history that was run and compared."""
    done = start(path, random.Random(seed))
    with done.db:
        for _ in range(steps):
            step(done)
        for name in done.snapshots:
            done.compare("again", name)
        assert done.db.execute("CHECK DATABASE").fetchall() == []
    return done


def test_codes_and_widths_follow_from_the_declaration_and_the_version_alone(tmp_path: Path) -> None:
    done = history(tmp_path / "db", SEED, STEPS)
    print(f"{done.statements:,} statements, {done.compared}, 0 differences")
    assert {"new", "at a version", "refresh", "refresh full", "replay"} <= done.compared.keys()


PEOPLE = """
CREATE TABLE p (id BIGINT, label VARCHAR, idx INTEGER[], val FLOAT[], prof FLOAT[]);
INSERT INTO p VALUES (0, 'green', [1], [1], NULL), (1, 'red', [2], [1], [5, 5]);
INSERT INTO p VALUES (2, 'blue', [1], [1], NULL), (3, 'teal', [], [], NULL);
CREATE TABLE e AS SELECT 0 AS a, 1 AS b;
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with snapdb.connect(tmp_path / "db") as db:
        db.script(PEOPLE)
        db.execute(create_graph(""))
        yield db


def batch_of(db: Database, name: str) -> Batch:
    with db.stream(f"SAMPLE FROM {name} {SAMPLE.format(name)}") as stream:
        return stream[0]


def state_of(db: Database, name: str) -> State:
    return delivered(batch_of(db, name))


@pytest.mark.parametrize("later", [False, True])
def test_a_snapshot_of_an_old_version_does_not_see_later_classes_and_indices(db: Database, later: bool) -> None:
    (version,) = db.execute("SELECT max(version) FROM snapdb.versions").fetchall()[0]
    db.execute("INSERT INTO p VALUES (4, 'amber', [9], [1], NULL)")
    if later:
        db.execute("CREATE SNAPSHOT later OF g")
    db.execute(f"CREATE SNAPSHOT old OF g AT (VERSION => {version})")
    assert state_of(db, "old") == State(("green", "red", "blue", "teal"), 3, 2, {0: 0, 1: 1, 2: 2, 3: 3})


def test_refresh_full_and_new_agree_after_classes_and_lists_went_and_came(db: Database) -> None:
    db.execute("CREATE SNAPSHOT s OF g")
    db.script(
        "DELETE FROM p WHERE label = 'green'; UPDATE p SET prof = NULL; INSERT INTO p VALUES (7, 'a', [8], [1], NULL)"
    )
    db.execute("REFRESH SNAPSHOT s")
    expected = State(("green", "red", "blue", "teal", "a"), 9, 0, {1: 1, 2: 2, 3: 3, 7: 4})
    assert state_of(db, "s") == expected
    db.execute("CREATE SNAPSHOT new OF g")
    db.execute("REFRESH SNAPSHOT s FULL")
    assert state_of(db, "new") == state_of(db, "s") == expected


def test_a_refresh_reads_only_the_rows_that_came(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    firsts = feature_files._AddedRows.firsts

    def counted(added: feature_files._AddedRows, session: Any, value: str, start: int) -> Any:
        read.append((start, added.table.next_row))
        return firsts(added, session, value, start)

    db.script("INSERT INTO p SELECT 100 + range, 'red', [], [], NULL FROM range(200); CREATE SNAPSHOT s OF g")
    monkeypatch.setattr(feature_files._AddedRows, "firsts", counted)
    db.script("INSERT INTO p VALUES (7, 'new', [8], [1], NULL), (8, 'older', [1], [1], NULL)")
    db.execute("REFRESH SNAPSHOT s")
    assert read == [(204, 206), (204, 206)]
    assert state_of(db, "s").classes == ("green", "red", "blue", "teal", "new", "older")


def test_exports_and_batches_of_a_refreshed_snapshot_have_the_same_classes(db: Database, tmp_path: Path) -> None:
    db.script("CREATE SNAPSHOT s OF g; DELETE FROM p WHERE id = 2; INSERT INTO p VALUES (7, 'azure', [4], [1], NULL)")
    db.execute("REFRESH SNAPSHOT s")
    db.execute(f"COPY SNAPSHOT s TO '{tmp_path / 'out'}' (FORMAT npz)")
    state = state_of(db, "s")
    assert state.classes == ("green", "red", "blue", "teal", "azure")
    assert exported(tmp_path / "out") == (state.classes, state.bag, state.y)


def test_a_replay_after_drop_and_vacuum_gives_the_same_codes(db: Database) -> None:
    db.execute("CREATE SNAPSHOT s OF g")
    batch = batch_of(db, "s")
    db.script("DELETE FROM p WHERE label = 'green'; INSERT INTO p VALUES (7, 'a', [8], [1], NULL)")
    db.script("REFRESH SNAPSHOT s; DROP SNAPSHOT s; VACUUM RETAIN INTERVAL '0 seconds'")
    again = db.replay(batch.lineage, 0)
    assert (again.y.tolist(), again.lineage) == (batch.y.tolist(), batch.lineage)


def test_a_replay_whose_codes_would_be_others_is_an_error(db: Database) -> None:
    db.execute("CREATE SNAPSHOT s OF g")
    batch = batch_of(db, "s")
    other = batch.lineage | {"classes": {"p": {"count": 2, "digest": "x", "names": ["b", "a"]}}}
    with refused("other-codes") as error:
        db.replay(other, 0)
    assert error.value.code == "other-codes"
    wider = batch.lineage | {"widths": {"p": {"bag": 30}}}
    with refused("other-codes"):
        db.replay(wider, 0)


def test_a_lineage_without_classes_replays_while_its_snapshot_stands(db: Database) -> None:
    db.execute("CREATE SNAPSHOT s OF g")
    batch = batch_of(db, "s")
    old = {name: value for name, value in batch.lineage.items() if name not in ("classes", "widths")}
    assert db.replay(old, 0).y.tolist() == batch.y.tolist()
    db.execute("DROP SNAPSHOT s")
    with refused("other-codes") as error:
        db.replay(old, 0)
    assert error.value.code == "other-codes"
    assert db.replay(batch.lineage, 0).y.tolist() == batch.y.tolist()


def test_a_lineage_of_many_classes_holds_their_digest(db: Database) -> None:
    db.script("INSERT INTO p SELECT 100 + range, 'c' || range, [], [], NULL FROM range(1200); CREATE SNAPSHOT s OF g")
    batch = batch_of(db, "s")
    assert {name: value for name, value in batch.lineage["classes"]["p"].items() if name != "digest"} == {"count": 1204}
    db.script("DROP SNAPSHOT s; VACUUM RETAIN INTERVAL '0 seconds'")
    assert db.replay(batch.lineage, 0).y.tolist() == batch.y.tolist()


def test_loaders_of_pyg_give_the_codes_of_batches(db: Database) -> None:
    pyg = pytest.importorskip("snapdb.pyg", reason="torch_geometric is not installed")
    db.script("CREATE SNAPSHOT s OF g; DELETE FROM p WHERE id = 2; INSERT INTO p VALUES (7, 'azure', [4], [1], NULL)")
    db.execute("REFRESH SNAPSHOT s")
    graph = pyg.open(db, "s")
    batch = next(iter(pyg.loader(graph, num_neighbors=[1], input_nodes=graph.there("p"), batch_size=100)))
    ids = graph.ids(batch.n_id, "p").to_pylist()
    assert dict(zip(ids, batch.y.tolist(), strict=True)) == state_of(db, "s").y
