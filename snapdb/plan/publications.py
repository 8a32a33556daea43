"""Plans of PUBLISH."""

from collections.abc import Iterator
from dataclasses import dataclass

from snapdb.errors import InputError, Span
from snapdb.plan.names import find_named
from snapdb.plan.plan import Plan, PlanFamily, PlanNode
from snapdb.plan.samples.bind import bind_sample, statement_of
from snapdb.plan.scope import BindContext
from snapdb.remote import check_url
from snapdb.sql.publications import Publish
from snapdb.sql_engine import files_in
from snapdb.types import Snapshot
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class PublishPlan(Plan):
    """PUBLISH: copy the catalog and the files that it names to object storage."""

    snapshots: tuple[Snapshot, ...] | None
    """The snapshots, or None for all of them."""
    url: str
    span: Span
    """The span of the URL."""
    tables: tuple[int, ...] | None
    """The ids of the tables, or None for all of them."""
    keep: int
    """The number of generations to keep."""
    single_writer: bool
    """Whether to publish without conditional writes."""

    def describe(self) -> PlanNode:
        snapshots = "all snapshots" if self.snapshots is None else ", ".join(s.name for s in self.snapshots)
        tables = "all tables" if self.tables is None else counted(len(self.tables), "table")
        return PlanNode("Publish", f"{snapshots} and {tables} to {self.url}")


def _bind_publish(statement: Publish, context: BindContext) -> PublishPlan:
    """Bind the snapshots, and find the tables that readers need.

    Raises:
        BindError: A snapshot does not exist.
        InputError: The URL is not valid.
    """
    snapshots = tuple(find_named(context.catalog.snapshot, name) for name in statement.snapshots) or None
    try:
        url = check_url(statement.url)
    except InputError as error:
        error.span = statement.url_span
        raise
    tables: tuple[int, ...] | None = None
    if statement.tables != "all":
        tables = tuple(sorted(set(_seed_tables(context, snapshots)))) if statement.tables == "seeds" else ()
    return PublishPlan(snapshots, url, statement.url_span, tables, statement.keep, statement.single_writer)


def _seed_tables(context: BindContext, snapshots: tuple[Snapshot, ...] | None) -> Iterator[int]:
    """Yield the ids of the tables that the seed queries of the snapshots' samplers read."""
    published = None if snapshots is None else {snapshot.name.lower() for snapshot in snapshots}
    root = context.store.db_dir.path
    owners = {
        root / segment.path: table.id
        for version in {context.catalog.version, *(s.version for s in context.catalog.snapshots.values())}
        for table in (context.tables_at(version).values() if version else ())
        for segment in table.segments
    }
    for sampler in context.catalog.samplers.values():
        if published is None or sampler.snapshot.lower() in published:
            seeds = bind_sample(statement_of(sampler), context).seeds
            for path in files_in(seeds.names.statements):
                if path in owners:
                    yield owners[path]


FAMILY = PlanFamily(
    binders={Publish: _bind_publish}, operators={PublishPlan: "snapdb.execute.publications:publish_database"}
)
