"""Statements that write tables: CREATE TABLE, INSERT, UPDATE, DELETE and ALTER TABLE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapdb.errors import Span
from snapdb.sql.lexer import READS, Pairs, Run, Token, partners, says, top_level
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
from snapdb.sql.queries import opens_bound
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
    trees,
)
from snapdb.sql.unsupported import refuse_qualified, unsupported


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ( (column type …) | AS query )."""

    name: Name
    definition: SqlFragment | None
    """The text in parentheses: columns, types and NOT NULL."""
    query: SqlFragment | None
    or_replace: bool
    if_not_exists: bool
    message: str | None

    def to_sql(self) -> str:
        return print_statement(
            print_creation("TABLE", self.name, or_replace=self.or_replace, if_not_exists=self.if_not_exists),
            self.definition and f"({self.definition.text})",
            print_fragment("AS", self.query),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO name [(columns)] (query | VALUES …) [MESSAGE '…']."""

    table: Name
    columns: ColumnList
    query: SqlFragment
    message: str | None

    def to_sql(self) -> str:
        table = join_clauses(print_name(self.table), bool(self.columns) and print_columns(self.columns))
        return print_statement(f"INSERT INTO {table}", self.query.text, print_message(self.message))


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE name [[AS] alias] SET column = value, … [FROM others] [WHERE condition] [MESSAGE '…']."""

    table: Name
    alias: Name | None
    assignments: tuple[tuple[Name, SqlFragment], ...]
    """The assignments in SET, each a column and its value."""
    others: SqlFragment | None
    """The text after FROM: tables, subqueries and joins."""
    where: SqlFragment | None
    message: str | None

    def to_sql(self) -> str:
        values = ", ".join(f"{print_name(column)} = {value.text}" for column, value in self.assignments)
        return print_statement(
            f"UPDATE {print_name(self.table)}",
            print_named("AS", self.alias),
            f"SET {values}",
            print_fragment("FROM", self.others),
            print_fragment("WHERE", self.where),
            print_message(self.message),
        )


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM name [[AS] alias] [USING others] [WHERE condition] [MESSAGE '…']."""

    table: Name
    alias: Name | None
    others: SqlFragment | None
    """The text after USING: tables, subqueries and joins."""
    where: SqlFragment | None
    message: str | None

    def to_sql(self) -> str:
        return print_statement(
            f"DELETE FROM {print_name(self.table)}",
            print_named("AS", self.alias),
            print_fragment("USING", self.others),
            print_fragment("WHERE", self.where),
            print_message(self.message),
        )


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
class AlterTable(Statement):
    """ALTER TABLE [IF EXISTS] name ADD … | DROP … | RENAME … [MESSAGE '…']."""

    table: Name
    action: AddColumn | DropColumn | RenameColumn
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
        query=part(tree, "query"),
        or_replace=has(tree, "replace"),
        if_not_exists=has(tree, "guard"),
        message=message(tree),
    )


def _insert(tree: Tree, place: Place) -> Insert:
    return Insert(
        *place,
        table=name(leaves(tree)[0]),
        columns=columns(first_tree(tree, "columns")),
        query=_required(tree, "query"),
        message=message(tree),
    )


def _update(tree: Tree, place: Place) -> Update:
    return Update(
        *place,
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        assignments=tuple(_assignment(item) for item in trees(tree, "assignment")),
        others=part(tree, "from"),
        where=part(tree, "condition"),
        message=message(tree),
    )


def _assignment(tree: Tree) -> tuple[Name, SqlFragment]:
    column, value = leaves(tree)
    return name(column), fragment(value)


def _delete(tree: Tree, place: Place) -> Delete:
    return Delete(
        *place,
        table=name(leaves(tree)[0]),
        alias=_alias(tree),
        others=part(tree, "using"),
        where=part(tree, "condition"),
        message=message(tree),
    )


def _alias(tree: Tree) -> Name | None:
    alias = first_tree(tree, "alias")
    return None if alias is None else name(leaves(alias)[0])


def _alter(tree: Tree, place: Place) -> AlterTable:
    (change,) = (child for child in trees(tree) if child.data in ("add", "drop", "rename"))
    return AlterTable(
        *place,
        table=name(leaves(tree)[0]),
        action=_change(change),
        if_exists=has(tree, "if_exists"),
        message=message(tree),
    )


def _change(tree: Tree) -> AddColumn | DropColumn | RenameColumn:
    first, *rest = leaves(tree)
    match tree.data:
        case "add":
            return AddColumn(fragment(first), if_not_exists=has(tree, "guard"))
        case "drop":
            return DropColumn(name(first), if_exists=has(tree, "if_exists"))
        case _:
            return RenameColumn(name(first), name(rest[0]))


def _required(tree: Tree, rule: str) -> SqlFragment:
    fragment_ = part(tree, rule)
    assert fragment_ is not None, "the grammar asks for one"
    return fragment_


def _print_change(action: AddColumn | DropColumn | RenameColumn) -> str:
    match action:
        case AddColumn(definition, if_not_exists):
            return f"ADD COLUMN {'IF NOT EXISTS ' * if_not_exists}{definition.text}"
        case DropColumn(column, if_exists):
            return f"DROP COLUMN {'IF EXISTS ' * if_exists}{print_name(column)}"
        case RenameColumn(column, new):
            return f"RENAME COLUMN {print_name(column)} TO {print_name(new)}"


_CONSTRAINTS = ("NOT NULL is the only constraint of tables", "find the rows that violate it with a SELECT")

_COPIED = "write CREATE OR REPLACE TABLE t AS SELECT … FROM t"

_ALTERED = (
    (("SET", "NOT", "NULL"), "UPDATE or DELETE the rows with NULL, and exclude NULL in the query of each INSERT"),
    (("DROP", "NOT", "NULL"), _COPIED),
    (("SET", "DEFAULT"), "write the value in INSERT"),
    (("DROP", "DEFAULT"), "write the value in INSERT"),
    ((), "ADD a column of the new type, UPDATE t SET new = CAST(old AS …), DROP the old one, RENAME the new one"),
)
"""The words that may follow ALTER COLUMN c, each with its alternative. The last entry is for TYPE."""


def _check(tokens: Sequence[Token]) -> None:
    """Raise ParseError at the first unsupported form."""
    verb, top = tokens[0].word, tuple(top_level(tokens, partners(tokens)))
    if verb == "CREATE":
        return
    refuse_at(tokens)
    refuse_qualified(tokens, _table_index(tokens))
    if verb == "INSERT":
        _refuse_insert(tokens)
    elif verb == "UPDATE":
        _refuse_update(tokens, top)
    elif verb == "ALTER":
        _refuse_alter(tokens, top)
    for index in top:
        if tokens[index].word in {"RETURNING", "ON"}:
            _refuse_clause(verb, tokens, index)


def refuse_at(tokens: Sequence[Token]) -> None:
    """Raise ParseError if a statement writes to an earlier version of a table."""
    verb = tokens[0].word
    table = _table_index(tokens)
    if opens_bound(tokens, table + 1):
        reason, way = "versions are immutable", f"leave it out: {verb} creates a new version"
        raise unsupported(f"AT in {verb}", reason, way, tokens[table + 1].span)


def _table_index(tokens: Sequence[Token]) -> int:
    """Return the index of the name of the target table."""
    if says(tokens, 1, "TABLE", "IF", "EXISTS"):
        return 4
    return 2 if tokens[0].word in {"ALTER", "DELETE", "INSERT"} else 1


def _refuse_insert(tokens: Sequence[Token]) -> None:
    if says(tokens, 1, "OR"):
        raise unsupported("INSERT OR …", "tables have no unique keys", "write INSERT INTO", tokens[1].span)
    if says(tokens, 3, "DEFAULT", "VALUES"):
        raise unsupported("DEFAULT VALUES", "a row needs at least one value", "write VALUES (…)", tokens[3].span)
    if says(tokens, 3, "BY", "NAME") or says(tokens, 3, "BY", "POSITION"):
        raise unsupported(
            "BY", "columns are matched by position", "name the columns: INSERT INTO t (a, b) SELECT …", tokens[3].span
        )


def _refuse_update(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise ParseError for an assignment to several columns at once or to a dotted path."""
    started = False
    for index in top:
        word, before = tokens[index].word, tokens[index - 1].word
        # FROM can also be part of a value, as in IS DISTINCT FROM, and a column can be named where.
        if started and word in {"FROM", "WHERE"} and before not in {".", "DISTINCT", ","}:
            return
        if index < 3 or before not in ({","} if started else {"SET"}):
            continue
        started = True
        if word == "(":
            raise unsupported(
                "SET (…) =", "UPDATE assigns columns one by one", "write a = …, b = …", tokens[index].span
            )
        if says(tokens, index + 1, "."):
            span = Span(tokens[index].span.start, tokens[min(index + 2, len(tokens) - 1)].span.stop)
            raise unsupported("SET t.c", "UPDATE assigns whole columns of its table", "write SET c = …", span)


def _refuse_alter(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise ParseError if ALTER TABLE changes anything except columns, or makes several changes at once."""
    action = 5 if says(tokens, 2, "IF", "EXISTS") else 3
    place = tokens[action].span if action < len(tokens) else tokens[-1].span
    if says(tokens, action, "RENAME", "TO") and not says(tokens, action + 2, "TO"):
        way = "write CREATE TABLE new AS SELECT * FROM t, then DROP TABLE t"
        raise unsupported("RENAME TO", "a table has one name in all versions", way, place)
    if says(tokens, action, "ALTER"):
        _refuse_alter_column(tokens, action)
    for verb in ("ADD", "DROP"):
        for word in ("CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK"):
            if says(tokens, action, verb, word):
                raise unsupported(f"{verb} {word}", *_CONSTRAINTS, place)
    for index in top:
        if index > action and tokens[index].word == ",":
            raise unsupported(
                "a second change in ALTER TABLE",
                "ALTER TABLE makes one change",
                "write one ALTER TABLE for each",
                tokens[index].span,
            )


def _refuse_alter_column(tokens: Sequence[Token], action: int) -> None:
    change = action + 3 if says(tokens, action + 1, "COLUMN") else action + 2
    words, way = next((words, way) for words, way in _ALTERED if not words or says(tokens, change, *words))
    what = " ".join(words) if words else "TYPE"
    reason = "column types and constraints are the same in all versions"
    raise unsupported(f"ALTER COLUMN … {what}", reason, way, tokens[action].span)


def _refuse_clause(verb: str, tokens: Sequence[Token], index: int) -> None:
    """Raise ParseError if the token at `index` starts an unsupported clause."""
    word, span = tokens[index].word, tokens[index].span
    if verb == "ALTER":
        return
    if word == "RETURNING" and tokens[index - 1].word != ".":
        raise unsupported(
            "RETURNING", "a statement that writes returns only its number of rows", "SELECT the rows first", span
        )
    if says(tokens, index, "ON", "CONFLICT") and _conflict_action(tokens, index + 2):
        way = "use UPDATE, and INSERT … SELECT … WHERE NOT EXISTS (…), or ON DUPLICATE KEY in the property graph"
        raise unsupported(
            "ON CONFLICT", "tables have no unique keys", way, Span(span.start, tokens[index + 1].span.stop)
        )


def _conflict_action(tokens: Sequence[Token], after: int) -> bool:
    """Return whether ON CONFLICT is the clause rather than a join on a column with that name."""
    return after < len(tokens) and tokens[after].word in {"DO", "ON", "("}


def _fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    leading = tokens[0].word
    if leading == "CREATE":
        yield from _created_fragments(tokens, pairs)
    elif leading == "INSERT":
        yield from _inserted_fragments(tokens, pairs)
    elif leading == "UPDATE":
        yield from _updated_fragments(tokens, pairs)
    elif leading == "DELETE":
        yield from _sources_and_condition(tokens, pairs, 3, "USING")
    elif leading == "ALTER":
        yield from _altered_fragments(tokens)


def _created_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the column definitions in the first parentheses, or the query after AS."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "AS":
            yield Run("QUERY", index + 1, _body_stop(tokens))
            return
        if tokens[index].word == "(":
            yield Run("COLUMNS", index + 1, pairs[index])
            return


def _inserted_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the query after the table name and its optional list of columns."""
    first = 3
    if first in pairs and _names_columns(tokens[first + 1 : pairs[first]]):
        first = pairs[first] + 1
    yield Run("QUERY", first, _body_stop(tokens))


def _names_columns(inside: Sequence[Token]) -> bool:
    """Return whether the parentheses after INSERT INTO t contain column names instead of a query."""
    names, commas = inside[::2], inside[1::2]
    if all(token.kind in ("word", "quoted") for token in names) and all(token.word == "," for token in commas):
        return True
    # Anything that does not begin like a query is parsed by the grammar, which then reports an invalid name.
    return inside[0].word not in (*READS, "(")


def _updated_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the value of each assignment, the sources after FROM, and the condition."""
    # The alias is optional, and so is AS before it.
    named = 4 if says(tokens, 2, "AS") else 2 if says(tokens, 2, "SET") else 3
    if not says(tokens, named, "SET"):
        return
    stop = named
    while stop == named or says(tokens, stop, ","):
        first = stop + 3 if says(tokens, stop + 2, "=") else stop + 1  # without a value, the grammar reports the error
        stop, start = _boundary(tokens, pairs, first, ",", "FROM", "WHERE"), stop
        if first == start + 3:
            yield Run("EXPRESSION", first, stop)
    yield from _sources_and_condition(tokens, pairs, stop, "FROM")


def _sources_and_condition(tokens: Sequence[Token], pairs: Pairs, first: int, keyword: str) -> Iterator[Run]:
    """Yield the sources after a keyword (FROM or USING), and the condition after WHERE."""
    where = _boundary(tokens, pairs, first, "WHERE")
    others = _boundary(tokens, pairs, first, keyword, "WHERE")
    if others < where:
        yield Run("SOURCES", others + 1, where)
    yield Run("CONDITION", where + 1, _body_stop(tokens))


def _boundary(tokens: Sequence[Token], pairs: Pairs, first: int, *words: str) -> int:
    """Return the index of the first of the given keywords that starts a clause outside brackets, or the body's end."""
    stop = _body_stop(tokens)
    for index in top_level(tokens, pairs, first):
        if index >= stop:
            break
        word, before = tokens[index].word, tokens[index - 1].word
        # A word after a dot is a column, and DISTINCT FROM is an operator.
        if word in words and before != "." and (before, word) != ("DISTINCT", "FROM"):
            return index
    return stop


def _altered_fragments(tokens: Sequence[Token]) -> Iterator[Run]:
    """Yield the column definition of ALTER TABLE [IF EXISTS] t ADD [COLUMN] [IF NOT EXISTS]."""
    table = 4 if says(tokens, 2, "IF", "EXISTS") else 2
    if says(tokens, table + 1, "ADD"):
        first = table + 3 if says(tokens, table + 2, "COLUMN") else table + 2
        yield Run("COLUMNS", first + 3 if says(tokens, first, "IF", "NOT", "EXISTS") else first, _body_stop(tokens))


def _has_message(tokens: Sequence[Token]) -> bool:
    # Only the last two tokens are checked, because a query can contain a column named message.
    return says(tokens[-2:-1], 0, "MESSAGE") and tokens[-1].kind == "string"


def _body_stop(tokens: Sequence[Token]) -> int:
    return len(tokens) - 2 if _has_message(tokens) else len(tokens)


FAMILY = Family(
    grammar="tables",
    builders={"create_table": _create, "insert": _insert, "update": _update, "delete": _delete, "alter": _alter},
    fragments=_fragments,
    check=_check,
)
