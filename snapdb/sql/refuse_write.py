"""Forms of INSERT, UPDATE, DELETE, ALTER TABLE and COPY that are refused, with the reason and the way round."""

from __future__ import annotations

from collections.abc import Sequence

from snapdb.errors import Span
from snapdb.sql.brackets import partners
from snapdb.sql.islands import says, top_level
from snapdb.sql.refuse import refused
from snapdb.sql.tokens import Token
from snapdb.sql.travel import opens_bound

_LATER = "it is not in this version"
_CONSTRAINTS = ("the only constraint that is kept is a column's NOT NULL", "find the rows that break it with a SELECT")
_COPIED = "write CREATE OR REPLACE TABLE t AS SELECT … FROM t"
_ALTERED = (
    (("SET", "NOT", "NULL"), "UPDATE or DELETE the rows without a value and keep new ones out in the INSERT's query"),
    (("DROP", "NOT", "NULL"), _COPIED),
    (("SET", "DEFAULT"), "name the value in INSERT"),
    (("DROP", "DEFAULT"), "name the value in INSERT"),
    ((), "ADD a column of the new type, UPDATE t SET new = CAST(old AS …), DROP the old one, RENAME the new one"),
)
"""What may follow ALTER COLUMN c, and the way round; the last: its TYPE."""


def refuse_write(tokens: Sequence[Token]) -> None:
    """Raise at the first form that is not kept."""
    verb, top = tokens[0].word, tuple(top_level(tokens, partners(tokens)))
    if verb != "COPY" or not any(tokens[index].word == "TO" for index in top[2:]):
        _refuse_at(tokens)
    if verb == "INSERT":
        _refuse_insert(tokens)
    elif verb == "UPDATE":
        _refuse_update(tokens, top)
    elif verb == "ALTER":
        _refuse_alter(tokens, top)
    elif verb == "COPY":
        return
    for index in top:
        if tokens[index].word in {"RETURNING", "ON"}:
            _refuse_clause(verb, tokens, index)


def _refuse_at(tokens: Sequence[Token]) -> None:
    """Raise for a write to a table as it was."""
    verb = tokens[0].word
    table = 4 if says(tokens, 1, "TABLE", "IF", "EXISTS") else 2 if verb in {"ALTER", "DELETE", "INSERT"} else 1
    if opens_bound(tokens, table + 1):
        reason, way = "versions do not change once they are made", f"leave it out: {verb} makes a new version"
        raise refused(f"AT in {verb}", reason, way, tokens[table + 1].span)


def _refuse_insert(tokens: Sequence[Token]) -> None:
    if says(tokens, 1, "OR"):
        raise refused("INSERT OR …", "tables have no unique keys", "write INSERT INTO", tokens[1].span)
    if says(tokens, 3, "DEFAULT", "VALUES"):
        raise refused("DEFAULT VALUES", _LATER, "write VALUES (…)", tokens[3].span)
    if says(tokens, 3, "BY", "NAME") or says(tokens, 3, "BY", "POSITION"):
        raise refused("BY", _LATER, "name the columns: INSERT INTO t (a, b) SELECT …", tokens[3].span)


def _refuse_update(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise for assignments to several columns, and to a path."""
    started = False
    for index in top:
        word, before = tokens[index].word, tokens[index - 1].word
        if started and word in {"FROM", "WHERE"} and before not in {".", "DISTINCT", ","}:
            return
        if index < 3 or before not in ({","} if started else {"SET"}):
            continue
        started = True
        if word == "(":
            raise refused("SET (…) =", _LATER, "write a = …, b = …", tokens[index].span)
        if says(tokens, index + 1, "."):
            span = Span(tokens[index].span.start, tokens[min(index + 2, len(tokens) - 1)].span.stop)
            raise refused("SET t.c", "UPDATE sets whole columns of its own table", "write SET c = …", span)


def _refuse_alter(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise for changes of a table other than of its columns' names, and for several changes at once."""
    action = 5 if says(tokens, 2, "IF", "EXISTS") else 3
    place = tokens[action].span if action < len(tokens) else tokens[-1].span
    if says(tokens, action, "RENAME", "TO") and not says(tokens, action + 2, "TO"):
        way = "write CREATE TABLE new AS SELECT * FROM t, then DROP TABLE t"
        raise refused("RENAME TO", "a table keeps its name through all versions", way, place)
    if says(tokens, action, "ALTER"):
        _refuse_alter_column(tokens, action)
    for verb in ("ADD", "DROP"):
        for word in ("CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK"):
            if says(tokens, action, verb, word):
                raise refused(f"{verb} {word}", *_CONSTRAINTS, place)
    for index in top:
        if index > action and tokens[index].word == ",":
            raise refused("a second change in ALTER TABLE", _LATER, "write one ALTER TABLE each", tokens[index].span)


def _refuse_alter_column(tokens: Sequence[Token], action: int) -> None:
    change = action + 3 if says(tokens, action + 1, "COLUMN") else action + 2
    words, way = next((words, way) for words, way in _ALTERED if not words or says(tokens, change, *words))
    what = " ".join(words) if words else "TYPE"
    reason = "columns keep their types and rules through all versions"
    raise refused(f"ALTER COLUMN … {what}", reason, way, tokens[action].span)


def _refuse_clause(verb: str, tokens: Sequence[Token], index: int) -> None:
    """Raise when the token at `index` starts a clause that is not kept."""
    word, span = tokens[index].word, tokens[index].span
    if verb == "ALTER":
        return
    if word == "RETURNING" and tokens[index - 1].word != ".":
        raise refused("RETURNING", "a write gives back its number of rows only", "SELECT the rows first", span)
    if says(tokens, index, "ON", "CONFLICT") and _conflict_action(tokens, index + 2):
        way = "use UPDATE, and INSERT … SELECT … WHERE NOT EXISTS (…), or ON DUPLICATE KEY in the property graph"
        raise refused("ON CONFLICT", "tables have no unique keys", way, Span(span.start, tokens[index + 1].span.stop))


def _conflict_action(tokens: Sequence[Token], after: int) -> bool:
    """Whether ON CONFLICT is the clause and not a join on a column of that name."""
    return after < len(tokens) and tokens[after].word in {"DO", "ON", "("}
