"""What the caches of running streams tell of themselves: a small file each, which other processes read."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from snapdb.storage.catalog_db.codec import decode
from snapdb.storage.catalog_db.db_dir import Home
from snapdb.types import CacheStats

_FOLDER = "caches"
_LONGEST = 1 << 16
"""Bytes of a report."""
_GREATEST = 1 << 56
"""Numbers in reports are smaller, so that those of many can be added up."""
_ABANDONED = 60.0
"""Seconds after which nobody is writing a file any more."""


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What one stream last told of its cache."""

    cache: int
    """The cache's id."""
    process: str
    """See `this_process`."""
    open: bool
    """The stream was not closed yet."""
    generation: int
    """Of the rows."""
    stats: CacheStats

    @property
    def lives(self) -> bool:
        """Whether the stream is still there."""
        return self.open and self.process == _process(int(self.process.partition(".")[0]))


def this_process() -> str:
    """A name for this process that no other one had since the machine was started."""
    return _process(os.getpid()) or f"{os.getpid()}."


def write_report(home: Home, name: str, report: CacheReport) -> None:
    """Puts a report in the place of the stream's last one; nothing where the database cannot be written."""
    folder = home.path / _FOLDER
    path = folder / f"{name}.json"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(report)))
        fresh.replace(path)


def read_reports(home: Home, cache: int | None = None) -> tuple[CacheReport, ...]:
    """The last report of each stream that had a cache, of a given one or of any."""
    return tuple(report for _, report in _reports(home) if report is not None and cache in (None, report.cache))


def clear_reports(home: Home, cache: int | None = None) -> int:
    """Removes the reports of streams that are gone, and what is no report; returns how many."""
    gone = [
        path
        for path, report in _reports(home)
        if report is None or (cache in (None, report.cache) and not report.lives)
    ]
    gone += _unfinished(home)
    for path in gone:
        with suppress(OSError):
            path.unlink()
    return len(gone)


def _reports(home: Home) -> Iterator[tuple[Path, CacheReport | None]]:
    """Each file with what it says; None: it is damaged, as a power cut or an editor leaves it."""
    for path in _listed(home, "*.json"):
        with suppress(OSError):  # another process removed it
            if path.is_file():
                yield path, _read(path)


def _read(path: Path) -> CacheReport | None:
    if path.stat().st_size > _LONGEST:
        return None
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        report = decode(CacheReport, path.read_text())
        return report if _is_sound(report) else None
    return None


def _is_sound(report: CacheReport) -> bool:
    """Whether every value is of its kind: what reads them adds and formats them."""
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


def _unfinished(home: Home) -> list[Path]:
    """Files that a process began to write and did not live to name."""
    found: list[Path] = []
    for path in _listed(home, "*.new"):
        with suppress(OSError):
            found += [path] if path.stat().st_mtime < time.time() - _ABANDONED else []
    return found


def _listed(home: Home, names: str) -> list[Path]:
    """The files of such names; none where the folder cannot be read, since nothing depends on reports."""
    with suppress(OSError):
        return sorted((home.path / _FOLDER).glob(names))
    return []


def _process(number: int) -> str | None:
    """The process with this number and the moment at which it began; None: there is none."""
    with suppress(OSError):
        facts = Path(f"/proc/{number}/stat").read_text()
        return f"{number}.{facts.rpartition(')')[2].split()[19]}"
    with suppress(OSError, OverflowError):  # this system has no /proc
        if not Path("/proc/self").exists():
            os.kill(number, 0)
            return f"{number}."
    return None
