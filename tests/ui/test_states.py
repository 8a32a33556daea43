"""Databases that were moved, are damaged or empty, or change while pages are read."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import snapdb
from snapdb.remote import attach
from snapdb_cli.main import main
from tests.support.inside.ui import Reader, reader
from tests.support.places import ROOT
from tests.support.site import SHOP, site
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize(
    "path", ["", "tables", "tables/t", "graphs", "snapshots", "samplers", "tasks", "caches", "versions"]
)
def test_a_database_that_was_moved_is_told_and_comes_back(tmp_path: Path, path: str) -> None:
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.execute("CREATE TABLE t AS SELECT 1 AS a")
    with site(tmp_path / "shop.snapdb") as own_site:
        own_site.page(path)
        (tmp_path / "shop.snapdb").rename(tmp_path / "elsewhere")
        page = own_site.page(path)
        assert "shop.snapdb" in page.text
        assert page.all("div", **{"class": "failure"})
        assert "Traceback" not in page.text
        assert own_site.get("version").status_code == 503
        (tmp_path / "elsewhere").rename(tmp_path / "shop.snapdb")
        assert not own_site.page(path).all("div", **{"class": "failure"})


def test_a_newer_format_is_told(tmp_path: Path) -> None:
    path = tmp_path / "shop.snapdb"
    with snapdb.connect(path) as own:
        own.execute("CREATE TABLE t AS SELECT 1 AS a")
    with closing(sqlite3.connect(path / "catalog.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with site(path) as pages:
        text = pages.page("tables").text
    assert "newer" in text
    assert "FormatError" in text
    result = CliRunner().invoke(main, ["ui", str(path), "--no-open"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "newer" in result.stderr


def test_a_disk_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with snapdb.connect(disk / "shop.snapdb") as own:
            own.script(SHOP)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=PATIENCE)
        with site(disk / "shop.snapdb") as pages:
            for path in ("", "tables/bought", "snapshots/now", "samplers/train/sample", "tasks"):
                assert not pages.page(path).all("div", **{"class": "failure"}), path
    finally:
        subprocess.run(["umount", "-l", str(disk)], timeout=PATIENCE, check=True)


def test_damage_is_told_where_it_is(tmp_path: Path) -> None:
    copy = tmp_path / "shop.snapdb"
    with snapdb.connect(copy) as own:
        own.script(SHOP)
    for file in copy.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-40])
    for file in copy.rglob("*.npy"):
        os.truncate(file, 10)
    with site(copy) as own:
        page = own.page("tables/bought")
        assert page.table("column", "type")  # what the catalog contains is shown
        assert "is damaged" in page.text or "corrupt" in page.text.lower()
        for path in ("snapshots/now", "samplers/train/sample", "samplers/train"):
            page = own.page(path)
            assert page.all("div", **{"class": "failure"}), path
            assert "Traceback" not in page.text


def test_an_empty_database_says_what_to_do(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "empty"):
        pass
    with site(tmp_path / "empty") as own:
        text = own.page().text
        assert "CREATE SNAPSHOT name OF graph" in text
        for path in ("tables", "graphs", "snapshots", "samplers", "tasks", "caches", "versions"):
            page = own.page(path)
            assert not page.all("div", **{"class": "failure"})
            assert page.all("p", **{"class": "empty"}), path


WRITER = """
import sys, snapdb
with snapdb.connect(sys.argv[1]) as db:
    for step in range(int(sys.argv[2])):
        with db.transaction():
            db.execute("INSERT INTO t VALUES (1)")
            db.execute("INSERT INTO u VALUES (1)")
        if step % 5 == 4:
            db.execute("VACUUM")
"""


def test_pages_are_of_one_moment_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "shop.snapdb"
    with snapdb.connect(path) as own:
        own.script("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), "40"], cwd=ROOT)
    loads = 0
    with site(path) as own_site:
        while writer.poll() is None:
            page = own_site.page("tables")
            assert not page.all("div", **{"class": "failure"}), page.text
            counts = {row["rows"] for row in page.table("table", "rows")}
            assert len(counts) == 1, counts
            loads += 1
        assert own_site.page("tables").table("table", "rows")[0]["rows"] == "40"
    assert writer.wait(PATIENCE) == 0
    assert loads > 0


def test_a_slow_panel_is_of_one_moment_too(tmp_path: Path) -> None:
    path = tmp_path / "shop.snapdb"
    with snapdb.connect(path) as own:
        own.script("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")

        def write() -> None:
            with own.transaction():
                own.execute("INSERT INTO t VALUES (1)")
                own.execute("INSERT INTO u VALUES (1)")

        def counts(db: snapdb.Database) -> list[object]:
            first = db.execute("SELECT count(*) FROM t").fetchall()
            write()
            own.execute("VACUUM")
            return [first, db.execute("SELECT count(*) FROM u").fetchall(), db.names()["tables"]]

        with site(path) as pages:
            for step in range(3):
                found = asyncio.run(Reader(path).run(gone, counts))
                assert found == [[(step,)], [(step,)], ["t", "u"]]
            assert pages.page("tables").table("table", "rows")[0]["rows"] == "3"


async def gone() -> bool:
    return False


@pytest.mark.parametrize("bound", ["9999-12-31", "0001-01-01", "2026-01-01"])
def test_snapshots_at_the_ends_of_time_are_drawn(tmp_path: Path, bound: str) -> None:
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.script(SHOP)
        own.execute(f"CREATE SNAPSHOT far OF shop FOR EVENT_TIME AS OF TIMESTAMP '{bound}'")
    with site(tmp_path / "shop.snapdb") as pages:
        for path in ("", "snapshots"):
            page = pages.page(path)
            assert page.all("svg", **{"class": "timeline"})
            assert "far: " in page.text


def test_the_pages_of_a_published_database_follow_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FOLLOW", 0.0)
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.execute("CREATE TABLE t AS SELECT 1 AS a")
        own.execute(f"PUBLISH TO '{tmp_path}/published'")
        url = f"file://{tmp_path}/published"
        with site(attach(url, tmp_path / "cache").root) as pages:
            page = pages.page("tables")
            assert page.table("table", "rows")[0]["rows"] == "1"
            assert f"Read-only, on this machine: {url}" in page.text
            assert page.all("title")
            own.execute("INSERT INTO t VALUES (2)")
            own.execute(f"PUBLISH TO '{tmp_path}/published'")
            assert pages.page("tables").table("table", "rows")[0]["rows"] == "2"
            assert url in pages.ran("DROP TABLE t").text


def test_many_readers_get_their_pages(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.script(SHOP)
    problems: list[str] = []

    with site(tmp_path / "shop.snapdb") as pages:

        def read() -> None:
            for path in ("tables", "snapshots", "versions"):
                response = pages.get(f"{path}?whole=1")
                if response.status_code != 200 or 'class="failure"' in response.text:
                    problems.append(response.text)

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert problems == []
