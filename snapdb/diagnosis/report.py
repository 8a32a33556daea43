"""The complete report, in the order in which it is shown."""

from collections.abc import Iterator
from pathlib import Path

from snapdb.diagnosis.database import database_findings
from snapdb.diagnosis.finding import Finding
from snapdb.diagnosis.kernels import kernel_findings
from snapdb.diagnosis.machine import machine_findings
from snapdb.diagnosis.versions import version_findings


def diagnose(path: Path | None = None) -> Iterator[Finding]:
    """Yield the findings about this installation and machine, and about the database at `path`, which is only read."""
    yield from version_findings()
    yield from machine_findings()
    yield from kernel_findings()
    if path is not None:
        yield from database_findings(path)
