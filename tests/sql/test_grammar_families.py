"""COPY, EXPLAIN, SHOW, caches, tasks and retention: what their statements say, and where their mistakes are shown."""

from __future__ import annotations

from typing import TypeVar

import pytest

from snapdb.errors import ParseError
from snapdb.sql import parse
from tests.support.inside.sql import (
    AlterTask,
    CopyFrom,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    CreateCache,
    CreateSnapshot,
    CreateTask,
    Describe,
    Drop,
    DropRetention,
    ExecuteTask,
    Explain,
    Insert,
    Query,
    RefreshCache,
    Sample,
    SetRetention,
    Show,
    Statement,
    Summarize,
)

T = TypeVar("T", bound=Statement)
SAMPLE = "SAMPLE FROM q SEEDS (SELECT 1) AS v FANOUT (e => [2])"


def one(kind: type[T], text: str) -> T:
    (statement,) = parse(text)
    assert isinstance(statement, kind)
    return statement


def mistake(text: str) -> tuple[str, str]:
    """What is underlined, and the message."""
    with pytest.raises(ParseError) as raised:
        parse(text)
    error = raised.value
    assert error.span is not None
    assert error.text == text
    return text[error.span.start : error.span.stop], error.message


def test_a_copy_says_what_where_and_how() -> None:
    table = one(
        CopyTo, "COPY bought AT (TAG => 'june') (a, \"b c\") TO 'x''y' WITH (FORMAT csv, HEADER, FORCE_QUOTE (a))"
    )
    assert (str(table.table), [str(c) for c in table.columns], table.path) == ("bought", ["a", "b c"], "x'y")
    assert table.source[slice(*table.path_span)] == "'x''y'"
    assert table.at is not None
    assert (table.at.kind, table.snapshot, table.query) == ("TAG", None, None)
    (format_, csv), (header, true), (force, columns) = table.options
    assert (str(format_), csv, str(header), true, str(force)) == ("FORMAT", "csv", "HEADER", True, "FORCE_QUOTE")
    assert isinstance(columns, tuple)
    assert str(columns[0]) == "a"
    element = one(CopyTo, "COPY q3.bought TO 'x'")
    assert (str(element.snapshot), str(element.table), element.columns) == ("q3", "bought", ())
    query = one(CopyTo, "COPY (WITH a AS (SELECT $x) FROM a) TO 'x' (FORMAT json)").query
    assert query is not None
    assert query.text == "WITH a AS (SELECT $x) FROM a"


def test_snapshots_and_samples_are_copied_into_folders() -> None:
    snapshot = one(CopySnapshotTo, "COPY SNAPSHOT q3 TO 'out/' (FORMAT pyg)")
    assert (str(snapshot.snapshot), snapshot.path, snapshot.options[0][1]) == ("q3", "out/", "pyg")
    sample = one(CopySampleTo, f"COPY ({SAMPLE}) TO 'out/' (FORMAT pt, EPOCHS 3)")
    assert isinstance(sample.sample, Sample)
    assert (sample.sample.text, sample.options[1][1]) == (SAMPLE, 3)


@pytest.mark.parametrize("name", ["snapshot", "to", "task", "sample", "cache"])
def test_a_table_may_have_the_name_of_a_kind(name: str) -> None:
    assert str(one(CopyFrom, f"COPY {name} FROM 'x'").table) == name
    assert str(one(CopyTo, f"COPY {name} TO 'x'").table) == name
    assert str(one(CopyTo, f"COPY q.{name} (a) TO 'x'").table) == name


@pytest.mark.parametrize(
    ("text", "analyze", "json"),
    [
        ("EXPLAIN", False, False),
        ("EXPLAIN ANALYZE", True, False),
        ("explain (format JSON)", False, True),
        ("EXPLAIN ANALYZE (FORMAT text)", True, False),
        ("EXPLAIN (ANALYZE, FORMAT json)", True, True),
    ],
)
@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        ("SELECT 1", Query),
        ("(SELECT 1) UNION (SELECT 2)", Query),
        ("FROM t", Query),
        ("INSERT INTO t VALUES (1) MESSAGE 'x'", Insert),
        ("CREATE OR REPLACE SNAPSHOT s OF g WHERE a > 1", CreateSnapshot),
        (SAMPLE, Sample),
        ("SHOW TABLES", Show),
        ("COPY t TO 'x' (FORMAT csv)", CopyTo),
    ],
)
def test_every_statement_is_explained(text: str, analyze: bool, json: bool, inner: str, kind: type[Statement]) -> None:
    explain = one(Explain, f"  {text} /* of */ {inner} ; ")
    assert isinstance(explain.statement, kind)
    assert (explain.statement.text, explain.analyze, explain.json) == (inner, analyze, json)


@pytest.mark.parametrize(
    ("text", "what", "of"),
    [
        ("SHOW SAMPLERS", "SAMPLERS", None),
        ("SHOW COLUMNS", "COLUMNS", None),
        ("SHOW COLUMNS OF t", "COLUMNS", "t"),
        ("SHOW CACHES", "CACHES", None),
        ("SHOW TASKS", "TASKS", None),
        ("SHOW TASK RUNS", "TASK RUNS", None),
        ("SHOW TASK RUNS OF nightly", "TASK RUNS", "nightly"),
    ],
)
def test_everything_is_shown(text: str, what: str, of: str | None) -> None:
    show = one(Show, f"{text} LIKE 'a%'")
    assert (show.what, show.of and str(show.of), show.like) == (what, of, "a%")


@pytest.mark.parametrize("kind", ["SAMPLER", "CACHE", "TASK"])
def test_samplers_caches_and_tasks_are_described_and_dropped(kind: str) -> None:
    assert (one(Describe, f"DESC {kind} n").kind, one(Drop, f"DROP {kind} IF EXISTS n").kind) == (kind, kind)


def test_a_name_alone_is_described_whatever_it_is() -> None:
    for text in ("DESCRIBE bought", 'desc "bought"', "DESCRIBE update"):
        assert one(Describe, text).kind is None
    for text in ("DESCRIBE q.bought", "DESCRIBE SELECT 1", "DESCRIBE 'a.csv'", "DESCRIBE task", "DESCRIBE table.x"):
        one(Query, text)


def test_a_snapshot_is_summarized_by_name() -> None:
    assert str(one(Summarize, "SUMMARIZE SNAPSHOT q3").name) == "q3"
    for text in ("SUMMARIZE snapshot", "SUMMARIZE snapshot.bought", "SUMMARIZE q3.bought", "SUMMARIZE SELECT 1"):
        one(Query, text)


def test_a_cache_says_of_which_sampler_and_where() -> None:
    cache = one(CreateCache, "CREATE OR REPLACE CACHE IF NOT EXISTS hot ON SAMPLER train IN FILE '4GB'")
    assert cache.room is not None
    assert (str(cache.name), str(cache.sampler), cache.room.where, cache.room.bytes) == (
        "hot",
        "train",
        "FILE",
        4 * 10**9,
    )
    assert (cache.or_replace, cache.if_not_exists) == (True, True)
    assert one(CreateCache, "CREATE CACHE hot ON SAMPLER train").room is None
    assert [one(RefreshCache, f"REFRESH CACHE hot{c}").concurrently for c in ("", " CONCURRENTLY")] == [False, True]


TASK = "CREATE TASK nightly SCHEDULE EVERY INTERVAL '1 day' "


def test_a_task_says_when_whether_how_and_what() -> None:
    task = one(
        CreateTask,
        "CREATE OR REPLACE TASK nightly SCHEDULE 'using cron 0  3 * * 1-5 Europe/Berlin' "
        "WHEN ((SELECT count(*) FROM t) > 0) WITH (timeout = '30 minutes', RETRIES = 2, overlap = 'Skip') "
        "AS INSERT INTO t SELECT {run} MESSAGE '{date}'",
    )
    assert (task.schedule.cron, task.schedule.every) == ("0 3 * * 1-5 Europe/Berlin", None)
    assert task.when is not None
    assert task.when.text == "(SELECT count(*) FROM t) > 0"
    said = [(option.name, option.value) for option in task.options]
    assert said == [("timeout", "30 minutes"), ("retries", 2), ("overlap", "skip")]
    assert task.body.text == "INSERT INTO t SELECT {run} MESSAGE '{date}'"
    for option in ("timeout = INTERVAL '30' MINUTES", "TIMEOUT = INTERVAL 30 MINUTES", "timeout = '30 MINUTES'"):
        task = one(CreateTask, TASK + f"WITH ({option}, overlap = Queue, catch_up = 'ALL') AS SELECT 1")
        said = [(option.name, option.value) for option in task.options]
        assert said == [("timeout", "30 MINUTES"), ("overlap", "queue"), ("catch_up", "all")]
    every = one(CreateTask, TASK + "AS $do$ BEGIN; DELETE FROM t_{date}; COMMIT $do$")
    assert every.schedule.every is not None
    assert every.schedule.every.text == "INTERVAL '1 day'"
    assert every.body.text == "$do$ BEGIN; DELETE FROM t_{date}; COMMIT $do$"


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("0 3 * * *", "0 3 * * * UTC"),
        ("*/5  9-17 1,15 jan-mar,DEC mon-fri America/New_York", "*/5 9-17 1,15 JAN-MAR,DEC MON-FRI America/New_York"),
        ("0 0 L * * Asia/Kolkata", "0 0 L * * Asia/Kolkata"),
        ("0 0 LW 2 5L,FRI#2,7", "0 0 LW 2 5L,FRI#2,7 UTC"),
        ("0 0 29 2 * Etc/GMT+3", "0 0 29 2 * Etc/GMT+3"),
    ],
)
def test_a_line_of_cron_is_read_in_a_zone(line: str, read: str) -> None:
    assert one(CreateTask, f"CREATE TASK n SCHEDULE 'USING CRON {line}' AS SELECT 1").schedule.cron == read


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 3 * * * Europe/Berln", 'unknown time zone "Europe/Berln" in USING CRON; did you mean "Europe/Berlin"'),
        ("0 3 * * * localtime", 'unknown time zone "localtime" in USING CRON; write an IANA name'),
        ("0 0 3 * * *", "minute, hour, day of the month, month, day of the week and may have a time zone"),
        ("0 0 3 * * * UTC", "found '0 0 3 * * * UTC'"),
        ("0 3 * * * ../etc/localtime", "may have a time zone"),
        ("@daily", "does not support @daily; write 'USING CRON 0 0 * * *'"),
        ("@reboot", "does not support @reboot; write 'USING CRON 0 3 * * * UTC'"),
        ("0 0 31 4 *", "0 0 31 4 * never starts a run, because its months do not have that day"),
        ("0 0 30 2 */2", "never starts a run"),
        ("0 3 * MON *", "the month of USING CRON must be 1 to 12 or JAN to DEC"),
        ("0 3 * 13 *", "found 13"),
        ("0 3 * * FRI#6", "FRI#2 for the second of a month, 5L for the last one"),
        ("0 3 * * FRI-SUN", "0 to 7 or SUN to SAT"),
        ("0 3 L/2 * *", "L for the last one"),
        ("5-5/10 3 * * *", "found 5-5/10"),
    ],
)
def test_the_mistakes_of_a_line_of_cron_are_told(line: str, message: str) -> None:
    found, said = mistake(f"CREATE TASK n SCHEDULE 'USING CRON {line}' AS SELECT 1")
    assert message in said
    assert found == f"'USING CRON {line}'"


def test_a_task_is_altered_and_run() -> None:
    assert [one(AlterTask, f"ALTER TASK n {word}").action for word in ("SUSPEND", "RESUME")] == ["SUSPEND", "RESUME"]
    settings = one(AlterTask, "ALTER TASK n SET (catch_up = 'last')")
    assert [(o.name, o.value) for o in settings.options] == [("catch_up", "last")]
    assert str(one(ExecuteTask, "EXECUTE TASK n").name) == "n"


def test_retention_says_what_is_kept_and_how_long() -> None:
    kept = one(SetRetention, "ALTER PROPERTY GRAPH shop SET RETENTION (all '3 days', WEEKLY '180 days', keep_tagged)")
    assert str(kept.graph) == "shop"
    assert [(rule.keeps, rule.length) for rule in kept.rules] == [("all", "3 days"), ("weekly", "180 days")]
    assert (kept.keep_tagged, kept.dry_run) == (True, False)
    tried = one(SetRetention, "ALTER GRAPH shop SET RETENTION (daily '1 day') DRY RUN")
    assert (tried.keep_tagged, tried.dry_run) == (False, True)
    assert str(one(DropRetention, "ALTER PROPERTY GRAPH shop DROP RETENTION").graph) == "shop"


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("AS SELEC {run}", "SELEC", 'did you mean "SELECT"'),
        ("AS CREATE SNAPSHOT shop_{date} OFF shop", "OFF", "expected OF"),
        ("AS $$ SELECT 1; DROP TABLE $$", "", "unexpected end of statement"),
        ("AS $$ SELECT {version}; DROP TABEL t $$", "TABEL", 'did you mean "TABLE"'),
        ("AS $$ SELECT '{run} $$", "'", "unterminated string"),
        ("AS $$ SELECT (1; $$", "(", "never closed"),
        ("AS $$ /* nothing */ $$", " /* nothing */ ", "the body of the task is empty"),
        ("AS CREATE SNAPSHOT s_{dat} OF g", "dat", 'did you mean "date"'),
        ("AS CREATE SNAPSHOT s_{ date } OF g", "date", "{date} must not contain spaces inside its braces"),
        (
            "AS $$ SELECT 1; CREATE SNAPSHOT {date} OF g $$",
            "{date}",
            "found {date}, which expands to digits; begin a name with",
        ),
        ("AS SELECT $x", "$x", "write the value"),
        ("AS $$ DELETE FROM t WHERE a = ? $$", "?", "write the value"),
        ("AS CREATE TASK other SCHEDULE EVERY INTERVAL '1 day' AS SELECT 1", "TASK", "a task cannot create tasks"),
        (
            "AS EXPLAIN CREATE OR REPLACE TASK o SCHEDULE EVERY INTERVAL '1 day' AS SELECT 1",
            "TASK",
            "cannot create tasks",
        ),
        ("AS 'SELECT 1'", "'SELECT 1'", "remove the quotes"),
        ("AS", "", "expected a string in single quotes or a statement"),
        ("WITH (retry = 2) AS SELECT 1", "retry", 'did you mean "retries"'),
        ("WITH (retries = '2') AS SELECT 1", "'2'", "retries must be an integer"),
        ("WITH (retries = -1) AS SELECT 1", "-1", "retries must be from 0 to 100, found -1"),
        ("WITH (timeout = 3) AS SELECT 1", "3", "such as '30 minutes'"),
        ("WITH (timeout = soon) AS SELECT 1", "soon", "such as '30 minutes', found soon"),
        ("WITH (retries = INTERVAL 2 DAYS) AS SELECT 1", "INTERVAL 2 DAYS", "retries must be an integer, found 2 DAYS"),
        ("WITH (retries = two) AS SELECT 1", "two", "retries must be an integer, found two"),
        ("WITH (overlap = 'skp') AS SELECT 1", "'skp'", "overlap must be one of skip, queue, found 'skp'"),
        ("WITH (overlap = cancel) AS SELECT 1", "cancel", "overlap must be one of skip, queue, found cancel"),
        ("WITH (catch_up = 1) AS SELECT 1", "1", "catch_up must be one of none, last, all, found 1"),
        ("WITH (retries = 1, retries = 2) AS SELECT 1", "retries = 2", "specified twice"),
        ("WHEN (a) WHEN (b) AS SELECT 1", "WHEN (b)", "WHEN is specified twice"),
    ],
)
def test_the_mistakes_of_a_task_show_at_their_place(body: str, place: str, message: str) -> None:
    found, said = mistake(TASK + body)
    assert message in said
    assert found == place


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("CREATE TASK n AS SELECT 1", "AS", "expected SCHEDULE"),
        ("CREATE TASK n SCHEDULE '0 3 * * *' AS SELECT 1", "'0 3 * * *'", "SCHEDULE must be 'USING CRON"),
        (
            "CREATE TASK n SCHEDULE 'USING CRON 0 3 * * UTC' AS SELECT 1",
            "'USING CRON 0 3 * * UTC'",
            "may have a time zone",
        ),
        (
            "CREATE TASK n SCHEDULE 'USING CRON 60 * * * * UTC' AS SELECT 1",
            None,
            "the minute of USING CRON must be 0 to 59",
        ),
        (
            "CREATE TASK n SCHEDULE 'USING CRON * 9-3 * * * UTC' AS SELECT 1",
            None,
            "the hour of USING CRON must be 0 to 23",
        ),
        (
            "CREATE TASK n SCHEDULE 'USING CRON * */0 * * * UTC' AS SELECT 1",
            None,
            "the hour of USING CRON must be 0 to 23",
        ),
        ("CREATE CACHE c ON train", "train", "expected SAMPLER"),
        ("CREATE CACHE c ON SAMPLER s IN MEMORY '4'", "'4'", "must be above 0, such as '4GB'"),
        ("CREATE CACHE c ON SAMPLER s IN MEMORY '0GB'", "'0GB'", "must be above 0"),
        ("CREATE CACHE c ON SAMPLER s IN FILE 4 GB", "4", "write the size and its unit in quotes, '4GB'"),
        ("ALTER PROPERTY GRAPH g SET RETENTION (dayly '3 days')", "dayly", 'did you mean "daily"'),
        ("ALTER PROPERTY GRAPH g SET RETENTION (daily)", "daily", "expected a duration after daily"),
        ("ALTER PROPERTY GRAPH g SET RETENTION ()", "ALTER PROPERTY GRAPH g SET RETENTION ()", "has no rules"),
        ("ALTER GRAPH g SET RETENTION (keep_tagged)", "ALTER GRAPH g SET RETENTION (keep_tagged)", "untagged"),
        ("ALTER PROPERTY GRAPH g DROP VERTEX", "PROPERTY", "it is replaced as a whole"),
        ("EXPIRE SNAPSHOTS BY RETENTION RETAIN LAST 2", "RETAIN", "expected DRY"),
        ("ALTER PROPERTY GRAPH g SET RETENTION (keep_tagged '3 days')", "'3 days'", "has no duration"),
        ("ALTER PROPERTY GRAPH g SET RETENTION (all '1 day', ALL '2 days')", "ALL", "specified twice"),
        ("ALTER TASK n STOP", "STOP", "expected RESUME, SET or SUSPEND"),
        ("SHOW TASK", "", "expected RUNS"),
        ("ALTER", "", "expected TABLE, PROPERTY GRAPH or TASK"),
        ("ALTER PROPERTY", "", "expected GRAPH"),
        ("ALTER GRAPH", "", "expected a name"),
        ("ALTER PROPERTY GRAPH g", "", "expected DROP or SET"),
        ("ALTER PROPERTY GRAPH g SET x", "x", "expected RETENTION"),
        ("ALTER SNAPSHOT s", "SNAPSHOT", "write CREATE OR REPLACE SNAPSHOT"),
        ("ALTER VIEW v", "VIEW", "expected TABLE, TASK or PROPERTY GRAPH after ALTER, found VIEW"),
        ("REFRESH", "", "expected SNAPSHOT or CACHE"),
        ("EXECUTE", "", "expected a name"),
        ("COPY SNAPSHOT q3 FROM 'x'", "FROM", "expected TO"),
        (f"COPY ({SAMPLE} NEGATIVES x) TO 'y'", "x", "expected a number"),
        ("COPY (EXPLAIN SELECT 1) TO 'y'", "EXPLAIN", "expected a query or a statement"),
    ],
)
def test_other_mistakes_show_at_their_place(text: str, place: str | None, message: str) -> None:
    found, said = mistake(text)
    assert message in said
    assert place in (None, found)


@pytest.mark.parametrize("inner", ["EXPLAIN " * 10_000 + "SELECT 1", "CREATE TASK t AS " * 5_000 + "SELECT 1"])
def test_statements_in_statements_end_soon(inner: str) -> None:
    for text in (f"EXPLAIN {inner}", TASK + f"AS EXPLAIN {inner}"):
        with pytest.raises(ParseError):
            parse(text)
