"""The SQL page: which statements run, their results and limits, and downloads."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import snapdb
from snapdb.execute.rendering import spell
from snapdb.memory import usable_memory
from tests.support.site import ORIGIN, SHOP, Html, Site, site
from tests.support.waiting import PATIENCE, until

ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range % 7 = b.range"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statements") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
    return path


@pytest.fixture(scope="module")
def pages(shop: Path) -> Iterator[Site]:
    with site(shop, limit=50) as own:
        yield own


READING = [
    "SELECT who, what FROM bought ORDER BY ts LIMIT 5",
    "FROM product LIMIT 3",
    "SELECT sku FROM product AT (VERSION => 2) LIMIT 3",
    "SHOW SNAPSHOTS",
    "DESCRIBE SNAPSHOT now",
    "SUMMARIZE SNAPSHOT now",
    "SAMPLE USING train BATCH 2",
    "SAMPLE FROM now SEEDS (SELECT 'c1' AS id) AS customer FANOUT (bought OUT => [2])",
    "EXPLAIN SAMPLE USING train",
    "DIFF SNAPSHOT now WITH january",
    "CHECK DATABASE",
]


@pytest.mark.parametrize("statement", READING)
def test_statements_that_read_show_their_rows(pages: Site, shop: Path, statement: str) -> None:
    page = pages.ran(statement)
    with snapdb.connect(shop, read_only=True) as db:
        table = db.execute(statement).arrow()
    assert not page.all("div", **{"class": "failure"}), page.text
    if not table.num_rows:
        assert "0 rows" in page.text
        return
    (shown,) = page.tables
    assert shown[0] == table.column_names
    assert len(shown) - 1 == min(table.num_rows, 50)
    assert ("there are more" in page.text) == (table.num_rows > 50)


WRITING = [
    "INSERT INTO product VALUES (1, 2)",
    "UPDATE product SET price = 0",
    "DELETE FROM product",
    "CREATE TABLE x AS SELECT 1",
    "DROP TABLE product",
    "CREATE SNAPSHOT x OF shop",
    "REFRESH SNAPSHOT now",
    "DROP SNAPSHOT now",
    "COPY product TO 'x.csv'",
    "COPY (SELECT 1) TO 'x.parquet'",
    "COPY SNAPSHOT now TO 'x'",
    "EXECUTE TASK good",
    "ALTER TASK good SUSPEND",
    "VACUUM",
    "BEGIN",
    "PUBLISH TO 'x'",
    "BACKUP DATABASE TO 'x'",
    "EXPIRE SNAPSHOTS OF shop BY RETENTION DRY RUN",
    "CREATE SAMPLER x AS SAMPLE USING train",
    "CREATE TAG x",
]


@pytest.mark.parametrize("statement", WRITING)
def test_statements_that_do_more_are_refused_with_the_way_to_run_them(
    pages: Site, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    page = pages.ran(statement)
    assert page.all("div", **{"class": "failure"})
    assert "page-reads-only" in page.text or "ParseError" in page.text
    if "page-reads-only" in page.text:
        assert f"snapdb {shop}" in page.text
    assert list(tmp_path.iterdir()) == []
    for wanted in ("csv", "parquet"):
        assert pages.post("sql/download", sql=statement, format=wanted).status_code == 400


def test_explain_analyze_of_a_write_changes_nothing(pages: Site) -> None:
    page = pages.ran("EXPLAIN ANALYZE DELETE FROM product")
    assert page.all("div", **{"class": "failure"})
    assert pages.ran("SELECT count(*) FROM product").tables[0][1] == ["31"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/home/*')",
        "SELECT * FROM read_csv('https://example.com/a.csv')",
        "SELECT * FROM 's3://bucket/a.parquet'",
    ],
)
def test_queries_read_no_other_files(pages: Site, query: str) -> None:
    page = pages.ran(query)
    assert page.all("div", **{"class": "failure"})
    assert "root:" not in page.text


def test_a_folder_that_was_given_can_be_read(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n5\n")
    query = f"SELECT * FROM '{tmp_path}/a.csv'"
    with site(shop, folders=[tmp_path]) as own:
        assert own.ran(query).tables[0][1] == ["5"]
    with site(shop) as own:
        assert "folder-not-allowed" in own.ran(query).text


def test_several_statements_or_none_are_refused(pages: Site) -> None:
    for text in ("", "   ", "-- nothing", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE product"):
        assert pages.ran(text).all("div", **{"class": "failure"}), text
    assert pages.ran("SELECT 1;").tables[0][1] == ["1"]


def test_an_error_is_marked_in_the_statement(pages: Site) -> None:
    page = pages.ran("SELECT *\nFROM boght")
    assert "BindError unknown-table" in page.text
    assert "FROM boght\n" in page.text
    assert "^^^^^" in page.text
    assert 'did you mean "bought"?' in page.text
    assert page.all("textarea")
    assert "FROM boght" in page.text  # the statement is still there


@pytest.mark.parametrize(
    "statement", ["COPY (SELECT 1) TO '{}/out.csv'", "COPY SNAPSHOT now TO '{}/out'", "BACKUP DATABASE TO '{}/out'"]
)
def test_explain_analyze_writes_no_files_in_a_folder_that_can_be_read(
    shop: Path, tmp_path: Path, statement: str
) -> None:
    with site(shop, folders=[tmp_path]) as own:
        for prefix in ("", "EXPLAIN ANALYZE ", "EXPLAIN (ANALYZE) "):
            assert "page-reads-only" in own.ran(prefix + statement.format(tmp_path)).text
    assert list(tmp_path.iterdir()) == []


VALUES = """
SELECT 'infinity'::TIMESTAMP AS a, TIMESTAMP '290000-01-01' AS b, DATE '5000000-01-01' AS c, INTERVAL '1 month' AS d,
  MAP {'x': 2} AS e, TIMESTAMP '2026-01-01 00:00:00.000001' AS f, 1234567.891 AS g, 1e300 AS h, 'nan'::DOUBLE AS i,
  NULL AS j, true AS k, 'ab'::BLOB AS l, [1, NULL] AS m, {'p': 'q'} AS n, 12345678901234567890123::HUGEINT AS o
"""


def test_values_are_those_of_the_command_line(pages: Site, shop: Path) -> None:
    with snapdb.connect(shop, read_only=True) as db:
        wanted = [spell(column)[0] for column in db.execute(VALUES).arrow().columns]
    assert pages.ran(VALUES).tables[0][1] == ["NULL" if text is None else text for text in wanted]
    _, found = csv.reader(io.StringIO(pages.post("sql/download", sql=VALUES, format="csv").text))
    assert found == ["" if text is None else text for text in wanted]
    refused = pages.post("sql/download", sql=VALUES, format="parquet")
    assert refused.status_code in (200, 400)
    refused = pages.post("sql/download", sql="SELECT INTERVAL '1 month' AS d", format="parquet")
    assert (refused.status_code, "VARCHAR" in refused.text) == (400, True)


def test_explain_is_a_button(pages: Site) -> None:
    page = Html(pages.post("sql", sql="SELECT 1", explain="1").text)
    assert page.tables[0][0] == ["plan"]


def test_with_scripts_only_the_result_is_sent(pages: Site) -> None:
    headers = {"origin": ORIGIN, "hx-request": "true"}
    response = pages.client.post(f"{pages.access.base}/sql", data={"sql": "SELECT 7 AS x"}, headers=headers)
    assert Html(response.text).tables == [[["x"], ["7"]]]
    assert "<html" not in response.text


def test_downloads_contain_all_rows(pages: Site, shop: Path) -> None:
    query = "SELECT who, what, ts, [what, 1] AS list, NULL AS nothing FROM bought ORDER BY ts, who"
    with snapdb.connect(shop, read_only=True) as db:
        wanted = db.execute(query).arrow()
    response = pages.post("sql/download", sql=query, format="csv")
    assert response.headers["content-disposition"] == 'attachment; filename="result.csv"'
    head, *found = csv.reader(io.StringIO(response.text))
    assert head == wanted.column_names
    assert len(found) == wanted.num_rows > 1000
    assert [row[:2] for row in found] == [[r["who"], str(r["what"])] for r in wanted.to_pylist()]
    assert {row[4] for row in found} == {""}
    content = pages.post("sql/download", sql=query, format="parquet").content
    assert pq.read_table(io.BytesIO(content)).equals(wanted)
    failed = pages.post("sql/download", sql="SELECT x FROM nowhere", format="csv")
    assert (failed.status_code, "nowhere" in failed.text) == (400, True)


def test_a_statement_ends_at_the_time_limit_while_others_answer(shop: Path) -> None:
    texts: list[str] = []
    with site(shop, timeout=3.0) as own:
        running = threading.Thread(target=lambda: texts.append(own.ran(ENDLESS).text))
        running.start()
        assert own.ran("SELECT 5 AS x").tables[0][1] == ["5"]
        assert running.is_alive()
        running.join(PATIENCE)
        assert "QueryError page-timeout" in texts[0]
        assert "--timeout" in texts[0]
        assert own.ran("SELECT 5 AS x").tables[0][1] == ["5"]


def test_beyond_four_statements_the_next_is_refused(shop: Path) -> None:
    answers: list[Any] = []

    def run() -> None:
        headers = {"origin": ORIGIN, "hx-request": "true"}
        answers.append(own.client.post(f"{own.access.base}/sql", data={"sql": ENDLESS}, headers=headers))

    with site(shop, timeout=20.0, patience=0.5) as own:
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: own.reader.running == 4)
        run()
        assert answers[0].status_code == 429
        assert "page-busy" in answers[0].text
        own.reader.interrupt()
        for thread in threads:
            thread.join(PATIENCE)
        assert [answer.status_code for answer in answers] == [429, 200, 200, 200, 200]
        assert all("interrupted" in answer.text for answer in answers[1:])


def test_a_result_of_large_values_is_cut(pages: Site) -> None:
    page = pages.ran("SELECT range AS i, repeat('x', 1_000_000) AS text FROM range(40)")
    assert 1 < len(page.tables[0]) < 12
    assert "there are more" in page.text


def test_statements_share_a_quarter_of_the_memory(pages: Site) -> None:
    with pages.reader.database() as db:
        ((limit,),) = db.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = limit.split(" ")
    size = float(number) * {"GiB": 2**30, "MiB": 2**20}[unit]
    assert size == pytest.approx(usable_memory() / 16, rel=0.1)


def test_names_for_completion_are_those_of_the_database(pages: Site) -> None:
    names = pages.get("names").json()
    assert {"bought", "who", "january", "train", "shop"} <= set(names)
    assert names == sorted(names)


def test_the_version_is_polled(shop: Path, pages: Site) -> None:
    with snapdb.connect(shop) as db:
        before = pages.get("version").json()["version"]
        db.execute("CREATE TABLE another AS SELECT 1 AS a")
        assert pages.get("version").json()["version"] == before + 1
        db.execute("DROP TABLE another")
