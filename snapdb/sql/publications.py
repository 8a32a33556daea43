"""PUBLISH: copies a database to object storage, where other machines attach it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.printer import print_name, print_statement, print_string
from snapdb.sql.syntax import (
    Family,
    Leaf,
    Name,
    Place,
    Statement,
    Tree,
    first_tree,
    leaves,
    name,
    span_of,
    string,
    trees,
)
from snapdb.types import did_you_mean

PublishedTables = Literal["all", "seeds", "none"]
"""Which tables are published: all of them, those that the seed queries of samplers read, or none."""
KEPT = 3
"""The default number of generations that are kept."""


@dataclass(frozen=True, slots=True)
class Publish(Statement):
    """PUBLISH [SNAPSHOT name, …] TO 'url' [WITH (tables = 'all', keep = 3, single_writer = false)]."""

    snapshots: tuple[Name, ...]
    """The snapshots, or () for all of them."""
    url: str
    url_span: Span = field(compare=False)
    tables: PublishedTables = "all"
    keep: int = KEPT
    """The number of generations to keep, including the new one."""
    single_writer: bool = False
    """Whether to publish to storage without conditional writes."""

    def to_sql(self) -> str:
        named = ", ".join(map(print_name, self.snapshots))
        options = [
            *([] if self.tables == "all" else [f"tables = {print_string(self.tables)}"]),
            *([] if self.keep == KEPT else [f"keep = {self.keep}"]),
            *(["single_writer = true"] if self.single_writer else []),
        ]
        return print_statement(
            "PUBLISH",
            f"SNAPSHOT {named}" if named else "",
            f"TO {print_string(self.url)}",
            f"WITH ({', '.join(options)})" if options else "",
        )


def _tables(leaf: Leaf) -> PublishedTables:
    kinds: dict[str, PublishedTables] = {"all": "all", "seeds": "seeds", "none": "none"}
    if leaf.type != "STRING" or (tables := kinds.get(string(leaf).lower())) is None:
        raise ParseError(
            f"tables must be 'all', 'seeds' or 'none', found {leaf[:40]}", span=span_of(leaf), code="bad-option"
        )
    return tables


def _keep(leaf: Leaf) -> int:
    if leaf.type != "NUMBER" or not leaf.isdecimal() or not 1 <= int(leaf) <= 1000:
        raise ParseError(
            f"keep must be a number of generations from 1 to 1000, found {leaf[:40]}",
            span=span_of(leaf),
            code="bad-option",
        )
    return int(leaf)


def _single_writer(leaf: Leaf) -> bool:
    values = {"true": True, "false": False}
    if leaf.lower() not in values:
        raise ParseError(
            f"single_writer must be true or false, found {leaf[:40]}", span=span_of(leaf), code="bad-option"
        )
    return values[leaf.lower()]


_OPTIONS: dict[str, Callable[[Leaf], Any]] = {"tables": _tables, "keep": _keep, "single_writer": _single_writer}


def _publish(tree: Tree, place: Place) -> Publish:
    (url,) = leaves(tree)
    snapshots, options = first_tree(tree, "snapshots"), first_tree(tree, "options")
    named = () if snapshots is None else tuple(map(name, leaves(snapshots)))
    given: dict[str, Any] = {}
    for each in () if options is None else trees(options):
        key, value = leaves(each)
        option = key.lower()
        if option not in _OPTIONS:
            near = did_you_mean(option, list(_OPTIONS)) or f"; the options are {', '.join(_OPTIONS)}"
            raise ParseError(f"unknown option {key[:40]} in WITH{near}", span=span_of(key), code="unknown-option")
        if option in given:
            raise ParseError(f"{option} is specified twice; keep one", span=span_of(each), code="duplicate-clause")
        given[option] = _OPTIONS[option](value)
    return Publish(*place, snapshots=named, url=string(url), url_span=span_of(url), **given)


FAMILY = Family(grammar="publications", builders={"publish": _publish})
