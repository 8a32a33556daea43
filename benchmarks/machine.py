"""The machine, the commit and the library versions that results were measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("snapdb", "numba", "numpy", "torch", "duckdb", "pyarrow")


def describe_machine() -> dict[str, str]:
    """Return the commit, processor, cores, memory, system and library versions by name."""
    return {
        "commit": _commit(),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def _commit() -> str:
    """Return the commit's short hash, marked if the working tree differs from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changes = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return (name.stdout.strip() or "unknown") + (" with changes" if changes.stdout.strip() else "")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
