"""CREATE TAG: a name for a version."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.versions import BeginPlan, CommitPlan, CreateTagPlan, RollbackPlan


@dataclass(frozen=True, slots=True)
class CreateTag:
    """Writes the tag's row."""

    plan: CreateTagPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        tag = self.plan.tag
        with engine.ledger.writing(publishes=True) as connection:
            if self.plan.replaces:
                connection.execute("DELETE FROM tags WHERE folded = ?", (tag.name.lower(),))
            row = (tag.name.lower(), tag.name, tag.version)
            if not connection.execute("INSERT INTO tags VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount:
                raise CommitConflict(
                    f"tag {tag.name} moved: it was created meanwhile; run the statement again", code="tag-moved"
                )
        return Outcome(f"tag {tag.name} is version {tag.version}")


# BEGIN, COMMIT, ROLLBACK: the open transaction begins or ends


@dataclass(frozen=True, slots=True)
class Transaction:
    """Tells the database's work to begin or to end."""

    plan: BeginPlan | CommitPlan | RollbackPlan

    def run(self, engine: Engine) -> Rows:
        yield from ()
        match self.plan:
            case BeginPlan():
                engine.work.begin(engine.context.catalog)
                return Outcome(f"transaction begun at version {engine.context.catalog.version}")
            case CommitPlan(message):
                version = engine.work.commit(message)
                return Outcome("nothing to commit" if version is None else f"version {version}: committed")
            case RollbackPlan():
                engine.work.rollback()
                return Outcome("rolled back; nothing was changed")
