"""`%snap` and `%%snap` in a real IPython shell, and what notebooks show of results and batches."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import snapdb
from snapdb.errors import BindError, InputError, ParseError, QueryError
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

GRAPH = """
CREATE TABLE person AS SELECT i AS pid, [i, 1]::FLOAT[2] AS x FROM range(6) r(i);
CREATE TABLE knows AS SELECT i AS a, (i + 1) % 6 AS b, i AS ts, [i]::FLOAT[1] AS w FROM range(6) r(i);
CREATE PROPERTY GRAPH social VERTEX TABLES (person KEY (pid) FEATURES (x)) EDGE TABLES (knows SOURCE KEY (a) REFERENCES
  person DESTINATION KEY (b) REFERENCES person EVENT TIME (ts) FEATURES (w AS edge_attr));
CREATE SNAPSHOT s OF social;
"""


class Cell(NamedTuple):
    """What running a cell gave."""

    value: Any
    error: BaseException | None
    out: str
    err: str


class Notebook:
    """An IPython shell that runs cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, text: str) -> Cell:
        with capture_output() as captured:
            done = self.shell.run_cell(text)
        return Cell(done.result, done.error_in_exec, captured.stdout, captured.stderr)

    def value(self, text: str) -> Any:
        """What a cell gives, which must not fail."""
        cell = self.run(text)
        assert cell.error is None, cell
        return cell.value

    def completions(self, text: str) -> list[str]:
        with provisionalcompleter():
            return [found.text for found in self.shell.Completer.completions(text, len(text))]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # A shell puts its own module here, and `reset` takes `__spec__` out of it: no process could be spawned any more.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    shell = InteractiveShell(config=config)
    book = Notebook(shell)
    book.value("%load_ext snapdb")
    yield book
    book.value("%unload_ext snapdb")
    shell.reset()


def test_a_database_is_opened_and_read_in_a_line(notebook: Notebook) -> None:
    opened = notebook.run("%snap ./shop.snapdb")
    assert isinstance(opened.value, snapdb.Database)
    assert (opened.out, opened.err) == (f"Out[0]: {opened.value!r}\n", "")
    notebook.value("%snap CREATE TABLE item AS SELECT i AS id FROM range(3) r(i)")
    assert notebook.value("rows = %snap SELECT count(*) AS n FROM item\nrows.fetchall()") == [(3,)]
    assert notebook.value("%snap") is opened.value
    notebook.value("%snap --close")
    assert notebook.value("%snap shop.snapdb").execute("SELECT count(*) FROM item").fetchone() == (3,)
    refused = notebook.run("%snap --read-only shop.snapdb\n%snap DROP TABLE item")
    assert "opened read-only" in str(refused.error)


def test_an_open_database_of_a_variable_is_used_and_left_open(notebook: Notebook, tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "mine.snapdb") as db:
        notebook.shell.user_ns["db"] = db
        assert notebook.value("%snap db") is db
        notebook.value("%snap --close")
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_variables_of_the_notebook_are_tables(notebook: Notebook) -> None:
    notebook.value("%snap ./shop.snapdb")
    notebook.shell.user_ns["frame"] = pd.DataFrame({"a": [1, 2]})
    assert notebook.value("%snap SELECT sum(a) FROM frame").fetchall() == [(3,)]
    assert notebook.value("%snap").execute("SELECT 1").fetchall() == [(1,)]
    notebook.value("own = %snap SELECT a FROM frame WHERE a > 1")
    assert notebook.value("%snap SELECT count(*) FROM own").fetchall() == [(1,)]


def test_without_a_database_there_is_a_temporary_one_and_it_is_said(notebook: Notebook) -> None:
    cell = notebook.run("%snap SELECT 1 AS a")
    assert cell.value.fetchall() == [(1,)]
    assert "temporary database" in cell.err
    assert notebook.run("%snap SELECT 2 AS a").err == ""


def test_a_cell_runs_several_statements_and_keeps_the_last_result(notebook: Notebook) -> None:
    cell = notebook.run(
        "%%snap --out rows --format df\n"
        "CREATE TABLE item AS SELECT i AS id FROM range(3) r(i);\nSELECT 'shown' AS word; SELECT * FROM item;\n"
    )
    assert (cell.value, cell.error) == (None, None)
    assert cell.out == "    word\n0  shown\n"
    assert isinstance(notebook.shell.user_ns["rows"], pd.DataFrame)
    assert notebook.shell.user_ns["rows"]["id"].tolist() == [0, 1, 2]
    assert isinstance(notebook.value("%snap -f arrow SELECT 1 AS a"), pa.Table)
    assert str(notebook.value("%snap INSERT INTO item VALUES (7)")).startswith("version 2")


def test_parameters_come_from_variables_that_are_named_and_no_others(notebook: Notebook) -> None:
    notebook.shell.user_ns.update(day="2026-07-01'; DROP TABLE t --", n=7)
    assert notebook.value("%snap -p day SELECT $day AS day").fetchall() == [("2026-07-01'; DROP TABLE t --",)]
    assert notebook.value("%%snap --param n --param m=2\nSELECT $n * $m AS x").fetchall() == [(14,)]
    for line, said in (
        ("%snap SELECT $n", "$n has no value; pass -p n for the variable n"),
        ("%snap SELECT {n}", "{"),
        ("%snap -p none SELECT $none", "variable none does not exist for $none"),
        ("%snap -p n SELECT 1", "no statement uses $n, which -p passes"),
        ("%snap SELECT ?", "? has no value in a notebook"),
        ("%snap --parm n SELECT $n", 'unknown option --parm of %snap; did you mean "--param"?'),
        ("%snap -f xml SELECT 1", "--format must be one of result, df, arrow, polars, found 'xml'"),
        ("%snap -o", "-o needs the name of a variable"),
    ):
        assert said in str(notebook.run(line).error), line


def test_an_error_is_one_block_without_a_traceback(notebook: Notebook) -> None:
    notebook.value("%snap CREATE TABLE item AS SELECT 1 AS id")
    wrong = notebook.run("%%snap\nSELECT *\nFROM itemm")
    assert isinstance(wrong.error, BindError)
    assert wrong.out.strip().splitlines() == [
        'BindError: table or snapshot "itemm" does not exist; did you mean "item"?',
        "  line 2:",
        "  FROM itemm",
        "       ^^^^^",
    ]
    assert isinstance(notebook.run("%snap shopp").error, ParseError)
    assert "to create a database of that name, write %snap ./shopp" in str(notebook.run("%snap shopp").error)
    assert isinstance(notebook.run("%snap --nope").error, InputError)


def test_a_line_may_be_longer_than_a_path(notebook: Notebook) -> None:
    columns = ", ".join(f"{n} AS c{n}" for n in range(1000))
    assert notebook.value(f"rows = %snap SELECT {columns}\nlen(rows.columns)") == 1000


@pytest.mark.parametrize("name", ["class", "None", "a.b", "x=1"])
def test_what_is_no_variable_keeps_no_result(notebook: Notebook, name: str) -> None:
    refused = notebook.run(f"%%snap --out {name}\nSELECT 1")
    assert "--out must be the name of a variable" in str(refused.error)


def test_nothing_of_a_cell_runs_when_a_statement_cannot_be_read(notebook: Notebook) -> None:
    assert isinstance(notebook.run("%%snap\nCREATE TABLE t (a INTEGER);\nSELEC 1").error, ParseError)
    assert notebook.value("%snap SHOW TABLES").fetchall() == []


def test_an_interrupt_of_the_kernel_stops_the_statement(notebook: Notebook) -> None:
    notebook.value("%snap CREATE TABLE item AS SELECT 1 AS id")
    before = signal.getsignal(signal.SIGINT)

    def press() -> None:
        until(lambda: signal.getsignal(signal.SIGINT) is not before)
        time.sleep(0.3)  # until the statement has begun, which nothing tells
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    stopped = notebook.run("%snap SELECT count(*) FROM range(10000000000) a, range(1000000) b")
    pressing.join(PATIENCE)
    assert isinstance(stopped.error, QueryError)
    assert stopped.error.code == "interrupted"
    assert "Traceback" not in stopped.out
    assert notebook.value("%snap SELECT count(*) FROM item").fetchall() == [(1,)]


def test_names_of_the_database_are_completed_where_sql_stands(notebook: Notebook) -> None:
    assert "person" not in notebook.completions("%snap SELECT * FROM per")
    notebook.value(f"%%snap\n{GRAPH}")
    assert "person" in notebook.completions("%snap SELECT * FROM per")
    assert "person" in notebook.completions("rows = %snap SELECT * FROM s.per")
    assert "social" in notebook.completions("%%snap\nCREATE SNAPSHOT t\nOF soc")
    assert "person" not in notebook.completions("per")


def test_help_tells_how_and_loading_twice_changes_nothing(notebook: Notebook) -> None:
    assert "-p, --param NAME[=VALUE]" in notebook.run("%snap --help").out
    notebook.value("%snap CREATE TABLE item AS SELECT 1 AS id")
    notebook.run("%load_ext snapdb")
    assert notebook.value("%snap SHOW TABLES").rowcount == 1


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", html, re.DOTALL)


def test_a_result_is_html_with_its_types_and_everything_escaped(db: snapdb.Database) -> None:
    html = db.execute("SELECT '<script>&' AS \"<b>\", NULL AS n, 1.50 AS price")._repr_html_()
    assert cells(html) == ["&lt;script&gt;&amp;", "<i>NULL</i>", "1.50"]
    assert "&lt;b&gt;<br>" in html
    assert "decimal(3,2)" in html
    assert "1 row</p>" in html
    assert "<script" not in html
    assert db.execute("CREATE TABLE t AS SELECT 1 AS a")._repr_html_().startswith("<pre")


def test_a_plan_is_in_a_fixed_width_font_and_growth_is_a_chart(db: snapdb.Database) -> None:
    db.script("""CREATE TABLE p AS SELECT range AS id FROM range(9);
        CREATE TABLE e AS SELECT range % 9 AS a, (range * 7) % 9 AS b, range AS ts FROM range(40);
        CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES p DESTINATION KEY (b) REFERENCES p EVENT TIME (ts));
        CREATE SNAPSHOT s OF g""")
    assert db.execute("EXPLAIN SHOW TABLES")._repr_html_().startswith('<pre style="font-family:monospace')
    html = db.execute("SUMMARIZE SNAPSHOT s")._repr_html_()
    assert html.count("<svg ") == 2
    assert "<title>e from 0 to 39</title>" in html
    assert html.count("<title>2</title>") == 20
    assert "█" not in html


def test_versions_and_summaries_are_shown_with_charts(notebook: Notebook) -> None:
    notebook.value(f"%%snap\n{GRAPH}\nINSERT INTO person VALUES (6, [6, 1]);")
    versions = notebook.value("%snap SHOW VERSIONS")
    html = versions._repr_html_()
    assert html.count('class="snapdb-chart growth"') == 1
    assert "<title>person: 7 rows\nversion " in html
    table = notebook.value("%snap").execute("SHOW VERSIONS")._repr_html_()
    assert "<svg " not in table
    assert html == versions.charts + table
    person, knows = notebook.value("%snap SUMMARIZE SNAPSHOT s")._repr_html_().split('class="snapdb-chart growth"')
    assert person.count('class="snapdb-chart degrees"') == knows.count('class="snapdb-chart degrees"') == 1
    assert "<title>knows: 6 rows\nevent time 5</title>" in knows
    assert "<title>6 vertices of degree 1</title>" in knows
    for other in ("SHOW TABLES", "SELECT 1 AS version, 't' AS \"table\", 2 AS rows_added, 0 AS rows_removed"):
        assert "<svg " not in notebook.value(f"%snap {other}")._repr_html_()


def test_a_drawn_batch_is_shown_as_a_picture(notebook: Notebook) -> None:
    notebook.value(f"%%snap\n{GRAPH}")
    sample = "SAMPLE FROM s SEEDS (SELECT pid FROM person) AS person FANOUT (knows => [2])"
    drawing = notebook.value(f"db = %snap\ndb.draw('{sample}')")
    html = notebook.shell.display_formatter.format(drawing)[0]["text/html"]
    assert html.count('data-node="') == len(drawing.nodes) > 0
    assert html.count('data-edge="') == len(drawing.edges) > 0


def test_the_syntax_of_a_statement_is_printed(notebook: Notebook) -> None:
    assert notebook.run("%snap \\h create tag").out.startswith("CREATE TAG\n")
    assert "CREATE TASK" in notebook.run("%snap \\h").out
    assert "did you mean CREATE TAG?" in str(notebook.run("%snap \\h craete tag").error)


def test_polars_is_asked_for_where_it_is_not(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with refused("package-missing"):
        db.execute("SELECT 1 AS a").pl()


def test_html_says_whatever_it_leaves_out(db: snapdb.Database) -> None:
    columns = ", ".join(f"{i} AS c{i}" for i in range(100))
    html = db.execute(f"SELECT {columns}, repeat('x', 9) AS last FROM range(1000)")._repr_html_()
    assert "1,000 rows (40 shown), 101 columns (60 shown)" in html
    assert len(cells(html)) == 40 * 60
    long = db.execute("SELECT repeat('x', 10000) AS long")._repr_html_()
    assert "1 row, 1 cell cut" in long
    assert len(long) < 1500
    read = db.execute("SELECT 1 AS a")
    list(read)
    assert "&lt;result with columns a, already read&gt;" in read._repr_html_()


def test_a_batch_is_html_with_shapes_types_and_lineage(db: snapdb.Database) -> None:
    db.script(GRAPH)
    query = "SAMPLE FROM s SEEDS (SELECT pid FROM person) AS person FANOUT (knows => [2]) BATCH 4"
    (batch, *_) = db.stream(query)
    html = batch._repr_html_()
    assert "<b>Batch 0 of epoch 0: 4 seeds of person</b>" in html
    found = cells(html)
    assert found[:5] == ["seeds", "input_id", "[4]", "int64", "cpu"]
    assert "features[&#x27;x&#x27;]" in found
    assert "person knows person" in found
    assert found[found.index("edge_features[&#x27;edge_attr&#x27;]") + 1] == "read on access"
    assert batch.edge_attr[("person", "knows", "person")].shape[1] == 1
    assert "read on access" not in cells(batch._repr_html_())[found.index("edge_features[&#x27;edge_attr&#x27;]") + 1]
    assert "lineage" in html
    assert "snapshot" in found


def test_the_cells_of_the_docs_run(notebook: Notebook) -> None:
    page = ROOT / "docs" / "notebooks.md"
    found = re.findall(r"^```ipython\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(found) > 5
    for text in found:
        if not text.startswith("%load_ext"):
            notebook.value(text)
        else:
            assert notebook.value(text.partition("\n")[2]) is not None
    assert notebook.shell.user_ns["stream"] is not None
