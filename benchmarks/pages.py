"""The pages of `snapdb ui`: seconds to the address, to the first paint and to each panel, and the server's memory.

    python -m benchmarks.pages [--snapshots 300] [--versions 2000] [--runs 10000]

writes PAGES.md. Needs Chromium. Panels are asked for one by one, first from a new server (cold) and then again (warm).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import sync_playwright

import snapdb
from benchmarks.report import machine_table, table
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.task_rows import RunRows, TaskRows
from snapdb_ui.app import PAGES

PAGE = Path(__file__).with_name("PAGES.md")
NAMES = {"/tables/{name}": "bought", "/graphs/{name}": "shop", "/snapshots/{name}": "s0", "/tasks/{name}": "task0"}
LOAD = """
CREATE TABLE customer AS SELECT range AS id, [range % 7, range % 5]::FLOAT[2] AS x FROM range(20000);
CREATE TABLE product AS SELECT range AS id FROM range(3000);
CREATE TABLE bought AS SELECT hash(range) % 20000 AS who, hash(range * 3) % 3000 AS what,
  TIMESTAMP '2026-01-01' + INTERVAL (range) MINUTE AS ts FROM range(200000);
CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (id) FEATURES (x AS x), product KEY (id))
  EDGE TABLES (bought SOURCE KEY (who) REFERENCES customer DESTINATION KEY (what) REFERENCES product EVENT TIME (ts));
"""


def create(path: Path, snapshots: int, versions: int, runs: int) -> None:
    """Create a database with this many snapshots, versions and task runs."""
    with snapdb.connect(path) as db:
        db.script(LOAD)
        for day in range(snapshots):
            at = f"(TIMESTAMP '2026-01-01' + INTERVAL {day % 130 + 1} DAY)"
            db.execute(f"CREATE SNAPSHOT s{day} OF shop FOR EVENT_TIME AS OF {at}")
        db.execute(
            "CREATE SAMPLER train AS SAMPLE FROM s0 SEEDS (SELECT id FROM customer) AS customer "
            "FANOUT (bought OUT => [5, 0], bought IN => [0, 3]) BATCH 128"
        )
        for version in range(versions - 3):
            db.execute(f"INSERT INTO product VALUES ({10_000 + version})")
        for number in range(10):
            db.execute(f"CREATE TASK task{number} SCHEDULE EVERY INTERVAL '1 hour' AS SELECT 1")
    catalog_db = CatalogDb(DatabaseDir(path, read_only=False))
    with catalog_db.writing() as connection:
        for task in TaskRows(connection).read().values():
            for number in range(runs // 10):
                run = RunRows(connection).begin(task, "schedule", number * 3_600_000_000, "me", number * 3_600_000_000)
                state = "failed" if number % 17 == 0 else "ok"
                RunRows(connection).end(run, state, number * 3_600_000_000 + 5_000_000, error=None, log="a line\n" * 20)
    catalog_db.close()


@contextmanager
def served(path: Path) -> Iterator[tuple[psutil.Process, str, float, float]]:
    """Yield a server, its address, and the seconds and the processor seconds until it was printed."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "snapdb_cli", "ui", str(path), "--no-open", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    seconds = time.perf_counter() - began
    watched = psutil.Process(process.pid)
    try:
        yield watched, address, seconds, sum(watched.cpu_times()[:2])
    finally:
        process.kill()
        process.communicate()


def memory(process: psutil.Process) -> str:
    """Return the resident memory in MB."""
    return f"{process.memory_info().rss / 1e6:.0f}"


def panels(address: str) -> dict[tuple[str, str], float]:
    """Return the seconds of each panel, asked for one after the other."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    response.read()
    cookie = (response.getheader("set-cookie") or "").split(";")[0]
    found = {}
    for page in PAGES:
        name = NAMES.get(page.path, "train" if "sampler" in page.path else "task0")
        path = page.path.replace("{name}", name).replace("{run:int}", "1").lstrip("/")
        against = "&against=s99" if page.path == "/snapshots/{name}" else ""
        for panel in page.panels:
            began = time.perf_counter()
            target = f"{parts.path}{path}?panel={panel.name}{against}"
            connection.request("GET", target, headers={"cookie": cookie, "hx-request": "true"})
            response = connection.getresponse()
            content = response.read()
            assert response.status == 200, target
            assert b'class="failure"' not in content, content
            found[page.path, panel.title] = time.perf_counter() - began
    connection.close()
    return found


def painted(address: str) -> tuple[float, float]:
    """Return the seconds to the first paint of the first page, and until all of its panels are there."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page: Any = browser.new_page(viewport={"width": 1400, "height": 3000})
        page.goto(address)
        page.wait_for_selector("[hx-trigger=revealed]", state="detached")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        whole = page.evaluate("performance.now()") / 1000
        browser.close()
    return paint, whole


def measured(path: Path) -> str:
    """Return the report of a database."""
    with served(path) as (process, address, seconds, used):
        first = [("address printed", f"{seconds:.2f} s"), ("processor time until then", f"{used:.2f} s")]
        first.append(("memory then", f"{memory(process)} MB"))
        paint, whole = painted(address)
        first += [("first paint of the first page", f"{paint:.2f} s"), ("all of its panels", f"{whole:.2f} s")]
        first.append(("memory then", f"{memory(process)} MB"))
        paint, whole = painted(address)
        first += [("first paint, again", f"{paint:.2f} s"), ("all of its panels, again", f"{whole:.2f} s")]
    with served(path) as (process, address, _, _):
        cold = panels(address)
        first.append(("memory after all pages, with drawn samples", f"{memory(process)} MB"))
        warm = panels(address)
    rows = [(page, panel, f"{cold[page, panel]:.2f}", f"{warm[page, panel]:.2f}") for page, panel in cold]
    return table(("what", "value"), first) + "\n" + table(("page", "panel", "cold, s", "warm, s"), rows)


def main() -> None:
    """Create the database and write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--snapshots", type=int, default=300)
    parser.add_argument("--versions", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.snapdb"
        create(path, given.snapshots, given.versions, given.runs)
        report = measured(path)
    PAGE.write_text(
        f"# Pages\n\nGenerated by `python -m benchmarks.pages`: {given.snapshots:,} snapshots, {given.versions:,} "
        f"versions, {given.runs:,} task runs, 200,000 edges. Panels are asked for one by one, first from a new server "
        f"(cold) and then again (warm).\n\n{machine_table()}\n{report}"
    )


if __name__ == "__main__":
    main()
