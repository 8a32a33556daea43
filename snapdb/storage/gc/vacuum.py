"""VACUUM: merge small files, and remove files that have been unreferenced for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from snapdb.errors import CorruptError, DatabaseError
from snapdb.storage.cache_reports import clear_reports
from snapdb.storage.catalog_db.codec import MISREAD
from snapdb.storage.catalog_db.db_dir import DatabaseDir
from snapdb.storage.catalog_db.locks import TablesLock
from snapdb.storage.catalog_db.pending_deletes import forget_deleted
from snapdb.storage.gc.orphans import Unreferenced, find_unreferenced, remove_unreferenced
from snapdb.storage.store import Store
from snapdb.storage.tables.commit import now
from snapdb.storage.tables.compaction import Merge, compact, find_merges


class _VacuumStep(NamedTuple):
    """What was done, or with DRY RUN would be done, to one file or folder."""

    action: Literal["compact", "remove", "keep"]
    path: str
    """Relative to the database directory; a folder for 'compact'."""
    bytes: int
    reason: str


class Vacuum(NamedTuple):
    """One run of VACUUM."""

    store: Store
    lock: TablesLock
    """Held shared."""
    table: int | None
    """The only table to merge files of; None: all. Unreferenced files are removed of all tables."""
    grace: int
    """Microseconds for which an unreferenced file is kept."""
    dry_run: bool
    report: Callable[[str, float | None], None]

    def run(self) -> Iterator[_VacuumStep]:
        """Merge, then remove, and yield each step after it is done."""
        merged: list[Merge] = []
        with _damaged(self.store.db_dir), self.store.catalog_db.reading() as connection:
            merges = find_merges(connection, self.table)
        for number, merge in enumerate(merges):
            self.report(f"merging files of {merge.name}", number / len(merges))
            if self._merge(merge):
                merged.append(merge)
                yield _VacuumStep("compact", merge.folder, merge.bytes, _why(merge))
            else:
                yield _VacuumStep(
                    "keep", merge.folder, merge.bytes, f"another VACUUM was merging files of {merge.name}"
                )
        self.report("removing what nothing points at", None)
        yield from self._clean(merged)

    def _merge(self, merge: Merge) -> bool:
        if self.dry_run:
            return True
        with _damaged(self.store.db_dir), self.store.sql_engine.session() as session:
            return compact(self.store.catalog_db, session, merge)

    def _clean(self, merged: list[Merge]) -> Iterator[_VacuumStep]:
        """Remove unreferenced files, while no other process reads or writes tables."""
        alone = self.lock.alone(0.0 if self.dry_run else 2.0)
        try:
            for entry in self._unreferenced(merged):
                if entry.kept is not None:
                    yield _VacuumStep("keep", entry.path, entry.bytes, entry.kept)
                elif not alone or not (self.dry_run or remove_unreferenced(self.store.catalog_db, entry)):
                    yield _VacuumStep("keep", entry.path, entry.bytes, f"{entry.why}, but a reader holds it")
                else:
                    yield _VacuumStep("remove", entry.path, entry.bytes, entry.why)
            if not self.dry_run:  # also the small reports of streams that have ended
                clear_reports(self.store.db_dir)
                with self.store.catalog_db.writing(counted=False) as connection:
                    forget_deleted(connection, self.store.db_dir)
        finally:
            if alone:
                self.lock.share()

    def _unreferenced(self, merged: list[Merge]) -> list[Unreferenced]:
        moment = now()
        replaced = [m.path for merge in merged for m in merge.members] if self.dry_run else []
        with _damaged(self.store.db_dir):
            return find_unreferenced(self.store.catalog_db, moment, self.grace, replaced)


@contextmanager
def _damaged(db_dir: DatabaseDir) -> Iterator[None]:
    """Raise CorruptError for damaged rows, by which nothing may be merged or removed."""
    try:
        yield
    except MISREAD as error:
        raise CorruptError(
            f"{db_dir.catalog} is damaged ({error}); CHECK DATABASE says where", code="damaged-catalog"
        ) from error
    except OSError as error:
        raise DatabaseError(
            f"cannot look after {db_dir.path}: {error.strerror}; CHECK DATABASE says more", code="cannot-read"
        ) from error


def _why(merge: Merge) -> str:
    what = {"rows": "rows", "deletes": "deleted rows", "ids": "keys"}[merge.kind]
    return f"{len(merge.members)} files with {what} of {merge.name} become one"
