"""Batches are the same with and without feature caches, for any reader, and whatever happens to the files."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import snapdb
from snapdb.arrays import Int64s
from snapdb.errors import BindError, DatabaseError, InputError, ParseError
from snapdb.loading import Batch
from snapdb.sql import parse
from snapdb.types import FeatureCacheStats
from tests.support.inside.loading import FeatureKey, FeaturePacks, FeatureRows, choose_rows
from tests.support.places import ROOT
from tests.support.streams import settles
from tests.support.thoroughness import examples

SETUP = """
CREATE TABLE person AS SELECT range AS id,
  list_transform(range(24), lambda i: ((range * 7 + i) % 1000) / 8)::FLOAT[24] AS x,
  (range % 9)::TINYINT AS z, range % 5 AS y FROM range(3000);
CREATE TABLE film AS SELECT range AS id, [range, range / 3]::FLOAT[2] AS x FROM range(500);
CREATE TABLE moods AS SELECT range % 3000 AS id, (range * 37) % 1000 AS at, (range % 100)::FLOAT AS mood
  FROM range(9000);
CREATE TABLE knows AS SELECT (range * 7919) % 3000 AS a, (range * 104729 + range // 3000) % 3000 AS b,
  range % 1000 AS at, 1.0 + range % 4 AS w FROM range(24000);
CREATE TABLE saw AS SELECT range % 3000 AS p, (range * 31) % 500 AS f FROM range(6000);
CREATE PROPERTY GRAPH g VERTEX TABLES (
    person KEY (id) FEATURES (x AS x, z AS z) TARGET (y),
    film KEY (id) FEATURES (x AS x))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w),
    saw SOURCE KEY (p) REFERENCES person DESTINATION KEY (f) REFERENCES film);
CREATE SNAPSHOT s OF g;
CREATE PROPERTY GRAPH moody VERTEX TABLES (
    person KEY (id) FEATURES (mood AS mood FROM moods KEY (id) EVENT TIME (at) DEFAULT 7, x AS x))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at));
CREATE SNAPSHOT m OF moody;
"""
SEEDS = "SEEDS (SELECT id FROM person WHERE id % 4 = 0) AS person"
SAMPLERS = {
    "uniform": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [4, 3]) BATCH 64",
    "types": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [3, 2], saw OUT => [2, 2]) BATCH 64",
    "labor": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [4, 3]) BATCH 64 METHOD LABOR",
    "priority": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [4, 3]) BATCH 64 METHOD PRIORITY",
    "otf": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [4, 3]) BATCH 64 REFRESH OTF 25 PERCENT EVERY 3 BATCHES",
    "visited": f"SAMPLE FROM s {SEEDS} FANOUT (knows => [4, 3]) BATCH 64 "
    "REFRESH OTF 25 PERCENT EVERY 3 BATCHES SCOPE VISITED",
    "links": "SAMPLE FROM s SEEDS EDGES saw (SELECT e_id FROM saw WHERE e_id % 8 = 0) NEGATIVES 2 PER POSITIVE "
    "FANOUT (knows => [3, 2]) BATCH 64",
    "history": "SAMPLE FROM m SEEDS (SELECT id, (id * 13) % 1000 AS seed_time FROM person WHERE id % 4 = 0) AS person "
    "FANOUT (knows => [4, 3]) BATCH 64 TEMPORAL < SEED_TIME",
    "snapshot history": f"SAMPLE FROM m {SEEDS} FANOUT (knows => [4, 3]) BATCH 64",
}
FORMS = {
    "hot": "FEATURES IN MEMORY '150KB' WITH (when = 'always')",
    "nearly none": "FEATURES IN MEMORY '105KB' WITH (when = 'always')",
    "all": "FEATURES IN MEMORY '2MB' WITH (when = 'always')",
    "packs": "FEATURES IN MEMORY '250KB' SPILL '8MB' WITH (when = 'always')",
    "small packs": "FEATURES IN MEMORY '250KB' SPILL '4MB' WITH (when = 'always')",
    "tiny packs": "FEATURES IN MEMORY '250KB' SPILL '20KB' WITH (when = 'always')",
}
"""Feature caches that take some 300 KB; on `small` buffers, the fixed parts are about 100 KB for two threads."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("features") / "db.snapdb"
    with snapdb.connect(path) as db:
        db.script(SETUP)
        for name, text in SAMPLERS.items():
            db.execute(f'CREATE SAMPLER "{name}" AS {text}')
    return path


@pytest.fixture(scope="module")
def db(path: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(path) as db:
        yield db


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers so small that a file has many slabs and a batch many blocks, although the graph is small."""
    for name in ("_LEAST_SLAB", "_LEAST_STAGE", "_LEAST_LISTS"):
        monkeypatch.setattr(f"snapdb.loading.feature_cache_plan.{name}", 1 << 14)


def told(batch: Batch) -> str:
    """A digest of a batch's features and node ids."""
    parts = [batch.n_id[kind].numpy().tobytes() for kind in batch.n_id]
    parts += [batch.features[kind][name].numpy().tobytes() for kind in batch.features for name in batch.features[kind]]
    return sha256(b"|".join(parts)).hexdigest()


def every(stream: Any) -> dict[tuple[int, int], str]:
    return {batch.index: told(batch) for batch in stream}


def used(stream: snapdb.BatchStream) -> Any:
    """The statistics of a stream's feature cache."""
    stats = stream.cache_stats("FEATURES")
    assert stats is not None
    return stats


KNOWN: dict[str, dict[tuple[int, int], str]] = {}


def plain(db: snapdb.Database, sampler: str) -> dict[tuple[int, int], str]:
    """The batches of two epochs without a cache."""
    if sampler not in KNOWN:
        with db.stream(f'SAMPLE USING "{sampler}"') as stream:
            assert stream.cache_stats("FEATURES") is None
            KNOWN[sampler] = every(stream) | every(stream)
    return KNOWN[sampler]


class Kept:
    """A cache of a sampler within a block."""

    def __init__(self, db: snapdb.Database, sampler: str, form: str) -> None:
        self.db, self.sampler, self.form = db, sampler, form

    def __enter__(self) -> None:
        plain(self.db, self.sampler)
        self.db.execute(f'CREATE OR REPLACE CACHE kept ON SAMPLER "{self.sampler}" {self.form}')

    def __exit__(self, *error: object) -> None:
        self.db.execute("DROP CACHE kept")


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sampler=st.sampled_from(sorted(SAMPLERS)),
    form=st.sampled_from(sorted(FORMS)),
    threads=st.integers(0, 3),
    prefetch=st.integers(1, 5),
    ranks=st.sampled_from([1, 1, 2]),
    taken=st.integers(0, 5),
)
def test_batches_are_the_same_with_a_cache(
    db: snapdb.Database, sampler: str, form: str, threads: int, prefetch: int, ranks: int, taken: int
) -> None:
    """Also on ranks, whose share of the cache is smaller, and when an epoch is resumed in the middle of a segment."""
    with Kept(db, sampler, FORMS["all" if ranks > 1 or threads > 2 else form]):
        found: dict[tuple[int, int], str] = {}
        for rank in range(ranks):
            options = {"threads": threads, "prefetch": prefetch, "rank": rank, "world_size": ranks}
            with db.stream(f'SAMPLE USING "{sampler}"', **options) as stream:
                batches = iter(stream)
                found |= every(islice(batches, taken))
                state = stream.state_dict()
                del batches
            with db.stream(f'SAMPLE USING "{sampler}"', **options) as stream:
                stream.load_state_dict(state)
                found |= every(stream) | every(stream)
        expected = plain(db, sampler)
        assert found == {index: expected[index] for index in found}
        assert set(found) == set(expected)


@pytest.mark.parametrize("form", ["hot", "packs", "small packs"])
def test_dataloader_workers_share_a_cache_and_give_the_same_batches(db: snapdb.Database, form: str) -> None:
    larger = FORMS[form].replace("150KB", "600KB").replace("250KB", "600KB")
    with Kept(db, "uniform", larger), db.stream("SAMPLE USING uniform", threads=1) as stream:
        found = every(DataLoader(stream, batch_size=None, num_workers=2))
    expected = plain(db, "uniform")
    assert found == {index: told_ for index, told_ in expected.items() if index[0] == 0}


@pytest.mark.parametrize("form", ["hot", "packs"])
def test_a_batch_is_read_by_its_index_while_an_iteration_runs(db: snapdb.Database, form: str) -> None:
    expected = plain(db, "uniform")
    with Kept(db, "uniform", FORMS[form]), db.stream("SAMPLE USING uniform", threads=1) as stream:
        one, other = iter(stream), iter(stream)
        for place in range(10):
            for batch in (next(one), next(other), stream[place]):
                assert told(batch) == expected[batch.index]


def test_packs_serve_most_batches_and_hold_each_cold_row_once(db: snapdb.Database) -> None:
    with Kept(db, "uniform", FORMS["packs"]), db.stream("SAMPLE USING uniform", threads=1) as stream:
        for _ in range(3):
            every(stream)
        stats = FeatureCacheStats(**stream.cache_stats("FEATURES"))
        batches = 3 * len(stream)
    assert stats.direct < batches / 2
    assert stats.segments >= 3
    assert stats.batches >= batches - stats.direct
    assert stats.bytes_written > 0
    assert stats.filled == stats.rows > 0
    assert stats.hit_rate is not None
    assert 0.1 < stats.hit_rate < 0.9


def test_a_cache_is_smaller_than_its_limit(db: snapdb.Database) -> None:
    for form, limit in (("hot", 150_000), ("packs", 250_000)):
        with Kept(db, "uniform", FORMS[form]), db.stream("SAMPLE USING uniform", threads=1) as stream:
            every(stream)
            stats = stream.cache_stats("FEATURES")
            assert stats is not None
            assert limit / 2 < stats["bytes"] <= limit


def test_rows_with_the_most_visits_are_kept(db: snapdb.Database) -> None:
    """More rows are found in memory than if any rows of the same number were kept."""
    with Kept(db, "uniform", FORMS["hot"]), db.stream("SAMPLE USING uniform", threads=1) as stream:
        every(stream)
        assert settles(lambda: used(stream)["filled"] == used(stream)["rows"] > 0)
        before = used(stream)
        every(stream)
        after = used(stream)
    hits, misses = (after[name] - before[name] for name in ("hits", "misses"))
    assert hits / (hits + misses) > after["rows"] / 6000


def test_a_cache_is_not_used_if_the_features_fit(db: snapdb.Database) -> None:
    with Kept(db, "uniform", "FEATURES IN MEMORY '250KB'"), db.stream("SAMPLE USING uniform") as stream:
        assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
        assert stream.cache_stats("FEATURES") is None
        plan = "\n".join(str(row) for row in db.execute("EXPLAIN SAMPLE USING uniform").fetchall())
    assert "not used because the features fit in memory" in plan


def test_a_cache_is_used_if_the_features_do_not_fit(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapdb.storage.array_files._HUGE_PAGE", 1 << 14)
    monkeypatch.setattr("snapdb.graph.features.available_memory", lambda: 1 << 16)
    plan = "\n".join(str(row) for row in db.execute("EXPLAIN SAMPLE USING uniform").fetchall())
    assert "do not fit in memory" in plan
    with Kept(db, "uniform", "FEATURES IN MEMORY '250KB' SPILL '8MB'"), db.stream("SAMPLE USING uniform") as stream:
        assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
        assert stream.cache_stats("FEATURES") is not None
        assert "do not fit" not in str(db.execute("EXPLAIN SAMPLE USING uniform").fetchall())


def test_a_stream_keeps_its_features_when_its_cache_is_dropped(db: snapdb.Database) -> None:
    expected = plain(db, "uniform")
    db.execute(f"CREATE CACHE gone ON SAMPLER uniform {FORMS['packs']}")
    with db.stream("SAMPLE USING uniform", threads=1) as stream:
        batches = iter(stream)
        next(batches)
        db.execute("DROP CACHE gone")
        assert all(told(batch) == expected[batch.index] for batch in batches)


def test_a_second_stream_takes_what_the_first_one_left(db: snapdb.Database) -> None:
    expected = plain(db, "uniform")
    with Kept(db, "uniform", FORMS["hot"]), db.stream("SAMPLE USING uniform", threads=1) as one:
        next(iter(one))
        with db.stream("SAMPLE USING uniform", threads=1) as other:
            assert all(told(batch) == expected[batch.index] for batch in other)


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each choice that a cache makes."""
    sizes: list[int] = []

    def counted(*arguments: Any) -> dict[FeatureKey, Int64s]:
        chosen = choose_rows(*arguments)
        sizes.append(sum(rows.size for rows in chosen.values()))
        return chosen

    monkeypatch.setattr("snapdb.loading.feature_cache.choose_rows", counted)
    return sizes


@pytest.mark.parametrize("form", ["hot", "packs", "all"])
@pytest.mark.parametrize("how", ["patched", "merged"])
def test_after_a_refresh_the_rows_are_the_new_ones_and_unchanged_rows_stay_in_memory(
    path: Path, tmp_path: Path, choices: list[int], form: str, how: str
) -> None:
    shutil.copytree(path, tmp_path / "copy.snapdb")
    with snapdb.connect(tmp_path / "copy.snapdb") as db:
        db.execute(f"CREATE CACHE kept ON SAMPLER uniform {FORMS[form]}")
        with db.stream("SAMPLE USING uniform", threads=1) as stream:
            every(stream)
            assert settles(lambda: used(stream)["filled"] == choices[0] > 0)
            changed = "id % 50 = 0" if how == "patched" else "id % 4 = 0"
            db.execute(f"UPDATE person SET x = list_transform(x, lambda v: v + 1)::FLOAT[24] WHERE {changed}")
            db.execute("REFRESH SNAPSHOT s")
            assert stream.renew()
            found = every(stream)
            stats = used(stream)
        if how == "patched":
            assert len(choices) == 1, "the rows of the base are kept, and are not chosen again"
            assert 0 < stats["rows"] <= choices[0]
            assert stats["filled"] == stats["rows"]
        else:
            assert len(choices) == 2, "all files are new"
        db.execute("DROP CACHE kept")
        with db.stream("SAMPLE USING uniform") as stream:
            stream.set_epoch(1)
            assert found == every(stream)


def test_the_next_stream_begins_with_the_rows_of_the_last_one(db: snapdb.Database, choices: list[int]) -> None:
    with Kept(db, "uniform", FORMS["hot"]):
        with db.stream("SAMPLE USING uniform", threads=1) as stream:
            every(stream)
            assert settles(lambda: used(stream)["filled"] == choices[0])
        with db.stream("SAMPLE USING uniform", threads=1) as stream:
            assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
            stats = used(stream)
        assert (len(choices), stats["rows"], stats["filled"]) == (1, choices[0], choices[0])
        with db.stream("SAMPLE USING uniform SEEDS (SELECT id FROM person WHERE id < 9) AS person") as stream:
            every(stream)
            assert settles(lambda: len(choices) == 2)  # other seeds visit other rows


def test_rows_that_were_not_loaded_are_not_left(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a cache that was closed while it was filled are used as far as they were loaded."""
    expected = {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
    take = FeatureRows.take
    stopped = threading.Event()

    def some(table: FeatureRows, first: int, stop: int, slab: Any) -> None:
        if first >= 1000:
            stopped.set()
            raise OSError(errno.EIO, "the disk fails")
        take(table, first, stop, slab)

    with Kept(db, "uniform", FORMS["hot"]):
        monkeypatch.setattr(FeatureRows, "take", some)
        with warnings.catch_warnings(action="ignore"), db.stream("SAMPLE USING uniform", threads=1) as stream:
            assert every(stream) == expected
            assert stopped.wait(60)
        monkeypatch.setattr(FeatureRows, "take", take)
        with db.stream("SAMPLE USING uniform", threads=1) as stream:
            assert every(stream) == expected


def test_a_stream_with_packs_can_be_sent_to_another_process(db: snapdb.Database) -> None:
    with Kept(db, "uniform", FORMS["packs"]), db.stream("SAMPLE USING uniform", threads=1) as stream:
        next(iter(stream))
        again = pickle.loads(pickle.dumps(stream))
        assert told(again[3]) == plain(db, "uniform")[again[3].index]
        again.close()


def test_a_stream_that_nothing_refers_to_keeps_no_thread(db: snapdb.Database) -> None:
    def threads() -> int:
        return sum(thread.name == "snapdb-features" for thread in threading.enumerate())

    with Kept(db, "uniform", FORMS["packs"]):
        batches = iter(db.stream("SAMPLE USING uniform", threads=1))
        next(batches)
        assert threads() == 1
        del batches
        assert settles(lambda: gc.collect() >= 0 and threads() == 0)


def test_closing_does_not_wait_for_a_segment(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that waits for its pack, on another thread, ends with the stream."""
    held: list[bool] = []
    packed = FeaturePacks._pack_feature

    def never(self: FeaturePacks, *arguments: Any) -> Any:
        held.append(True)
        while True:
            self._check()
        return packed(self, *arguments)

    monkeypatch.setattr(FeaturePacks, "_pack_feature", never)
    with Kept(db, "uniform", FORMS["packs"]):
        stream = db.stream("SAMPLE USING uniform", threads=2)
        batches = iter(stream)
        next(batches)
        assert settles(lambda: bool(held))
        stream.close()


def unreadable(self: Any, *arguments: Any, **options: Any) -> None:
    raise DatabaseError("cannot read the disk", code="cannot-read")


def test_a_failing_read_names_the_file_and_the_place(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("snapdb.storage.row_file.read_requests", lambda *arguments: arguments[6])
    monkeypatch.setattr("snapdb.storage.row_file.os.pread", broken)
    with (
        Kept(db, "uniform", FORMS["nearly none"]),
        db.stream("SAMPLE USING uniform", threads=0) as stream,
        warnings.catch_warnings(action="ignore"),
        pytest.raises(DatabaseError, match=r"feature-\w+\.npy at byte .*Input/output"),
    ):
        every(stream)


def test_short_reads_and_a_file_system_without_direct_reads_give_the_same_rows(
    db: snapdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapdb.storage.row_file._DIRECT", 0)
    monkeypatch.setattr("snapdb.storage.row_file.read_requests", lambda *arguments: arguments[6])
    whole = os.pread
    monkeypatch.setattr("snapdb.storage.row_file.os.pread", lambda file, size, at: whole(file, min(size, 1000), at))
    with Kept(db, "uniform", FORMS["packs"]), db.stream("SAMPLE USING uniform", threads=2) as stream:
        assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}


def test_a_truncated_file_is_named(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(path, tmp_path / "copy.snapdb")
    with snapdb.connect(tmp_path / "copy.snapdb") as db:
        db.execute(f"CREATE CACHE kept ON SAMPLER uniform {FORMS['nearly none']}")
        with db.stream("SAMPLE USING uniform", threads=0) as stream:
            batches = iter(stream)
            next(batches)
            for file in (tmp_path / "copy.snapdb").rglob("feature-x.npy"):
                os.truncate(file, 8192)
            with pytest.raises(snapdb.CorruptError, match=r"feature-x\.npy ends at byte 8,192"):
                for _ in batches:
                    pass


def test_a_full_disk_ends_in_direct_reads_and_one_warning(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Kept(db, "uniform", FORMS["packs"]):
        monkeypatch.setattr("snapdb.storage.array_files.os.posix_fallocate", full)
        with warnings.catch_warnings(record=True) as said, db.stream("SAMPLE USING uniform", threads=1) as stream:
            warnings.simplefilter("always")
            assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
            assert settles(lambda: stream.cache_stats("FEATURES")["filled"] > 0)
            assert "has no space" in stream.cache_stats("FEATURES")["error"]
    assert [str(one.message).count("has no space") for one in said] == [1]


def test_a_failing_write_ends_in_direct_reads_and_one_warning(
    db: snapdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("snapdb.storage.row_file.write_memory", lambda *arguments: 0)
    monkeypatch.setattr("snapdb.storage.row_file.os.pwrite", broken)
    with (
        Kept(db, "uniform", FORMS["packs"]),
        warnings.catch_warnings(record=True, action="always") as said,
        db.stream("SAMPLE USING uniform", threads=1) as stream,
    ):
        assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
    assert [str(one.message).count("cannot write packs") for one in said] == [1]


def test_packs_of_few_batches_are_not_made(db: snapdb.Database) -> None:
    with (
        Kept(db, "uniform", FORMS["tiny packs"]),
        warnings.catch_warnings(record=True, action="always") as said,
        db.stream("SAMPLE USING uniform", threads=1) as stream,
    ):
        assert every(stream) == {i: t for i, t in plain(db, "uniform").items() if i[0] == 0}
        assert settles(lambda: stream.cache_stats("FEATURES")["filled"] > 0)
        assert stream.cache_stats("FEATURES")["segments"] == 0
    assert "faster than direct reads only with 8 batches or more" in " ".join(str(one.message) for one in said)


def test_a_killed_process_leaves_no_file(path: Path, db: snapdb.Database) -> None:
    program = (
        "import sys, snapdb\n"
        "db = snapdb.connect(sys.argv[1]); stream = db.stream('SAMPLE USING uniform', threads=1)\n"
        "for batch in stream: pass\n"
        "print('read', flush=True); sys.stdin.read()\n"
    )
    with Kept(db, "uniform", "FEATURES IN MEMORY '20MB' SPILL '8MB' WITH (when = 'always')"):
        before = {file for file in path.rglob("*") if "caches" not in file.parts}
        with subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "read\n"
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert {file for file in path.rglob("*") if "caches" not in file.parts} - before == set()


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("FEATURES IN FILE '1MB'", BindError, "already in files; write IN MEMORY"),
        ("SPILL '1MB'", ParseError, "only for feature caches"),
        ("WITH (when = 'always')", ParseError, "only for feature caches"),
        ("FEATURES WITH (when = 'never')", ParseError, "'needed' or 'always'"),
        ("FEATURES WITH (size = 'x')", ParseError, "unknown option size"),
        ("FEATURES WITH (when = 'always', when = 'needed')", ParseError, "specified twice"),
        ("FEATURES FEATURES", ParseError, "FEATURES is specified twice"),
        ("FEATURES SPILL '4'", ParseError, "the size of SPILL must be above 0"),
        ("FEATURES SPILL '900TB'", BindError, "exceeds the free space on the disk"),
    ],
)
def test_what_cannot_be_cached_is_refused(db: snapdb.Database, text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        db.execute(f"CREATE CACHE kept ON SAMPLER uniform {text}")


def test_a_cache_of_no_features_is_refused(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE dot AS SELECT range AS id FROM range(4);
        CREATE TABLE line AS SELECT range AS a, range AS b FROM range(4);
        CREATE PROPERTY GRAPH bare VERTEX TABLES (dot KEY (id))
          EDGE TABLES (line SOURCE KEY (a) REFERENCES dot DESTINATION KEY (b) REFERENCES dot);
        CREATE SNAPSHOT bare_now OF bare;
        CREATE SAMPLER bare_one AS SAMPLE FROM bare_now SEEDS (FROM dot SELECT id) AS dot FANOUT (line => [1]);
    """)
    with pytest.raises(BindError, match=r"reaches no features \(vertex types: dot\)"):
        db.execute("CREATE CACHE kept ON SAMPLER bare_one FEATURES")


def test_a_share_of_the_room_below_the_fixed_parts_is_refused(db: snapdb.Database) -> None:
    form = "FEATURES IN MEMORY '150KB' WITH (when = 'always')"
    words = r"has 150\.0 KB, shared by 8 processes, but this stream needs at least"
    with Kept(db, "uniform", form), pytest.raises(InputError, match=words):
        db.stream("SAMPLE USING uniform", rank=0, world_size=8, threads=1)


def test_a_cache_of_features_is_not_resampled(db: snapdb.Database) -> None:
    with Kept(db, "uniform", "FEATURES"), pytest.raises(BindError, match="contains features, which are not resampled"):
        db.execute("REFRESH CACHE kept")


def test_statements_are_printed_as_they_are_read() -> None:
    for text in (
        "CREATE CACHE near ON SAMPLER train FEATURES",
        "CREATE OR REPLACE CACHE near ON SAMPLER train FEATURES IN MEMORY '512MB' SPILL",
        "CREATE CACHE near ON SAMPLER train FEATURES IN MEMORY '512MB' SPILL '4GB' WITH (when = 'always')",
    ):
        (tree,) = parse(text.lower().replace("mb", "MB").replace("gb", "GB"))
        assert " ".join(tree.to_sql().split()) == text


def test_show_and_describe_tell_what_a_cache_holds(db: snapdb.Database) -> None:
    with Kept(db, "uniform", FORMS["packs"]):
        with db.stream("SAMPLE USING uniform", threads=1) as stream:
            every(stream)
        (row,) = db.execute(
            "SELECT what, room, spill, rows > 0, hit_rate > 0, generation FROM snapdb.caches"
        ).fetchall()
        assert row == ("FEATURES", 250_000, "8000000", True, True, None)
        named = dict(db.execute("DESCRIBE CACHE kept").fetchall())
    assert named["what"] == "FEATURES"
    assert named["spill"] == "8.0 MB"
    assert named["used"] == "always"
    assert "age" not in named


def test_explain_foretells_what_batches_read(db: snapdb.Database) -> None:
    with Kept(db, "uniform", FORMS["packs"]):
        rows = db.execute("EXPLAIN ANALYZE SAMPLE USING uniform").fetchall()
    (cache,) = [str(row) for row in rows if "Cache kept FEATURES" in str(row)]
    for number in ("hit_rate", "cold", "segment", "spill", "batch_read", "batch_written", "batch_useful"):
        assert number in str(rows), number
    assert "SPILL 8.0 MB" in cache


def test_the_page_explains_all_statistics() -> None:
    page = (ROOT / "docs" / "language" / "caches.md").read_text(encoding="utf-8")
    assert [name for name in FeatureCacheStats.__slots__ if f"`{name}`" not in page] == []


def test_data_of_feature_files_begins_at_a_page(path: Path) -> None:
    files = [file for file in path.rglob("feature-*.npy") if file.stat().st_size > 4096]
    assert files
    for file in files:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
        assert array.offset == 4096
        assert file.read_bytes()[:6] == b"\x93NUMPY"
