"""Maintenance: CHECK, BACKUP, VACUUM, EXPIRE SNAPSHOTS and RETENTION."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Pairs, Run, Token, qualified_names, says, top_level
from snapdb.sql.printer import print_fragment, print_name, print_named, print_statement, print_string, print_time
from snapdb.sql.syntax import (
    Family,
    Leaf,
    Name,
    Place,
    Spanned,
    SqlFragment,
    Statement,
    Tree,
    has,
    integer,
    leaves,
    name,
    once,
    part,
    span_of,
    string,
    time_fragment,
    trees,
)
from snapdb.sql.unsupported import unknown_altered
from snapdb.types import by_word, did_you_mean
from snapdb.types.snapshot import Keeps


@dataclass(frozen=True, slots=True)
class CheckDatabase(Statement):
    """CHECK DATABASE."""

    reads: ClassVar[bool] = True

    def to_sql(self) -> str:
        return "CHECK DATABASE"


@dataclass(frozen=True, slots=True)
class BackupDatabase(Statement):
    """BACKUP DATABASE TO 'dir' [(COPY)]."""

    reads: ClassVar[bool] = True

    path: str
    path_span: Span = field(compare=False)
    copies: bool
    """Whether to always copy files instead of creating hard links."""

    def to_sql(self) -> str:
        return print_statement(f"BACKUP DATABASE TO {print_string(self.path)}", self.copies and "(COPY)")


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """VACUUM [table | 'url'] [RETAIN interval] [DRY RUN]."""

    table: Name | None
    """The table, or None for all tables."""
    url: Spanned[str] | None
    """The publication to vacuum instead of the database, or None."""
    retain: SqlFragment | None
    dry_run: bool

    def to_sql(self) -> str:
        what = None if self.table is None else print_name(self.table)
        if self.url is not None:
            what = print_string(self.url.value)
        return print_statement("VACUUM", what, print_fragment("RETAIN", self.retain), self.dry_run and "DRY RUN")


@dataclass(frozen=True, slots=True)
class ExpireSnapshots(Statement):
    """EXPIRE SNAPSHOTS [OF graph] [OLDER THAN t] [RETAIN LAST n] [DRY RUN], or BY RETENTION instead."""

    graph: Name | None
    """The graph, or None for the snapshots of all graphs."""
    older: SqlFragment | None
    """An INTERVAL, or a time as in TimeBound."""
    last: int | None
    last_span: Span | None = field(compare=False)
    by_retention: bool
    """Whether each graph's retention rules apply. If not, OLDER THAN or RETAIN LAST is present."""
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
    """An item of RETENTION: which snapshots to keep, and for how long."""

    keeps: Literal["all", "daily", "weekly", "monthly", "yearly"]
    length: str
    """An interval, such as 3 days."""
    span: Span = field(compare=False)
    """The span of the length."""


@dataclass(frozen=True, slots=True)
class SetRetention(Statement):
    """ALTER PROPERTY GRAPH graph SET RETENTION (all '3 days', daily '7 days', …, keep_tagged) [DRY RUN]."""

    graph: Name
    rules: tuple[RetentionRule, ...]
    """The rules. There is at least one."""
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


def _backup(tree: Tree, place: Place) -> BackupDatabase:
    (path,) = leaves(tree)
    return BackupDatabase(*place, string(path), span_of(path), copies=has(tree, "copies"))


def _vacuum(tree: Tree, place: Place) -> Vacuum:
    what = next(iter(leaves(tree)), None)
    table = None if what is None or what.type == "STRING" else name(what)
    url = Spanned(string(what), span_of(what)) if what is not None and what.type == "STRING" else None
    return Vacuum(*place, table=table, url=url, retain=part(tree, "retain"), dry_run=has(tree, "dry_run"))


def _set_retention(tree: Tree, place: Place) -> SetRetention:
    """Build ALTER PROPERTY GRAPH … SET RETENTION. Raises ParseError if a rule is repeated or none is given."""
    graph = name(leaves(tree)[0])
    rules: dict[str, RetentionRule | None] = {}
    for item in trees(tree, "rule"):
        keeps, *length = leaves(item)
        word = name(keeps)
        if word.text.lower() in rules:
            raise ParseError(f"{word} is specified twice; keep one", span=word.span, code="duplicate-clause")
        rules[word.text.lower()] = _rule(item, word, length)
    kept = tuple(rule for rule in rules.values() if rule is not None)
    if not kept:
        lacks = "RETENTION does not specify how long untagged snapshots are kept" if rules else "RETENTION has no rules"
        more = ", keep_tagged" if rules else ""
        raise ParseError(
            f"{lacks}; write, for example, (all '3 days', daily '30 days'{more})",
            span=span_of(tree),
            code="missing-clause",
        )
    tagged, dry_run = _TAGGED in rules, has(tree, "dry_run")
    return SetRetention(*place, graph=graph, rules=kept, keep_tagged=tagged, dry_run=dry_run)


def _rule(tree: Tree, word: Name, length: list[Leaf]) -> RetentionRule | None:
    """Build an item of RETENTION, or return None for KEEP_TAGGED, which has no length."""
    keeps = word.text.lower()
    if keeps == _TAGGED:
        if length:
            raise ParseError("keep_tagged has no duration; leave it out", span=span_of(length[0]), code="bad-option")
        return None
    if keeps not in _KEEPS:
        hint = did_you_mean(keeps, (*_KEEPS, _TAGGED)) or f"; the rules are {', '.join((*_KEEPS, _TAGGED))}"
        raise ParseError(f"unknown rule {word.text[:40]} in RETENTION{hint}", span=word.span, code="unknown-option")
    if not length:
        raise ParseError(f"expected a duration after {keeps}, such as '7 days'", span=word.span, code="bad-option")
    return RetentionRule(_KEEPS[keeps], string(length[0]), span_of(length[0]))


def _expire(tree: Tree, place: Place) -> ExpireSnapshots:
    clauses = once(trees(tree))
    graph, older, last = clauses.get("of"), clauses.get("older"), clauses.get("last")
    if older is None and last is None and not has(tree, "by_retention"):
        message = "EXPIRE SNAPSHOTS needs OLDER THAN INTERVAL '30 days', RETAIN LAST 10, both, or BY RETENTION"
        raise ParseError(message, span=Span(place.span.stop, place.span.stop), code="missing-clause")
    return ExpireSnapshots(
        *place,
        graph=None if graph is None else name(leaves(graph)[0]),
        older=None if older is None else time_fragment(trees(older)[0], place.source),
        last=None if last is None else integer(trees(last)[0], "RETAIN LAST"),
        last_span=None if last is None else span_of(last),
        by_retention=has(tree, "by_retention"),
        dry_run=has(tree, "dry_run"),
    )


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the interval after RETAIN in VACUUM, or a time or length in parentheses in EXPIRE SNAPSHOTS."""
    if tokens[0].word == "VACUUM":
        # The table is optional, so RETAIN is the second or the third token.
        first = 2 if says(tokens, 1, "RETAIN") else 3
        if says(tokens, first - 1, "RETAIN"):
            # The interval is a DuckDB expression, which ends at DRY RUN or at the end of the statement.
            dry_run = says(tokens, len(tokens) - 2, "DRY", "RUN")
            yield Run("EXPRESSION", first, len(tokens) - 2 if dry_run else len(tokens))
    elif tokens[0].word == "EXPIRE":
        for index in top_level(tokens, pairs):
            if index in pairs and tokens[index - 1].word in {"THAN", "INTERVAL"}:
                yield Run("EXPRESSION", index + 1, pairs[index])


def _check(tokens: Sequence[Token]) -> None:
    """Raise ParseError for ALTER PROPERTY GRAPH if it changes anything except retention."""
    if tokens[0].word != "ALTER":
        return
    named = 3 if says(tokens, 1, "PROPERTY", "GRAPH") else 2
    change = [token.word for token in tokens[named + 1 : named + 3]]
    changed = change not in ([], ["DROP"], ["DROP", "RETENTION"]) and change[0] != "SET"
    if changed or tokens[min(named, len(tokens)) - 1].word not in {"GRAPH", "PROPERTY"}:
        raise unknown_altered(tokens[1])


FAMILY = Family(
    grammar="maintenance",
    builders={
        "check": lambda _, place: CheckDatabase(*place),
        "backup": _backup,
        "vacuum": _vacuum,
        "expire": _expire,
        "set_retention": _set_retention,
        "drop_retention": lambda tree, place: DropRetention(*place, graph=name(leaves(tree)[0])),
    },
    fragments=_fragments,
    check=_check,
    names=qualified_names,
)
