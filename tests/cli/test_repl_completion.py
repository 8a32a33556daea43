"""Completion: what is offered where, without a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import snapdb
from snapdb.errors import SnapdbError
from snapdb.sql import parse
from snapdb.types.algorithms import algorithm
from snapdb_cli.repl.commands import COMMANDS
from tests.support.inside.cli import DatabaseNames, NamesCompleter, _Highlighter, complete, suggest

SOCIAL = """
CREATE TABLE person AS SELECT i AS pid, i % 2 AS half FROM range(4) r(i);
CREATE TABLE knows AS SELECT i AS a, (i + 1) % 4 AS b, i AS ts FROM range(4) r(i);
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (pid)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES person
  DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
CREATE SNAPSHOT early OF social FOR EVENT_TIME AS OF 2;
CREATE SAMPLER train AS SAMPLE FROM early SEEDS (SELECT pid FROM person) AS person FANOUT (knows => [2]);
CREATE TAG first;
CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' AS REFRESH SNAPSHOT early;
"""
PATTERN = "SELECT * FROM GRAPH_TABLE ("
SAMPLED = "SAMPLE FROM early SEEDS (SELECT pid FROM person) AS person "


@pytest.fixture(scope="module")
def known() -> Iterator[DatabaseNames]:
    with snapdb.connect() as database:
        database.script(SOCIAL)
        yield DatabaseNames.from_names(database.names())


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("SELECT * FROM pe", ["person"]),
        ("SELECT * FROM ", ["person", "knows", "early", "snapdb"]),
        ("SELECT * FROM early.kn", ["knows"]),
        ("SELECT * FROM snapdb.vers", ["versions"]),
        ("SELECT * FROM person p JOIN knows k ON k.", ["a", "b", "ts"]),
        ("SELECT * FROM person p JOIN knows k ON p.pi", ["pid"]),
        ("SELECT * FROM person WHERE ", ["pid", "half"]),
        ("SELECT pid fr", ["from"]),
        ("WITH q AS (SELECT 1 AS z) SELECT * FROM q", ["q"]),
        ("SELECT * FROM person AT (TAG => ", ["'first'"]),
        ("INSERT INTO ", ["person", "knows"]),
        ("COPY ", ["person", "knows", "early"]),
        ("\\d early.", ["early.person", "early.knows"]),
        ("SELECT 1 \\g", ["\\g", "\\gx"]),
        ("SELECT * FROM person \\wat", ["\\watch"]),
        ("INSERT INTO knows (", ["a", "b", "ts"]),
        ("UPDATE person SET ", ["pid", "half"]),
        ("UPDATE person SET pid = hal", ["half"]),
        ("DELETE FROM knows WHERE ", ["a", "b", "ts"]),
        ("ALTER TABLE person DROP COLUMN h", ["half"]),
        ("DROP SNAPSHOT IF EXISTS ", ["early"]),
        ("DROP GRAPH ", ["social", "IF EXISTS"]),
        ("DESCRIBE SAMPLER ", ["train"]),
        ("CREATE SNAPSHOT x OF ", ["social"]),
        ("CREATE SNAPSHOT x OF social WHERE knows.", ["a", "b", "ts"]),
        ("CREATE SNAPSHOT x OF social ELEMENTS (person, ", ["person", "knows"]),
        ("REFRESH SNAPSHOT ", ["early"]),
        ("DIFF SNAPSHOT early WITH ", ["early"]),
        ("DIFF TABLE knows FROM VERSION 1 ", ["ROWS", "TO"]),
        ("SAMPLE FROM ", ["early"]),
        ("SAMPLE USING ", ["train"]),
        ("SAMPLE FROM early SEEDS (SELECT pid FROM pers", ["person"]),
        ("SAMPLE FROM early SEEDS (SELECT 1) AS ", ["person"]),
        ("SAMPLE FROM early SEEDS EDGES ", ["knows"]),
        (SAMPLED + "FANOUT (kn", ["knows"]),
        (SAMPLED + "FANOUT (knows => [2], ", ["knows", "DEFAULT"]),
        (SAMPLED + "FANOUT (knows => [2]) METHOD BOT", ["BOTTOMK"]),
        (SAMPLED + "FANOUT (knows => [2]) ON ", ["'cpu'", "'cuda'", "'cuda:0'"]),
        ("EXPLAIN ANALYZE SAMPLE FROM ", ["early"]),
        ("EXPLAIN SELECT * FROM pers", ["person"]),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (", ["person", "knows"]),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (", ["pid", "half"]),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (pid)) EDGE TABLES (knows SOURCE KEY (", ["a", "b", "ts"]),
        ("ALTER TASK ", ["nightly"]),
        ("ALTER TASK nightly SET (re", ["retries ="]),
        ("ALTER TASK nightly SET (retries = 2, catch_up = n", ["none"]),
        ("EXECUTE TASK ", ["nightly"]),
        ("DROP TASK IF EXISTS ", ["nightly"]),
        ("DESCRIBE TASK ", ["nightly"]),
        ("SHOW TASK RUNS OF ", ["nightly"]),
        ("CREATE TASK t SCHEDULE EVERY INTERVAL '1 day' AS REFRESH SNAPSHOT ", ["early"]),
        ("SHOW TABLES; SELECT * FROM pers", ["person"]),
        ("\\d ea", ["early"]),
        ("\\dk ", ["nightly"]),
        ("\\tim", ["\\timing"]),
        ("\\h create sn", ["create snapshot"]),
        ("\\h REFRESH ", ["REFRESH CACHE", "REFRESH SNAPSHOT"]),
        ("\\set expanded ", ["on", "off", "auto"]),
        (".mode ma", ["markdown"]),
        ("\\e SELECT * FROM pers", ["person"]),
        ("SELECT * FROM gra", ["graph_table"]),
        ("SELECT * FROM pager", ["pagerank("]),
        ("SELECT * FROM pagerank(", ["'early'"]),
        ("SELECT * FROM person JOIN pagerank('early', ", [f"{o.name} =>" for o in algorithm("pagerank").options]),
        ("SELECT * FROM pagerank('early', damping => 0.5, dir", ["direction =>"]),
        ("SELECT * FROM pagerank('early', direction => ", ["'out'", "'in'", "'both'"]),
        ("SELECT * FROM pagerank('early', edges => ", ["'knows'"]),
        ("SELECT * FROM pagerank('early', weight => ", ["'a'", "'b'", "'ts'"]),
        ("SELECT * FROM hops('early', seeds => ", ["(SELECT "]),
        ("SELECT * FROM hops('early', seeds => (SELECT pid FROM per", ["person"]),
        ("SAMPLE FROM early SEEDS (SELECT pid FROM hops(", ["'early'"]),
        (PATTERN, ["early", "social"]),
        (PATTERN + "early AT (TAG => ", ["'first'"]),
        (PATTERN + "early MATCH (a:", ["person"]),
        (PATTERN + "early MATCH (a IS person)-[e:", ["knows"]),
        (PATTERN + "social MATCH (a IS ", ["person", "knows"]),
        (PATTERN + "early MATCH (a:person)-[e:knows WHERE e.", ["a", "b", "ts", "e_id"]),
        (PATTERN + "early MATCH (a:person)-[e:knows]->(b) ", ["COLUMNS", "KEEP", "ONE ROW PER", "WHERE"]),
        (PATTERN + "early MATCH (a:person)-[e:knows]->(b) COLUMNS (", ["a", "e", "b"]),
        (PATTERN + "early MATCH (a:person)-[e:knows]->(b) COLUMNS (path_l", ["path_length("]),
        (PATTERN + "early MATCH ANY SHORTEST TRAIL TI", ["TIME RESPECTING"]),
        (PATTERN + "early MATCH (a) COLUMNS (a.pid)) WHER", ["WHERE"]),
    ],
)
def test_what_may_follow_is_offered(known: DatabaseNames, text: str, offered: list[str]) -> None:
    assert suggest(text, known) == offered


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -- pers",
        "SELECT 12",
        "SELECT /* pers",
        "CREATE TAG IF NOT EXISTS ",
        "CREATE TASK IF NOT EXISTS ",
        "SELECT $1",
    ],
)
def test_nothing_is_offered_where_nothing_known_can_stand(known: DatabaseNames, text: str) -> None:
    assert suggest(text, known) == []


def test_the_clauses_of_a_sample_are_offered_once_each(known: DatabaseNames) -> None:
    text = SAMPLED + "FANOUT (knows => [2]) "
    assert "BATCH" in suggest(text, known)
    assert "FANOUT" not in suggest(text, known)
    assert "BATCH" not in suggest(text + "BATCH 4 ", known)
    assert "METHOD" in suggest(text + "BATCH 4 ", known)


def test_columns_of_a_select_list_are_those_of_the_tables_behind_it(known: DatabaseNames) -> None:
    assert suggest("SELECT p", known, " FROM knows")[0] != "pid"
    assert suggest("SELECT p", known, " FROM person")[0] == "pid"
    assert suggest("SELECT ", known, " FROM knows k WHERE true") == ["a", "b", "ts", "k"]
    assert suggest("SELECT e_", known, " FROM early.knows")[0] == "e_id"


def test_a_statement_begins_with_what_the_grammars_take() -> None:
    begun = suggest("", DatabaseNames())
    assert {"SELECT", "CREATE TABLE", "SAMPLE FROM", "SHOW SNAPSHOTS", "EXPIRE SNAPSHOTS", "EXPLAIN"} <= set(begun)
    assert {"CREATE CACHE", "REFRESH CACHE"} <= set(begun)
    assert {"CREATE TASK", "ALTER TASK", "EXECUTE TASK", "DROP TASK", "SHOW TASKS", "SHOW TASK RUNS"} <= set(begun)


def test_misspelt_and_scattered_letters_find_what_was_meant(known: DatabaseNames) -> None:
    assert suggest("SELECT * FROM persn", known) == ["person"]
    assert suggest("SELECT * FROM erson", known) == ["person"]
    assert suggest("SELET", known)[0] == "SELECT"
    assert suggest("SELECT cod", DatabaseNames(functions=("sum", "count_odd")))[0] == "count_odd("


def test_the_case_of_words_follows_what_is_typed() -> None:
    assert "SAMPLE FROM" in suggest("SA", DatabaseNames())
    assert "sample from" in suggest("sa", DatabaseNames())


def test_names_that_need_quotes_get_them() -> None:
    odd = DatabaseNames.from_names({"tables": ["my table", "order", "plain"], "columns_of": {"my table": ['a"b']}})
    assert suggest("SELECT * FROM ", odd) == ['"my table"', '"order"', "plain"]
    assert suggest('SELECT * FROM "my', odd) == ['"my table"']
    assert suggest('SELECT * FROM "my table" WHERE ', odd) == ['"a""b"']


def test_files_and_folders_are_offered_inside_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "day's.parquet").touch()
    (tmp_path / ".hidden").touch()
    monkeypatch.chdir(tmp_path)
    assert suggest("SELECT * FROM '", DatabaseNames()) == ["raw/"]
    assert suggest("COPY t FROM 'raw/d", DatabaseNames()) == ["day''s.parquet"]
    assert suggest("\\i raw/", DatabaseNames()) == ["day's.parquet"]
    assert suggest("\\i .hid", DatabaseNames()) == [".hidden"]
    assert suggest("SELECT * FROM 'nowhere/", DatabaseNames()) == []


def test_what_is_offered_is_what_the_parser_takes(known: DatabaseNames) -> None:
    """Every word that completion offers after a statement that is whole makes another that can be read so far."""
    whole = SAMPLED + "FANOUT (knows => [2])"
    for word in suggest(whole + " ", known):
        with pytest.raises(SnapdbError) as caught:
            parse(f"{whole} {word} ?")
        assert caught.value.span is not None
        assert caught.value.span.start > len(whole), (word, str(caught.value))


def test_every_command_is_offered_by_its_name() -> None:
    for name in (name for command in COMMANDS for name in command.names if name[0] in "\\."):
        assert name in suggest(name, DatabaseNames())


def test_ten_thousand_columns_take_less_than_fifty_milliseconds() -> None:
    columns = {f"t{i}": [f"column_{i}_{j}" for j in range(100)] for i in range(100)}
    many = DatabaseNames.from_names(
        {"tables": list(columns), "columns_of": columns, "functions": [f"f{i}" for i in range(700)]}
    )
    complete("", many)  # builds the grammars
    taken = []
    for text in ("SELECT c", "SELECT colmn_7", "SELECT x9_99", "SELECT nothing_of_it", "SELECT * FROM t5 WHERE "):
        best = float("inf")
        for _ in range(5):
            started = time.thread_time()
            complete(text, many)
            best = min(best, time.thread_time() - started)
        taken.append(best)
    assert max(taken) < 0.05


def test_tab_asks_and_letters_do_not_unless_there_are_some(known: DatabaseNames) -> None:
    completer = NamesCompleter(lambda: known)
    typed, asked = CompleteEvent(text_inserted=True), CompleteEvent(completion_requested=True)
    assert list(completer.get_completions(Document("SELECT * FROM "), typed)) == []
    assert [c.text for c in completer.get_completions(Document("SELECT * FROM pers"), typed)] == ["person"]
    assert [c.text for c in completer.get_completions(Document("SELECT count(*) FROM early.kno"), asked)] == ["knows"]


@pytest.mark.parametrize(
    ("text", "piece", "style"),
    [
        ("SAMPLE FROM q3 SEEDS (1)", "SEEDS", "keyword"),
        ("SAMPLE FROM q3 SEEDS (1)", "q3", "name"),
        ("SELECT 'it''s' AS x", "'it''s'", "string"),
        ("SELECT 'unfinished", "'unfinished", "unfinished"),
        ("SELECT 1 -- why", "-- why", "comment"),
        ("SELECT 1.5", "1.5", "number"),
        ("\\timing on", "\\timing", "command"),
    ],
)
def test_what_is_typed_is_coloured_by_what_it_is(text: str, piece: str, style: str) -> None:
    line = _Highlighter().lex_document(Document(text))(0)
    assert style in next(kind for kind, part, *_ in line if part == piece)
    assert "".join(part for _, part, *_ in line) == text


def test_rows_come_before_the_clauses_behind_values(known: DatabaseNames) -> None:
    assert suggest("INSERT INTO person VALUES ", known) == []
    assert "MESSAGE" in suggest("INSERT INTO person VALUES (1, 2) ", known)
