"""How kernels are compiled: serial machine code without the GIL, cached on disk where a place can be written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock

_F = TypeVar("_F", bound=Callable[..., Any])

_ROOT = Path(__file__).parents[2]
_IMPORTED = re.compile(rb"^from (snapdb\.kernels\.[\w.]+) import", re.MULTILINE)


@cache
def _source(module: str) -> bytes:
    return (_ROOT / f"{module.replace('.', '/')}.py").read_bytes()


@cache
def _state(module: str) -> str:
    """Names the state of a module of kernels and of all those that it builds on."""
    met, found = {module}, [module]
    for name in found:
        new = {word.decode() for word in _IMPORTED.findall(_source(name))} - met
        met |= new
        found += sorted(new)
    return sha256(b"".join(_source(name) for name in sorted(met))).hexdigest()[:12]


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Machine code for one state of the sources: numba itself looks at a kernel's own file alone, but kernels are
    inlined into others, and a cache that speaks of a class that is gone cannot even be read."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        base = f"{self._impl.filename_base}.{_state(function.__module__)}"
        self._cache_file = IndexDataCacheFile(self._cache_path, base, self._impl.locator.get_source_stamp())


def kernel(function: _F) -> _F:
    """The function compiled by numba at its first call, once for each tuple of argument types.

    It allocates nothing and returns no array, for it is compiled without reference counts: whoever calls it holds the
    arrays that it is handed. With the counts, which are atomic, a call that hands on a tuple of six arrays costs 23 ns,
    as much as five edges; without them 0.4 ns. So kernels hand on tuples from row to row.

    Never parallel: threads run whole batches side by side, and numba's cached parallel code breaks under fork.
    Without a writable cache directory it is compiled again in every process, which costs seconds and nothing else.
    """
    return _compiled(function, njit(nogil=True, _nrt=False))


def allocating_kernel(function: _F) -> _F:
    """A kernel that allocates buffers or returns arrays: compiled with reference counts."""
    return _compiled(function, njit(nogil=True, _nrt=True))


def _compiled(function: _F, compile_: Callable[[_F], Any]) -> _F:
    compiled = compile_(function)
    with suppress(RuntimeError):  # numba found no directory to cache in
        compiled._cache = _Cache(function)
    return cast(_F, compiled)


# Forks while a thread compiles: the child would have numba's lock, and nobody who ever lets go of it


@cache
def await_compiling() -> None:
    """From now on this process forks once no other thread compiles a kernel, or loads one."""
    if hasattr(os, "register_at_fork"):
        lock = global_compiler_lock
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
