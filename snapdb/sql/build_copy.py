"""Trees of copy.lark as COPY … FROM and COPY … TO."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import ParseError
from snapdb.sql.ast import (
    ColumnList,
    CopyFrom,
    CopyOption,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    Name,
    Sample,
    SampleUsing,
    Statement,
)
from snapdb.sql.build import (
    Leaf,
    Place,
    Read,
    Tree,
    bound,
    columns,
    first_tree,
    integer,
    island,
    leaves,
    message,
    name,
    number,
    span_of,
    string,
    trees,
)


def build_copy(tree: Tree, place: Place, read: Read) -> Statement:
    """COPY … FROM, COPY … TO, COPY SNAPSHOT or COPY (SAMPLE …)."""
    (statement,) = trees(tree)
    *what, path = leaves(statement)
    options = first_tree(statement, "options")
    given = () if options is None else tuple(trees(options))
    new_only = next((found for option in given if (found := first_tree(option, "new_files")) is not None), None)
    said = tuple(_option(option) for option in given if leaves(option))
    if new_only is not None and statement.data != "copy_from":
        raise ParseError(
            "NEW FILES ONLY is about files that are read: COPY … FROM 'days/*.parquet' (NEW FILES ONLY); leave it out",
            span=span_of(new_only),
            code="bad-option",
        )
    match statement.data:
        case "copy_from":
            return _from(statement, place, said, new_only=new_only is not None)
        case "copy_to":
            return _to(statement, place, what, path, said)
        case "copy_snapshot":
            return CopySnapshotTo(*place, name(what[1]), string(path), span_of(path), said)
        case _:
            sample = read(what[0])
            assert isinstance(sample, Sample | SampleUsing), "only what begins with SAMPLE is folded"
            return CopySampleTo(*place, sample, string(path), span_of(path), said)


def _from(tree: Tree, place: Place, options: tuple[CopyOption, ...], *, new_only: bool) -> CopyFrom:
    table, path = leaves(tree)
    return CopyFrom(
        *place,
        table=name(table),
        columns=columns(first_tree(tree, "columns")),
        path=string(path),
        path_span=span_of(path),
        options=tuple((label, _single(label, value)) for label, value in options),
        new_only=new_only,
        message=message(tree),
    )


def _to(tree: Tree, place: Place, what: Sequence[Leaf], path: Leaf, options: tuple[CopyOption, ...]) -> CopyTo:
    at, *names = first_tree(tree, "at"), *(name(leaf) for leaf in what if leaf.type != "QUERY")
    if len(names) > 1 and at is not None:
        reason = f"{names[0]} is a snapshot, which is pinned to its version; leave AT out"
        raise ParseError(f"AT stands after a table's own name: {reason}", span=span_of(at), code="at-place")
    return CopyTo(
        *place,
        snapshot=names[0] if len(names) > 1 else None,
        table=names[-1] if names else None,
        at=None if at is None else bound(at),
        columns=columns(first_tree(tree, "columns")),
        query=None if names else island(what[0]),
        path=string(path),
        path_span=span_of(path),
        options=options,
    )


def _option(tree: Tree) -> CopyOption:
    """An option of COPY; one without a value is True."""
    label, *words = leaves(tree)
    if numbers := trees(tree, "number"):
        whole = "".join(leaves(numbers[0])).lstrip("-").isdecimal()
        return name(label), integer(numbers[0], str(label)) if whole else number(numbers[0])
    if (listed := first_tree(tree, "columns")) is not None:
        return name(label), columns(listed)
    if not words:
        return name(label), True
    (value,) = words
    if value.type == "STRING":
        return name(label), string(value)
    return name(label), {"true": True, "false": False}.get(value.lower(), name(value).text)


def _single(label: Name, value: str | bool | int | float | ColumnList) -> str | bool | int | float:
    """The value of an option that names no columns; COPY … FROM has no other."""
    if isinstance(value, tuple):
        raise ParseError(
            f"{label} takes one value in COPY … FROM; leave the parentheses out", span=value[0].span, code="bad-option"
        )
    return value
