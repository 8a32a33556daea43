"""What a task runs: read when it is made, then with placeholders filled and paths made absolute, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb import Database
from snapdb.errors import ParseError, Span
from snapdb.sql import parse
from snapdb.sql_engine import SqlEngine
from tests.support.inside.plan import _check_condition
from tests.support.inside.sql import (
    _READERS,
    CreateTask,
    SqlFragment,
    Statement,
    changed_graphs,
    filled,
    named_paths,
    rendered,
    statements_of,
    with_counts,
)
from tests.support.thoroughness import examples
from tests.support.trees import statements

VALUES = {"date": "20270314", "time": "023000", "version": "41", "run": "7"}
TASK = "CREATE TASK n SCHEDULE EVERY INTERVAL '1 day' "

NAMED = (
    # (a text with its paths between ¦ and ¦, the places that it needs where it counts from /d)
    ("SELECT * FROM ¦a.csv¦", "/d/a.csv"),
    ("from¦a.csv¦select 'b.csv', 'c.csv'", "/d/a.csv"),
    (
        "SELECT 'x.csv' AS a, 'y.csv' FROM t, ¦in/a.csv¦ b, t2 JOIN ¦/e/c.csv¦ ON b.x = 'd.csv', ¦f.csv¦",
        "/d/f.csv /d/in/a.csv /e/c.csv",
    ),
    ("SELECT * FROM t WHERE a IN ('x.csv', 'y.csv') ORDER BY 'z.csv', 'w.csv'", ""),
    ("SELECT * FROM (SELECT 'x.csv', 'y.csv') a, (FROM ¦z.csv¦), (VALUES ('w.csv'), ('v.csv'))", "/d/z.csv"),
    ("FROM (¦a.csv¦ x JOIN ¦b.csv¦ y USING (k)), ¦c.csv¦", "/d/a.csv /d/b.csv /d/c.csv"),
    ("WITH w AS (FROM ¦a.csv¦), v AS (SELECT 'x') SELECT * FROM w, v UNION ALL SELECT 'a', 'b'", "/d/a.csv"),
    ("SELECT extract(year FROM 'x'), trim(both 'a' FROM 'b'), 'c' IS DISTINCT FROM 'd', 'e' FROM ¦f.csv¦", "/d/f.csv"),
    ("SELECT substring('a' FROM 'b'), event_time FROM ¦x.csv¦", "/d/x.csv"),
    ("FROM read_csv(¦in/*.csv¦, delim = 'x', nullstr = 'y')", "/d/in/"),
    ("FROM read_parquet([¦a/x.parquet¦, ¦/b/{date}/*.parquet¦], union_by_name = true)", "/b/20270314/ /d/a/x.parquet"),
    ("FROM main.read_text(¦a.txt¦), LATERAL glob(¦**¦), x: ¦b.csv¦, read_blob(¦c?/d¦)", "/d/ /d/a.txt /d/b.csv"),
    ("FROM read_csv(['a' || 'b', 'c'::VARCHAR]), read_csv('a' || 'b'), read_csv(concat('a', 'b'))", ""),
    ("SELECT read_csv('x'), 'abc' GLOB ('a*'), t.glob('x') FROM range(3)", ""),
    ("FROM sniff_csv(¦~/x.csv¦)", os.path.expanduser("~/x.csv")),
    ("FROM ¦file:///e/x.csv¦", "/e/x.csv"),
    ("FROM read_json($p$it's.json$p$)", "/d/it's.json"),
    (
        "SUMMARIZE ¦a.csv¦; DESCRIBE ¦b/b.csv¦; PIVOT ¦c.csv¦ ON x IN ('y', 'z'); UNPIVOT ¦/e.csv¦ ON x",
        "/d/a.csv /d/b/b.csv /d/c.csv /e.csv",
    ),
    ("CREATE TABLE t AS SELECT 'FROM ''x''' AS \"FROM 'y'\" /* FROM 'z' */ -- FROM 'w'\nFROM ¦a.csv¦", "/d/a.csv"),
    ("INSERT INTO t VALUES ('a.csv', 'b.csv'), ('c.csv', 'd') MESSAGE 'e.csv'; INSERT INTO t FROM ¦f.csv¦", "/d/f.csv"),
    ("UPDATE t SET a = 'x', b = 'y' FROM ¦u.csv¦ u, ¦v.csv¦ v WHERE t.a = u.a", "/d/u.csv /d/v.csv"),
    ("DELETE FROM t USING ¦u.csv¦ u, ¦v.csv¦ v WHERE t.a = u.a", "/d/u.csv /d/v.csv"),
    ("COPY t FROM ¦in/{date}/*.parquet¦ (FORMAT parquet)", "/d/in/20270314/"),
    ("COPY (SELECT 'x.csv' FROM ¦a.csv¦) TO ¦out/b.csv¦ (DELIM ',')", "/d/a.csv /d/out/"),
    (
        "COPY t TO ¦../out/[x].csv¦; COPY SNAPSHOT s TO ¦/o/june/¦; EXPLAIN ANALYZE COPY t TO ¦p.csv¦",
        "/d/ /d/../out/ /o/",
    ),
    (
        "COPY (SAMPLE FROM s SEEDS (SELECT a FROM ¦a.csv¦) AS v FANOUT (e => [2])) TO ¦out/b¦ (FORMAT npz)",
        "/d/a.csv /d/out/",
    ),
    ("CREATE SNAPSHOT s_{date} OF g FOR EVENT_TIME FROM '2026-01-01' TO '2026-02-01' WHERE e.a <> 'x'", ""),
    ("SELECT * FROM t AT (TAG => 'x'), ¦a.csv¦; DIFF TABLE t FROM TIMESTAMP '2026-01-01' TO TAG 'x'", "/d/a.csv"),
    ("CREATE CACHE c ON SAMPLER s IN FILE '4GB'; EXPIRE SNAPSHOTS OF g OLDER THAN INTERVAL '30 days'", ""),
)


def expected(text: str, folder: str = "/d") -> str:
    """A text with absolute paths between quotes, where they stood between ¦ and ¦."""
    pieces = text.split("¦")
    for index in range(1, len(pieces), 2):
        path = pieces[index]
        local = path.startswith("file:")
        pieces[index] = "'" + (path if local else os.path.join(folder, os.path.expanduser(path))) + "'"
    return "".join(pieces)


@pytest.mark.parametrize(("text", "places"), NAMED)
def test_paths_become_absolute_and_values_stay(text: str, places: str) -> None:
    wanted = "FROM read_json('/d/it''s.json')" if "$p$" in text else expected(text)
    text = "'".join(text.split("¦"))
    for name, value in VALUES.items():
        wanted = wanted.replace("{" + name + "}", value)
    found = rendered(text, VALUES, "/d")
    assert found.text == wanted
    assert " ".join(found.places) == places
    assert rendered(found.text, VALUES, "/elsewhere").text == found.text


def test_what_counts_from_a_folder_with_marks_of_globs_is_no_glob() -> None:
    found = rendered("FROM '*.csv'; COPY t TO 'x.csv'", VALUES, "/d/[1]*")
    assert found.text == "FROM '/d/[[]1][*]/*.csv'; COPY t TO '/d/[1]*/x.csv'"
    assert found.places == ("/d/[1]*/",)


@settings(max_examples=examples(150), deadline=None)
@given(statements)
def test_nothing_but_paths_and_placeholders_changes(statement: Statement) -> None:
    text = statement.to_sql()
    try:
        paths = named_paths(text)
    except ParseError:  # a URL
        return
    found = rendered(text, VALUES, "/d").text
    kept, position, place = [], 0, 0
    for path in paths:
        kept.append(text[position : path.span.start])
        position = path.span.stop
    for piece in (filled(part, VALUES).text for part in (*kept, text[position:])):  # all else is there, in order
        place = found.index(piece, place) + len(piece)
    assert found.endswith(piece)


fragments = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "'a.csv'",
        "t",
        ",",
        "(",
        ")",
        "JOIN",
        "read_csv",
        "[",
        "]",
        "WHERE",
        ".",
        "COPY",
        "TO",
        "{run}",
        ";",
        "'it''s'",
        "EXPLAIN",
        "USING",
        "DELETE",
        ":",
        "glob",
        "TABLE",
        "DISTINCT",
        "trim",
        "--x\n",
        '"q"',
        "$$d$$",
        "/* {date} */",
    ]
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(fragments, max_size=14).map(" ".join))
def test_texts_that_are_no_statements_are_rendered_or_refused(text: str) -> None:
    try:
        found = rendered(text, VALUES, "/d")
    except ParseError:
        return
    assert rendered(found.text, VALUES, "/e") == found
    plain = found.text.replace("'/d/", "'").replace("'d'", "$$d$$")
    assert plain == text.replace("{run}", "7").replace("{date}", "20270314")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bodies")
    (root / "in").mkdir()
    for name in ("a.csv", "in/b.csv", "in/c.csv"):
        (root / name).write_text("x,k\n1,p\n2,q\n")
    return root


@pytest.fixture(scope="module")
def db(home: Path) -> Iterator[Database]:
    with Database(home / "db") as database:
        database.script("CREATE TABLE t (x BIGINT, k VARCHAR); INSERT INTO t VALUES (1, 'p')")
        yield database


QUERIES = (
    "SELECT sum(x) FROM 'in/*.csv'",
    "SELECT a.x + b.x FROM 'a.csv' a, './in/b.csv' b ORDER BY ALL",
    "SELECT count(*) FROM (('a.csv' a JOIN 'in/b.csv' b USING (k)) JOIN 'in/../a.csv' c USING (k))",
    "SELECT sum(x) FROM read_csv(['a.csv', 'in/b.csv'], header = true) WHERE k <> 'a.csv'",
    "SELECT length(content) FROM read_text('a.csv'), range(2), LATERAL (SELECT 'in/b.csv')",
    "SELECT count(*) FROM glob('in/*')",
    "SELECT x, trim(LEADING 'q' FROM k) FROM y: 'a.csv'",
    "FROM (PIVOT 'a.csv' ON k IN ('p', 'q') USING sum(x))",
    "SELECT count(*) FROM t SEMI JOIN 'a.csv' a USING (k) WHERE EXISTS (FROM sniff_csv('in/b.csv'))",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_rendered_query_gives_the_same_from_anywhere_with_only_its_folders(
    db: Database, home: Path, query: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(home)
    wanted = db.execute(query).fetchall()
    monkeypatch.chdir(tmp_path)
    found = rendered(query, VALUES, str(home))
    with Database(home / "db", folders=found.places) as restricted:
        assert restricted.execute(found.text).fetchall() == wanted


def test_every_function_of_duckdb_that_reads_files_is_known() -> None:
    functions = duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table' "
        "AND parameter_types[1] IN ('VARCHAR', 'VARCHAR[]')"
    ).fetchall()
    others = {name for (name,) in functions} - _READERS
    assert {name for name in others if name.startswith(("read", "parquet", "sniff", "scan", "glob"))} == set()


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ("EXECUTE TASK m", "refused", "EXECUTE TASK m"),
        ("$$ SELECT {run}; EXPLAIN EXECUTE TASK m $$", "refused", "EXECUTE TASK m"),
        ("$$ SELECT 1; CREATE TASK m SCHEDULE 'USING CRON 0 3 * * *' AS VACUUM $$", "refused", "TASK"),
        ("$x$ BEGIN; INSERT INTO t SELECT {run} $x$", "task-transaction", "BEGIN"),
        ("$$ BEGIN; COMMIT; COMMIT $$", "task-transaction", "COMMIT"),
        ("$$ BEGIN; BEGIN; COMMIT $$", "task-transaction", "BEGIN"),
        ("ROLLBACK", "task-transaction", "ROLLBACK"),
        ("COPY t FROM 'hf://bucket/{date}.csv'", "task-url", "'hf://bucket/{date}.csv'"),
        ("SELECT * FROM read_parquet(['a.parquet', 'ftp://e.org/x'])", "task-url", "'ftp://e.org/x'"),
        ("COPY t TO 'file:///out/x.csv'", "task-url", "'file:///out/x.csv'"),
        ("COPY t TO '/x.csv'", "task-everywhere", "'/x.csv'"),
        ("FROM '/*/{run}.csv'", "task-everywhere", "'/*/{run}.csv'"),
        ("FROM read_csv(['x.csv', 'file:///in/..'])", "task-everywhere", "'file:///in/..'"),
    ],
)
def test_a_body_is_refused_at_its_place(body: str, code: str, place: str) -> None:
    text = f"{TASK}AS {body}"
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.code == code
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)] == place


def test_bodies_that_may_stand() -> None:
    for body in (
        "$$ BEGIN; INSERT INTO t SELECT 1; COMMIT; BEGIN; ROLLBACK; $$",
        "DROP TASK m",
        "ALTER TASK m SUSPEND",
        "$$ SELECT execute task FROM u; SHOW TASKS $$",
        "COPY t FROM 'file:///in/x.csv'",
        "FROM '/x.csv', '*.csv', '../*'",
    ):
        (statement,) = parse(f"{TASK}AS {body}")
        assert isinstance(statement, CreateTask)


def test_the_statements_of_a_body_are_counted() -> None:
    for body, count in (("VACUUM", 1), ("a;;b; -- c;\n'd;'; (e;)", 4), ("SELECT {run};SELECT {date}", 2), ("", 0)):
        assert statements_of(body) == count


def test_changed_stands_for_a_number() -> None:
    condition = "changed('shop') > 10 AND Changed/**/( 'it''s' ) < 3 OR t.changed('x') OR changed = 'changed(''y'')'"
    assert [name for name, _ in changed_graphs(condition)] == ["shop", "it's"]
    assert [condition[slice(*span)] for _, span in changed_graphs(condition)] == [
        "changed('shop')",
        "Changed/**/( 'it''s' )",
    ]
    found = with_counts(condition, {"shop": 12, "it's": 0})
    assert found == "12 > 10 AND 0 < 3 OR t.changed('x') OR changed = 'changed(''y'')'"


@pytest.fixture(scope="module")
def sql_engine(home: Path) -> Iterator[SqlEngine]:
    with closing(SqlEngine(home)) as found:
        yield found


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("changed(shop) > 0", "changed(shop)"),
        ("changed('a', 'b') > 0", "changed('a', 'b')"),
        ("changed('{date}') + + > 0", ">"),
        ("(SELECT count(*) FROM t AT (VERSION => 3)) > 0 FROM", "FROM"),
        ("(SELECT {version} + at FROM t WHERE) > 0", ")"),
        ("changed('shop') > 0 AND x y z", "y"),
        ("EXISTS (FROM 'ftp://x/y.csv')", "'ftp://x/y.csv'"),
    ],
)
def test_a_wrong_condition_is_told_at_its_place(sql_engine: SqlEngine, condition: str, place: str) -> None:
    text = f"{TASK}WHEN ({condition}) AS VACUUM"
    start = text.index(condition)
    with pytest.raises(ParseError) as caught:
        _check_condition(SqlFragment(condition, Span(start, start + len(condition))), sql_engine)
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)] == place


def test_right_conditions_need_no_names_yet(sql_engine: SqlEngine) -> None:
    for condition in (
        "changed('shop') > 0",
        "(SELECT max(at) FROM nothere AT (TAG => 'x')) > now() -- so\n",
        "SELECT count(*) > {run} FROM glob('in/*.csv')",
        "nosuch(1) OR changed > 3",
        "true",
        "'{date}' IS DISTINCT FROM '{time}'",
    ):
        _check_condition(SqlFragment(condition, Span(0, len(condition))), sql_engine)
