"""The operators of CREATE TAG, BEGIN, COMMIT and ROLLBACK."""

from snapdb.errors import moved
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.versions import BeginPlan, CommitPlan, CreateTagPlan, RollbackPlan


def create_tag(plan: CreateTagPlan, context: ExecutionContext) -> Rows:
    """Run CREATE TAG: write the catalog row of the tag."""
    yield from ()
    tag = plan.tag
    with context.store.catalog_db.writing(publishes=True) as connection:
        if plan.replaces:
            connection.execute("DELETE FROM tags WHERE folded = ?", (tag.name.lower(),))
        row = (tag.name.lower(), tag.name, tag.version)
        if not connection.execute("INSERT INTO tags VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row).rowcount:
            raise moved(f"tag {tag.name} was created concurrently", code="tag-moved")
    return Outcome(f"tag {tag.name} is version {tag.version}")


def begin(_: BeginPlan, context: ExecutionContext) -> Rows:
    """Run BEGIN: open a transaction at the head."""
    yield from ()
    context.transactions.begin(context.catalog)
    return Outcome(f"transaction started at version {context.catalog.version}")


def commit(plan: CommitPlan, context: ExecutionContext) -> Rows:
    """Run COMMIT: publish the changes of the open transaction as one version."""
    yield from ()
    version = context.transactions.commit(plan.message)
    return Outcome("nothing to commit" if version is None else f"version {version}: committed")


def rollback(_: RollbackPlan, context: ExecutionContext) -> Rows:
    """Run ROLLBACK: discard the changes of the open transaction."""
    yield from ()
    context.transactions.rollback()
    return Outcome("rolled back; nothing was changed")
