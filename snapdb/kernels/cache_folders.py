"""The directories in which numba caches compiled kernels."""

from pathlib import Path

from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent


def cache_folders() -> list[Path] | None:
    """Return the cache directories of all kernel packages, or None if one of the packages has no writable directory.

    numba uses the first writable directory among $NUMBA_CACHE_DIR, `__pycache__` next to the sources, and the user's
    cache directory, and creates it if necessary.
    """
    sources = sorted({source.parent for source in _PACKAGE.rglob("*.py")})
    try:
        return sorted({Path(_cache_path(source)) for source in sources})
    except RuntimeError:  # numba's error if no directory is writable
        return None


def _cache_path(folder: Path) -> str:
    """Return the cache directory for the kernels of a package, which numba derives from a function's source file."""
    names: dict[str, object] = {}
    exec(compile("def probe(): pass", str(folder / "__init__.py"), "exec"), names)  # noqa: S102  # a constant text
    path: str = FunctionCache(names["probe"]).cache_path
    return path
