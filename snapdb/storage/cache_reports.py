"""What the caches of running streams tell of themselves: a small file each, which other processes read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from snapdb.storage.codec import decode
from snapdb.storage.home import Home

__all__ = ["CacheReport", "CacheStats", "clear_reports", "read_reports", "this_process", "write_report"]

_FOLDER = "caches"


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How far a stream's cache is filled, and what it was good for since the stream was opened."""

    bytes: int = 0
    """Of all its arrays."""
    rows: int = 0
    """That it has room for: drawn rows, and whole ones."""
    filled: int = 0
    """Of these, that are there."""
    edges: int = 0
    """That they hold."""
    hits: int = 0
    """Rows that batches found in it,"""
    misses: int = 0
    """and those that they looked for in vain."""
    bytes_read: int = 0
    """Of the topology's neighbours: by batches, where the cache had none, and to fill it."""
    bytes_filled: int = 0
    """The part of these that filled it."""
    bytes_saved: int = 0
    """Of neighbours that batches took from it instead."""
    refills: int = 0
    """Passes that drew rows, the first one among them."""
    drawn: int = 0
    """Rows that they drew."""
    seconds: float = 0.0
    """That they took."""
    age: float | None = None
    """For how many batches its drawn rows have been the same, on average; None: there are none."""
    batch: int | None = None
    """The last one that was begun, by its global number."""
    error: str | None = None
    """Why it is not filled any further."""

    @property
    def hit_rate(self) -> float | None:
        """Which part of the rows that batches looked for was there; None: they looked for none."""
        looked = self.hits + self.misses
        return self.hits / looked if looked else None


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
    for path in gone:
        with suppress(OSError):
            path.unlink()
    return len(gone)


def _reports(home: Home) -> Iterator[tuple[Path, CacheReport | None]]:
    """Each file with what it says; None: it is damaged, as a power cut leaves it."""
    for path in sorted((home.path / _FOLDER).glob("*.json")):
        report = None
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            try:
                report = decode(CacheReport, path.read_text())
                report.lives  # noqa: B018  # reads what may be damaged
            except OSError:
                continue  # another process removed it
        yield path, report


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
