"""Run DuckDB's own tests in DuckDB and in snapdb, compare the results, and write DUCKDB_STATEMENTS.md.

    python -m benchmarks.duckdb_statements TESTS [--files 400] [--out FILE] [--list FILE]

TESTS is the folder `test/sql` of DuckDB's repository. Both engines run the statements of a file in order, each in a new
database. A statement behaves alike if both return the same rows as Python values, in any order, or both refuse it.
Settings, EXPLAIN and statements about other databases are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

import snapdb
from benchmarks.duckdb_tests import UnreadableError, chosen, statements
from benchmarks.report import machine_table, table
from snapdb import Database, SnapdbError

RESULTS = Path(__file__).parent / "DUCKDB_STATEMENTS.md"
SECONDS = 90
"""The time after which a file ends."""
OUTSIDE = {"ANALYZE", "ATTACH", "CALL", "COPY_DATABASE", "DETACH", "EXPLAIN", "EXPORT", "EXTENSION", "LOAD"} | {
    *("LOGICAL_PLAN", "PRAGMA", "RELATION", "SET", "VACUUM", "VARIABLE_SET")
}
"""The kinds of statements that are not compared."""
VOLATILE = re.compile(
    r"random\(|uuid|now\(|current_|localtime|today\(|version\(|pg_|duckdb_|information_schema|nextval|setseed|txid"
    r"|get_current|transaction_timestamp|stats\(",
    re.IGNORECASE,
)
"""Functions whose values differ between two runs or two databases."""


class Outcome(NamedTuple):
    """What a statement did in one engine."""

    error: str | None
    """The message if the statement was refused."""
    rows: list[str] | None = None


class Compared(NamedTuple):
    """A statement in both engines."""

    file: str
    text: str
    kind: str
    alike: bool
    duckdb: Outcome
    snapdb: Outcome


def printed(value: Any) -> str:
    """A value as text: equal for equal values of the same Python type, and for floats with nine equal digits."""
    match value:
        case bool() | int():
            return str(value)
        case float():
            return f"{value:.9g}" if math.isfinite(value) else str(value)
        case list() | tuple():
            return f"[{', '.join(map(printed, value))}]"
        case dict():
            return f"{{{', '.join(f'{printed(k)}: {printed(v)}' for k, v in value.items())}}}"
    return f"{type(value).__name__} {value}"


def in_duckdb(connection: duckdb.DuckDBPyConnection, text: str) -> Outcome:
    try:
        connection.execute(text)
        return Outcome(None, sorted(map(printed, connection.fetchall())) if connection.description else None)
    except duckdb.Error as error:
        return Outcome(str(error))


def in_snapdb(db: Database, text: str) -> Outcome:
    try:
        result = db.execute(text)
        return Outcome(None, sorted(map(printed, result.fetchall())) if result.is_query else None)
    except SnapdbError as error:
        return Outcome(f"{error.code}: {error.message}")


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in the block after `SECONDS`."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def compare(file: str, texts: Sequence[str], left_out: Counter[str]) -> Iterator[Compared]:
    """Run the statements of a file in both engines."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection,
        snapdb.connect(Path(folder, "test.snapdb")) as db,
        _limited(),
    ):
        for text in texts:
            try:
                parts = [(part.query, part.type.name) for part in connection.extract_statements(text)]
            except duckdb.Error:
                parts = [(text, "ERROR")]
            for part, kind in parts:
                if kind in OUTSIDE or "TEST_DIR" in part:
                    left_out[kind] += 1
                    continue
                try:
                    there, here = in_duckdb(connection, part), in_snapdb(db, part)
                except (ValueError, OverflowError, UnicodeDecodeError):  # DuckDB's client cannot convert a value
                    left_out["no Python value"] += 1
                    continue
                if there.error is not None and "pytz" in there.error:
                    left_out["no Python value"] += 1
                    continue
                alike = (there.error is None) == (here.error is None)
                if alike and kind == "SELECT" and not VOLATILE.search(part):
                    alike = there.rows == here.rows
                yield Compared(file, part.strip(), kind, alike, there, here)


def report(every: Sequence[Compared], unread: Counter[str], left_out: Counter[str], files: int) -> str:
    """Return the page with the counts."""
    alike, total = sum(one.alike for one in every), max(1, len(every))
    kinds = Counter(one.kind for one in every)
    same = Counter(one.kind for one in every if one.alike)
    shares = [(kind, f"{n:,}", f"{100 * same[kind] / n:.1f} %") for kind, n in kinds.most_common()]
    codes = Counter(
        (one.snapdb.error or "other rows").partition(":")[0] if one.duckdb.error is None else "DuckDB refuses it"
        for one in every
        if not one.alike
    )
    return f"""# DuckDB's own tests

Written by `python -m benchmarks.duckdb_statements`. A statement behaves alike if DuckDB and snapdb return the same rows
as Python values, or both refuse it. A statement that needs a refused one before it counts as different, too.

{machine_table()}

{files} files: {alike:,} of {len(every):,} statements behave alike, {100 * alike / total:.2f} %.

{table(("statement", "compared", "alike"), shares)}

The others, by the code of snapdb's error:

{table(("code", "statements"), [(code, f"{n:,}") for code, n in codes.most_common()])}

Left out: {", ".join(f"{n:,} {kind}" for kind, n in left_out.most_common())}.
Files that were not compared: {", ".join(f"{n} ({why})" for why, n in unread.most_common()) or "none"}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--list", type=Path, help="write each statement that differs, as a line of JSON")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    every: list[Compared] = []
    unread: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    files = chosen(given.tests, given.files)
    os.chdir(tempfile.mkdtemp())
    for file in files:
        name = str(file.relative_to(given.tests))
        try:
            every += compare(name, statements(file), left_out)
        except UnreadableError as error:
            unread[str(error)] += 1
        except TimeoutError:
            unread[f"longer than {SECONDS} s"] += 1
    given.out.write_text(report(every, unread, left_out, len(files) - unread.total()))
    if given.list is not None:
        different = [one for one in every if not one.alike]
        given.list.write_text("".join(json.dumps(one._asdict()) + "\n" for one in different))
    print(given.out.read_text())


if __name__ == "__main__":
    main()
