"""The statements about what keeps itself up to date, as frozen values: caches, tasks, retention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import Span
from snapdb.sql.ast_parts import Island, Name, Statement


@dataclass(frozen=True, slots=True)
class CacheRoom:
    """IN MEMORY 'size' | IN FILE 'size'."""

    where: Literal["MEMORY", "FILE"]
    bytes: int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateCache(Statement):
    """CREATE [OR REPLACE] CACHE [IF NOT EXISTS] name ON SAMPLER sampler [IN MEMORY '4GB' | IN FILE '4GB']."""

    name: Name
    sampler: Name
    room: CacheRoom | None
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class RefreshCache(Statement):
    """REFRESH CACHE name [CONCURRENTLY]."""

    name: Name
    concurrently: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """SCHEDULE 'USING CRON …' | SCHEDULE EVERY INTERVAL …: one of the two."""

    cron: str | None
    """Five fields and a zone, as after USING CRON."""
    every: Island | None
    """INTERVAL …"""
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class TaskOption:
    """One item of a task's WITH or SET."""

    name: Literal["timeout", "retries", "overlap", "catch_up"]
    value: str | int
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class CreateTask(Statement):
    """CREATE [OR REPLACE] TASK [IF NOT EXISTS] name SCHEDULE … [WHEN (…)] [WITH (…)] AS statement | $$ … $$."""

    name: Name
    schedule: Schedule
    when: Island | None
    options: tuple[TaskOption, ...]
    body: Island
    """What stands after AS as it was written, its dollars included; {date} and the like stand in it still."""
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AlterTask(Statement):
    """ALTER TASK name SUSPEND | RESUME | SET (option = value, …)."""

    name: Name
    action: Literal["SUSPEND", "RESUME", "SET"]
    options: tuple[TaskOption, ...]
    """Of SET, one or more."""


@dataclass(frozen=True, slots=True)
class ExecuteTask(Statement):
    """EXECUTE TASK name."""

    name: Name


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """One item of RETENTION: which snapshots are kept, and how long."""

    keeps: Literal["all", "daily", "weekly", "monthly", "yearly"]
    length: str
    """An interval, such as 3 days."""
    span: Span = field(compare=False)
    """Of the length."""


@dataclass(frozen=True, slots=True)
class SetRetention(Statement):
    """ALTER PROPERTY GRAPH graph SET RETENTION (all '3 days', daily '7 days', …, keep_tagged) [DRY RUN]."""

    graph: Name
    rules: tuple[RetentionRule, ...]
    """One or more."""
    keep_tagged: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class DropRetention(Statement):
    """ALTER PROPERTY GRAPH graph DROP RETENTION."""

    graph: Name
