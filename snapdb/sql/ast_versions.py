"""The statements about what there is and what was: SHOW, tags, differences, transactions, upkeep; frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import Span
from snapdb.sql.ast_parts import Island, Name, Statement, VersionBound

Kind = Literal["TABLE", "GRAPH", "SNAPSHOT", "TAG", "SAMPLER", "CACHE", "TASK"]
"""What DROP takes; a TAG has nothing to describe."""

Described = Literal["TABLE", "GRAPH", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"]
"""What DESCRIBE takes."""

Shown = Literal[
    "TABLES", "COLUMNS", "GRAPHS", "SNAPSHOTS", "SAMPLERS", "TAGS", "VERSIONS", "CACHES", "TASKS", "TASK RUNS"
]
"""What SHOW takes."""

Detail = Literal["SUMMARY", "ROWS", "FEATURES"]
"""What a difference between graphs lists: elements, rows, or parts of features."""


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW TABLES [AT (…)] | COLUMNS [OF t] | GRAPHS | SNAPSHOTS [OF g] | VERSIONS [OF t] | … [LIKE 'pattern']."""

    what: Shown
    like: str | None
    of: Name | None
    """The table whose versions or columns, the graph whose snapshots, or the task whose runs are asked for."""
    at: VersionBound | None
    """The version whose tables are asked for."""


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE TABLE name [AT (…)] | [PROPERTY] GRAPH name | SNAPSHOT name | … | name."""

    kind: Described | None
    """None: whatever has the name."""
    name: Name
    at: VersionBound | None
    """The version at which a table is described."""


@dataclass(frozen=True, slots=True)
class Summarize(Statement):
    """SUMMARIZE SNAPSHOT name."""

    name: Name


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP TABLE | [PROPERTY] GRAPH | SNAPSHOT | TAG | SAMPLER | CACHE | TASK [IF EXISTS] name [CASCADE | RESTRICT]."""

    kind: Kind
    name: Name
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class CreateTag(Statement):
    """CREATE [OR REPLACE] TAG [IF NOT EXISTS] name [AT (…)]."""

    name: Name
    at: VersionBound | None
    """None: the newest version."""
    or_replace: bool
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DiffTable(Statement):
    """DIFF TABLE name FROM bound [TO bound] [ROWS], a bound being VERSION n, TIMESTAMP '…' or TAG 'name'."""

    table: Name
    start: VersionBound
    stop: VersionBound | None
    """None: the newest version."""
    rows: bool


@dataclass(frozen=True, slots=True)
class DiffGraph(Statement):
    """DIFF [PROPERTY] GRAPH name FROM bound [TO bound] [ROWS | FEATURES]."""

    graph: Name
    start: VersionBound
    stop: VersionBound | None
    """None: the newest version."""
    detail: Detail


@dataclass(frozen=True, slots=True)
class DiffSnapshot(Statement):
    """DIFF SNAPSHOT after WITH before [ROWS | FEATURES]."""

    after: Name
    before: Name
    detail: Detail


@dataclass(frozen=True, slots=True)
class CheckDatabase(Statement):
    """CHECK DATABASE."""


@dataclass(frozen=True, slots=True)
class BackupDatabase(Statement):
    """BACKUP DATABASE TO 'dir' [(COPY)]."""

    path: str
    path_span: Span = field(compare=False)
    copies: bool
    """Copies only, and no hard links."""


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """VACUUM [table] [RETAIN interval] [DRY RUN]."""

    table: Name | None
    """None: every table."""
    retain: Island | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Begin(Statement):
    """BEGIN | START TRANSACTION."""


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """COMMIT | END [MESSAGE '…']."""

    message: str | None


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """ROLLBACK | ABORT."""
