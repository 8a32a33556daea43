"""The statements about what keeps itself up to date, as text: caches, tasks, retention."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.sql.ast import (
    AlterTask,
    CreateCache,
    CreateTask,
    DropRetention,
    ExecuteTask,
    RefreshCache,
    Schedule,
    SetRetention,
    TaskOption,
)
from snapdb.sql.print_parts import creation, name, size, statement, string


def print_create_cache(tree: CreateCache) -> str:
    """CREATE CACHE."""
    return statement(
        creation("CACHE", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists),
        f"ON SAMPLER {name(tree.sampler)}",
        tree.room and f"IN {tree.room.where} {string(size(tree.room.bytes))}",
    )


def print_refresh_cache(tree: RefreshCache) -> str:
    """REFRESH CACHE."""
    return statement(f"REFRESH CACHE {name(tree.name)}", tree.concurrently and "CONCURRENTLY")


def print_create_task(tree: CreateTask) -> str:
    """CREATE TASK; its body stands as it was written."""
    return statement(
        creation("TASK", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists),
        _schedule(tree.schedule),
        tree.when and f"WHEN ({tree.when.text})",
        bool(tree.options) and f"WITH {_options(tree.options)}",
        f"AS {tree.body.text}",
    )


def _schedule(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"SCHEDULE EVERY {schedule.every.text}"
    return f"SCHEDULE {string(f'USING CRON {schedule.cron}')}"


def print_alter_task(tree: AlterTask) -> str:
    """ALTER TASK."""
    options = f" {_options(tree.options)}" if tree.options else ""
    return statement(f"ALTER TASK {name(tree.name)}", f"{tree.action}{options}")


def _options(options: Sequence[TaskOption]) -> str:
    written = (f"{o.name} = {string(o.value) if isinstance(o.value, str) else o.value}" for o in options)
    return f"({', '.join(written)})"


def print_execute_task(tree: ExecuteTask) -> str:
    """EXECUTE TASK."""
    return f"EXECUTE TASK {name(tree.name)}"


def print_set_retention(tree: SetRetention) -> str:
    """ALTER PROPERTY GRAPH … SET RETENTION."""
    kept = [f"{rule.keeps} {string(rule.length)}" for rule in tree.rules]
    rules = ", ".join([*kept, "keep_tagged"] if tree.keep_tagged else kept)
    return statement(f"ALTER PROPERTY GRAPH {name(tree.graph)}", f"SET RETENTION ({rules})", tree.dry_run and "DRY RUN")


def print_drop_retention(tree: DropRetention) -> str:
    """ALTER PROPERTY GRAPH … DROP RETENTION."""
    return f"ALTER PROPERTY GRAPH {name(tree.graph)} DROP RETENTION"
