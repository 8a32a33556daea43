"""A published database is opened, checked and published from the command line by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapdb
from tests.support.program import run

SETUP = """
CREATE TABLE t AS SELECT range AS id, range * 2 AS b FROM range(100);
CREATE PROPERTY GRAPH g VERTEX TABLES (t KEY (id) FEATURES (b))
  EDGE TABLES (t AS e SOURCE KEY (id) REFERENCES t (id) DESTINATION KEY (id) REFERENCES t (id));
CREATE SNAPSHOT s OF g;
CREATE SNAPSHOT u OF g;
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a database, and a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAPDB_CACHE", str(tmp_path / "cache"))
    with snapdb.connect("shop.snapdb") as db:
        db.script(SETUP)
    return tmp_path


def test_a_database_is_published_and_read_by_url(folder: Path) -> None:
    url = f"file://{folder}/out"
    published = run("publish", "shop.snapdb", "out", "--snapshots", "s", "--tables", "all", "--keep", "2")
    assert (published.exit_code, published.stdout) == (0, "")
    assert f"generation 1 at {url}: " in published.stderr
    read = run(url, "--format", "csv", "-c", "SELECT sum(b) AS n FROM t; SELECT name FROM snapdb.snapshots")
    assert (read.exit_code, read.stdout.split()) == (0, ["n", "9900", "name", "s"])
    assert run("check", url).exit_code == 0
    assert run("export", url, "s", "--to", "exported").exit_code == 0
    assert (folder / "exported" / "manifest.json").exists()


def test_damage_of_a_publication_is_listed(folder: Path) -> None:
    run("publish", "shop.snapdb", "out")
    for path in (folder / "out" / "topology").rglob("indices.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    checked = run("check", f"file://{folder}/out", "--format", "csv")
    assert checked.exit_code == 1
    assert "indices.npy" in checked.stdout


def test_what_cannot_be_done_is_said(folder: Path) -> None:
    run("publish", "shop.snapdb", "out")
    url = f"file://{folder}/out"
    cases: list[tuple[tuple[str, ...], str]] = [
        (("publish", "shpo.snapdb", "out"), "no database exists at"),
        (("publish", "shop.snapdb", "out", "--snapshots", "nothing"), 'snapshot "nothing" does not exist'),
        (("publish", "shop.snapdb", "ftp://host/x"), "is not the URL of a published database"),
        ((url, "-c", "DROP SNAPSHOT s"), "is a published database, which is read-only"),
        (("backup", url, "copy"), "back up the database that publishes it"),
        (("publish", url, "elsewhere"), "which is read-only"),
        ((f"{url}/nothing", "-c", "SELECT 1"), "no database is published at"),
        (("s3://me:secret@bucket/x", "-c", "SELECT 1"), "contains credentials"),
    ]
    for words, said in cases:
        result = run(*words)
        assert result.exit_code == 1, words
        assert said in result.stderr, (words, result.stderr)
        assert "secret" not in result.stderr
        assert "Traceback" not in result.output
    assert not (folder / "shpo.snapdb").exists()
