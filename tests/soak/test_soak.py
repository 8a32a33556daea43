"""Processes that write and read one database are killed all the time, and nothing is lost or half done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE


def test_nothing_is_lost_when_writers_and_readers_are_killed(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    kills = int(os.environ.get("SNAPDB_KILLS", "8"))
    seed = os.environ.get("SNAPDB_SEED", "1")
    command = [
        sys.executable,
        "-m",
        "tests.support.soak",
        str(tmp_path / "soak.snapdb"),
        "--kills",
        str(kills),
        "--seed",
        seed,
    ]
    ended = subprocess.run(
        command, cwd=pytestconfig.rootpath, capture_output=True, text=True, timeout=PATIENCE + 60 * kills, check=False
    )
    print(ended.stdout)
    assert ended.returncode == 0, f"seed {seed}\n{ended.stdout}{ended.stderr[-4000:]}"
    assert f"{kills} kills" in ended.stdout
