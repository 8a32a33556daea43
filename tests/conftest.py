"""What tests share: a fresh database, the real data, a fresh process, and the collection of .slt files."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import snapdb
from tests.support.processes import FreshProcess, PeerProcess
from tests.support.refusals import NEW, record_wordings
from tests.support.slt import SltFile
from tests.support.thoroughness import examples
from tests.support.waiting import PATIENCE


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slt-update", action="store_true", help="rewrite the expected results of the .slt files that run"
    )


MEMORY = Path("/dev/shm")
"""A file system in memory, where the system has one."""
ROOM = 6 << 30
"""Bytes that the tests may want there."""


def pytest_configure(config: pytest.Config) -> None:
    """Let tests share the machine well: they sync thousands of small files, to memory where there is room."""
    # A machine with other work to do is slow, not wrong.
    settings.register_profile("busy", deadline=None, max_examples=examples(100))
    settings.load_profile("busy")
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    # What nohup or a shell's background jobs ignore is ignored by each process that starts from them, unless it was
    # handled meanwhile: tests send these signals to processes that shall take them as in a terminal.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    # Tests run side by side on all cores: torch's own threads would wait for each other most of the time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


DEAR = ("end_to_end", "frozen", "storage", "daemon", "ui")
"""The folders whose files take longest: they come first, so that no worker is left with one of them at the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Send each file to one of the workers that share the tests, so that its fixtures and kernels are made once.

    Without `--no-loadscope-reorder`, the files of most tests would come first.
    """
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
    items.sort(key=lambda item: item.path.parent.name not in DEAR)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was imported out of every later search for garbage: some tests ask for many."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let Python clean up as usual when it ends."""
    gc.unfreeze()
    if NEW:
        record_wordings()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".slt":
        return SltFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    """A new, empty database in a directory of its own."""
    with snapdb.connect(tmp_path / "test.snapdb") as database:
        yield database


@pytest.fixture(scope="session")
def data(pytestconfig: pytest.Config) -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    folder = Path(os.environ.get("SNAPDB_DATA", pytestconfig.rootpath.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set SNAPDB_DATA to a folder that holds it")
    return folder


@pytest.fixture(scope="session")
def fresh_process() -> FreshProcess:
    """Runs Python code in a process that has imported nothing yet; stdout and stderr are captured as text."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    return run


@pytest.fixture(scope="session")
def peer_process(pytestconfig: pytest.Config) -> PeerProcess:
    """Runs Python where PyG has its own sampler, and gives what was printed; the test is skipped where that is not."""
    python = pytestconfig.rootpath / "benchmarks" / ".peers" / "pyg" / "bin" / "python"
    if not python.exists():
        pytest.skip("PyG with its own sampler is not here: `make bench-peers` installs it")

    def run(*arguments: str) -> str:
        command = [str(python), "-W", "ignore", *arguments]
        paths = os.environ | {"PYTHONPATH": str(pytestconfig.rootpath)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=paths)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
