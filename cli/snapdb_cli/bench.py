"""`snapdb bench`: the benchmarks of the source checkout, each system's figures as a row of one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from snapdb.errors import InputError

from .diagnostics import Diagnostics, ExitCode
from .output import Output
from .progress import Progress

_ROOT = Path(__file__).resolve().parents[2]
"""The source checkout, where that is what runs."""


def run(
    size: str,
    against: str | None,
    format: str,  # noqa: A002  # the option's name
    diagnostics: Diagnostics,
    root: Path = _ROOT,
) -> ExitCode:
    """Measure and show what was measured.

    Raises:
        InputError: the benchmarks are not there, or one of them failed.
    """
    if not (root / "benchmarks" / "quick.py").is_file():
        raise InputError(
            "the benchmarks come with snapdb's source, not with the package; in a checkout of it run make bench, or "
            "pip install -e . and snapdb bench",
            code="benchmark",
        )
    command = [sys.executable, "-m", "benchmarks.quick", size, *([against] if against else [])]
    with Progress(diagnostics, f"measuring on the {size} graph") as progress:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line and not line.startswith(" ")]
            raise InputError(f"the benchmark failed: {said[-1] if said else 'it does not say why'}", code="benchmark")
        batch = pa.RecordBatch.from_pylist(json.loads(done.stdout))
        Output(format).write(batch.schema, [batch], progress.stop)
    return ExitCode.OK
