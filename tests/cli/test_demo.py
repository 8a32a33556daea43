"""The demo runs from end to end, teaches with statements that work, and its figures agree with each other."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb_cli.commands.demo import run
from tests.support.inside.cli import _write_demo_data
from tests.support.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The database that one run of the demo left, and all that it said."""
    path = tmp_path_factory.mktemp("demo") / "demo.snapdb"
    said: list[str] = []
    run(path, said.append)
    return path, "\n".join(said)


def test_the_graph_wins_clearly_over_the_features(database: tuple[Path, str]) -> None:
    _, said = database
    rows = re.findall(r"(features only|GraphSAGE) +(0\.\d+) +(0\.\d+) +(\d+)\n", said)
    (_, plain_auc, plain_ap, plain_top), (_, auc, ap, top) = rows
    assert float(auc) > 0.9
    assert float(plain_auc) < 0.7
    assert float(ap) > 5 * float(plain_ap)
    assert int(top) > 2 * int(plain_top)


def test_a_demo_leaves_a_database_that_is_there_alone(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "mine.snapdb") as mine:
        mine.execute("CREATE TABLE t AS SELECT 1 AS a")
    with refused("exists"):
        run(tmp_path / "mine.snapdb", lambda said: None)
    with snapdb.connect(tmp_path / "mine.snapdb") as mine:
        assert [row[0] for row in mine.execute("SHOW TABLES").fetchall()] == ["t"]


def test_the_batches_are_the_same_on_any_number_of_threads(database: tuple[Path, str]) -> None:
    _, said = database
    digests = re.findall(r"threads?(?:, again)? +([0-9a-f]{32})\n", said)
    assert len(digests) == 3
    assert len(set(digests)) == 1


def test_the_growth_table_agrees_with_the_snapshots_that_stay(database: tuple[Path, str]) -> None:
    path, said = database
    told = dict(re.findall(r"│ (\w{3}) +│ +(\d+) │ +\d+ │\n", said))
    assert list(told) == ["jan", "feb", "mar", "apr", "may", "jun"]
    with snapdb.connect(path) as db:
        for name, payments in told.items():
            assert db.execute(f"SELECT count(*) FROM {name}.paid").fetchall() == [(int(payments),)]
        assert db.execute("SELECT count(*) FROM paid").fetchall() == [(int(told["jun"]),)]


def test_the_difference_of_two_snapshots_points_at_the_ring(database: tuple[Path, str]) -> None:
    _, said = database
    surge = re.findall(r"│ (A\d{4}) +│ 2026-\d\d-\d\d │ +(\d+) │ +(\d+) │ +(\d) │", said)
    assert len(surge) == 8
    assert all(int(june) > int(before) for _, before, june, _ in surge)
    assert sum(int(ring) for *_, ring in surge) >= 6


def test_the_same_seed_writes_the_same_data(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, again = _write_demo_data(tmp_path / "a"), _write_demo_data(tmp_path / "b")
    for name, path in first.items():
        assert pq.read_table(path).equals(pq.read_table(again[name]))


def test_no_payment_comes_before_its_accounts_open(tmp_path: Path) -> None:
    files = _write_demo_data(tmp_path)
    with snapdb.connect() as db:
        early = f"""
            SELECT count(*) FROM '{files["payments"]}' AS p, '{files["accounts"]}' AS a
            WHERE a.id IN (p.payer, p.payee) AND p.paid_at < a.opened"""
        assert db.execute(early).fetchall() == [(0,)]
