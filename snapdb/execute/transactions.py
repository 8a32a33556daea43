"""The transactions of an open database. Each statement, or each block from BEGIN to COMMIT, becomes one version."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from snapdb.catalog import Catalog
from snapdb.errors import CommitConflict, CorruptError, QueryError, SnapdbError, hint_at_transaction
from snapdb.sql_engine import SqlSession, parquet_files, table_rows
from snapdb.storage import check, tables
from snapdb.storage.catalog_db.connection import CatalogDb
from snapdb.storage.catalog_db.locks import TablesLock, assigning_ids, merging_files
from snapdb.storage.store import Store
from snapdb.storage.tables.commit import AddTable, Append, AssignIds, Change, RemoveRows, commit, files_of
from snapdb.types import Segment, Table

Review = Callable[[Mapping[int, int]], None]
"""Called with the number of new keys per id map of a table."""

_TRIES = 40
_FIRST_WAIT = 0.002
"""The delay in seconds before the first retry after a conflict. It doubles with each retry, up to 64 times this value,
with jitter."""


@dataclass(slots=True)
class _Open:
    """An open transaction."""

    began: Catalog
    """The head at which the transaction began."""
    catalog: Catalog
    """The same catalog, with the transaction's own changes."""
    lock: TablesLock
    """A lock that is held in shared mode until the end, so that the transaction's files, which no version names, do not
    count as orphans."""
    changes: list[Change] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    failed: bool = False


class TransactionManager:
    """Commits changes as versions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: _Open | None = None
        self._tables = 0
        self.brought = 0
        """The total size of the files of all changes so far, in bytes."""

    @property
    def state(self) -> str:
        """'idle', 'open' or 'failed'."""
        return "idle" if self._open is None else "failed" if self._open.failed else "open"

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that an open transaction sees, or None outside a transaction."""
        return None if self._open is None else self._open.catalog

    def begin(self, catalog: Catalog) -> None:
        """Open a transaction at the head."""
        if self._open is not None:
            raise QueryError("a transaction is already open; COMMIT or ROLLBACK it first", code="transaction-open")
        self._open = _Open(catalog, catalog, TablesLock(self._store.db_dir))
        # As in PostgreSQL, now() returns the start of the transaction in all of its statements.
        self._store.sql_engine.set_clock(datetime.now(UTC))

    def add(self, changes: Sequence[Change], message: str | None, review: Review | None = None) -> int | None:
        """Commit the changes as a version and return its number, or None if they were added to the open transaction."""
        self.brought += sum(file.bytes for change in changes for file in files_of(change))
        if (opened := self._open) is None:
            return self._publish(list(changes), message, review)
        opened.changes += changes
        opened.messages += [message] if message is not None else []
        opened.catalog = opened.catalog.with_changes(changes)
        return None

    def commit(self, message: str | None) -> int | None:
        """Commit the transaction as one version. Returns its number, or None if nothing was changed."""
        opened = self._ending("COMMIT")
        if opened.failed:
            self._drop()
            raise QueryError("the transaction was aborted by an error, so it was rolled back", code="aborted")
        text = message if message is not None else "; ".join(opened.messages) or None
        changes, opened.changes = opened.changes, []
        try:
            return self._publish(changes, text) if changes else None
        except CommitConflict as conflict:
            hint_at_transaction(conflict)
            raise
        finally:
            self._drop()

    def rollback(self) -> None:
        """Roll back the transaction."""
        self._ending("ROLLBACK")
        self._drop()

    def fail(self) -> None:
        """Abort an open transaction after an error. Its changes are discarded, and ROLLBACK or COMMIT ends it."""
        if self._open is not None and not self._open.failed:
            self._discard(self._open.changes)
            self._open.changes, self._open.failed = [], True

    def check(self) -> None:
        """Raise QueryError if the open transaction has failed, as in PostgreSQL."""
        if self.state == "failed":
            raise QueryError(
                "the current transaction is aborted by an error, and its changes are discarded; write ROLLBACK to "
                "continue",
                code="aborted",
            )

    def close(self) -> bool:
        """Roll back an open transaction and return whether there was one."""
        was_open = self._open is not None
        self._drop()
        return was_open

    def next_table(self) -> int:
        """Return a temporary id for a new table, which is negative and unique within the session."""
        self._tables -= 1
        return self._tables

    def added(self, table_id: int) -> list[Append]:
        """Return the rows that the open transaction has added to a table."""
        changes = [] if self._open is None else self._open.changes
        return [change for change in changes if isinstance(change, Append) and change.table_id == table_id]

    def removal(self, table: Table, file: Segment, base: int) -> RemoveRows:
        """Return the change that removes rows selected by a statement that was bound at version `base`."""
        change = RemoveRows(table.id, file, base, base)
        if self._open is None or not any(isinstance(c, Append) and c.table_id == table.id for c in self._open.changes):
            return change
        began = {t.id: t.next_row for t in self._open.began.tables.values()}
        with self._store.sql_engine.session() as session:
            files = parquet_files([change.file], self._store.db_dir.path)
            (last,) = session.rows(f"SELECT max(row_id) FROM {files}")[0]
        # The ids of rows that the transaction itself appended start at the table's next row id at BEGIN.
        return change._replace(own=last >= began.get(table.id, 0))

    def _ending(self, word: str) -> _Open:
        if self._open is None:
            raise QueryError(
                f"no transaction is open, so there is nothing to {word}; write BEGIN to open one", code="no-transaction"
            )
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            self._store.sql_engine.set_clock(None)
            try:
                self._discard(opened.changes)
            finally:
                opened.lock.release()

    def _discard(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for file in files_of(change):
                self._store.disk.remove(self._store.db_dir.path / file.path)

    def _publish(self, changes: list[Change], message: str | None, review: Review | None = None) -> int:
        version = self._committed(changes, message, review)
        for table in {c.table_id for c in changes if isinstance(c, Append | RemoveRows) and c.table_id > 0}:
            self._merge_small(table)
        return version

    def _committed(self, changes: list[Change], message: str | None, review: Review | None) -> int:
        """Commit, and retry after conflicts that leave the changes valid. On failure, remove the files."""
        try:
            for attempt in range(_TRIES):
                try:
                    return self._try(changes, message, review)
                except CommitConflict as conflict:
                    # Other writers only assigned ids or deleted rows, so the change is still valid after a comparison
                    # of row ids.
                    if attempt == _TRIES - 1 or conflict.code not in ("ids-moved", "deletes-moved"):
                        raise
                changes = [self._compared(c) if isinstance(c, RemoveRows) else c for c in changes]
                time.sleep(_FIRST_WAIT * 2 ** min(attempt, 6) * random.uniform(0.5, 1.5))  # noqa: S311  # no secret
        except BaseException:
            self._discard(changes)
            raise
        raise AssertionError("unreachable: the last try returns or raises")

    def _merge_small(self, table: int) -> None:
        """Merge a table's small files if there are too many. The writer that exceeds the limit does this.

        The version is already committed, so an error here must not make the statement fail.
        """
        with suppress(SnapdbError, OSError):
            if not self._small_merges(table):
                return
            with merging_files(self._store.db_dir) as alone, self._store.sql_engine.session() as session:
                for merge in self._small_merges(table) if alone else ():
                    tables.compact(self._store.catalog_db, session, merge)

    def _small_merges(self, table: int) -> list[tables.Merge]:
        with self._store.catalog_db.reading() as connection:
            return tables.find_tiers(connection, table)

    def _try(self, changes: Sequence[Change], message: str | None, review: Review | None) -> int:
        """Assign ids to the keys of appended rows in every id map of their tables, and commit."""
        new = {c.table_id for c in changes if isinstance(c, AddTable)}
        appended: dict[int, list[Append]] = {}
        for change in changes:
            if isinstance(change, Append) and change.table_id not in new:
                appended.setdefault(change.table_id, []).append(change)
        if not any(tables.IdMaps(self._store.catalog_db).of_table(table_id) for table_id in appended):
            return commit(self._store.catalog_db, changes, message)
        # The catalog would reject one of two concurrent assignments, and that one would have to start over.
        with assigning_ids(self._store.db_dir):
            changes_made: list[Change] = []
            try:
                for table_id, appends in appended.items():
                    changes_made += self._allot(table_id, appends)
                if review is not None:
                    review({ids.map_id: self._new_keys(ids) for ids in changes_made if isinstance(ids, AssignIds)})
                return commit(self._store.catalog_db, [*changes, *changes_made], message)
            except BaseException:
                self._discard(changes_made)
                raise

    def _allot(self, table_id: int, appends: Sequence[Append]) -> list[AssignIds]:
        segments = tuple(replace(file, columns=a.columns) for a in appends for file in a.files)
        rows = sum(s.rows for s in segments)
        assigned = []
        with self._store.sql_engine.session() as session:
            for id_map in tables.IdMaps(self._store.catalog_db).of_table(table_id):
                # Key columns are identified by field ids, because the transaction may have renamed or dropped them.
                keys = Table(table_id, "", id_map.columns, segments, (), rows, 0, next_row=rows, fields=0)
                query = table_rows(keys, self._store.db_dir.path)
                assigned.append(tables.assign_ids(self._store.db_dir, session, table_id, id_map, query, rows))
        return assigned

    def _new_keys(self, ids: AssignIds) -> int:
        """Return the number of keys that are assigned a new id."""
        if ids.file is None:
            return 0
        marks = ", ".join("?" * len(ids.merged))
        sql = f"SELECT coalesce(sum(rows), 0) AS rows FROM id_segments WHERE path IN ({marks})"
        return ids.file.rows - int(self._store.catalog_db.rows(sql, tuple(ids.merged))[0]["rows"])

    def _compared(self, change: RemoveRows) -> RemoveRows:
        """Return the change after comparing its rows with those that other writers have removed concurrently.

        Raises:
            CommitConflict: Another writer removed some of the same rows.
        """
        mine = parquet_files([change.file], self._store.db_dir.path)
        rows = self._store.catalog_db.rows(
            "SELECT path, added FROM segments WHERE table_id = ? AND kind = 'deletes' AND added > ? ORDER BY added",
            (change.table_id, change.checked),
        )
        with self._store.sql_engine.session() as session:
            for row in rows:
                self._compare(session, change, mine, row["path"], row["added"])
        return change._replace(checked=max([change.checked, *(row["added"] for row in rows)]))

    def _compare(self, session: SqlSession, change: RemoveRows, mine: str, path: str, version: int) -> None:
        theirs = parquet_files([Segment(path, 0, 0, "")], self._store.db_dir.path)
        (common,) = session.rows(f"SELECT count(*) FROM {mine} WHERE row_id IN (SELECT row_id FROM {theirs})")[0]
        if common:
            (name,) = self._store.catalog_db.rows("SELECT name FROM tables WHERE id = ?", (change.table_id,))[0]
            raise CommitConflict(
                f"table {name} was changed concurrently: expected version {change.base}, found {version}, which "
                f"removed {common:,} of "
                "the rows that this statement deletes or updates; run it again",
                code="rows-moved",
            )


# Recovery from events outside a statement, such as a concurrently replaced snapshot or a damaged catalog.


_T = TypeVar("_T")

_OPENINGS = 8


def retry_if_replaced(act: Callable[[], _T], *, checks_keys: bool = False) -> _T:
    """Return the result of `act`. Retries if a snapshot that it reads was replaced while it was being opened.

    Args:
        act: The function.
        checks_keys: Whether to retry also if constraints were checked against rows that other writers have changed.
            This is only correct outside a transaction, whose earlier statements would be lost.
    """
    for attempt in range(_TRIES):
        try:
            return act()
        except CommitConflict as conflict:
            if conflict.code == "keys-moved" and checks_keys:
                # The statement has published nothing, and runs again at the new head.
                time.sleep(_FIRST_WAIT * 2 ** min(attempt, 6) * random.uniform(0.5, 1.5))  # noqa: S311  # no secret
            elif conflict.code != "snapshot-replaced" or attempt >= _OPENINGS:
                raise
    return act()


@contextmanager
def diagnose_corruption(catalog_db: CatalogDb) -> Iterator[None]:
    """Raise CorruptError instead of an unexpected error if the catalog is damaged. Damage can cause any error."""
    try:
        yield
    except SnapdbError:
        raise
    except Exception as error:
        problem = None if catalog_db.closed else check.catalog_damage(catalog_db)
        if problem is None:
            raise
        message = f"{catalog_db.db_dir.path / problem.path} ({problem.kind}): {problem.problem}; {problem.remedy}"
        raise CorruptError(message, code="damaged-catalog") from error
