"""The information for a bug report: versions, devices, memory, the kernel cache and the state of a database.

A package that cannot be imported and a database that cannot be opened are reported as problems, not raised as errors.
"""

from collections.abc import Iterator
from pathlib import Path

from snapdb.diagnosis.database import database_findings
from snapdb.diagnosis.finding import Finding
from snapdb.diagnosis.installation import kernel_findings, version_findings
from snapdb.diagnosis.machine import machine_findings

__all__ = ["Finding", "diagnose"]


def diagnose(path: Path | None = None) -> Iterator[Finding]:
    """Yield the findings about this installation and machine, and about the database at `path`, which is only read."""
    yield from version_findings()
    yield from machine_findings()
    yield from kernel_findings()
    if path is not None:
        yield from database_findings(path)
