"""docs/language.md and its pages: grammar excerpts are the grammar, and every statement is in the table without a hole.

`SNAPDB_RECORD=1` rewrites the excerpts and the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import snapdb
from snapdb.errors import SnapdbError
from snapdb.sql import parse
from tests.support.inside.sql import (
    FAMILIES,
    AlterTable,
    AlterTask,
    Audit,
    BackupDatabase,
    Begin,
    CheckDatabase,
    Commit,
    CopyDatabase,
    CopyFrom,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    CreateCache,
    CreateDefinition,
    CreateGraph,
    CreateSampler,
    CreateSnapshot,
    CreateTable,
    CreateTag,
    CreateTask,
    Deallocate,
    Delete,
    Describe,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Drop,
    DropRetention,
    Execute,
    ExecuteTask,
    ExpireSnapshots,
    Explain,
    Insert,
    Merge,
    Prepare,
    Publish,
    Query,
    RefreshCache,
    RefreshSnapshot,
    Rollback,
    Sample,
    SampleUsing,
    SetRetention,
    Show,
    Statement,
    Summarize,
    Truncate,
    Update,
    Vacuum,
    load_family,
)
from tests.support.places import ROOT, make_sqlite_file
from tests.support.slt import parse_slt
from tests.support.waiting import PATIENCE

LANGUAGE = ROOT / "docs" / "language.md"
PAGES = sorted((ROOT / "docs" / "language").glob("*.md"))
RECORD = bool(os.environ.get("SNAPDB_RECORD"))
EXCERPT = re.compile(r"<!-- grammar: (\w+): ([\w ]+) -->\n(?:\n```lark\n.*?\n```\n)?", re.DOTALL)
SHOWN = re.compile(r"```text\n(\w+Error: .*\n  (.*)\n +\^+)\n```")
"""An error as a page shows it, and the statement that gives it."""
RULE = re.compile(r"^(\w+): .*(?:\n +\|.*)*", re.MULTILINE)
TABLE = re.compile(r"(<!-- statements -->\n).*(<!-- /statements -->)", re.DOTALL)


class Row(NamedTuple):
    """One statement of the language."""

    words: str
    page: str
    """Its family's page, and the section there."""
    example: str
    python: str = ""
    """What there is in Python beside `db.execute`."""
    command: str = ""
    """What there is on the command line beside -c and -f."""


SEEDS = "SEEDS (SELECT cid FROM customer WHERE cid < 3) AS customer FANOUT (bought OUT => [2])"
ROWS: dict[type[Statement], Row] = {
    Query: Row("SELECT …", "tables#select", "SELECT count(*) FROM june.bought"),
    CreateTable: Row("CREATE TABLE", "tables#create-table", "CREATE TABLE made AS SELECT 1 AS a"),
    Insert: Row("INSERT", "tables#insert", "INSERT INTO made VALUES (2)"),
    Update: Row("UPDATE", "tables#update", "UPDATE made SET a = 3 WHERE a = 2"),
    Delete: Row("DELETE", "tables#delete", "DELETE FROM made WHERE a = 3"),
    Merge: Row(
        "MERGE",
        "tables#merge",
        "MERGE INTO made USING (SELECT 3 AS a) n ON made.a = n.a WHEN NOT MATCHED THEN INSERT VALUES (n.a)",
    ),
    Truncate: Row("TRUNCATE", "tables#truncate", "TRUNCATE TABLE made"),
    AlterTable: Row("ALTER TABLE", "tables#alter-table", "ALTER TABLE made ADD COLUMN b INTEGER"),
    CreateDefinition: Row("CREATE VIEW, MACRO, …", "definitions#create-view", "CREATE VIEW few AS SELECT 1 AS a"),
    Prepare: Row("PREPARE", "prepared#prepare-execute-deallocate", "PREPARE one AS SELECT $1 AS a"),
    Execute: Row("EXECUTE", "prepared#prepare-execute-deallocate", "EXECUTE one (1)"),
    Deallocate: Row("DEALLOCATE", "prepared#prepare-execute-deallocate", "DEALLOCATE one"),
    CopyTo: Row("COPY … TO", "exports#copy", "COPY made TO 'made.parquet'", command="`--format`, `-o`"),
    CopyDatabase: Row("COPY FROM DATABASE", "exports#copy", "COPY FROM DATABASE 'old.sqlite'"),
    CopyFrom: Row("COPY … FROM", "exports#copy", "COPY made FROM 'made.parquet' (FORMAT parquet)"),
    CopySnapshotTo: Row(
        "COPY SNAPSHOT", "exports#copy", "COPY SNAPSHOT june TO 'out' (FORMAT npz)", command="`snapdb export`"
    ),
    CopySampleTo: Row(
        "COPY (SAMPLE …)",
        "exports#copy",
        f"COPY (SAMPLE FROM june {SEEDS}) TO 'batches'",
        python="`snapdb.read_batches(path)`",
        command="`snapdb export`",
    ),
    CreateGraph: Row(
        "CREATE PROPERTY GRAPH",
        "graphs#create-property-graph",
        "CREATE PROPERTY GRAPH g VERTEX TABLES (customer KEY (cid))",
    ),
    SetRetention: Row(
        "ALTER PROPERTY GRAPH … SET",
        "maintenance#alter-property-graph",
        "ALTER GRAPH shop SET RETENTION (all '3 days')",
    ),
    DropRetention: Row(
        "ALTER PROPERTY GRAPH … DROP", "maintenance#alter-property-graph", "ALTER GRAPH shop DROP RETENTION"
    ),
    CreateSnapshot: Row("CREATE SNAPSHOT", "snapshots#create-snapshot", "CREATE SNAPSHOT late OF shop"),
    RefreshSnapshot: Row("REFRESH SNAPSHOT", "snapshots#refresh-snapshot", "REFRESH SNAPSHOT late"),
    ExpireSnapshots: Row("EXPIRE SNAPSHOTS", "maintenance#expire-snapshots", "EXPIRE SNAPSHOTS RETAIN LAST 9 DRY RUN"),
    Sample: Row("SAMPLE FROM", "samples#sample", f"SAMPLE FROM june {SEEDS}", python="`db.stream(sql)`"),
    CreateSampler: Row("CREATE SAMPLER", "samples#create-sampler", f"CREATE SAMPLER train AS SAMPLE FROM june {SEEDS}"),
    SampleUsing: Row("SAMPLE USING", "samples#sample", "SAMPLE USING train BATCH 2", python="`db.stream(name)`"),
    Publish: Row("PUBLISH", "publications#publish", "PUBLISH TO 'published'", command="`snapdb publish`"),
    CreateCache: Row("CREATE CACHE", "caches#create-cache", "CREATE CACHE hot ON SAMPLER train"),
    RefreshCache: Row("REFRESH CACHE", "caches#create-cache", "REFRESH CACHE hot CONCURRENTLY"),
    Audit: Row("AUDIT SAMPLE", "samples#audit", "AUDIT SAMPLE USING train", python="`batch.audit()`"),
    Explain: Row("EXPLAIN", "explain#explain", "EXPLAIN SAMPLE USING train"),
    Show: Row("SHOW", "show#show", "SHOW SAMPLERS", python="`db.names()`", command="`\\dt`, `\\ds`, … at the prompt"),
    Describe: Row("DESCRIBE", "show#describe", "DESCRIBE june", command="`\\d` at the prompt"),
    Summarize: Row("SUMMARIZE SNAPSHOT", "show#summarize-snapshot", "SUMMARIZE SNAPSHOT june"),
    CreateTag: Row("CREATE TAG", "versions#create-tag", "CREATE TAG now"),
    DiffTable: Row("DIFF TABLE", "versions#diff", "DIFF TABLE bought FROM VERSION 3"),
    DiffGraph: Row("DIFF GRAPH", "versions#diff", "DIFF GRAPH shop FROM VERSION 3"),
    DiffSnapshot: Row("DIFF SNAPSHOT", "versions#diff", "DIFF SNAPSHOT late WITH june"),
    Begin: Row("BEGIN", "versions#begin-commit-rollback", "BEGIN", python="`db.transaction()`"),
    Commit: Row("COMMIT", "versions#begin-commit-rollback", "COMMIT", python="`db.transaction()`"),
    Rollback: Row("ROLLBACK", "versions#begin-commit-rollback", "ROLLBACK", python="`db.transaction()`"),
    CheckDatabase: Row(
        "CHECK DATABASE",
        "maintenance#check-database",
        "CHECK DATABASE",
        python="`connect(verify=True)`",
        command="`snapdb check`",
    ),
    BackupDatabase: Row(
        "BACKUP DATABASE", "maintenance#backup-database", "BACKUP DATABASE TO 'copy.snapdb'", command="`snapdb backup`"
    ),
    Vacuum: Row("VACUUM", "maintenance#vacuum", "VACUUM DRY RUN"),
    Drop: Row("DROP", "show#drop", "DROP SAMPLER train CASCADE"),
    CreateTask: Row("CREATE TASK", "tasks#create-task", "CREATE TASK t SCHEDULE EVERY INTERVAL '1 day' AS VACUUM"),
    AlterTask: Row("ALTER TASK", "tasks#create-task", "ALTER TASK t SUSPEND"),
    ExecuteTask: Row("EXECUTE TASK", "tasks#create-task", "EXECUTE TASK t", command="`snapdb schedule run-now`"),
}
"""By the class that a statement is parsed to, in an order in which the examples can run."""
WALK = "SEEDS (SELECT cid FROM customer WHERE cid < 3) AS customer LENGTH 4 ALONG (bought, bought IN)"
VERBS: dict[str, Row] = {
    "walks.slt": Row("WALK FROM", "samples#walk", f"WALK FROM june {WALK}", python="`db.stream(sql)`")
}
"""Verbs of statements that share a class with another one, by the file of records that tests them."""
CLAUSES = {
    "graph-table#graph-table",
    *(f"definitions#create-{kind}" for kind in ("macro", "type", "sequence", "schema")),
}
"""The sections of pages about parts of statements, and statements that share a class with another one."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the database of the examples."""
    monkeypatch.chdir(tmp_path)
    (setup,) = re.findall(r"```sql\n(.*?)```", LANGUAGE.read_text("utf-8"), re.DOTALL)
    with snapdb.connect("shop.snapdb") as db:
        db.script(setup)
    make_sqlite_file(tmp_path / "old.sqlite")
    return tmp_path


def classes(kind: type[Statement]) -> Iterator[type[Statement]]:
    """Every class of statements; dataclasses with slots leave a twin behind, which is no statement of the module."""
    for below in kind.__subclasses__():
        if getattr(sys.modules[below.__module__], below.__name__, None) is below:
            yield below
        yield from classes(below)


def wrapped(line: str) -> str:
    """A line of the grammar on lines of at most 88 columns, each of which may begin with `|`."""
    kept = line.replace("| ", "|\u00a0").replace('"," ', '","\u00a0')
    lines = textwrap.fill(kept, 88, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\u00a0", " ")


def filled(found: re.Match[str]) -> str:
    """A marked place with the rules that it names."""
    grammar, names = found.groups()
    rules = {
        rule.group(1): rule.group()
        for rule in RULE.finditer((ROOT / "grammar" / "snapdb_grammar" / f"{grammar}.lark").read_text())
    }
    lines = [line for name in names.split() for line in rules[name].splitlines()]
    text = "\n".join(wrapped(line) for line in lines)
    return f"<!-- grammar: {grammar}: {names} -->\n\n```lark\n{text}\n```\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_excerpts_of_a_page_are_the_grammar(page: Path) -> None:
    text = page.read_text("utf-8")
    wanted = EXCERPT.sub(filled, text)
    if RECORD:
        page.write_text(wanted, "utf-8")
    else:
        assert text == wanted


def test_errors_are_shown_as_the_program_says_them(folder: Path) -> None:
    shown = [found.groups() for page in PAGES for found in SHOWN.finditer(page.read_text("utf-8"))]
    with snapdb.connect("shop.snapdb") as db:
        for error, statement in shown:
            with pytest.raises(SnapdbError) as caught:
                db.execute(statement)
            assert caught.value.report() == error
    assert len(shown) == sum(len(re.findall(r"^\w+Error: ", page.read_text("utf-8"), re.MULTILINE)) for page in PAGES)


def test_every_statement_is_in_the_table() -> None:
    for name in FAMILIES:
        load_family(name)
    assert set(ROWS) == set(classes(Statement))
    sections = {
        f"{page.stem}#{re.sub(r'[^a-z]+', '-', title.lower())}"
        for page in PAGES
        if page.stem != "algorithms"  # its sections are algorithms
        for title in re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {row.page for row in (*ROWS.values(), *VERBS.values())} | CLAUSES == sections


def files() -> dict[type[Statement], str]:
    """For each class of statements the file with most records that run it or, of what none runs, that refuse it."""
    found: dict[type[Statement], Counter[tuple[bool, str]]] = {}
    for path in sorted((ROOT / "tests" / "sql").glob("*.slt")):
        for record in parse_slt(path.read_text("utf-8")):
            if record.kind in ("ok", "query", "error"):
                try:
                    statements = parse(record.body)
                except SnapdbError:
                    continue
                for statement in statements:
                    found.setdefault(type(statement), Counter())[record.kind != "error", path.name] += 1
    return {kind: max(counts, key=lambda place: (place[0], counts[place]))[1] for kind, counts in found.items()}


def test_the_table_of_statements_has_no_hole() -> None:
    tested = files()
    lines = ["| SQL | Python | command line | page | .slt |", "|---|---|---|---|---|"]
    rows = [(row, tested[kind]) for kind, row in ROWS.items()]
    place = next(i for i, (row, _) in enumerate(rows) if row.words == "SAMPLE FROM")
    rows[place + 1 : place + 1] = [(row, name) for name, row in VERBS.items()]
    for row, name in rows:
        python = ", ".join(filter(None, ("`execute`", row.python)))
        command = ", ".join(filter(None, ("`-c`", row.command)))
        family, section = row.page.split("#")
        link = f"[{family}](language/{family}.md#{section})"
        lines.append(f"| `{row.words}` | {python} | {command} | {link} | `{name}` |")
    text = LANGUAGE.read_text("utf-8")
    wanted = TABLE.sub(lambda place: f"{place[1]}\n{chr(10).join(lines)}\n\n{place[2]}", text)
    if RECORD:
        LANGUAGE.write_text(wanted, "utf-8")
    else:
        assert text == wanted


def test_every_statement_runs_from_python(folder: Path) -> None:
    with snapdb.connect("shop.snapdb") as db:
        for kind, row in ROWS.items():
            (statement,) = parse(row.example)
            assert type(statement) is kind
            if kind is Rollback:
                db.execute("BEGIN")
            db.execute(row.example).fetchall()


@pytest.mark.parametrize(("name", "row"), VERBS.items(), ids=VERBS)
def test_every_verb_runs_and_has_its_records(folder: Path, name: str, row: Row) -> None:
    with snapdb.connect("shop.snapdb") as db:
        assert db.execute(row.example).fetchall()
    assert row.words in (ROOT / "tests" / "sql" / name).read_text("utf-8")


def test_every_statement_runs_from_the_command_line(folder: Path) -> None:
    lines = [("BEGIN;\n" if kind is Rollback else "") + f"{row.example};\n" for kind, row in ROWS.items()]
    command = [sys.executable, "-m", "snapdb_cli", "shop.snapdb", "--on-error", "continue", "--format", "csv"]
    done = subprocess.run(command, input="".join(lines), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "Error: " not in done.stderr
