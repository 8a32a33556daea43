"""Labels and properties of a graph's elements, in the order in which they were said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from snapdb.errors import ParseError
from snapdb.sql.ast import ColumnList, LabelClause, PropertiesClause, PropertyColumn
from snapdb.sql.build import Tree, columns, first_tree, leaves, name, span_of, trees
from snapdb.sql.refuse import refused


class Labels(NamedTuple):
    """What an element says of labels and properties."""

    labels: tuple[LabelClause, ...]
    properties: PropertiesClause | None
    """Those before the first label, which are the element's own."""


def build_labels(clauses: Iterable[Tree]) -> Labels:
    """The labels among an element's clauses; properties belong to the label before them."""
    own: PropertiesClause | None = None
    found: list[LabelClause] = []
    for clause in clauses:
        if clause.data == "label":
            label = _label(clause)
            if any(_folded(label) == _folded(before) for before in found):
                raise ParseError(
                    f"LABEL {label.name or 'of the same name'} is given twice; keep one",
                    span=label.span,
                    code="duplicate-clause",
                )
            found.append(label)
        elif clause.data == "properties":
            said = _properties(clause)
            if (found[-1].properties if found else own) is not None:
                raise ParseError("PROPERTIES are given twice; keep one", span=said.span, code="duplicate-clause")
            if found:
                found[-1] = LabelClause(found[-1].name, said, found[-1].span)
            else:
                own = said
    return Labels(tuple(found), own)


def _label(tree: Tree) -> LabelClause:
    inherited = first_tree(tree, "inherited")
    if inherited is not None:
        reason = "a label belongs to all rows of a table"
        way = "give each kind of row an element of its own, over a table with just these rows"
        raise refused("LABEL … IN", reason, way, span_of(inherited))
    words = leaves(tree)
    return LabelClause(name(words[0]) if words else None, None, span_of(tree))


def _folded(label: LabelClause) -> str | None:
    return None if label.name is None else label.name.text.lower()


def _properties(tree: Tree) -> PropertiesClause:
    """PROPERTIES (…), ALL COLUMNS or NO PROPERTIES."""
    listed, all_ = trees(tree, "property"), first_tree(tree, "all_columns")
    return PropertiesClause(
        all=all_ is not None,
        columns=tuple(_property(item) for item in listed),
        excepted=() if all_ is None else _excepted(all_),
        span=span_of(tree),
    )


def _excepted(tree: Tree) -> ColumnList:
    except_ = first_tree(tree, "except")
    return () if except_ is None else columns(first_tree(except_, "columns"))


def _property(tree: Tree) -> PropertyColumn:
    alias = first_tree(tree, "alias")
    return PropertyColumn(name(leaves(tree)[0]), None if alias is None else name(leaves(alias)[0]))
