"""Tags, lists and upkeep: what is said about versions rather than about rows."""

from __future__ import annotations

from snapdb.catalog import tags
from snapdb.errors import BindError
from snapdb.plan.maintenance import BackupPlan, VacuumPlan
from snapdb.plan.moments import duration, resolve_version
from snapdb.plan.names import check_name, find_table
from snapdb.plan.plan import NothingPlan, Plan
from snapdb.plan.scope import Context
from snapdb.plan.versions import CreateTagPlan
from snapdb.sql.ast import BackupDatabase, CreateTag, Name, Vacuum
from snapdb.types import Tag
from snapdb.types.text import did_you_mean

_HOUR = 3_600_000_000


def bind_create_tag(statement: CreateTag, context: Context) -> Plan:
    """A name for a version that is there."""
    name = statement.name.text
    found = next((tag for tag in tags(context.ledger) if tag.name.lower() == name.lower()), None)
    if found is not None and statement.if_not_exists:
        return NothingPlan(f'there is a tag "{found.name}" already')
    if found is not None and not statement.or_replace:
        raise BindError(
            f'there is a tag "{found.name}" already; choose another name, or write CREATE OR REPLACE TAG',
            span=statement.name.span,
            code="exists",
        )
    if found is None:  # one of an older snapdb may have any name, and can be moved
        check_name(statement.name)
    version = context.catalog.version if statement.at is None else resolve_version(context, statement.at)
    if not version:
        raise BindError(
            "there is no version to name yet; CREATE TABLE publishes the first",
            span=statement.name.span,
            code="unknown-version",
        )
    return CreateTagPlan(Tag(name, version, 0), found is not None)


def find_tag(context: Context, name: Name) -> Tag:
    """The tag of that name, or BindError at its place."""
    known = tags(context.ledger)
    found = next((tag for tag in known if tag.name.lower() == name.text.lower()), None)
    if found is None:
        near = did_you_mean(name.text, [tag.name for tag in known])
        raise BindError(f'no tag "{name}"{near}', span=name.span, code="unknown-tag")
    return found


def bind_backup(statement: BackupDatabase, context: Context) -> BackupPlan:
    """The target of the copy."""
    if not statement.path.strip():
        raise BindError("BACKUP DATABASE needs a path", span=statement.path_span, code="bad-path")
    return BackupPlan(statement.path, statement.path_span, statement.copies)


def bind_vacuum(statement: Vacuum, context: Context) -> VacuumPlan:
    """Which tables, and how long what is not needed stays."""
    table = None if statement.table is None else find_table(context, statement.table)
    grace = _HOUR if statement.retain is None else duration(context, statement.retain)
    if grace < 0:
        assert statement.retain is not None
        raise BindError(
            "RETAIN takes an interval that is not negative", span=statement.retain.span, code="out-of-range"
        )
    return VacuumPlan(table, grace, statement.dry_run)
