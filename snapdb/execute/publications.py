"""The operator of PUBLISH, and the maintenance of publications."""

from datetime import timedelta

from snapdb.catalog.system_tables import fields, listing
from snapdb.errors import InputError
from snapdb.execute.results import Outcome, Rows
from snapdb.execute.session import ExecutionContext
from snapdb.plan.maintenance import VacuumPublicationPlan
from snapdb.plan.publications import PublishPlan
from snapdb.remote import open_store, read_head
from snapdb.storage.publications import PublishOptions, publish, unlisted_objects
from snapdb.types.text import counted, size_words

_REMOVED = fields("object VARCHAR, bytes BIGINT, action VARCHAR")


def publish_database(plan: PublishPlan, context: ExecutionContext) -> Rows:
    """Run PUBLISH: upload what the last generation lacks, and then replace the head."""
    yield from ()
    snapshots = None if plan.snapshots is None else tuple(snapshot.name.lower() for snapshot in plan.snapshots)
    options = PublishOptions(snapshots, plan.tables, plan.keep, plan.single_writer)
    try:
        context.store.sql_engine.check_folder(plan.url)
        done = publish(context.store.catalog_db, plan.url, options, context.step)
    except InputError as error:
        error.span = error.span or plan.span
        raise
    return Outcome(
        f"generation {done.generation} at {plan.url}: {counted(done.files, 'file')} ({size_words(done.bytes)}), "
        f"{size_words(done.uploaded)} uploaded in {done.seconds:.1f} s"
    )


def vacuum_publication(plan: VacuumPublicationPlan, context: ExecutionContext) -> Rows:
    """Run VACUUM on a publication: remove unlisted objects, and return one row for each."""
    try:
        context.store.sql_engine.check_folder(plan.url)
        store = open_store(plan.url)
        read_head(store)  # an error if nothing is published there
    except InputError as error:
        error.span = error.span or plan.span
        raise
    context.report("listing objects", None)
    removed = unlisted_objects(store, timedelta(microseconds=plan.grace))
    if not plan.dry_run:
        context.step("removing objects", None)
        store.remove([each.path for each in removed])
    action = "would be removed" if plan.dry_run else "removed"
    yield listing(_REMOVED, [(each.path, each.bytes, action) for each in removed])
    return None
