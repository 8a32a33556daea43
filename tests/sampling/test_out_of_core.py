"""More graph than memory: what is read from the disk, as the engine counts it and as the kernel does."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapdb
from snapdb.memory import available_memory
from snapdb.sampling import vertex_input
from tests.support.inside.graph import ArrayFeature, for_random_reads
from tests.support.inside.kernels import gather, gather_mapped, gather_over, last_before, overlay
from tests.support.inside.loading import _pages_read
from tests.support.inside.storage import map_array, read_singly
from tests.support.streams import settles
from tests.support.waiting import until

NODES, EDGES, BATCH = 40_000, 600_000, 64
SAMPLE = """
SAMPLE FROM whole SEEDS (SELECT id FROM node) AS node FANOUT (edge IN => [4, 3]) BATCH 64 REPEATABLE (7)
"""


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A folder on a disk whose reads the kernel counts."""
    folder = Path(tempfile.mkdtemp(prefix="snapdb-disk-", dir="/var/tmp"))
    try:
        probe = folder / "probe"
        probe.write_bytes(bytes(1 << 20))
        forget(probe)
        before = read_bytes()
        probe.read_bytes()
        if read_bytes() - before < 1 << 20:
            pytest.skip(f"the kernel does not count what is read of {folder}: no block device, or pages that stay")
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def big(disk: Path) -> Iterator[Any]:
    """A database whose topology has two thousand pages of neighbours."""
    with snapdb.connect(disk / "big.snapdb") as database:
        database.script(f"""
            CREATE TABLE node AS SELECT range AS id FROM range({NODES});
            CREATE TABLE edge AS SELECT hash(range) % {NODES} AS src, hash(range * 7 + 1) % {NODES} AS dst
              FROM range({EDGES});
            CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id))
              EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
            CREATE SNAPSHOT whole OF g;
            CREATE SAMPLER train AS {SAMPLE} REFRESH FCR EVERY 100000 BATCHES;
            CREATE CACHE rows ON SAMPLER train IN MEMORY '64MB'
        """)
        yield database


def read_bytes() -> int:
    """What this process has read from disks."""
    path = Path("/proc/self/io")
    if not path.exists():
        pytest.skip("this system does not count what a process reads")
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("read_bytes"))


def forget(path: Path) -> None:
    """Drops a file's pages from memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def cold_batch(database: Any, stream: Any, ids: np.ndarray) -> tuple[int, int]:
    """Bytes that a batch reads of a topology that is not in memory: as the engine counts them, and as the kernel."""
    sampler = stream.sampler
    scratch = sampler.scratch()
    sampler.sample(vertex_input("node", ids[:1]), 0, scratch)  # loads kernels
    rows = sampler.traversals[0].arrays.rows
    assert read_singly([rows.indices], room=0)
    path = next(path for path in database.path.rglob("indices.npy"))
    held = rows.indices.base
    while isinstance(held, np.ndarray):
        held = held.base
    held.madvise(mmap.MADV_DONTNEED)  # this process's own way to the pages: who else is there would keep them
    forget(path)
    before = read_bytes()
    found = sampler.sample(vertex_input("node", ids), 1, scratch)
    read = read_bytes() - before  # before what counts is loaded, which reads too
    return _pages_read(sampler, found, 1), read


def test_a_batch_without_a_cache_reads_the_pages_that_the_engine_counts(big: Any) -> None:
    with big.stream(SAMPLE, threads=0) as stream:
        counted, read = cold_batch(big, stream, np.arange(0, NODES, NODES // BATCH)[:BATCH])
    assert counted > 100 * mmap.PAGESIZE
    assert read == pytest.approx(counted, rel=0.02)


def test_a_full_cache_reads_nothing_of_the_topology(big: Any) -> None:
    with big.stream("train", threads=0) as stream:
        next(iter(stream))
        until(lambda: (stats := stream.cache_stats()) and 0 < stats["rows"] == stats["filled"])
        counted, read = cold_batch(big, stream, np.arange(0, NODES, NODES // BATCH)[:BATCH])
    assert (counted, read) == (0, 0)


def test_maps_that_fit_into_memory_are_left_as_they_are(disk: Path) -> None:
    np.save(disk / "fits.npy", np.zeros(1 << 20))
    array = map_array(disk / "fits.npy")
    assert not read_singly([array], room=array.nbytes)
    assert not read_singly([np.zeros(1 << 20)], room=0)  # no map: it is in memory already


def test_the_memory_that_is_available_is_below_that_of_the_machine() -> None:
    assert 0 < available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_rows_that_are_asked_for_ahead_are_the_same_rows(disk: Path) -> None:
    rows = np.random.default_rng(0).random((30_000, 25)).astype(np.float32)
    np.save(disk / "rows.npy", rows)
    mapped, ids = map_array(disk / "rows.npy"), np.random.default_rng(1).integers(0, len(rows), 10_000)
    assert np.array_equal(ArrayFeature(mapped, scarce=True).read(ids), gather(rows, ids))
    assert np.array_equal(gather_mapped(mapped[:, 0], ids), rows[ids, 0])
    assert gather_mapped(mapped, ids[:0]).shape == (0, 25)
    with pytest.raises(IndexError, match="row 30000 does not exist: there are 30000 rows"):
        gather_mapped(mapped, np.array([1, 30_000]))


@pytest.mark.parametrize("width", [1, 25])
def test_patched_rows_that_are_requested_ahead_are_the_same_rows(disk: Path, width: int) -> None:
    rng = np.random.default_rng(width)
    shape = () if width == 1 else (width,)
    np.save(disk / "rows.npy", rng.random((30_000, *shape)).astype(np.float32))
    np.save(disk / "newer.npy", rng.random((3_000, *shape)).astype(np.float32))
    rows, newer = (map_array(disk / name) for name in ("rows.npy", "newer.npy"))
    marked = np.sort(rng.choice(31_000, 3_000, replace=False))
    for count in (0, 1, 4096, 4097, 20_000):
        ids = rng.integers(0, 31_000, count)
        plain, ahead = (
            gather_over(rows, newer, overlay(marked, 31_000), 7.0, 31_000, ids, mapped=mapped)
            for mapped in (False, True)
        )
        expected = np.full((31_000, *shape), 7.0, np.float32)
        expected[:30_000], expected[marked] = rows, newer
        assert np.array_equal(plain, expected[ids])
        assert np.array_equal(ahead, plain)
    with pytest.raises(IndexError, match="row 31000 does not exist: there are 31000 rows"):
        gather_over(rows, newer, overlay(marked, 31_000), 7.0, 31_000, np.array([5] * 5000 + [31_000]), mapped=True)


def test_a_history_that_is_requested_ahead_gives_the_same_rows(disk: Path) -> None:
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 9, 20_000)
    lengths[7] = 50_000  # more pages than are requested for one row
    np.save(disk / "indptr.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.save(disk / "time.npy", np.concatenate([np.sort(rng.integers(0, 1000, length)) for length in lengths]))
    indptr, time = (map_array(disk / name) for name in ("indptr.npy", "time.npy"))
    for count in (0, 1, 4097, 30_000):
        ids, before = rng.integers(0, 20_000, count), rng.integers(0, 1100, count)
        ids[: count // 10] = 7
        plain = last_before(indptr, time, ids, before)
        assert np.array_equal(last_before(indptr, time, ids, before, mapped=True), plain)
        for id_, bound, found in list(zip(ids, before, plain, strict=True))[:500]:
            row = time[indptr[id_] : indptr[id_ + 1]]
            assert found == (indptr[id_] + (row < bound).sum() - 1 if (row < bound).any() else -1)
    with pytest.raises(IndexError, match="row 20000 does not exist: there are 20000 rows"):
        last_before(indptr, time, np.array([20_000]), np.array([1]), mapped=True)


def test_features_with_newer_rows_are_read_ahead_too(disk: Path) -> None:
    with snapdb.connect(disk / "d.snapdb") as db:
        db.script("""
            CREATE TABLE node AS SELECT range AS id, [range, 1]::FLOAT[2] AS f FROM range(300_000);
            CREATE TABLE edge AS SELECT range AS a, (range + 1) % 300_000 AS b FROM range(300_000);
            CREATE PROPERTY GRAPH g VERTEX TABLES (node KEY (id) FEATURES (f AS x)) EDGE TABLES (edge
                SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
            CREATE SNAPSHOT s OF g;
            UPDATE node SET f = [-1, -1] WHERE id % 1000 = 0;
            REFRESH SNAPSHOT s""")
        statement = "SAMPLE FROM s SEEDS (SELECT id FROM node) AS node FANOUT (edge => [2]) BATCH 5000"
        with db.stream(statement, threads=0) as stream:
            view = for_random_reads(stream.view, stream.sampler.relations, available_memory())
            ids = np.arange(0, 300_000, 17)
            read = view.node_features["node"]["x"]
            assert read.scarce
            assert np.array_equal(read.read(ids), stream.view.node_features["node"]["x"].read(ids))
            assert (read.read(ids)[ids % 1000 == 0] == -1).all()


def test_a_view_that_fits_is_read_as_it_was(big: Any) -> None:
    with big.stream(SAMPLE, threads=0) as stream:
        assert for_random_reads(stream.view, stream.sampler.relations, 0) is stream.view
        assert for_random_reads(stream.view, stream.sampler.relations, available_memory()) is not stream.view


def test_what_a_cache_is_going_to_take_counts_before_it_is_there(big: Any) -> None:
    with big.stream(SAMPLE, threads=0) as stream:
        assert stream._workers.builder.cache.wanted() == 0
    with big.stream("train", threads=0) as stream:
        wanted = stream._workers.builder.cache.wanted()
        next(iter(stream))
        assert settles(lambda: (stream.cache_stats() or {})["bytes"] > 0)
        assert stream.cache_stats()["bytes"] == pytest.approx(wanted, rel=0.01)
    big.execute("CREATE OR REPLACE CACHE rows ON SAMPLER train IN MEMORY '1MB'")
    with big.stream("train", threads=0) as stream:
        assert stream._workers.builder.cache.wanted() == 1_000_000
