"""CREATE TAG: a name for a version."""

from __future__ import annotations

from dataclasses import dataclass

from snapdb.errors import CommitConflict
from snapdb.execute.operator import Engine, Outcome, Rows
from snapdb.plan.versions import CreateTagPlan


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
