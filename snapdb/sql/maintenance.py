"""Looking after a database: CHECK, BACKUP, VACUUM, EXPIRE SNAPSHOTS and RETENTION."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.printer import print_fragment, print_name, print_named, print_statement, print_string, print_time
from snapdb.sql.syntax import Island, Leaf, Name, Place, Statement, Tree, has, leaves, name, span_of, string, trees
from snapdb.types import by_word, did_you_mean
from snapdb.types.snapshot import Keeps


@dataclass(frozen=True, slots=True)
class CheckDatabase(Statement):
    """CHECK DATABASE."""

    def to_sql(self) -> str:
        return "CHECK DATABASE"


@dataclass(frozen=True, slots=True)
class BackupDatabase(Statement):
    """BACKUP DATABASE TO 'dir' [(COPY)]."""

    path: str
    path_span: Span = field(compare=False)
    copies: bool
    """Copies only, and no hard links."""

    def to_sql(self) -> str:
        return print_statement(f"BACKUP DATABASE TO {print_string(self.path)}", self.copies and "(COPY)")


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """VACUUM [table] [RETAIN interval] [DRY RUN]."""

    table: Name | None
    """None: every table."""
    retain: Island | None
    dry_run: bool

    def to_sql(self) -> str:
        table = None if self.table is None else print_name(self.table)
        return print_statement("VACUUM", table, print_fragment("RETAIN", self.retain), self.dry_run and "DRY RUN")


@dataclass(frozen=True, slots=True)
class ExpireSnapshots(Statement):
    """EXPIRE SNAPSHOTS [OF graph] [OLDER THAN t] [RETAIN LAST n] [DRY RUN], or BY RETENTION in place of the two."""

    graph: Name | None
    """None: the snapshots of every graph."""
    older: Island | None
    """INTERVAL …, or a moment as TimeBound's."""
    last: int | None
    last_span: Span | None = field(compare=False)
    by_retention: bool
    """As each graph itself says; else one of the other two is there."""
    dry_run: bool

    def to_sql(self) -> str:
        return print_statement(
            "EXPIRE SNAPSHOTS",
            print_named("OF", self.graph),
            self.older and f"OLDER THAN {print_time(self.older, length=True)}",
            self.last is not None and f"RETAIN LAST {self.last}",
            self.by_retention and "BY RETENTION",
            self.dry_run and "DRY RUN",
        )


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

    def to_sql(self) -> str:
        kept = [f"{rule.keeps} {print_string(rule.length)}" for rule in self.rules]
        rules = ", ".join([*kept, "keep_tagged"] if self.keep_tagged else kept)
        return print_statement(
            f"ALTER PROPERTY GRAPH {print_name(self.graph)}", f"SET RETENTION ({rules})", self.dry_run and "DRY RUN"
        )


@dataclass(frozen=True, slots=True)
class DropRetention(Statement):
    """ALTER PROPERTY GRAPH graph DROP RETENTION."""

    graph: Name

    def to_sql(self) -> str:
        return f"ALTER PROPERTY GRAPH {print_name(self.graph)} DROP RETENTION"


_KEEPS: dict[str, Keeps] = by_word(Keeps)


_TAGGED = "keep_tagged"


def build_retention(tree: Tree, place: Place) -> SetRetention | DropRetention:
    """ALTER PROPERTY GRAPH … SET RETENTION, each rule at most once, or DROP RETENTION."""
    graph = name(leaves(tree)[0])
    if tree.data == "drop_retention":
        return DropRetention(*place, graph=graph)
    rules: dict[str, RetentionRule | None] = {}
    for item in trees(tree, "rule"):
        said, *length = leaves(item)
        word = name(said)
        if word.text.lower() in rules:
            raise ParseError(f"{word} is given twice; keep one", span=word.span, code="duplicate-clause")
        rules[word.text.lower()] = _rule(item, word, length)
    kept = tuple(rule for rule in rules.values() if rule is not None)
    if not kept:
        lacks = "RETENTION lacks how long snapshots stay that are not tagged" if rules else "RETENTION lacks its rules"
        more = ", keep_tagged" if rules else ""
        raise ParseError(
            f"{lacks}; write for example (all '3 days', daily '30 days'{more})",
            span=span_of(tree),
            code="missing-clause",
        )
    tagged, dry_run = _TAGGED in rules, has(tree, "dry_run")
    return SetRetention(*place, graph=graph, rules=kept, keep_tagged=tagged, dry_run=dry_run)


def _rule(tree: Tree, word: Name, length: list[Leaf]) -> RetentionRule | None:
    """An item of RETENTION; None for KEEP_TAGGED, which has no length."""
    said = word.text.lower()
    if said == _TAGGED:
        if length:
            raise ParseError("keep_tagged takes no length; leave it out", span=span_of(length[0]), code="bad-option")
        return None
    if said not in _KEEPS:
        hint = did_you_mean(said, (*_KEEPS, _TAGGED)) or f"; it knows {', '.join((*_KEEPS, _TAGGED))}"
        raise ParseError(f"RETENTION knows no {word.text[:40]}{hint}", span=word.span, code="unknown-option")
    if not length:
        raise ParseError(f"expected a length after {said}, such as '7 days'", span=word.span, code="bad-option")
    return RetentionRule(_KEEPS[said], string(length[0]), span_of(length[0]))
