"""The facts that a bug report needs: versions, devices, memory, the kernel cache and the state of a database.

A package that fails to import is reported, as is a database that cannot be opened: nothing here raises for them.
"""

from snapdb.diagnosis.finding import Finding
from snapdb.diagnosis.report import diagnose

__all__ = ["Finding", "diagnose"]
