"""Reports on the caches of running streams: one small file per stream, for other processes to read."""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from snapdb.storage.catalog_db.codec import decode
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.types import CacheStats

_FOLDER = "caches"
_LONGEST = 1 << 16
"""The maximum size of a report in bytes."""
_GREATEST = 1 << 56
"""The upper bound of numbers in reports, so that sums over many reports do not overflow."""
_ABANDONED = 60.0
"""Seconds after which an unfinished file counts as abandoned."""


@dataclass(frozen=True, slots=True)
class CacheReport:
    """A stream's latest report on its cache."""

    cache: int
    """The cache's id."""
    process: str
    """The name of the stream's process, from `this_process`."""
    open: bool
    """Whether the stream was still open."""
    generation: int
    """The generation of the cached rows."""
    stats: CacheStats
    """The state and usage of the cache."""

    @property
    def lives(self) -> bool:
        """Whether the stream is open and its process is alive."""
        return self.open and self.process == _process(int(self.process.partition(".")[0]))


def this_process() -> str:
    """Return a name for this process that is unique since the machine was booted."""
    return _process(os.getpid()) or f"{os.getpid()}."


@dataclass(frozen=True, slots=True)
class CacheReports:
    """The reports in a database directory."""

    db_dir: DatabaseDir

    def write(self, name: str, report: CacheReport) -> None:
        """Replace the stream's last report. Does nothing if the database is not writable."""
        folder = self.db_dir.path / _FOLDER
        path = folder / f"{name}.json"
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            # The report is written to another file and renamed, so that readers never see a partial report. It is not
            # synced, because losing a report is harmless.
            new = path.with_suffix(".new")
            new.write_text(json.dumps(asdict(report)))
            new.replace(path)

    def read(self, cache: int | None = None) -> tuple[CacheReport, ...]:
        """Return the last report of each stream, for one cache or for all caches."""
        return tuple(report for _, report in self._reports() if report is not None and cache in (None, report.cache))

    def clear(self, cache: int | None = None) -> int:
        """Remove invalid files and the reports of streams that have ended, and return the number of removed files."""
        stale = [
            path
            for path, report in self._reports()
            if report is None or (cache in (None, report.cache) and not report.lives)
        ]
        stale += self._unfinished()
        for path in stale:
            with suppress(OSError):
                path.unlink()
        return len(stale)

    def _reports(self) -> Iterator[tuple[Path, CacheReport | None]]:
        """Yield each file with its report, or with None if it is damaged, for example by a power failure."""
        for path in self._listed("*.json"):
            with suppress(OSError):  # another process removed it
                if path.is_file():
                    yield path, _read(path)

    def _unfinished(self) -> list[Path]:
        """Return the unfinished files of processes that died while writing them."""
        paths: list[Path] = []
        for path in self._listed("*.new"):
            with suppress(OSError):
                paths += [path] if path.stat().st_mtime < time.time() - _ABANDONED else []
        return paths

    def _listed(self, names: str) -> list[Path]:
        """Return the files that match a pattern, or none if the folder cannot be read. Reports are not essential."""
        with suppress(OSError):
            return sorted((self.db_dir.path / _FOLDER).glob(names))
        return []


def _read(path: Path) -> CacheReport | None:
    """Return the report in a file, or None if it is invalid."""
    if path.stat().st_size > _LONGEST:
        return None
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        report = decode(CacheReport, path.read_text())
        return report if _is_sound(report) else None
    return None


def _is_sound(report: CacheReport) -> bool:
    """Return whether every value has a valid type and range, because readers add up and format the values."""
    process, stats = report.process, asdict(report.stats)
    error, ages = stats.pop("error"), (stats.pop("seconds"), stats.pop("age") or 0.0)
    counts = (report.cache, report.generation, stats.pop("batch") or 0, *stats.values())
    return (
        isinstance(report.open, bool)
        and isinstance(process, str)
        and re.fullmatch(r"[0-9]{1,10}\.[0-9]{0,20}", process) is not None
        and isinstance(error, str | None)
        and all(isinstance(age, int | float) and 0 <= age < _GREATEST for age in ages)
        and all(isinstance(number, int) and 0 <= number < _GREATEST for number in counts)
    )


def _process(number: int) -> str | None:
    """Return the name of a process: its id and, because ids are reused, its start time. None if it does not exist."""
    with suppress(OSError):
        status = Path(f"/proc/{number}/stat").read_text()
        return f"{number}.{status.rpartition(')')[2].split()[19]}"
    with suppress(OSError, OverflowError):  # this system has no /proc
        if not Path("/proc/self").exists():
            os.kill(number, 0)
            return f"{number}."
    return None
