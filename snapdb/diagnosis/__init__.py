"""The facts that a bug report needs: versions, devices, memory, the kernel cache and the state of a database.

A package that cannot be imported and a database that cannot be opened are reported as problems, not raised as errors.
"""

from snapdb.diagnosis.finding import Finding
from snapdb.diagnosis.report import diagnose

__all__ = ["Finding", "diagnose"]
