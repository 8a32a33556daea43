"""Every error has a registered code, says what to do, shows its place under any text, and is in docs/errors.md."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import pickle
import re
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import snapdb
from snapdb import errors
from snapdb.error_codes import Code, _example_database, load_codes
from snapdb.errors import BindError, SnapdbError, Span
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "errors.md"
SOURCES = [path for folder in ("snapdb", "cli", "ui") for path in sorted((ROOT / folder).rglob("*.py"))]
KINDS = {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SnapdbError)}
CODES = load_codes()
BY_CODE = {code.code: code for code in CODES}
DEFAULTS = {kind.code: name for name, kind in KINDS.items()}
SHOWN = [code for code in CODES if code.example is not None]


class Raised(NamedTuple):
    """A place in the sources that makes an error."""

    place: str
    kind: str
    code: str | None
    """None: its class's own."""


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The calls and texts of a source."""
    return tuple(n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call | ast.Constant))


def raised() -> Iterator[Raised]:
    """Every error that the sources make with a code that stands there; `unknown-{kind}` is one for each kind."""
    for path in SOURCES:
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in KINDS:
                continue
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            match next((k.value for k in node.keywords if k.arg == "code"), None):
                case None:
                    yield Raised(place, node.func.id, None)
                case ast.Constant(value=str(code)):
                    yield Raised(place, node.func.id, code)
                case ast.JoinedStr(values=[ast.Constant(value="unknown-"), _]):
                    for kind in (
                        "table",
                        "graph",
                        "snapshot",
                        "sampler",
                        "cache",
                        "task",
                        "tag",
                        "view",
                        "macro",
                        "type",
                        "sequence",
                    ):
                        yield Raised(place, node.func.id, f"unknown-{kind}")


def passed_on() -> Iterator[Raised]:
    """Codes that stand elsewhere in the sources: as defaults of arguments, in tables, given to a function."""
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.Constant) and node.value in BY_CODE:
                yield Raised(f"{path.relative_to(ROOT)}:{node.lineno}", "", str(node.value))


def test_every_error_that_is_made_has_a_registered_code_of_its_class() -> None:
    wrong = [
        found
        for found in raised()
        if found.code is not None and (found.code not in BY_CODE or BY_CODE[found.code].kind != found.kind)
    ]
    assert wrong == [], "register these in snapdb/errors.toml, or mend the code or the class"


def test_every_error_that_is_made_says_its_code() -> None:
    silent = [found.place for found in raised() if found.code is None and not found.place.startswith("snapdb/kernels/")]
    assert silent == [], "give them a code, from snapdb/errors.toml"


def test_every_registered_code_is_used() -> None:
    used = {found.code for found in (*raised(), *passed_on())} | DEFAULTS.keys()
    assert sorted(BY_CODE.keys() - used) == []


def test_codes_are_words_each_registered_once_with_class_meaning_and_remedy() -> None:
    assert len(BY_CODE) == len(CODES)
    for code in CODES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code.code), code.code
        assert code.kind in KINDS
        assert code.meaning.endswith(".")
        assert code.remedy.endswith(".")
        assert (code.example is None) != (code.no_example is None), code.code
    assert {code: BY_CODE[code].kind for code in DEFAULTS} == DEFAULTS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that every example starts from."""
    path = tmp_path_factory.mktemp("world") / "world.snapdb"
    with snapdb.connect(path) as db:
        db.script(_example_database())
    return path


@pytest.fixture(scope="module")
def failures(world: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, SnapdbError]:
    """What every example gives, by its code; what runs is not there."""
    folder = tmp_path_factory.mktemp("examples")
    found: dict[str, SnapdbError] = {}
    with pytest.MonkeyPatch.context() as patch, snapdb.connect(shutil.copytree(world, folder / "shared")) as shared:
        patch.chdir(folder)
        for code in SHOWN:
            example = str(code.example)
            try:
                if ";" not in example:  # a statement that fails changes nothing
                    shared.execute(example).fetchall()
                    continue
                with snapdb.connect(shutil.copytree(world, folder / code.code)) as db:
                    db.script(example)
            except SnapdbError as error:
                found[code.code] = error
    return found


@pytest.mark.parametrize("code", SHOWN, ids=[code.code for code in SHOWN])
def test_an_example_gives_its_error_at_its_place(code: Code, failures: dict[str, SnapdbError]) -> None:
    error = failures.get(code.code)
    assert error is not None, "it runs"
    assert (error.code, type(error).__name__) == (code.code, code.kind), str(error)
    assert error.text == code.example
    assert error.span is not None
    assert 0 <= error.span.start <= error.span.stop <= len(error.text or "")
    assert str(error).endswith("^")


@pytest.mark.parametrize("code", SHOWN, ids=[code.code for code in SHOWN])
def test_no_message_tells_of_what_is_inside(code: Code, failures: dict[str, SnapdbError]) -> None:
    message = failures[code.code].message
    inside = r"snapdb_\d|snapdb version|Binder Error|Catalog Error|INT32|INT64|Candidate|LINE \d|Traceback|\bNone\b|!$"
    assert not re.search(inside, message), message


def page(failures: dict[str, SnapdbError]) -> str:
    """The page about errors, with what the examples give."""
    tree = inspect.getdoc(errors) or ""
    drawn = "\n".join(line for line in tree.splitlines() if re.match(r" {4}(SnapdbError|[├│└])", line))
    parts = [HEAD.format(tree=inspect.cleandoc(drawn), world=_example_database().strip(), count=len(CODES))]
    kind = ""
    for code in sorted(CODES, key=lambda c: (list(KINDS_IN_ORDER).index(c.kind), c.code)):
        if code.kind != kind:
            kind = code.kind
            parts.append(f"## {kind}\n\n{inspect.getdoc(KINDS[kind])}\n")
        parts.append(f"### {code.code}\n\n{code.meaning} {code.remedy}\n")
        if code.example is not None:
            parts.append(f"```sql no-run\n{code.example}\n```\n\n```text\n{failures[code.code].report()}\n```\n")
    return "\n".join(parts)


KINDS_IN_ORDER = (
    *("ParseError", "BindError", "QueryError", "DataError", "InputError", "DatabaseError", "FormatError"),
    *("CorruptError", "CommitConflict", "LockedError", "WaitTimeout", "SnapdbError"),
)
HEAD = """# Errors

Every error is an instance of `SnapdbError`, usually of one of the subclasses below. `error.code` is a stable
identifier for programs. There are {count} codes, and `SELECT * FROM snapdb.errors` lists them. `error.message` states
what was requested, what was found and how to correct it. `error.text` is the statement, and `error.span`, `error.line`
and `error.column` are the position of the error in it. `str(error)` returns the message with an excerpt of the
statement. `error.report()` also includes the class name, as the examples below show. `error.retryable` is true if the
same statement can succeed later.

In Python, the traceback of an error ends at the call into snapdb. To see the full traceback, set the environment
variable `SNAPDB_TRACEBACK=1`.

```text
{tree}
```

The examples start from this database:

```sql
{world}
```
"""


def test_the_page_lists_every_code_with_what_its_example_gives(failures: dict[str, SnapdbError]) -> None:
    made = page(failures)
    if os.environ.get("SNAPDB_RECORD"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "SNAPDB_RECORD=1 writes the page anew"


def test_queries_can_read_the_codes() -> None:
    with snapdb.connect() as db:
        rows = db.execute("SELECT code, kind, meaning, remedy FROM snapdb.errors ORDER BY code").fetchall()
    assert rows == sorted((c.code, c.kind, c.meaning, c.remedy) for c in CODES)


def excerpt(text: str, word: str) -> list[str]:
    """What is shown of a text where `word` is wrong."""
    start = text.index(word)
    return str(BindError("no", span=Span(start, start + len(word)), text=text)).splitlines()[1:]


def test_the_caret_stands_under_its_word_after_wide_characters_and_marks() -> None:
    assert excerpt("SELECT '日本語' AS a, agee", "agee") == ["  SELECT '日本語' AS a, agee", " " * 24 + "^^^^"]
    assert excerpt("SELECT 'e\u0301', agee", "agee")[1] == " " * 14 + "^^^^"
    assert excerpt("SELECT 🙂", "🙂")[1] == " " * 9 + "^^"


def test_tabs_and_control_characters_take_one_cell_and_move_no_cursor() -> None:
    assert excerpt("SELECT\t\x1b[2J\u202e agee", "agee") == ["  SELECT �[2J� agee", " " * 15 + "^^^^"]
    assert str(BindError("no \x1b[2J here")) == "no �[2J here"


def test_a_text_of_several_lines_shows_the_line_and_its_number() -> None:
    error = BindError("no", span=Span(11, 15), text="SELECT\n a, agee\nFROM t")
    assert str(error).splitlines()[1:] == ["  line 2:", "   a, agee", "      ^^^^"]
    assert (error.line, error.column) == (2, 5)


def test_a_long_line_is_cut_around_the_place_and_says_so() -> None:
    line, carets = excerpt("SELECT " + "a, " * 1000 + "agee" + ", b" * 1000, "agee")
    assert len(line) < 210
    assert line.startswith("  …")
    assert line.endswith("…")
    assert line[carets.index("^") :].startswith("agee")


def test_the_end_of_a_text_is_shown_on_its_last_line_with_words() -> None:
    error = BindError("no", span=Span(11, 11), text="SELECT a,\n\n")
    assert str(error).splitlines()[1:] == ["  SELECT a,", " " * 11 + "^"]
    assert (error.line, error.column) == (1, 10)


def test_a_message_with_a_long_value_is_cut_in_its_middle() -> None:
    with snapdb.connect() as db, pytest.raises(SnapdbError) as caught:
        db.execute(f"SELECT '{'x' * 100_000}'::INTEGER").fetchall()
    assert len(str(caught.value)) < 2500
    assert "xx…xx" in str(caught.value)
    assert "TRY_CAST" in str(caught.value)


def test_an_error_without_a_place_has_no_line() -> None:
    assert (BindError("no").line, BindError("no", text="SELECT 1").column) == (None, None)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_errors_survive_pickling(kind: type[SnapdbError]) -> None:
    error = kind("no table", span=Span(1, 2), text="SELECT", code="some-code")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), again.code, again.span, again.text) == (str(error), "some-code", Span(1, 2), "SELECT")


def test_opening_a_database_reads_no_codes(fresh_process: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    ended = fresh_process(
        "import snapdb\nwith snapdb.connect() as db:\n    db.execute('SELECT 1').fetchall()\n"
        "from snapdb import error_codes\nprint(error_codes.load_codes.cache_info().currsize)"
    )
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr


def test_a_traceback_ends_at_the_call_and_names_the_class_once(db: snapdb.Database) -> None:
    for text in ("SELEC 1", "SELECT * FROM nowhere", "SELECT 'x'::INTEGER", "COMMIT", "DROP TABLE nowhere"):
        with pytest.raises(SnapdbError) as caught:
            db.execute(text)
        error = caught.value
        shown = "".join(traceback.format_exception(error))
        assert len(traceback.extract_tb(error.__traceback__)) <= 3, shown
        assert shown.count("Traceback") == 1, shown
        assert shown.count(f"{type(error).__name__}: ") == 1, shown


def test_errors_of_the_disk_keep_their_cause(tmp_path: Path, db: snapdb.Database) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_bytes(b"")
    (tmp_path / "catalog.sqlite").write_bytes(b"no catalog")
    with pytest.raises(SnapdbError) as caught:
        snapdb.connect(tmp_path)
    assert caught.value.__cause__ is not None


def test_a_whole_traceback_can_be_asked_for(db: snapdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPDB_TRACEBACK", "1")
    with pytest.raises(SnapdbError) as caught:
        db.execute("SELECT * FROM nowhere")
    assert caught.value.__cause__ is not None
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 3
