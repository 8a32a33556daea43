"""The recipe of CONTRIBUTING.md adds a statement: in exactly five files, and it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

STEP = re.compile(r"^\d\. `([^`]+)`.*?^ +(`{3,4})diff\n(.*?)^ +\2$", re.MULTILINE | re.DOTALL)
FAMILY = re.compile(r"^\| `(\w+)` \| [A-Z]", re.MULTILINE)
LAYERS = ("grammar/snapdb_grammar/{}.lark", "snapdb/sql/{}.py", "snapdb/plan/{}.py", "snapdb/execute/{}.py")
PAGE = "docs/language/{}.md"
RUN = """
import re, sys, snapdb
from snapdb.sql import parse_one

statement = parse_one(text := 'RENAME TAG loaded TO "day 0"')
assert statement.to_sql() == text and parse_one(text) == statement
(example,) = re.findall("## RENAME TAG.*?```sql\\n(.*?)```", open("docs/language/versions.md").read(), re.DOTALL)
with snapdb.connect("shop.snapdb") as db:
    db.execute("CREATE TABLE t AS SELECT 1 AS a")
    db.script(example)
    print(db.execute("SELECT name, version FROM snapdb.tags").fetchall())
    print(db.execute("EXPLAIN RENAME TAG day_0 TO loaded").fetchall()[1][0])
    print(db.execute("RENAME TAG day_0 TO loaded"))
    try:
        db.execute("RENAME TAG day_0 TO loaded")
    except snapdb.BindError as error:
        print(error.code, error.span)
print(snapdb.__file__)
"""
SHOWN = """\
[('day_0', 1)]
  └ RenameTag day_0 to loaded
tag day_0 is now loaded
unknown-tag Span(start=11, stop=16)
"""


def changed(text: str, diff: str) -> str:
    """The text after every part of a diff."""
    for part in diff.split("@@\n"):
        lines = part.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
        assert ("\n" + text).count("\n" + old) == 1, f"CONTRIBUTING.md shows what is there once: {old}"
        text = ("\n" + text).replace("\n" + old, "\n" + new).removeprefix("\n")
    return text


def test_a_family_has_its_name_in_every_layer() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    families = FAMILY.findall(page.partition("## One statement, one place")[2].partition("\n## ")[0])
    pages = {path.stem for path in (ROOT / "docs" / "language").iterdir()}
    grammars = {path.stem for path in (ROOT / "grammar" / "snapdb_grammar").glob("*.lark")}
    assert pages == {*families, "graph-table", "algorithms"}  # patterns and algorithms are parts of queries
    assert grammars == {*families, "patterns"}
    files = [ROOT / layer.format(family) for family in families for layer in LAYERS]
    assert [path for path in files if not (path.exists() or path.with_suffix("").is_dir())] == []


def test_a_statement_takes_five_files_and_runs(tmp_path: Path) -> None:
    for folder in ("snapdb", "cli", "ui", "grammar", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Adding a kernel")[0]
    steps = [(name, textwrap.dedent(diff)) for name, _, diff in STEP.findall(recipe)]
    for name, diff in steps:
        path = tmp_path / name
        path.write_text(changed(path.read_text("utf-8"), diff), "utf-8")
    assert [name for name, _ in steps] == [layer.format("versions") for layer in (*LAYERS, PAGE)]
    paths = os.pathsep.join(str(tmp_path / folder) for folder in ("", "cli", "ui", "grammar"))
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *shown, imported = done.stdout.splitlines()
    assert shown == SHOWN.splitlines()
    assert Path(imported).is_relative_to(tmp_path)
