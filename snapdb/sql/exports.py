"""COPY … TO and COPY … FROM."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Pairs, Run, Token, at_values, partners, says, top_level
from snapdb.sql.printer import (
    join_clauses,
    print_at,
    print_columns,
    print_message,
    print_name,
    print_number,
    print_statement,
    print_string,
)
from snapdb.sql.samples import Sample, SampleUsing
from snapdb.sql.syntax import (
    ColumnList,
    Family,
    Name,
    Place,
    Reader,
    SqlFragment,
    Statement,
    Tree,
    VersionBound,
    bound,
    columns,
    first_tree,
    fragment,
    integer,
    leaves,
    message,
    name,
    number,
    span_of,
    string,
    trees,
)
from snapdb.sql.table_tokens import refuse_at

_CopyOption = tuple[Name, str | bool | int | float | ColumnList]
"""An option (FORMAT, HEADER, DELIMITER, …) and its value: True for a bare option, and a list of columns for an option
with parentheses."""


@dataclass(frozen=True, slots=True)
class CopyFrom(Statement):
    """COPY name [(columns)] FROM 'path' [(option value, …)] [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    """The columns in parentheses, or empty for all columns by position."""
    path: str
    path_span: Span = field(compare=False)
    options: tuple[tuple[Name, str | bool | int | float], ...]
    """The options (FORMAT, HEADER, DELIMITER, …) and their values. The value of a bare option is True."""
    new_only: bool
    """Whether NEW FILES ONLY is among the options."""
    message: str | None

    def to_sql(self) -> str:
        table = join_clauses(print_name(self.table), bool(self.columns) and print_columns(self.columns))
        options = _print_options(self.options, new_only=self.new_only)
        return print_statement(f"COPY {table}", f"FROM {print_string(self.path)}", options, print_message(self.message))


@dataclass(frozen=True, slots=True)
class CopyDatabase(Statement):
    """COPY FROM DATABASE 'path' [TABLES (name [AS name], …)] [MESSAGE '…']."""

    path: str
    path_span: Span = field(compare=False)
    tables: tuple[tuple[Name, Name | None], ...]
    """The tables with their new names, or empty for all tables."""
    message: str | None

    def to_sql(self) -> str:
        listed = [print_name(a) + ("" if b is None else f" AS {print_name(b)}") for a, b in self.tables]
        tables = f"TABLES ({', '.join(listed)})" if listed else None
        return print_statement(f"COPY FROM DATABASE {print_string(self.path)}", tables, print_message(self.message))


@dataclass(frozen=True, slots=True)
class CopyTo(Statement):
    """COPY table [AT (…)] [(columns)] | snapshot.element [(columns)] | (query) TO 'path' [(option value, …)]."""

    reads: ClassVar[bool] = True

    snapshot: Name | None
    """The element's snapshot, or None for a table or query."""
    table: Name | None
    """The table or element, or None for a query."""
    at: VersionBound | None
    columns: ColumnList
    """The columns in parentheses, or empty for all columns."""
    query: SqlFragment | None
    path: str
    path_span: Span = field(compare=False)
    options: tuple[_CopyOption, ...]

    def to_sql(self) -> str:
        if self.query is not None:
            what = f"({self.query.text})"
        else:
            assert self.table is not None, "a table, or a query"
            table = (
                print_name(self.table)
                if self.snapshot is None
                else f"{print_name(self.snapshot)}.{print_name(self.table)}"
            )
            what = join_clauses(table, print_at(self.at), bool(self.columns) and print_columns(self.columns))
        return print_statement(f"COPY {what}", f"TO {print_string(self.path)}", _print_options(self.options))


@dataclass(frozen=True, slots=True)
class CopySnapshotTo(Statement):
    """COPY SNAPSHOT name TO 'path' [(option value, …)]."""

    reads: ClassVar[bool] = True

    snapshot: Name
    path: str
    path_span: Span = field(compare=False)
    options: tuple[_CopyOption, ...]

    def to_sql(self) -> str:
        return print_statement(
            f"COPY SNAPSHOT {print_name(self.snapshot)}", f"TO {print_string(self.path)}", _print_options(self.options)
        )


@dataclass(frozen=True, slots=True)
class CopySampleTo(Statement):
    """COPY (SAMPLE … | WALK …) TO 'path' [(option value, …)]."""

    reads: ClassVar[bool] = True

    sample: Sample | SampleUsing
    path: str
    path_span: Span = field(compare=False)
    options: tuple[_CopyOption, ...]

    def to_sql(self) -> str:
        return print_statement(
            f"COPY ({self.sample.to_sql()})", f"TO {print_string(self.path)}", _print_options(self.options)
        )


def _copy_database(tree: Tree, place: Place) -> CopyDatabase:
    _, path = leaves(tree)[:2]
    renamed = (list(map(name, leaves(each))) for each in trees(tree) if each.data == "renamed")
    tables = tuple((names[0], names[1] if len(names) > 1 else None) for names in renamed)
    return CopyDatabase(*place, path=string(path), path_span=span_of(path), tables=tables, message=message(tree))


def _copy_from(tree: Tree, place: Place) -> CopyFrom:
    table, path = leaves(tree)
    options, new_files = _options(tree)
    return CopyFrom(
        *place,
        table=name(table),
        columns=columns(first_tree(tree, "columns")),
        path=string(path),
        path_span=span_of(path),
        options=tuple((label, _single(label, value)) for label, value in options),
        new_only=new_files is not None,
        message=message(tree),
    )


def _copy_to(tree: Tree, place: Place) -> CopyTo:
    *what, path = leaves(tree)
    options = _options_to(tree)
    # The grammar also accepts AT after an element, so that this error can explain why it is not valid there.
    at, *names = first_tree(tree, "at"), *(name(leaf) for leaf in what if leaf.type != "QUERY")
    if len(names) > 1 and at is not None:
        reason = f"{names[0]} is a snapshot, which is pinned to its version; leave AT out"
        raise ParseError(f"AT must follow a table's name: {reason}", span=span_of(at), code="at-place")
    return CopyTo(
        *place,
        snapshot=names[0] if len(names) > 1 else None,
        table=names[-1] if names else None,
        at=None if at is None else bound(at),
        columns=columns(first_tree(tree, "columns")),
        query=None if names else fragment(what[0]),
        path=string(path),
        path_span=span_of(path),
        options=options,
    )


def _copy_snapshot(tree: Tree, place: Place) -> CopySnapshotTo:
    _, snapshot, path = leaves(tree)
    return CopySnapshotTo(*place, name(snapshot), string(path), span_of(path), _options_to(tree))


def _copy_sample(tree: Tree, place: Place, reader: Reader) -> CopySampleTo:
    what, path = leaves(tree)
    options = _options_to(tree)
    sample = reader.statement(what)
    assert isinstance(sample, Sample | SampleUsing), "only what begins with SAMPLE or WALK is folded"
    return CopySampleTo(*place, sample, string(path), span_of(path), options)


def _options(tree: Tree) -> tuple[tuple[_CopyOption, ...], Tree | None]:
    """Return the COPY options, and the NEW FILES ONLY option if it is present."""
    options = first_tree(tree, "options")
    given = () if options is None else tuple(trees(options))
    new_files = next((rule for option in given if (rule := first_tree(option, "new_files")) is not None), None)
    return tuple(_option(option) for option in given if leaves(option)), new_files


def _options_to(tree: Tree) -> tuple[_CopyOption, ...]:
    options, new_files = _options(tree)
    if new_files is not None:
        raise ParseError(
            "NEW FILES ONLY applies only to COPY … FROM 'days/*.parquet' (NEW FILES ONLY); leave it out",
            span=span_of(new_files),
            code="bad-option",
        )
    return options


def _option(tree: Tree) -> _CopyOption:
    """Build a COPY option. An option without a value is True."""
    label, *words = leaves(tree)
    if numbers := trees(tree, "number"):
        # A whole number remains an integer, because a float would be printed as 5.0.
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
    """Return an option's value. COPY … FROM does not accept a list of columns."""
    if isinstance(value, tuple):
        raise ParseError(
            f"{label} must have one value in COPY … FROM; leave the parentheses out",
            span=value[0].span,
            code="bad-option",
        )
    return value


def _print_options(options: Sequence[_CopyOption], *, new_only: bool = False) -> str | None:
    options_text = [*map(_print_option, options), *(["NEW FILES ONLY"] if new_only else [])]
    return f"({', '.join(options_text)})" if options_text else None


def _print_option(option: _CopyOption) -> str:
    """Print an option. The value True is omitted."""
    label, value = option
    if value is True:
        return print_name(label)
    if isinstance(value, tuple):
        return f"{print_name(label)} {print_columns(value)}"
    if value is False:
        return f"{print_name(label)} false"
    return f"{print_name(label)} {print_string(value) if isinstance(value, str) else print_number(value)}"


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the query or sample in COPY (…), the value in AT, and FROM DATABASE, because a table can be named from."""
    if says(tokens, 1, "FROM", "DATABASE"):
        yield Run("FROM_DATABASE", 1, 3)
        return
    if 1 in pairs:
        yield Run("STATEMENT" if says(tokens, 2, "SAMPLE") or says(tokens, 2, "WALK") else "QUERY", 2, pairs[1])
    yield from at_values(tokens, pairs)


def _names(tokens: Sequence[Token]) -> tuple[int, ...]:
    """Return the index of the table of COPY … FROM. In others, the parts of a name can be a snapshot and an element."""
    return () if _writes_files(tokens) else (1,)


def _check(tokens: Sequence[Token]) -> None:
    """Raise ParseError if COPY … FROM writes to an earlier version of a table."""
    if not _writes_files(tokens):
        refuse_at(tokens)


def _writes_files(tokens: Sequence[Token]) -> bool:
    """Return whether a statement is COPY … TO."""
    top = list(top_level(tokens, partners(tokens)))
    # The search starts at the third token, because a table can be named to.
    return any(tokens[index].word == "TO" and tokens[index - 1].text != "." for index in top[2:])


FAMILY = Family(
    grammar="exports",
    builders={
        "copy_database": _copy_database,
        "copy_from": _copy_from,
        "copy_snapshot": _copy_snapshot,
        "copy_to": _copy_to,
    },
    nesting={"copy_sample": _copy_sample},
    fragments=_fragments,
    check=_check,
    names=_names,
)
