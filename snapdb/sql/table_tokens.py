"""The tokens of statements that write tables: the SQL fragments in them, and errors for unsupported forms."""

from collections.abc import Generator, Iterator, Sequence

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import READS, Finder, Pairs, Run, Token, partners, says, top_level
from snapdb.sql.queries import main_of_with, opens_bound
from snapdb.sql.unsupported import unsupported

CONSTRAINT_WORDS = frozenset({"CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK"})
"""The words with which a constraint of a table begins."""

_COPIED = "write CREATE OR REPLACE TABLE t AS SELECT … FROM t"

_ALTERED = (
    (("SET", "DEFAULT"), "write the value in INSERT"),
    (("DROP", "DEFAULT"), "write the value in INSERT"),
    ((), "ADD a column of the new type, UPDATE t SET new = CAST(old AS …), DROP the old one, RENAME the new one"),
)
"""The words that may follow ALTER COLUMN c, each with its alternative. The last entry is for TYPE."""


def check_tables(tokens: Sequence[Token]) -> None:
    """Raise ParseError at the first unsupported form."""
    verb = tokens[0].word
    if verb == "WITH":
        tokens = tokens[main_of_with(tokens, partners(tokens), 0) :]
        verb = tokens[0].word
    if verb == "CREATE":
        return
    refuse_at(tokens)
    if verb == "ALTER":
        _refuse_alter(tokens, tuple(top_level(tokens, partners(tokens))))
    elif verb == "INSERT":
        _refuse_insert(tokens)
    elif verb == "UPDATE":
        _refuse_update(tokens, tuple(top_level(tokens, partners(tokens))))


def refuse_at(tokens: Sequence[Token]) -> None:
    """Raise ParseError if a statement writes to an earlier version of a table."""
    verb = tokens[0].word
    table = _table_index(tokens)
    if opens_bound(tokens, table + 1):
        reason, way = "versions are immutable", f"leave it out: {verb} creates a new version"
        raise unsupported(f"AT in {verb}", reason, way, tokens[table + 1].span)


def target_index(tokens: Sequence[Token]) -> int:
    """Return the index of the name of the table that a statement creates or changes."""
    if tokens[0].word == "WITH":
        first = main_of_with(tokens, partners(tokens), 0)
        return first + _table_index(tokens[first:])
    if tokens[0].word != "CREATE":
        return _table_index(tokens)
    index = 2 + 2 * says(tokens, 1, "OR", "REPLACE")
    index += says(tokens, index - 1, "TEMP") or says(tokens, index - 1, "TEMPORARY")
    return index + 3 * says(tokens, index, "IF", "NOT", "EXISTS")


def _table_index(tokens: Sequence[Token]) -> int:
    """Return the index of the name of the table that a statement other than CREATE changes."""
    if says(tokens, 1, "TABLE", "IF", "EXISTS"):
        return 4
    if tokens[0].word == "TRUNCATE":
        return 2 if says(tokens, 1, "TABLE") else 1
    if says(tokens, 0, "INSERT", "OR"):
        return 4
    return 2 if tokens[0].word in {"ALTER", "DELETE", "INSERT", "MERGE"} else 1


def _refuse_insert(tokens: Sequence[Token]) -> None:
    """Raise ParseError for a word after BY other than NAME and POSITION, or after OR other than REPLACE and IGNORE."""
    table = _table_index(tokens)
    for index, word, known in ((1, "OR", ("REPLACE", "IGNORE")), (table + 1, "BY", ("NAME", "POSITION"))):
        if says(tokens, index, word) and index + 1 < len(tokens) and tokens[index + 1].word not in known:
            found = tokens[index + 1]
            message = f"expected {' or '.join(known)} after {word}, found {found.text[:40]}"
            raise ParseError(message, span=found.span, code="unexpected-word")


def _refuse_update(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise ParseError for an assignment to several columns at once or to a dotted path."""
    started = False
    for index in top:
        word, before = tokens[index].word, tokens[index - 1].word
        # FROM can also be part of a value, as in IS DISTINCT FROM, and a column can be named where.
        if started and word in {"FROM", "RETURNING", "WHERE"} and before not in {".", "DISTINCT", ","}:
            return
        if index < 3 or before not in ({","} if started else {"SET"}):
            continue
        started = True
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
    if says(tokens, change, "SET", "NOT", "NULL") or says(tokens, change, "DROP", "NOT", "NULL"):
        return
    words, way = next((words, way) for words, way in _ALTERED if not words or says(tokens, change, *words))
    what = " ".join(words) if words else "TYPE"
    reason = "column types and constraints are the same in all versions"
    raise unsupported(f"ALTER COLUMN … {what}", reason, way, tokens[action].span)


def table_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the fragments of a statement: queries, conditions, values, and lists of columns to return."""
    first = 0
    if tokens[0].word == "WITH":
        first = main_of_with(tokens, pairs, 0)
        yield Run("CTES", 1, first)
        tokens = tokens[first:]
        pairs = {opening - first: closing - first for opening, closing in pairs.items() if opening >= first}
    find = _FINDERS.get(tokens[0].word if tokens else "")
    for kind, start, stop in find(tokens, pairs) if find else ():
        yield Run(kind, start + first, stop + first)


def _created_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the column definitions in the first parentheses, or the query after AS."""
    for index in top_level(tokens, pairs):
        if tokens[index].word == "AS":
            yield Run("QUERY", index + 1, body_stop(tokens))
            return
        if tokens[index].word == "(" and not says(tokens, pairs[index] + 1, "AS"):
            yield Run("COLUMNS", index + 1, pairs[index])
            return


def _inserted_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the query after the table name and its optional list of columns."""
    first = _table_index(tokens) + 1
    first += 2 * says(tokens, first, "AS")
    first += 2 * (says(tokens, first, "BY", "NAME") or says(tokens, first, "BY", "POSITION"))
    if first in pairs and _names_columns(tokens[first + 1 : pairs[first]]):
        first = pairs[first] + 1
    returning = _boundary(tokens, pairs, first, "RETURNING")
    conflict = next((i for i in top_level(tokens[:returning], pairs, first) if _starts_conflict(tokens, i)), returning)
    yield Run("QUERY", first, conflict)
    columns = conflict + 2  # ON CONFLICT (columns) DO UPDATE SET
    action = pairs[columns] + 1 if columns in pairs else columns
    if conflict < returning and says(tokens, action, "DO", "UPDATE", "SET"):
        stop = yield from _assigned(tokens, pairs, action + 2, "WHERE", "RETURNING")
        yield from _sources_and_condition(tokens, pairs, stop, "FROM")
    else:
        yield from _returned(tokens, returning)


def _starts_conflict(tokens: Sequence[Token], index: int) -> bool:
    """Return whether ON CONFLICT at an index is the clause rather than a join on a column with that name."""
    after = index + 2
    return says(tokens, index, "ON", "CONFLICT") and after < len(tokens) and tokens[after].word in {"DO", "ON", "("}


def _returned(tokens: Sequence[Token], at: int) -> Iterator[Run]:
    """Yield the select list after RETURNING, which may be at an index."""
    if says(tokens, at, "RETURNING"):
        yield Run("EXPRESSION", at + 1, body_stop(tokens))


def _deleted_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the sources after USING, the condition, and the list to return."""
    return _sources_and_condition(tokens, pairs, 3, "USING")


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
    stop = yield from _assigned(tokens, pairs, named, "FROM", "WHERE", "RETURNING")
    yield from _sources_and_condition(tokens, pairs, stop, "FROM")


def _assigned(tokens: Sequence[Token], pairs: Pairs, start: int, *ends: str) -> Generator[Run, None, int]:
    """Yield the value of each assignment after SET, which is at `start`. Returns the index after the last one."""
    stop = start
    while stop == start or says(tokens, stop, ","):
        equals = pairs.get(stop + 1, stop + 1) + 1
        has_value = says(tokens, equals, "=")  # without a value, the grammar reports the error
        first = equals + 1 if has_value else stop + 1
        stop = _boundary(tokens, pairs, first, ",", *ends)
        if has_value:
            yield Run("EXPRESSION", first, stop)
    return stop


def _sources_and_condition(tokens: Sequence[Token], pairs: Pairs, first: int, keyword: str) -> Iterator[Run]:
    """Yield the sources after a keyword (FROM or USING), and the condition after WHERE."""
    returning = _boundary(tokens, pairs, first, "RETURNING")
    where = min(_boundary(tokens, pairs, first, "WHERE"), returning)
    others = _boundary(tokens, pairs, first, keyword, "WHERE")
    if others < where:
        yield Run("SOURCES", others + 1, where)
    yield Run("CONDITION", where + 1, returning)
    yield from _returned(tokens, returning)


def _boundary(tokens: Sequence[Token], pairs: Pairs, first: int, *words: str) -> int:
    """Return the index of the first of the given keywords that starts a clause outside brackets, or the body's end."""
    stop = body_stop(tokens)
    for index in _outside_cases(tokens, pairs, first):
        if index >= stop:
            break
        word, before = tokens[index].word, tokens[index - 1].word
        # A word after a dot is a column, and DISTINCT FROM is an operator.
        if word in words and before != "." and (before, word) != ("DISTINCT", "FROM"):
            return index
    return stop


def _outside_cases(tokens: Sequence[Token], pairs: Pairs, first: int) -> Iterator[int]:
    """Yield the indexes of tokens outside brackets and outside CASE … END, which contains WHEN and THEN."""
    depth = 0
    for index in top_level(tokens, pairs, first):
        word = tokens[index].word if tokens[index - 1].word != "." else ""
        depth += word == "CASE"
        if not depth:
            yield index
        depth -= word == "END" and depth > 0


def _merged_fragments(tokens: Sequence[Token], pairs: Pairs) -> Iterator[Run]:
    """Yield the source of MERGE, its condition, and the conditions and values of its WHEN clauses."""
    using = _boundary(tokens, pairs, 3, "USING")
    when = _boundary(tokens, pairs, using, "WHEN")
    # A source can be a join, so the last ON or USING begins the condition of MERGE.
    between = [i for i in _outside_cases(tokens[:when], pairs, using + 1) if tokens[i].word in {"ON", "USING"}]
    condition = between[-1] if between else when
    yield Run("SOURCES", using + 1, condition)
    if says(tokens, condition, "ON"):
        yield Run("CONDITION", condition + 1, when)
    stop = body_stop(tokens)
    while when < stop and says(tokens, when, "WHEN"):
        then = _boundary(tokens, pairs, when + 1, "THEN")
        following = _boundary(tokens, pairs, then + 1, "WHEN", "RETURNING")
        if (also := _boundary(tokens, pairs, when + 1, "AND")) < then:
            yield Run("CONDITION", also + 1, then)
        yield from _merged_action(tokens, pairs, then + 1, following)
        when = following
    yield from _returned(tokens, when)


def _merged_action(tokens: Sequence[Token], pairs: Pairs, first: int, stop: int) -> Iterator[Run]:
    """Yield the values of an action after THEN."""
    for index in _outside_cases(tokens[:stop], pairs, first):
        match tokens[index].word:
            case "SET" if not says(tokens, index + 1, "*"):
                yield from _assigned(tokens, pairs, index, "WHEN", "RETURNING")
                return
            case "VALUES" if index + 1 in pairs:
                yield Run("EXPRESSION", index + 2, pairs[index + 1])
                return
            case "ERROR" if index == first:
                yield Run("EXPRESSION", index + 1, stop)
                return


def _altered_fragments(tokens: Sequence[Token]) -> Iterator[Run]:
    """Yield the column definition of ALTER TABLE [IF EXISTS] t ADD [COLUMN] [IF NOT EXISTS]."""
    table = 4 if says(tokens, 2, "IF", "EXISTS") else 2
    if says(tokens, table + 1, "ADD") and table + 2 < len(tokens) and tokens[table + 2].word in CONSTRAINT_WORDS:
        yield Run("CONSTRAINT", table + 2, body_stop(tokens))
    elif says(tokens, table + 1, "ADD"):
        first = table + 3 if says(tokens, table + 2, "COLUMN") else table + 2
        yield Run("COLUMNS", first + 3 if says(tokens, first, "IF", "NOT", "EXISTS") else first, body_stop(tokens))


_FINDERS: dict[str, Finder] = {
    "CREATE": _created_fragments,
    "INSERT": _inserted_fragments,
    "UPDATE": _updated_fragments,
    "DELETE": _deleted_fragments,
    "MERGE": _merged_fragments,
    "ALTER": lambda tokens, pairs: _altered_fragments(tokens),
}
"""The function that finds the fragments, by the first word of a statement."""


def _has_message(tokens: Sequence[Token]) -> bool:
    # Only the last two tokens are checked, because a query can contain a column named message.
    return says(tokens[-2:-1], 0, "MESSAGE") and tokens[-1].kind == "string"


def body_stop(tokens: Sequence[Token]) -> int:
    """Return the number of tokens before MESSAGE."""
    return len(tokens) - 2 if _has_message(tokens) else len(tokens)
