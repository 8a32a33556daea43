"""Types of the fixtures that run other processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

FreshProcess = Callable[[str], subprocess.CompletedProcess[str]]


PeerProcess = Callable[..., str]
