"""Statements that write tables: CREATE TABLE, INSERT, UPDATE, DELETE, MERGE, TRUNCATE and ALTER TABLE."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import partners, scan, top_level
from snapdb.sql.printer import (
    join_clauses,
    print_columns,
    print_creation,
    print_fragment,
    print_message,
    print_name,
    print_named,
    print_statement,
)
from snapdb.sql.syntax import (
    ColumnList,
    Family,
    Name,
    Place,
    SqlFragment,
    Statement,
    Tree,
    columns,
    first_tree,
    fragment,
    has,
    leaves,
    message,
    name,
    part,
    span_of,
    trees,
)
from snapdb.sql.table_tokens import check_tables, table_fragments, target_index
from snapdb.types.text import counted


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] name ( (column type …) | [(column, …)] AS query )."""

    name: Name
    definition: SqlFragment | None
    """The text in parentheses: columns, types and NOT NULL."""
    columns: ColumnList
    """The names of the query's columns, or none to keep them."""
    query: SqlFragment | None
    or_replace: bool
    if_not_exists: bool
    temporary: bool
    message: str | None

    def to_sql(self) -> str:
        kind = "TEMPORARY TABLE" if self.temporary else "TABLE"
        return print_statement(
            print_creation(kind, self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            self.definition and f"({self.definition.text})",
            bool(self.columns) and print_columns(self.columns),
            print_fragment("AS", self.query),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class OnConflict:
    """ON CONFLICT [(key)] DO NOTHING | DO UPDATE SET … [WHERE condition], or INSERT OR REPLACE | IGNORE."""

    columns: ColumnList
    """The columns of a key, or none for any key."""
    assignments: tuple[tuple[Name, SqlFragment], ...]
    """The assignments of DO UPDATE, or none for DO NOTHING and OR REPLACE."""
    where: SqlFragment | None
    word: Literal["REPLACE", "IGNORE"] | None = None
    """The word after INSERT OR."""

    def to_sql(self) -> str:
        """Return the clause after the rows, or '' for INSERT OR."""
        if self.word is not None:
            return ""
        values = ", ".join(f"{print_name(column)} = {value.text}" for column, value in self.assignments)
        return join_clauses(
            "ON CONFLICT",
            bool(self.columns) and print_columns(self.columns),
            f"DO UPDATE SET {values}" if values else "DO NOTHING",
            print_fragment("WHERE", self.where),
        )


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """[WITH …] INSERT [OR …] INTO name … (query | DEFAULT VALUES) [ON CONFLICT …] [RETURNING …] [MESSAGE '…']."""

    ctes: SqlFragment | None
    """The text after WITH: common table expressions, which the query can read."""
    table: Name
    alias: Name | None
    by_name: bool
    columns: ColumnList
    query: SqlFragment | None
    """A query or VALUES, or None for DEFAULT VALUES."""
    conflict: OnConflict | None
    """The action for rows whose key exists, or None to refuse them."""
    returning: SqlFragment | None
    """The select list after RETURNING."""
    message: str | None

    def to_sql(self) -> str:
        table = join_clauses(
            print_name(self.table),
            print_named("AS", self.alias),
            self.by_name and "BY NAME",
            bool(self.columns) and print_columns(self.columns),
        )
        word = f"OR {self.conflict.word} " if self.conflict is not None and self.conflict.word is not None else ""
        return print_statement(
            print_fragment("WITH", self.ctes),
            f"INSERT {word}INTO {table}",
            "DEFAULT VALUES" if self.query is None else self.query.text,
            (self.conflict is not None and self.conflict.to_sql()) or None,
            print_fragment("RETURNING", self.returning),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """[WITH …] UPDATE name [[AS] alias] SET … [FROM others] [WHERE condition] [RETURNING …] [MESSAGE '…']."""

    ctes: SqlFragment | None
    """The text after WITH."""
    table: Name
    alias: Name | None
    assignments: tuple[tuple[Name, SqlFragment], ...]
    """The assignments in SET, each a column and its value. (a, b) = (1, 2) is two of them."""
    others: SqlFragment | None
    """The text after FROM: tables, subqueries and joins."""
    where: SqlFragment | None
    returning: SqlFragment | None
    """The select list after RETURNING."""
    message: str | None

    def to_sql(self) -> str:
        values = ", ".join(f"{print_name(column)} = {value.text}" for column, value in self.assignments)
        return print_statement(
            print_fragment("WITH", self.ctes),
            f"UPDATE {print_name(self.table)}",
            print_named("AS", self.alias),
            f"SET {values}",
            print_fragment("FROM", self.others),
            print_fragment("WHERE", self.where),
            print_fragment("RETURNING", self.returning),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """[WITH …] DELETE FROM name [[AS] alias] [USING others] [WHERE condition] [RETURNING …] [MESSAGE '…']."""

    ctes: SqlFragment | None
    """The text after WITH."""
    table: Name
    alias: Name | None
    others: SqlFragment | None
    """The text after USING: tables, subqueries and joins."""
    where: SqlFragment | None
    returning: SqlFragment | None
    """The select list after RETURNING."""
    message: str | None

    def to_sql(self) -> str:
        return print_statement(
            print_fragment("WITH", self.ctes),
            f"DELETE FROM {print_name(self.table)}",
            print_named("AS", self.alias),
            print_fragment("USING", self.others),
            print_fragment("WHERE", self.where),
            print_fragment("RETURNING", self.returning),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action."""

    rows: Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
    condition: SqlFragment | None
    action: Literal["UPDATE", "INSERT", "DELETE", "DO NOTHING", "ERROR"]
    by_name: bool = False
    """Whether UPDATE or INSERT takes the columns of the source by name instead of position."""
    columns: ColumnList = ()
    """The columns of INSERT, or none for all."""
    assignments: tuple[tuple[Name, SqlFragment], ...] = ()
    """The assignments of UPDATE, or none for the columns of the source."""
    values: tuple[SqlFragment, ...] | None = None
    """The values of INSERT, the message of ERROR, or None for the columns of the source or no message."""
    defaults: bool = False
    """Whether INSERT has DEFAULT VALUES."""

    def to_sql(self) -> str:
        """Return the clause as it is written."""
        values = None if self.values is None else ", ".join(value.text for value in self.values)
        if self.action == "ERROR":
            action = join_clauses("ERROR", values)
        else:
            set_ = ", ".join(f"{print_name(column)} = {value.text}" for column, value in self.assignments)
            action = join_clauses(
                self.action,
                self.by_name and "BY NAME",
                bool(self.columns) and print_columns(self.columns),
                bool(set_) and f"SET {set_}",
                values is not None and f"VALUES ({values})",
                self.defaults and "DEFAULT VALUES",
            )
        return join_clauses(f"WHEN {self.rows}", print_fragment("AND", self.condition), f"THEN {action}")


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    """[WITH …] MERGE INTO name [[AS] alias] USING source (ON … | USING (…)) WHEN … [RETURNING …] [MESSAGE '…']."""

    ctes: SqlFragment | None
    """The text after WITH."""
    table: Name
    alias: Name | None
    sources: SqlFragment
    """The text after USING: a table, query or join."""
    condition: SqlFragment | None
    """The condition after ON, or None with USING (columns)."""
    shared: ColumnList
    """The columns of USING, or none with ON."""
    clauses: tuple[MergeClause, ...]
    returning: SqlFragment | None
    """The select list after RETURNING."""
    message: str | None

    def to_sql(self) -> str:
        on = f"USING {print_columns(self.shared)}" if self.shared else print_fragment("ON", self.condition)
        return print_statement(
            print_fragment("WITH", self.ctes),
            join_clauses(f"MERGE INTO {print_name(self.table)}", print_named("AS", self.alias)),
            f"USING {self.sources.text} {on}",
            *(clause.to_sql() for clause in self.clauses),
            print_fragment("RETURNING", self.returning),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    """TRUNCATE [TABLE] name [MESSAGE '…']."""

    table: Name
    message: str | None

    def to_sql(self) -> str:
        return print_statement(f"TRUNCATE TABLE {print_name(self.table)}", print_message(self.message))


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD [COLUMN] [IF NOT EXISTS] definition."""

    definition: SqlFragment
    """The name, type and constraints of the column, such as NOT NULL or DEFAULT …."""
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP [COLUMN] [IF EXISTS] column."""

    column: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME [COLUMN] column TO new."""

    column: Name
    new: Name


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD [CONSTRAINT name] PRIMARY KEY | UNIQUE | CHECK | FOREIGN KEY …."""

    definition: SqlFragment


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP CONSTRAINT [IF EXISTS] name."""

    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class SetNullable:
    """ALTER [COLUMN] column SET | DROP NOT NULL."""

    column: Name
    nullable: bool


_Change = AddColumn | DropColumn | RenameColumn | AddConstraint | DropConstraint | SetNullable


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """ALTER TABLE [IF EXISTS] name ADD … | DROP … | RENAME … | ALTER … [MESSAGE '…']."""

    table: Name
    action: _Change
    if_exists: bool
    message: str | None

    def to_sql(self) -> str:
        guard = "IF EXISTS " if self.if_exists else ""
        return print_statement(
            f"ALTER TABLE {guard}{print_name(self.table)}", _print_change(self.action), print_message(self.message)
        )


def _create(tree: Tree, place: Place) -> CreateTable:
    return CreateTable(
        *place,
        name=name(leaves(tree)[0]),
        definition=part(tree, "definition"),
        columns=columns(first_tree(tree, "columns")),
        query=part(tree, "query"),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        temporary=has(tree, "temporary"),
        message=message(tree),
    )


def _insert(tree: Tree, place: Place) -> Insert:
    return Insert(
        *place,
        ctes=part(tree, "with"),
        table=name(leaves(tree)[0]),
        alias=None if (named := first_tree(tree, "named")) is None else name(leaves(named)[0]),
        by_name=_is_by_name(tree),
        columns=columns(first_tree(tree, "columns")),
        query=part(tree, "query"),
        conflict=_conflict(tree),
        returning=part(tree, "returning"),
        message=message(tree),
    )


def _conflict(tree: Tree) -> OnConflict | None:
    """Return ON CONFLICT, or INSERT OR REPLACE or IGNORE, which exclude each other."""
    clause = first_tree(tree, "conflict")
    word: Literal["REPLACE", "IGNORE"] | None = (
        "REPLACE" if has(tree, "replace") else "IGNORE" if has(tree, "ignore") else None
    )
    if clause is None:
        return None if word is None else OnConflict((), (), None, word)
    if word is not None:
        raise ParseError(
            f"INSERT OR {word} already says what to do with an existing key; leave out ON CONFLICT",
            span=span_of(clause),
            code="duplicate-clause",
        )
    update = first_tree(clause, "do_update")
    assigned = [] if update is None else [pair for item in trees(update, "assignment") for pair in _assignments(item)]
    where = None if update is None else part(update, "condition")
    return OnConflict(columns(first_tree(clause, "columns")), tuple(assigned), where)


def _is_by_name(tree: Tree) -> bool:
    """Return whether INSERT has BY NAME. BY POSITION is the default."""
    if (clause := first_tree(tree, "by")) is None:
        return False
    (word,) = leaves(clause)
    return word.upper() == "NAME"


def _update(tree: Tree, place: Place) -> Update:
    return Update(
        *place,
        ctes=part(tree, "with"),
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        assignments=tuple(pair for item in trees(tree, "assignment") for pair in _assignments(item)),
        others=part(tree, "from"),
        where=part(tree, "condition"),
        returning=part(tree, "returning"),
        message=message(tree),
    )


def _assignments(tree: Tree) -> list[tuple[Name, SqlFragment]]:
    """Return the assignments of `column = value`, `(column, …) = (value, …)` or `(column, …) = value of each`."""
    *targets, value = leaves(tree)
    if (several := first_tree(tree, "columns")) is None:
        return [(name(targets[0]), fragment(value))]
    names, values = columns(several), _items(fragment(value))
    if len(values) == 1 and "?" not in values[0].text:
        values = values * len(names)
    if len(names) != len(values):
        raise ParseError(
            f"SET assigns {len(names)} columns, but found {counted(len(values), 'value')}; write one value for each, "
            "as in SET (a, b) = (1, 2)",
            span=span_of(value),
            code="unexpected-word",
        )
    return list(zip(names, values, strict=True))


def _items(row: SqlFragment) -> list[SqlFragment]:
    """Return the values of a row (a, …) or ROW(a, …), or the fragment itself if it is one value."""
    tokens = scan(row.text)
    pairs = partners(tokens)
    first = 1 if tokens[0].word == "ROW" else 0
    if pairs.get(first) != len(tokens) - 1:
        return [row]
    commas = [i for i in top_level(tokens[:-1], pairs, first + 1) if tokens[i].word == ","]
    ends = [first, *commas, len(tokens) - 1]
    spans = [Span(tokens[i + 1].span.start, tokens[j - 1].span.stop) for i, j in pairwise(ends) if j > i + 1]
    at = row.span.start
    return [SqlFragment(row.text[a:b], Span(at + a, at + b)) for a, b in spans]


def _delete(tree: Tree, place: Place) -> Delete:
    return Delete(
        *place,
        ctes=part(tree, "with"),
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        others=part(tree, "using"),
        where=part(tree, "condition"),
        returning=part(tree, "returning"),
        message=message(tree),
    )


def _merge(tree: Tree, place: Place) -> Merge:
    sources = next(leaf for leaf in leaves(tree) if leaf.type == "SOURCES")
    shared = first_tree(tree, "shared")
    return Merge(
        *place,
        ctes=part(tree, "with"),
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        sources=fragment(sources),
        condition=part(tree, "on"),
        shared=() if shared is None else columns(first_tree(shared, "columns")),
        clauses=_merge_clauses(trees(tree, "when")),
        returning=part(tree, "returning"),
        message=message(tree),
    )


def _merge_clauses(items: Sequence[Tree]) -> tuple[MergeClause, ...]:
    """Return the clauses. Raises ParseError if one follows another that applies to all the same rows."""
    clauses: list[MergeClause] = []
    for item in items:
        clause = _merge_clause(item)
        if any(each.rows == clause.rows and each.condition is None for each in clauses):
            raise ParseError(
                f"WHEN {clause.rows} without AND comes before this clause, which therefore never applies; put it last",
                span=span_of(item),
                code="bad-merge",
            )
        clauses.append(clause)
    return tuple(clauses)


def _merge_clause(tree: Tree) -> MergeClause:
    rows: Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"] = (
        "MATCHED" if has(tree, "matched") else "NOT MATCHED BY SOURCE" if has(tree, "by_source") else "NOT MATCHED"
    )
    condition = part(tree, "and")
    action = trees(tree)[-1]
    match action.data:
        case "merge_update":
            if rows == "NOT MATCHED":
                raise _impossible("UPDATE", rows, action)
            assigned = tuple(pair for item in trees(action, "assignment") for pair in _assignments(item))
            return MergeClause(rows, condition, "UPDATE", _is_by_name(action), assignments=assigned)
        case "merge_insert":
            if rows != "NOT MATCHED":
                raise _impossible("INSERT", rows, action)
            listed = part(action, "values")
            values = None if listed is None else tuple(_items(SqlFragment(f"({listed.text})", _wider(listed.span))))
            named = columns(first_tree(action, "columns"))
            by_name, defaults = _is_by_name(action), has(action, "defaults")
            return MergeClause(rows, condition, "INSERT", by_name, named, values=values, defaults=defaults)
        case "merge_delete":
            if rows == "NOT MATCHED":
                raise _impossible("DELETE", rows, action)
            return MergeClause(rows, condition, "DELETE")
        case "error":
            message_ = tuple(fragment(leaf) for leaf in leaves(action))
            return MergeClause(rows, condition, "ERROR", values=message_ or None)
        case _:
            return MergeClause(rows, condition, "DO NOTHING")


def _wider(span: Span) -> Span:
    return Span(span.start - 1, span.stop + 1)


def _impossible(verb: str, rows: str, tree: Tree) -> ParseError:
    has_row = "no row of the table" if verb != "INSERT" else "a row of the table"
    return ParseError(
        f"WHEN {rows} has {has_row}, so it cannot {verb}; change one of them", span=span_of(tree), code="bad-merge"
    )


def _truncate(tree: Tree, place: Place) -> Truncate:
    return Truncate(*place, table=name(leaves(tree)[0]), message=message(tree))


def _alias(tree: Tree) -> Name | None:
    alias = first_tree(tree, "alias")
    return None if alias is None else name(leaves(alias)[0])


def _alter(tree: Tree, place: Place) -> AlterTable:
    (change,) = (child for child in trees(tree) if child.data not in ("if_exists", "message"))
    return AlterTable(
        *place,
        table=name(leaves(tree)[0]),
        action=_change(change),
        if_exists=has(tree, "if_exists"),
        message=message(tree),
    )


def _change(tree: Tree) -> _Change:
    first, *rest = leaves(tree)
    match tree.data:
        case "add":
            return AddColumn(fragment(first), if_not_exists=has(tree, "guard"))
        case "drop":
            return DropColumn(name(first), if_exists=has(tree, "if_exists"))
        case "constrain":
            return AddConstraint(fragment(first))
        case "drop_constraint":
            return DropConstraint(name(first), if_exists=has(tree, "if_exists"))
        case "nullability":
            return SetNullable(name(first), nullable=rest[0].type == "DROP")
        case _:
            return RenameColumn(name(first), name(rest[0]))


def _print_change(action: _Change) -> str:
    match action:
        case AddConstraint(definition):
            return f"ADD {definition.text}"
        case DropConstraint(constraint, if_exists):
            return f"DROP CONSTRAINT {'IF EXISTS ' * if_exists}{print_name(constraint)}"
        case SetNullable(column, nullable):
            return f"ALTER COLUMN {print_name(column)} {'DROP' if nullable else 'SET'} NOT NULL"
        case AddColumn(definition, if_not_exists):
            return f"ADD COLUMN {'IF NOT EXISTS ' * if_not_exists}{definition.text}"
        case DropColumn(column, if_exists):
            return f"DROP COLUMN {'IF EXISTS ' * if_exists}{print_name(column)}"
        case RenameColumn(column, new):
            return f"RENAME COLUMN {print_name(column)} TO {print_name(new)}"


FAMILY = Family(
    grammar="tables",
    builders={
        "create_table": _create,
        "insert": _insert,
        "update": _update,
        "delete": _delete,
        "merge": _merge,
        "truncate": _truncate,
        "alter": _alter,
    },
    fragments=table_fragments,
    check=check_tables,
    names=lambda tokens: (target_index(tokens),),
)
