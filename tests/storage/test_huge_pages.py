"""Published arrays leave the page cache, so that their next reader caches them in huge pages."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import snapdb
from snapdb.storage import array_files, gc, manifests
from snapdb.storage.array_files import drop_cached_pages
from tests.support.inside.storage import _HUGE_PAGE, has_huge_pages

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which pages of a file are cached")


@pytest.fixture
def big_graph(tmp_path: Path) -> snapdb.Database:
    """A graph whose topology is larger than a huge page."""
    db = snapdb.connect(tmp_path / "big.snapdb")
    db.execute("CREATE TABLE person AS SELECT range AS id FROM range(1000)")
    db.execute("CREATE TABLE met AS SELECT range % 1000 AS a, (range // 7) % 1000 AS b FROM range(600000)")
    db.execute(
        "CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id)) "
        "EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person)"
    )
    return db


def cached(path: Path) -> int:
    """The bytes of a file that are in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as map_:
        view = np.frombuffer(map_, np.uint8)
        pages = np.zeros(-(-view.size // mmap.PAGESIZE), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        done = libc.mincore(
            ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(view.size), ctypes.c_void_p(pages.ctypes.data)
        )
        assert done == 0, os.strerror(ctypes.get_errno())
        del view
    return int((pages & 1).sum()) * mmap.PAGESIZE


def explained(db: snapdb.Database) -> str:
    """The plan of a SAMPLE, in one line."""
    text = "EXPLAIN SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (met => [3]) BATCH 10"
    return " ".join(" ".join(row[0] for row in db.execute(text).fetchall()).split())


def written(path: Path, size: int) -> Path:
    with open(path, "wb") as file:
        file.write(bytes(size))
        os.fsync(file.fileno())
    return path


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk, where tests' own folders may be in memory."""
    with TemporaryDirectory(dir="/var/tmp" if Path("/var/tmp").is_dir() else None) as folder:
        yield Path(folder)


@linux
def test_a_large_file_leaves_the_page_cache_and_a_small_one_stays(on_disk: Path) -> None:
    large, small = written(on_disk / "large", 2 * _HUGE_PAGE), written(on_disk / "small", _HUGE_PAGE // 2)
    if not has_huge_pages():
        pytest.skip("this kernel has no huge pages")
    assert cached(large) == 2 * _HUGE_PAGE
    drop_cached_pages(large)
    drop_cached_pages(small)
    if cached(large) == 2 * _HUGE_PAGE:
        pytest.skip("this file system keeps its files in memory")
    assert cached(large) == 0
    assert cached(small) > 0


@linux
def test_without_huge_pages_nothing_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch = tmp_path / "enabled"
    switch.write_text("always madvise [never]\n")
    monkeypatch.setattr(array_files, "_SWITCH", switch)
    file = written(tmp_path / "large", 2 * _HUGE_PAGE)
    drop_cached_pages(file)
    assert cached(file) == 2 * _HUGE_PAGE
    monkeypatch.setattr(array_files, "_SWITCH", tmp_path / "no such switch")
    assert not has_huge_pages()


def test_a_file_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    drop_cached_pages(tmp_path / "gone.npy")


def test_a_snapshot_and_vacuum_drop_the_pages_of_its_arrays(
    big_graph: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[Path] = []
    monkeypatch.setattr(manifests, "drop_cached_pages", dropped.append)
    monkeypatch.setattr(gc, "drop_cached_pages", dropped.append)
    big_graph.execute("CREATE SNAPSHOT s OF g")
    arrays = set((tmp_path / "big.snapdb").glob("*/**/*.npy"))
    assert {path.name for path in arrays} >= {"indptr.npy", "indices.npy", "edge_id.npy"}
    assert arrays <= set(dropped)
    assert all(path.exists() for path in dropped)  # under their published names
    dropped.clear()
    big_graph.execute("VACUUM DRY RUN").fetchall()
    assert dropped == []
    big_graph.execute("VACUUM").fetchall()
    assert set(dropped) == arrays


def test_explain_says_where_the_kernel_has_no_huge_pages(
    big_graph: snapdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big_graph.execute("CREATE SNAPSHOT s OF g")
    monkeypatch.setattr(array_files, "_SWITCH", tmp_path / "no such switch")
    plan = explained(big_graph)
    assert "no huge pages for files on this kernel" in plan
    switch = tmp_path / "enabled"
    switch.write_text("[always] madvise never\n")
    monkeypatch.setattr(array_files, "_SWITCH", switch)
    plan = explained(big_graph)
    assert "huge pages" not in plan
