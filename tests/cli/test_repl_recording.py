"""docs/session.md is what the program really shows; `SNAPDB_RECORD=1` writes it anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.terminal import Terminal, environment

pytestmark = pytest.mark.slow

_STEPS = (
    "CREATE TABLE customer AS SELECT i AS cid FROM range(300) r(i);",
    "CREATE TABLE bought AS SELECT i % 300 AS cid, i * 7 % 300 AS other, i AS ts\r  FROM range(3000) r(i);",
    "CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (cid))\r"
    "  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer\r"
    "    DESTINATION KEY (other) REFERENCES customer EVENT TIME (ts));",
    "CREATE SNAPSHOT early OF shop FOR EVENT_TIME AS OF 1000;",
    "\\d early",
    "SELECT cid, count(*) AS n FROM early.bought GROUP BY cid\r  ORDER BY ALL LIMIT 3;",
    "SAMPLE FROM early SEEDS (SELECT cid FROM customer WHERE cid < 2) AS customer\r"
    "  FANOUT (bought => [2]) REPEATABLE (7);",
    "SELECT count(*) FROM early.bougt;",
    "SELECT min(ts), max(ts) FROM early.bought \\gx",
    "SELECT count(*) AS n FROM bought \\watch 0 2",
)
_HEAD = """# Example session

This page shows a session at the [prompt](repl.md), from CREATE TABLE to a sample. A test records it in an 80-column
terminal. `Tab` and `Ctrl-C` mark where these keys were pressed.

```text
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("session")
    with Terminal(["shop.snapdb"], environment(folder, NO_COLOR="1", PAGER=""), folder, rows=40) as terminal:
        terminal.run("\\pager off")
        for step in _STEPS:
            terminal.run(step)
        terminal.send("REFRESH SNAPSHOT early \t")
        terminal.expect(r"DRY RUN\s+FULL\s+\S")  # with the line that stands below the menu
        menu = terminal.transcript
        terminal.send("\x03")
        terminal.line("SELECT count(*) FROM range(10000000) a, range(10000000) b\r  WHERE a.range * b.range = 7;")
        terminal.expect("━")
        terminal.send("\x03")
        terminal.expect("interrupted")
        terminal.line("DROP TABLE bought CASCADE;")
        terminal.expect(r"\[y/N\]")
        terminal.send("n\r")
        terminal.line("\\q")
        assert terminal.end() == 0
        return _text(menu, terminal.transcript)


def _text(menu: str, whole: str) -> str:
    """The session as lines, with the menu where it stood, and without what differs each time."""
    offered = [line for line in menu[menu.rindex("REFRESH SNAPSHOT early") :].splitlines()[1:] if line.strip()][:-1]
    lines = [line.rstrip() for line in whole.splitlines() if "━" not in line and "╸" not in line]
    place = max(i for i, line in enumerate(lines) if "REFRESH SNAPSHOT early" in line)
    lines[place] += "   Tab"
    lines[place + 1 : place + 1] = [line.rstrip() for line in offered]
    text = "\n".join(lines).replace("\ninterrupted", "\nCtrl-C\ninterrupted")
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00(:00)?)?", "2026-07-01 12:00:00", text)
    text = re.sub(r"^\d\d:\d\d:\d\d, every", "12:00:00, every", text, flags=re.MULTILINE)
    return re.sub(r"snapdb \d+\.\d+\.\d+ on", "snapdb on", text)


def test_the_recorded_session_is_what_the_program_shows(recorded: str, pytestconfig: pytest.Config) -> None:
    path: Path = pytestconfig.rootpath / "docs" / "session.md"
    found = f"{_HEAD}{recorded.strip()}\n```\n"
    if os.environ.get("SNAPDB_RECORD"):
        path.write_text(found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == found
