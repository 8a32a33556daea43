"""INSERT and COPY … FROM: one more segment, with ids for the keys it brings."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.logical import InsertPlan
from snapdb.relational import Session, table_rows
from snapdb.storage.commit import Allot, Append, File, commit
from snapdb.storage.disk import discard
from snapdb.storage.ids import allot, maps_of
from snapdb.storage.locks import reading_tables
from snapdb.storage.segments import write_segment
from snapdb.types import Segment, Table

__all__ = ["Insert"]

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Insert:
    """Writes the rows, then the version."""

    plan: InsertPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, query = self.plan, self.plan.query
        engine.report(f"writing {plan.table.name}", None)
        with reading_tables(engine.home), engine.context.session(query) as session:
            file = write_segment(
                engine.home,
                session,
                f"tables/{plan.table.id}",
                plan.table.columns,
                query.island.text,
                query.parameters,
                plan.supplied,
            )
            try:
                version = _publish(engine, session, plan, file)
            except BaseException:
                discard(engine.home.path / file.path)
                raise
        return Outcome(f"version {version}: {file.rows:,} rows added to {plan.table.name}", file.rows)


def _publish(engine: Engine, session: Session, plan: InsertPlan, file: File) -> int:
    """Commit, again while other writers allot ids meanwhile: appends commute, so no try is lost work."""
    for attempt in range(_TRIES):
        allotments = _allotments(engine, session, plan.table, file)
        try:
            return commit(engine.ledger, [Append(plan.table.id, file), *allotments], plan.message)
        except CommitConflict as conflict:
            for made in allotments:
                if made.file is not None:
                    discard(engine.home.path / made.file.path)
            if conflict.code != "ids" or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _allotments(engine: Engine, session: Session, table: Table, file: File) -> list[Allot]:
    segment = Segment(file.path, file.rows, file.bytes, file.sha256, 0)
    alone = Table(table.id, table.name, table.columns, (segment,), (), file.rows, table.state)
    rows = table_rows(alone, engine.home.path)
    return [allot(engine.home, session, table, id_map, rows) for id_map in maps_of(engine.ledger, table)]
