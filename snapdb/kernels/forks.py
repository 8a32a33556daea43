"""Forks while a thread compiles: the child would have numba's lock, and nobody who ever lets go of it."""

import os
from functools import cache

from numba.core.compiler_lock import global_compiler_lock


@cache
def await_compiling() -> None:
    """From now on this process forks once no other thread compiles a kernel, or loads one."""
    if hasattr(os, "register_at_fork"):
        lock = global_compiler_lock
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
