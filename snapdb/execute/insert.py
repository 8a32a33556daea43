"""INSERT and COPY … FROM: more segments, with ids for the keys they bring."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.errors import InputError, QueryError, SnapdbError
from snapdb.execute.copied import copied
from snapdb.execute.operator import Engine, Rows
from snapdb.execute.publish import publish
from snapdb.execute.row_warnings import warn_of_rows
from snapdb.plan.tables import InsertPlan
from snapdb.storage.changes import Append, Change, File, Loaded
from snapdb.storage.segments import write_segment
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class Insert:
    """Writes the rows, then the version."""

    plan: InsertPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        plan, table = self.plan, self.plan.table
        files = _read(engine, plan)
        review = warn_of_rows(engine, table, files)
        rows = sum(file.rows for file in files)
        changes: list[Change] = [Append(table.id, table.columns, files)]
        did, notes = f"{counted(rows, 'row')} added to {table.name}", ""
        if (new := plan.new) is not None:
            changes.append(Loaded(table.id, new.files))
            did, notes = f"{counted(len(new.files), 'file')}, {did}", new.notes()
        outcome = publish(engine, changes, plan.message, did, rows, review)
        return replace(outcome, message=outcome.message + notes)


def _read(engine: Engine, plan: InsertPlan) -> tuple[File, ...]:
    """The rows as files of the database; none of them when what they were read from was written to meanwhile."""
    table, made = plan.table, tuple[File, ...]()
    try:
        made = copied(engine, table.folder, table.name, plan.copies) if plan.copies else (_written(engine, plan),)
        if plan.new is not None:
            plan.new.check_unmoved()
    except SnapdbError as error:
        for file in made:
            engine.home.disk.remove(engine.home.path / file.path)
        if plan.new is not None and isinstance(error, InputError | QueryError) and error.code != "interrupted":
            plan.new.check_unmoved()  # then this is why they could not be read
        raise
    return made


def _written(engine: Engine, plan: InsertPlan) -> File:
    table, query = plan.table, plan.query
    with engine.context.session(query) as session, engine.watching(session, f"writing {table.name}"):
        return write_segment(
            engine.home, session, table.folder, table.columns, query.text, query.parameters, plan.supplied
        )
