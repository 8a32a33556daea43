"""Measure the costs of the language (parsing, binding, optimizing, scripts, completion, prompt) and write LANGUAGE.md.

    python -m benchmarks.language [--rounds 30] [--out FILE]

Every figure is the median over the rounds, measured warm: the grammars are built and the catalog is loaded. Each start
of the command line is a separate process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pexpect

import snapdb
import snapdb_cli
from benchmarks.report import machine_table, table
from snapdb import Database
from snapdb.sql import format_sql, parse
from snapdb_cli.repl.completer import complete
from snapdb_cli.repl.words import DatabaseNames

RESULTS = Path(__file__).parent / "LANGUAGE.md"
COLUMNS = 10_000
LINES = 10_000
SHOP = """
CREATE TABLE customer AS SELECT i AS cid, i / 2 AS age FROM range(1000) r(i);
CREATE TABLE product AS SELECT i AS pid FROM range(500) r(i);
CREATE TABLE bought AS SELECT i % 1000 AS cid, i * 7 % 500 AS pid, i % 3 + 1 AS qty,
  TIMESTAMP '2026-06-01' + i * INTERVAL '9 minutes' AS ts FROM range(5000) r(i);
CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (cid) FEATURES (age AS x), product KEY (pid))
  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product
    EVENT TIME (ts) WEIGHT (qty));
CREATE SNAPSHOT q3 OF shop;
CREATE SAMPLER train AS SAMPLE FROM q3 SEEDS (SELECT cid FROM customer) AS customer FANOUT (DEFAULT => [10, 5]);
"""
TYPICAL = {
    "SELECT": "SELECT cid, sum(qty) FROM bought WHERE ts >= DATE '2026-06-10' GROUP BY cid ORDER BY 2 DESC LIMIT 10",
    "SELECT … AT": "SELECT count(*) FROM bought AT (VERSION => 3) AS b JOIN customer c ON b.cid = c.cid",
    "SELECT of a snapshot": "SELECT count(*) FROM q3.bought WHERE qty > 1",
    "INSERT": "INSERT INTO bought SELECT * FROM bought WHERE qty > 2 MESSAGE 'again'",
    "UPDATE": "UPDATE bought SET qty = qty + 1 WHERE cid = 3",
    "SAMPLE": "SAMPLE FROM q3 SEEDS (SELECT cid FROM customer WHERE age > 9) AS customer FANOUT (bought => "
    "[10, FULL], DEFAULT => [5, 5]) METHOD LATEST BATCH 512 REPEATABLE (7)",
    "SAMPLE USING": "SAMPLE USING train BATCH 64",
    "CREATE SNAPSHOT": "CREATE SNAPSHOT june OF shop FOR EVENT_TIME FROM DATE '2026-06-01' TO DATE '2026-07-01' "
    "WHERE bought.qty > 1",
    "CREATE PROPERTY GRAPH": "CREATE PROPERTY GRAPH other VERTEX TABLES (customer KEY (cid), product KEY (pid)) EDGE "
    "TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product EVENT TIME (ts))",
    "SHOW": "SHOW VERSIONS OF bought",
    "DROP": "DROP TABLE IF EXISTS nothing",
}
SPOTS = [
    "SEL",
    "SELECT column_12 FROM wide",
    "SELECT * FROM bo",
    "SAMPLE FROM q3 SEEDS (SELECT c",
    "CREATE PROPERTY GRAPH g ",
]


def main() -> None:
    """Run the measurements and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, snapdb.connect(Path(folder) / "shop.snapdb") as db:
        db.script(SHOP)
        small = _statements(db, options.rounds)
        _widen(db)
        wide = _statements(db, options.rounds)
        completion = _completion(db, options.rounds)
    options.out.write_text(_report(small, wide, _scripts(), completion, _starts(min(options.rounds, 5))))


def _seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median seconds over the rounds, after one untimed round."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _statements(db: Database, rounds: int) -> dict[str, tuple[float, float]]:
    """Return, for each typical statement, the seconds to parse it, and to parse, bind and optimize it."""
    return {
        name: (
            _seconds(lambda text=text: parse(text), rounds),
            _seconds(lambda text=text: db.plan(*parse(text)), rounds),
        )  # type: ignore[misc]
        for name, text in TYPICAL.items()
    }


def _widen(db: Database) -> None:
    """Create tables with many columns in addition to those that the statements read."""
    for number in range(10):
        columns = ", ".join(f"{number} AS column_{number}_{i}" for i in range(COLUMNS // 10))
        db.execute(f"CREATE TABLE wide_{number} AS SELECT {columns}")


def _completion(db: Database, rounds: int) -> dict[str, float]:
    """Return, for each position in a statement, the seconds to complete it with the catalog's names already loaded."""
    known = DatabaseNames.from_names(db.names())
    found = {spot: _seconds(lambda spot=spot: complete(spot, known), rounds) for spot in SPOTS}  # type: ignore[misc]
    return {"names of the catalog, nothing changed": _seconds(db.names, rounds), **found}


def _scripts() -> dict[str, float]:
    """Return the seconds to parse a script with one statement per line, and one statement with a million tokens."""
    kinds = [text for name, text in TYPICAL.items() if name in ("SELECT", "INSERT", "CREATE SNAPSHOT", "DROP")]
    script = "".join(f"{kinds[i % 4]}; -- line {i}\n" for i in range(LINES))
    return {
        f"parse a script of {LINES:,} lines": _seconds(lambda: parse(script), 3),
        f"format_sql of {LINES // 10:,} lines": _seconds(
            lambda: format_sql(script[: len(script) // 10].rsplit(";", 1)[0]), 3
        ),
        "parse a SELECT of a million tokens": _seconds(lambda: parse(f"SELECT {'1+' * 500_000}1"), 3),
        "parse a string of a megabyte": _seconds(lambda: parse(f"SELECT '{'a' * 10**6}'"), 3),
    }


def _starts(rounds: int) -> dict[str, float]:
    """Return the seconds of whole command-line processes."""
    snap = [sys.executable, "-m", snapdb_cli.__name__]

    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([*snap, *arguments], capture_output=True, check=False, env=_environment())

    return {
        "snapdb --help": _seconds(run("--help"), rounds),
        "a parse error": _seconds(run("-c", "SELECT FROM ("), rounds),
        "SELECT 1": _seconds(run("-c", "SELECT 1"), rounds),
        "until the prompt takes a line": statistics.median([_prompt() for _ in range(rounds + 1)][1:]),
    }


def _environment() -> dict[str, str]:
    """Return the environment of a typical user, in which Python caches compiled bytecode."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**known, "PROMPT_TOOLKIT_NO_CPR": "1"}


def _prompt() -> float:
    """Return the seconds from starting a terminal session until its prompt appears."""
    command, began = ["-m", snapdb_cli.__name__], time.perf_counter()
    terminal = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=30, env=_environment())  # type: ignore[arg-type]
    terminal.expect("snapdb>")
    took = time.perf_counter() - began
    terminal.close(force=True)
    return took


def _report(
    small: dict[str, tuple[float, float]],
    wide: dict[str, tuple[float, float]],
    scripts: dict[str, float],
    completion: dict[str, float],
    starts: dict[str, float],
) -> str:
    script = scripts[f"parse a script of {LINES:,} lines"]
    slowest = max(whole for measured in (small, wide) for _, whole in measured.values())
    goals = [
        ("parse, bind and optimize, the slowest below", "< 5 ms", _ms(slowest), slowest < 0.005),
        (f"a script of {LINES:,} lines", "< 2 s", f"{script:.2f} s", script < 2),
        (
            f"completion with {COLUMNS:,} columns",
            "< 50 ms",
            _ms(max(completion.values())),
            max(completion.values()) < 0.05,
        ),
        (
            "the prompt",
            "< 0.7 s",
            f"{starts['until the prompt takes a line']:.2f} s",
            starts["until the prompt takes a line"] < 0.7,
        ),
    ]
    met = [(what, goal, found, "yes" if fits else "**no**") for what, goal, found, fits in goals]
    timed = [(name, _ms(part), _ms(whole), _ms(wide[name][1])) for name, (part, whole) in small.items()]
    heads = ("statement", "parse", "parse, bind, optimize", f"the same beside {COLUMNS:,} columns")
    return "\n".join(
        [
            "# What the language costs\n",
            "Generated by `python -m benchmarks.language`; do not edit. Medians, warm.\n",
            "## Goals\n",
            table(("what", "goal", "measured", "met"), met),
            "## Statements\n",
            table(heads, timed),
            "## Scripts\n",
            table(("what", "time"), [(what, _ms(took)) for what, took in scripts.items()]),
            f"## Completion with {COLUMNS:,} columns\n",
            table(("at the end of", "time"), [(f"`{spot}`", _ms(took)) for spot, took in completion.items()]),
            "## Processes\n",
            table(("what", "time"), [(what, _ms(took)) for what, took in starts.items()]),
            "## Where\n",
            machine_table(),
        ]
    )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms" if seconds < 0.1 else f"{1000 * seconds:,.0f} ms"


if __name__ == "__main__":
    main()
