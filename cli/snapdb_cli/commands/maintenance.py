"""`snapdb check`, `publish`, `backup`, `upgrade`, `wait`, `replay` and `bench`."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from snapdb.catalog.system_tables import listing
from snapdb.database import connect
from snapdb.errors import InputError
from snapdb.execute.maintenance import PROBLEMS, intact, run_check
from snapdb.lineage import at_lineage
from snapdb.sql_engine import quote_odd, text_literal
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.connection import upgrade as upgrade_database
from snapdb.storage.catalog_db.db_dir import DatabaseDir, open_db_dir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.check.catalog import Problem
from snapdb.storage.check.database import Checked
from snapdb_cli.diagnostics import Diagnostics, ExitCode
from snapdb_cli.output import Output
from snapdb_cli.terminal import Progress


def check(path: Path, diagnostics: Diagnostics, output_format: str) -> ExitCode:
    """List a database's problems without writing to it. Returns FAILED if anything is damaged."""
    db_dir = open_db_dir(path, read_only=True)
    place = db_dir.url or str(path)
    with Progress(diagnostics, f"checking {place}") as progress:
        problems, checked = _problems(db_dir, progress)
        batch, output = listing(PROBLEMS, problems), Output(output_format)
        if problems or output_format != "table" or not output.terminal:  # on a terminal, the line below is sufficient
            output.write(batch.schema, [batch], progress.stop)
    damage = sum(problem.is_damage for problem in problems)
    notes = len(problems) - damage
    found = f"{damage} damaged, {notes} orphan files" if problems else intact(checked)
    diagnostics.narrate(f"{place}: {found}")
    return ExitCode.FAILED if damage else ExitCode.OK


def publish(
    path: Path, url: str, snapshots: tuple[str, ...], tables: str, keep: int, diagnostics: Diagnostics
) -> ExitCode:
    """Publish a database to object storage, and report the generation."""
    named = ", ".join(quote_odd(name) for name in snapshots)
    open_db_dir(path, read_only=False, make=False)  # a misspelt path must not publish a new database
    statement = f"PUBLISH {f'SNAPSHOT {named} ' if named else ''}TO {text_literal(url)}"
    with connect(path) as database, Progress(diagnostics, f"publishing {path}") as progress:
        database.progress = progress.update
        result = database.execute(f"{statement} WITH (tables = {text_literal(tables)}, keep = {keep})")
    diagnostics.say(result.message or "")
    return ExitCode.OK


def backup(path: Path, target: Path, diagnostics: Diagnostics, *, copies: bool) -> ExitCode:
    """Copy a database without writing to it, and report the contents of the copy."""
    with connect(path, read_only=True) as database, Progress(diagnostics, f"copying {path}") as progress:
        database.progress = progress.update
        text = "'" + str(target).replace("'", "''") + "'"
        result = database.execute(f"BACKUP DATABASE TO {text}{' (COPY)' * copies}")
    diagnostics.say(result.message or "")
    return ExitCode.OK


def upgrade(path: Path, diagnostics: Diagnostics) -> ExitCode:
    """Upgrade a database to the format of this version, and report the change."""
    diagnostics.say(upgrade_database(path))
    return ExitCode.OK


def _problems(db_dir: DatabaseDir, progress: Progress) -> tuple[list[Problem], Checked]:
    catalog_db = CatalogDb(db_dir)
    lock = TablesLock(db_dir)
    try:
        return run_check(catalog_db, progress.update)
    finally:
        lock.release()
        catalog_db.close()


_COLUMNS = [
    ("snapshot", pa.string()),
    ("graph", pa.string()),
    ("version", pa.int64()),
    ("published", pa.timestamp("us", tz="UTC")),
]


def wait(
    path: Path,
    snapshot: str,
    newer_than: int | None,
    timeout: float | None,
    diagnostics: Diagnostics,
    output_format: str,
) -> ExitCode:
    """Wait for a publication and show it. The database is opened read-only.

    Raises:
        WaitTimeout: The timeout expired.
        BindError: The name belongs to another kind of object.
    """
    with connect(path, read_only=True) as database, Progress(diagnostics, f"waiting for {snapshot}") as progress:
        publication = database.wait_for(snapshot, newer_than, timeout)
        batch = listing(_COLUMNS, [(publication.name, publication.graph, publication.version, publication.time)])
        Output(output_format).write(batch.schema, [batch], progress.stop)
    return ExitCode.OK


def replay(
    path: Path, batch: int, epoch: int | None, database: Path | None, diagnostics: Diagnostics, output_format: str
) -> ExitCode:
    """Show the rows that SAMPLE returns for the batch. `path` is a JSON file, or - for stdin.

    Raises:
        SnapdbError: The file has no lineage, or the batch cannot be replayed.
    """
    text = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    try:
        lineage = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON ({error}); save a lineage with json.dump(batch.lineage, file)", code="lineage"
        ) from error
    with Progress(diagnostics, f"replaying batch {batch}") as progress, at_lineage(lineage, database) as db:
        db.progress = progress.update
        rows = db.replay_rows(lineage, batch, epoch=epoch)
        Output(output_format).write(rows.schema, rows.to_batches(), progress.stop)
    return ExitCode.OK


_ROOT = Path(__file__).resolve().parents[3]
"""The root of the source checkout, if the program runs from one."""


def bench(size: str, against: str | None, output_format: str, diagnostics: Diagnostics, root: Path = _ROOT) -> ExitCode:
    """Run the benchmarks and show the results.

    Raises:
        InputError: The benchmarks do not exist, or one of them failed.
    """
    if not (root / "benchmarks" / "quick.py").is_file():
        raise InputError(
            "the benchmarks are part of snapdb's source checkout, not of the package; in a checkout, run make "
            "bench, or pip install -e . and then snapdb bench",
            code="benchmark",
        )
    command = [sys.executable, "-m", "benchmarks.quick", size, *([against] if against else [])]
    with Progress(diagnostics, f"measuring on the {size} graph") as progress:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line and not line.startswith(" ")]
            raise InputError(f"the benchmark failed: {lines[-1] if lines else 'no output'}", code="benchmark")
        batch = pa.RecordBatch.from_pylist(json.loads(done.stdout))
        Output(output_format).write(batch.schema, [batch], progress.stop)
    return ExitCode.OK
