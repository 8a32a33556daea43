"""COPY (SAMPLE …) TO writes the batches of a stream, and `read_batches` gives them back byte for byte."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import safetensors.torch
import torch
from torch.utils.data import DataLoader

import snapdb
from snapdb import Batch, Database
from tests.support.crashing import Crash, CrashingDisk
from tests.support.inside.loading import CONTAINERS, _Flat, flatten, read, write
from tests.support.inside.storage import Disk, FolderWriter, _seal, read_folder
from tests.support.refusals import refused

FORMATS = tuple(CONTAINERS)
SETUP = """
CREATE TABLE person AS SELECT 'p/' || i AS name, i % 3 AS team, i / 7 AS a, -i AS b, i % 2 = 0 AS flag,
  CASE WHEN i % 3 = 0 THEN [] ELSE [i % 5, 7] END AS words, CASE WHEN i % 3 = 0 THEN [] ELSE [1.5, i] END AS counts,
  i % 4 AS label FROM range(20) t(i);
CREATE TABLE film AS SELECT uuid '00000000-0000-0000-0000-000000000000' AS code, 2 AS part, 0.5 AS score
  UNION ALL SELECT uuid '0f8fad5b-d9cb-469f-a165-70867728950e', i, i / 3 FROM range(8) t(i);
CREATE TABLE knows AS SELECT 'p/' || (i * 7 % 20) AS a, 'p/' || (i * 3 % 20) AS b, i AS at, 1 + i % 4 AS w,
  [i, -i]::FLOAT[2] AS tone FROM range(60) t(i);
CREATE TABLE "saw/100%" AS SELECT 'p/' || (i % 20) AS p, uuid '0f8fad5b-d9cb-469f-a165-70867728950e' AS code,
  i % 8 AS part FROM range(40) t(i);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (
    person KEY (name) FEATURES ((a, b) AS x, a AS half TYPE float16, flag AS flag TYPE bool, b AS small TYPE int8,
      (words, counts) AS bag SPARSE [13]) TARGET (label AS y),
    film KEY (code, part) FEATURES (score AS x))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w)
      FEATURES (tone AS edge_attr),
    "saw/100%" SOURCE KEY (p) REFERENCES person DESTINATION KEY (code, part) REFERENCES film);
CREATE SNAPSHOT s OF g;
"""
PLAIN = """SAMPLE FROM s SEEDS (SELECT name FROM person) AS person
  FANOUT (knows BOTH => [3, 2], "saw/100%" BOTH => [2, 1]) BATCH 8"""
SAMPLES = {
    "types": PLAIN,
    "weighted": "SAMPLE FROM s SEEDS (SELECT name FROM person) AS person FANOUT (knows => [3, 2]) METHOD PRIORITY "
    "WEIGHT BY knows.w LAYOUT BLOCKS BATCH 8",
    "temporal": "SAMPLE FROM s SEEDS (SELECT name, 50 AS seed_time, a AS weight FROM person) AS person "
    "FANOUT (knows => [3, 2]) TEMPORAL < SEED_TIME WITHIN 30 BATCH 8 SUBSET 50 PERCENT PER EPOCH",
    "links": "SAMPLE FROM s SEEDS EDGES knows (SELECT e_id FROM knows) FANOUT (knows => [3]) "
    "NEGATIVES 2 PER POSITIVE EXCLUDE KNOWN BATCH 25",
}
"""Samplers that together fill every field of a batch."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with snapdb.connect(tmp_path_factory.mktemp("world") / "w.snapdb") as database:
        database.script(SETUP)
        yield database


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, where nothing half-written stays."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    yield tmp_path / "out"
    assert [name for name in os.listdir() if name.startswith(".")] == []


def copied(db: Database, sample: str, path: str = "o", options: str = "") -> snapdb.BatchFolder:
    db.execute(f"COPY ({sample}) TO '{path}'{f' ({options})' if options else ''}")
    return snapdb.read_batches(path)


def same(found: Any, wanted: Any) -> bool:
    """Whether two fields of batches are the same, bytes, types and order of keys included."""
    if isinstance(wanted, torch.Tensor):
        if wanted.layout == torch.sparse_csr:
            parts = ("crow_indices", "col_indices", "values")
            return found.shape == wanted.shape and all(same(getattr(found, p)(), getattr(wanted, p)()) for p in parts)
        return bool((found.dtype, found.shape) == (wanted.dtype, wanted.shape)) and (
            found.numpy().tobytes() == wanted.numpy().tobytes()
        )
    if isinstance(wanted, pa.Array):
        return bool(found.type == wanted.type and found.equals(wanted))
    if isinstance(wanted, Mapping):
        return list(found) == list(wanted) and all(same(found[key], wanted[key]) for key in wanted)
    return type(found) is type(wanted) and bool(found == wanted)


def differing(found: Batch, wanted: Batch) -> list[str]:
    return [f.name for f in fields(Batch) if not same(getattr(found, f.name), getattr(wanted, f.name))]


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_format_gives_the_batches_of_the_stream(world: Database, sample: str) -> None:
    with world.stream(SAMPLES[sample]) as stream:
        wanted = [batch for _ in range(2) for batch in stream]
    for format_ in FORMATS:
        found = copied(world, SAMPLES[sample], format_, f"FORMAT {format_}, EPOCHS 2")
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert differing(ours, theirs) == []
            assert repr(ours) == repr(theirs)


def test_what_comes_back_can_do_what_a_batch_can(world: Database) -> None:
    found = copied(world, SAMPLES["temporal"], options="FORMAT npz")[0]
    assert set(found.audit().values()) == {0}
    assert found.to("cpu").x["person"].shape == (len(found.ids("person")), 2)
    assert found.only.seed_time.tolist() == [50] * found.batch_size
    found.x["person"][0] = 1  # it is the reader's own
    assert found.to_arrow()["person"].column("x").to_pylist()[1:] == found.x["person"].tolist()[1:]
    assert len(found.to_blocks()) == 2


def test_ids_of_every_type_come_back_in_every_format() -> None:
    arrays = [
        pa.array(["a", None, "ü"]),
        pa.array([b"", b"\0"]),
        pa.array([1, None]),
        pa.array([2**63], pa.uint64()),
        pa.array([True]),
        pa.array([{"a": 1, "b": "x"}]),
        pa.array([], pa.string()),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.decimal128(38, 0)),
        pa.array([1], pa.date32()),
        pa.array([float("nan")]),
        pa.array([b"x" * 16], pa.uuid()),
    ]
    for format_ in FORMATS:
        for ids in arrays:
            flat = _Flat({"user_ids/a": ids, "half": np.full((2, 0, 3), 1, np.float16)}, {"keys": {}})
            file = io.BytesIO()
            write(format_, flat, file)
            found = read(format_, file.getvalue()).values
            assert found["user_ids/a"].type == ids.type
            assert pa.table([found["user_ids/a"]], ["a"]).equals(pa.table([ids], ["a"])) or ids.type == pa.float64()
            assert (found["half"].shape, found["half"].dtype) == ((2, 0, 3), np.float16)


def test_types_whose_names_look_like_files_are_told_apart() -> None:
    with snapdb.connect() as db:
        for place, name in enumerate(("a", "a.npy", "a.npy.npy")):
            db.execute(f'CREATE TABLE "{name}" AS SELECT {10 * place} + range AS id FROM range(6)')
        db.script("""
            CREATE TABLE e AS SELECT range AS a, 10 + range AS b, 20 + range AS c FROM range(6);
            CREATE PROPERTY GRAPH g VERTEX TABLES (a KEY (id), "a.npy" KEY (id), "a.npy.npy" KEY (id)) EDGE TABLES (
              e SOURCE KEY (a) REFERENCES a DESTINATION KEY (b) REFERENCES "a.npy",
              e AS f SOURCE KEY (c) REFERENCES "a.npy.npy" DESTINATION KEY (b) REFERENCES "a.npy");
            CREATE SNAPSHOT s OF g;
        """)
        sample = 'SAMPLE FROM s SEEDS (SELECT id FROM "a.npy") AS "a.npy" FANOUT (DEFAULT => [2]) BATCH 4'
        with db.stream(sample) as stream:
            batches = list(stream)
        for format_ in FORMATS:
            found = copied(db, sample, format_, f"FORMAT {format_}")
            assert [differing(*pair) for pair in zip(found, batches, strict=True)] == [[], []]


def test_two_exports_have_the_same_bytes(world: Database) -> None:
    for format_ in FORMATS:
        first, second = (copied(world, PLAIN, f"{format_}{i}", f"FORMAT {format_}") for i in range(2))
        assert first.manifest == second.manifest


def test_epochs_are_those_of_the_option_or_of_the_sampler(world: Database) -> None:
    assert copied(world, PLAIN).epochs == [0]
    found = copied(world, f"{PLAIN} EPOCHS 2", "two")
    assert (found.epochs, len(found), [b.index for b in found.epoch(1)]) == ([0, 1], 6, [(1, 0), (1, 1), (1, 2)])
    assert found[-1].index == found.epoch(1)[2].index == (1, 2)
    world.execute(f"CREATE OR REPLACE SAMPLER train AS {PLAIN} EPOCHS 3")
    assert copied(world, "SAMPLE USING train", "three").epochs == [0, 1, 2]
    assert copied(world, "SAMPLE USING train", "one", "EPOCHS 1").epochs == [0]
    with pytest.raises(IndexError, match=r"epoch 7 does not exist: the folder has 0, 1"):
        found.epoch(7)
    with pytest.raises(IndexError, match="batch 6 does not exist: there are 6"):
        found[6]
    with pytest.raises(TypeError, match="must be a non-negative integer"):
        found[True]


def test_the_result_and_the_manifest_tell_what_was_written(world: Database) -> None:
    done = world.execute(f"COPY ({PLAIN}) TO 'o' (FORMAT safetensors)")
    size = sum(path.stat().st_size for path in Path("o/epoch-0").iterdir())
    assert (done.message, done.rowcount) == (f"3 batches to o, {size / 1000:.1f} KB", 3)
    manifest = json.loads(Path("o/manifest.json").read_text())
    assert (manifest["kind"], manifest["file_format"], manifest["epochs"]) == ("batches", "safetensors", 1)
    assert [(f["path"], f["epoch"], f["batch"], f["seeds"]) for f in manifest["files"]] == [
        (f"epoch-0/batch-00000{i}.safetensors", 0, i, seeds) for i, seeds in enumerate((8, 8, 4))
    ]
    assert manifest["schema"]["features/person/half"] == "float16"
    assert manifest["schema"]["e_id/person/saw%2F100%25/film"] == "int64"
    with world.stream(PLAIN) as stream:
        assert snapdb.read_batches("o").lineage == stream.lineage == snapdb.read_batches("o")[0].lineage


def test_the_lineage_of_a_folder_gives_its_batches_again(world: Database) -> None:
    found = copied(world, SAMPLES["temporal"], options="EPOCHS 2")
    assert differing(snapdb.replay(found.lineage, 1, world), found[1]) == []
    assert differing(snapdb.replay(found[-1].lineage, 1, world), found[-1]) == []


def test_others_read_the_files_without_us(world: Database) -> None:
    for format_ in FORMATS:
        copied(world, PLAIN, format_, f"FORMAT {format_}")
    wanted = snapdb.read_batches("arrow")[0]
    x, ids = "features/person/x", "user_ids/person"
    rows = duckdb.sql(f'SELECT "{x}", "{ids}" FROM \'parquet/*/*.parquet\' ORDER BY filename').fetchall()
    assert (len(rows), rows[0][0], rows[0][1]) == (3, wanted.x["person"].tolist(), wanted.ids("person").to_pylist())
    with pa.memory_map("arrow/epoch-0/batch-000000.arrow") as file:
        assert pa.ipc.open_file(file).read_all().column(x).to_pylist() == [wanted.x["person"].tolist()]
    with np.load("npz/epoch-0/batch-000000.npz", allow_pickle=False) as arrays:
        assert (arrays[x] == wanted.x["person"].numpy()).all()
        stream = pa.ipc.open_stream(arrays[ids].tobytes())
        assert stream.read_all()["ids"].to_pylist() == wanted.ids("person").to_pylist()
    assert safetensors.torch.load_file("safetensors/epoch-0/batch-000000.safetensors")[x].equal(wanted.x["person"])
    assert torch.load("pt/epoch-0/batch-000000.pt", weights_only=True)[x].equal(wanted.x["person"])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_reads_them_in_workers(world: Database, workers: int) -> None:
    found = copied(world, PLAIN, options="EPOCHS 2")
    loader = DataLoader(found, batch_size=None, shuffle=True, num_workers=workers)
    given = sorted(loader, key=lambda batch: batch.index)
    assert [differing(ours, theirs) for ours, theirs in zip(given, found, strict=True)] == [[]] * 6


def test_a_sampler_without_seeds_writes_a_folder_without_batches(world: Database) -> None:
    found = copied(world, PLAIN.replace("FROM person)", "FROM person WHERE false)"), options="EPOCHS 2")
    assert (len(found), list(found), found.epochs) == (0, [], [])
    assert found.lineage["snapshot"] == "s"


def test_a_batch_of_an_older_snapdb_has_the_defaults_of_newer_fields(world: Database) -> None:
    batch = copied(world, PLAIN)[0]
    flat = flatten(batch)
    del flat.facts["padding"], flat.facts["keys"]["seed_columns"]
    assert differing(flat.restored(), batch) == []


def test_overwrite_replaces_exports_and_nothing_else(world: Database) -> None:
    assert len(copied(world, f"{PLAIN} EPOCHS 2")) == 6
    with refused("folder-exists", "o", "OVERWRITE"):
        copied(world, PLAIN)
    assert len(copied(world, PLAIN, options="OVERWRITE, FORMAT pt")) == 3
    assert sorted(os.listdir("o/epoch-0"))[0] == "batch-000000.pt"
    os.mkdir("mine")
    assert len(copied(world, PLAIN, "mine")) == 3  # an empty folder is as good as none
    Path("mine/manifest.json").write_text('{"name": "my web page"}')
    for statement in (f"COPY ({PLAIN}) TO 'mine' (OVERWRITE)", f"COPY ({PLAIN}) TO '.' (OVERWRITE)"):
        with refused("folder-exists", "OVERWRITE"):
            world.execute(statement)
    with refused("folder-exists", "/"):
        world.execute(f"COPY ({PLAIN}) TO '/'")
    Path("file").write_text("mine")
    with refused("folder-exists", "file"):
        copied(world, PLAIN, "file", "OVERWRITE")
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize("name", ["notes.md", "epoch-0/labels.csv", "shop.snapdb/catalog.db"])
def test_overwrite_leaves_an_export_alone_that_others_keep_files_in(world: Database, name: str) -> None:
    copied(world, PLAIN)
    Path("o", name).parent.mkdir(exist_ok=True)
    Path("o", name).write_text("mine")
    with refused("folder-exists", f"o also contains {name}"):
        copied(world, PLAIN, options="OVERWRITE")
    assert Path("o", name).read_text() == "mine"
    Path("o", name).unlink()
    Path("o", "epoch-1").symlink_to("/etc")
    with refused("folder-exists", "o"):
        copied(world, PLAIN, options="OVERWRITE")


class Slow(Disk):
    """A disk on which another export takes the place just before this one does."""

    def __init__(self, other: Callable[[], None]) -> None:
        self.other: Callable[[], None] | None = other

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if target.name.startswith(".") and self.other:  # the old one is aside
            other, self.other = self.other, None
            other()


def test_two_that_overwrite_one_export_leave_one_whole_and_nothing_else(folder: Path) -> None:
    def export(text: str, disk: Disk) -> None:
        with FolderWriter(folder / "o", disk, overwrite=True) as target:
            target.file("a").write_text(text)
            target.wrote("a", epoch=0, batch=0)
            target.finish({"kind": "batches"})

    export("old", Disk())
    with refused("unwritable-file", "Directory not empty", recorded=False):
        export("late", Slow(lambda: export("quick", Disk())))
    assert Path("o/a").read_text() == "quick"


class Full(Disk):
    """A disk with room for so many files."""

    def __init__(self, room: int) -> None:
        self.room = room

    def settle(self, path: Path) -> None:
        if path.parts[-3:-2] == ("out",) or "epoch" in path.parent.name:
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().settle(path)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_that_the_disk_refuses_is_said_in_every_format(world: Database, format_: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with world.stream(PLAIN):  # whatever that writes is written
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
    try:
        with refused("unwritable-file", "o", "File too large"):
            copied(world, PLAIN, options=f"FORMAT {format_}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir() == []


@pytest.mark.parametrize("room", [0, 2])
def test_a_disk_that_is_full_is_said_and_nothing_stays(world: Database, folder: Path, room: int) -> None:
    with Database(world.path, read_only=True, disk=Full(room)) as db:
        statement = f"COPY ({PLAIN}) TO 'o' (FORMAT npz)"
        with refused("unwritable-file", "o", "No space left on device", at="'o'"):
            db.execute(statement)
    assert os.listdir() == []


def test_a_stopped_export_leaves_nothing(world: Database) -> None:
    begun = threading.Event()

    def stop(what: str, share: float | None) -> None:
        if what.startswith("writing"):
            begun.set()
            world.interrupt()

    world.progress = stop
    try:
        with pytest.raises(snapdb.QueryError) as raised:
            world.execute(f"COPY ({PLAIN} EPOCHS 1000) TO 'o'")
    finally:
        world.progress = None
    assert begun.is_set()
    assert raised.value.code == "interrupted"
    assert os.listdir() == []


def test_a_crash_leaves_the_old_export_or_the_new_one(world: Database, folder: Path) -> None:
    flat = flatten(copied(world, PLAIN, "source")[0])

    def export(disk: Disk, text: str) -> None:
        with FolderWriter(folder / "o", disk, overwrite=True) as target:
            for number in range(2):
                name = f"epoch-{number}/batch-000000.npz"
                flat.facts["index"] = (number, 0)
                with open(target.file(name), "wb") as file:
                    write("npz", flat, file)
                target.wrote(name, epoch=number, batch=0)
            target.finish({"kind": "batches", "file_format": "npz", "lineage": {"text": text}})

    export(Disk(), "old")
    at, seen = 0, set()
    while "new" not in seen:
        at += 1
        disk = CrashingDisk(folder, at)
        with suppress(Crash):
            export(disk, "new")
        for left in folder.glob(".*"):  # of a process that died: hidden, and never found by its name
            Disk().remove(left)
        if (folder / "o").exists():
            found = snapdb.read_batches(folder / "o")
            assert len(list(found)) == 2
            seen.add(found.lineage["text"])
        else:  # between the two names that OVERWRITE gives
            export(Disk(), "old")
    assert seen == {"old", "new"}


def test_what_is_damaged_is_named(world: Database) -> None:
    for format_ in FORMATS:
        copied(world, PLAIN, format_, f"FORMAT {format_}")
        first, second, third = sorted(Path(format_, "epoch-0").iterdir())
        content = bytearray(first.read_bytes())
        content[len(content) // 2] ^= 1
        first.write_bytes(content)
        second.write_bytes(second.read_bytes()[:-1])
        third.unlink()
        found = snapdb.read_batches(format_)
        for place, (path, said) in enumerate(
            [(first, "differs from what was written"), (second, "bytes"), (third, "missing")]
        ):
            with refused("damaged-file", str(path), said, "export it again", recorded=said == "missing"):
                found[place]


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_what_might_never_end_is_not_read(world: Database, kind: str) -> None:
    found = copied(world, PLAIN)
    path = Path("o/epoch-0/batch-000001.arrow")
    path.unlink()
    {"pipe": os.mkfifo, "device": partial(os.symlink, "/dev/zero"), "loop": partial(os.symlink, path.name)}[kind](path)
    for batches in (found, snapdb.read_batches("o", verify=False)):
        with refused("damaged-file", "batch-000001.arrow"):
            batches[1]


def test_a_batch_at_the_place_of_another_is_said_without_a_look_at_its_sha256(world: Database) -> None:
    copied(world, PLAIN)
    manifest = json.loads(Path("o/manifest.json").read_text())
    first, second = manifest["files"][:2]
    first["batch"], second["batch"] = second["batch"], first["batch"]
    del manifest["seal"]
    Path("o/manifest.json").write_text(json.dumps(manifest))
    for verify in (True, False):
        with refused("damaged-file", "batch-000001.arrow", "batch 1 of epoch 0"):
            snapdb.read_batches("o", verify=verify)[0]


def test_what_is_no_file_of_a_batch_is_said_without_a_look_at_its_sha256(world: Database) -> None:
    for format_ in FORMATS:
        copied(world, PLAIN, format_, f"FORMAT {format_}")
        path = Path(format_, "epoch-0", f"batch-000000.{format_}")
        size = path.stat().st_size
        for content in (os.urandom(size), bytes(size), path.read_bytes()[: size // 2] + bytes(size - size // 2)):
            path.write_bytes(content)
            with refused("damaged-file", format_):
                snapdb.read_batches(format_, verify=False)[0]


def test_indices_that_lead_out_of_their_rows_are_refused(world: Database) -> None:
    flat = flatten(copied(world, PLAIN)[0])
    flat.values["features/person/bag/indices"][-1] = 13
    with pytest.raises(RuntimeError, match="col_indices"):
        flat.restored()
    file = io.BytesIO()
    ids = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff"))
    write("npz", flat._replace(values={"user_ids/person": ids}), file)
    with pytest.raises(pa.ArrowInvalid):
        read("npz", file.getvalue())


def test_a_folder_that_is_none_of_ours_is_refused(world: Database, folder: Path) -> None:
    copied(world, PLAIN)
    manifest = json.loads(Path("o/manifest.json").read_text())

    def refuses(code: str, *named: str, path: str = "o", **changes: Any) -> None:
        content = {key: value for key, value in {**manifest, **changes}.items() if key != "seal"}
        Path("o/manifest.json").write_text(json.dumps({**content, "seal": _seal(content), **changes}))
        with refused(code, *named, recorded=False):
            list(snapdb.read_batches(path))

    refuses("no-file", "nowhere", path="nowhere")
    refuses("no-file", "manifest.json", path="o/manifest.json")
    refuses("not-an-export", "epoch-0", "manifest.json", path="o/epoch-0")
    refuses("newer-format", "format 2", "snapdb 9.9", format=2, snapdb="9.9")
    refuses("newer-format", "'zarr'", "arrow", file_format="zarr")
    refuses("not-an-export", "'snapshot'", "'batches'", kind="snapshot")
    refuses("damaged-file", "manifest.json", seal="0")
    first = manifest["files"][0]
    for epoch in ("x", "0", -1, 0.0, True, None, float("inf"), float("nan")):
        refuses("damaged-file", "manifest of o", files=[{**first, "epoch": epoch}])
    refuses("damaged-file", "manifest of o", files=[first, {**first, "path": "twice"}])
    refuses("damaged-file", "manifest of o", lineage=None)
    for changes in ({"format": float("inf")}, {"files": [{**first, "bytes": float("inf")}]}):
        refuses("damaged-file", "manifest.json", **changes)
    for name in ("a\0b", "\ud800", "x" * 5000, "epoch-0"):
        refuses("damaged-file", "missing", recorded=False, files=[{**first, "path": name}])
    for path in ("../o", "/etc/passwd", "epoch-0/../../x", ""):
        refuses("damaged-file", "a file outside its directory", files=[{**manifest["files"][0], "path": path}])
    refuses("damaged-file", "manifest.json", files=[{}])
    for text, code in (("{", "damaged-file"), ("[]", "not-an-export"), ("{}", "not-an-export")):
        Path("o/manifest.json").write_text(text)
        with refused(code, "manifest.json"):
            read_folder(folder / "o", "batches")


def test_explain_tells_the_sampler_and_does_nothing(world: Database) -> None:
    plan = "\n".join(row[0] for row in world.execute(f"EXPLAIN COPY ({PLAIN}) TO 'o' (EPOCHS 2)").fetchall())
    assert "CopySample 2 epochs to 'o' as arrow" in plan
    assert "expected rows 6" in plan
    assert os.listdir() == []
    text = world.execute(f"EXPLAIN (ANALYZE, FORMAT json) COPY ({PLAIN}) TO 'o' (EPOCHS 2)").fetchone()
    assert text is not None
    root = json.loads(text[0])["plan"]
    assert (root["actual"]["rows"], root["children"][0]["operator"]) == (6, "Stream")
    assert root["actual"]["bytes"] == sum(path.stat().st_size for path in Path("o").rglob("*.*"))


def test_a_database_that_is_only_read_can_be_exported(world: Database) -> None:
    with snapdb.connect(world.path, read_only=True) as reader:
        assert len(copied(reader, PLAIN)) == 3
    with refused("unwritable-file"):
        copied(world, PLAIN, str(world.path / "o"))


def test_the_rules_change_no_byte(world: Database) -> None:
    ours = copied(world, PLAIN).manifest
    with Database(world.path, rules=()) as plain:
        assert copied(plain, PLAIN, "plain").manifest["files"] == ours["files"]
