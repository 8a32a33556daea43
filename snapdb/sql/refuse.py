"""Statements that are refused by name, each with the reason and the way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapdb.errors import ParseError, Span
from snapdb.sql.tokens import Token
from snapdb.types import did_you_mean

__all__ = [
    "LATER",
    "refuse_parameters",
    "refuse_write",
    "refused",
    "unknown_kind",
    "unknown_show",
    "unknown_statement",
]

_ONE_DATABASE = "a snapdb database is one directory of tables, graphs and snapshots"
_ENGINE = "it would change the engine under every statement"
_TRANSACTION = "transactions are not in this version: each statement is one version"
_NOT_YET = "it is not in this version"
_PLAIN_TABLES = "a database holds tables, property graphs and snapshots only"

_LEADING: Mapping[str, tuple[str, str]] = {
    "ABORT": (_TRANSACTION, "leave it out"),
    "ALTER": (_NOT_YET, "write CREATE OR REPLACE TABLE t AS SELECT … FROM t"),
    "ANALYZE": ("statistics are kept by themselves", "leave it out"),
    "ATTACH": (_ONE_DATABASE, "open the other database with snapdb.connect, or read its Parquet files in a SELECT"),
    "AUDIT": (_NOT_YET, "write the SAMPLE statement itself"),
    "BEGIN": (_TRANSACTION, "leave it out"),
    "CALL": (_ENGINE, "use SELECT * FROM the function, where it only reads"),
    "CHECK": (_NOT_YET, "open the database: wrong sizes are found then"),
    "CHECKPOINT": ("every statement is durable when it returns", "leave it out"),
    "COMMENT": ("comments on tables are not kept", "say it in MESSAGE '…'"),
    "COMMIT": (_TRANSACTION, "leave it out"),
    "DEALLOCATE": ("there are no prepared statements", "give parameters to execute"),
    "DETACH": (_ONE_DATABASE, "close the database instead"),
    "DIFF": (_NOT_YET, "compare two snapshots with SELECT … EXCEPT SELECT …"),
    "END": (_TRANSACTION, "leave it out"),
    "EXECUTE": ("there are no prepared statements or tasks in this version", "run the statement itself"),
    "EXPIRE": (_NOT_YET, "write DROP SNAPSHOT s"),
    "EXPORT": (_ONE_DATABASE, "copy the directory, or SELECT with the command line's --format"),
    "IMPORT": (_ONE_DATABASE, "use COPY t FROM 'path' or CREATE TABLE t AS SELECT * FROM 'path'"),
    "INSTALL": ("extensions are not loaded: they run code from outside", "convert the data to Parquet or CSV first"),
    "LOAD": ("extensions are not loaded: they run code from outside", "convert the data to Parquet or CSV first"),
    "MERGE": (_NOT_YET, "write DELETE FROM t WHERE … and then INSERT INTO t SELECT …"),
    "PRAGMA": (_ENGINE, "use SHOW and DESCRIBE to look around"),
    "PREPARE": ("there are no prepared statements", "give parameters to execute"),
    "REFRESH": (_NOT_YET, "write CREATE OR REPLACE SNAPSHOT s OF g …"),
    "REPLACE": (_NOT_YET, "write DELETE FROM t WHERE … and then INSERT INTO t SELECT …"),
    "RESET": (_ENGINE, "leave it out"),
    "ROLLBACK": (_TRANSACTION, "read what was with SELECT … FROM a snapshot of that version"),
    "SAVEPOINT": (_TRANSACTION, "leave it out"),
    "SET": (_ENGINE, "leave it out"),
    "START": (_TRANSACTION, "leave it out"),
    "TRUNCATE": ("a table is emptied by a version like any other", "write DELETE FROM t"),
    "UPDATE": (_NOT_YET, "write DELETE FROM t WHERE … and then INSERT INTO t SELECT …"),
    "UPSERT": (_NOT_YET, "write DELETE FROM t WHERE … and then INSERT INTO t SELECT …"),
    "USE": (_ONE_DATABASE, "open the other database with snapdb.connect"),
    "VACUUM": (_NOT_YET, "leave it out: files are never rewritten"),
}

_KINDS: Mapping[str, tuple[str, str]] = {
    "CACHE": (_NOT_YET, "leave it out: a cache never changes a batch"),
    "DATABASE": (_ONE_DATABASE, "open another directory with snapdb.connect"),
    "FUNCTION": (_PLAIN_TABLES, "write the expression in the query"),
    "INDEX": ("tables have no indexes", "leave it out: graphs are indexed by themselves"),
    "MACRO": (_PLAIN_TABLES, "write the expression in the query"),
    "SAMPLER": (_NOT_YET, "write the SAMPLE statement itself"),
    "SCHEMA": (_PLAIN_TABLES, "put the prefix into the table's name"),
    "SECRET": (_ENGINE, "copy the files here first"),
    "SEQUENCE": (_PLAIN_TABLES, "number rows with row_number() OVER () in the query"),
    "TAG": (_NOT_YET, "name the version by its number: AT (VERSION => n)"),
    "TASK": (_NOT_YET, "run the command line from cron"),
    "TEMP": ("temporary tables are not kept apart", "use WITH … AS (…) in the query"),
    "TEMPORARY": ("temporary tables are not kept apart", "use WITH … AS (…) in the query"),
    "TRIGGER": (_PLAIN_TABLES, "run the statement after the INSERT"),
    "TYPE": (_PLAIN_TABLES, "write the type in the column's definition"),
    "UNIQUE": ("tables have no indexes", "leave it out: graphs are indexed by themselves"),
    "VIEW": (_PLAIN_TABLES, "use CREATE TABLE … AS SELECT …, or WITH … AS (…) in the query"),
}

LATER = frozenset(
    {"EXCLUDE", "LABEL", "METHOD", "NEGATIVES", "ON", "PROPERTIES", "REFRESH", "SUBSET", "TAG", "TEMPORAL", "USING"}
    | {"WEIGHT", "WINDOW", "WITH", "WITHIN", "WITHOUT"}
)
"""Words of the language that no statement of this version takes where they were found."""


def refused(what: str, reason: str, way: str, span: Span) -> ParseError:
    """The error of a statement that is understood and not allowed."""
    return ParseError(f"{what} is refused: {reason}; {way}", span=span, code="refused")


def unknown_statement(token: Token, known: Sequence[str]) -> ParseError:
    """The error for a first word that starts none of our statements."""
    if token.word in _LEADING:
        return refused(token.word, *_LEADING[token.word], token.span)
    hint = did_you_mean(token.text, known) if token.kind == "word" else ""
    return ParseError(f"no statement starts with {token.text[:40]}{hint}", span=token.span)


def unknown_kind(verb: str, token: Token) -> ParseError:
    """The error for a word after CREATE or DROP that names nothing they know."""
    known = f"{verb} knows TABLE, PROPERTY GRAPH and SNAPSHOT"
    if token.word in _KINDS:
        reason, way = _KINDS[token.word]
        return refused(f"{verb} {token.word}", reason, way if verb == "CREATE" else known, token.span)
    if token.word == "GRAPH":
        return ParseError(f"write {verb} PROPERTY GRAPH", span=token.span)
    hint = did_you_mean(token.text, ["TABLE", "PROPERTY", "SNAPSHOT", *_KINDS]) if token.kind == "word" else ""
    return ParseError(f"{known}, found {token.text[:40]}{hint}", span=token.span)


def unknown_show(token: Token, shown: Sequence[str]) -> ParseError:
    """The error for a word after SHOW that cannot be shown."""
    hint = did_you_mean(token.text, shown) if token.kind == "word" else ""
    return refused(
        f"SHOW {token.text[:40]}",
        "there is nothing of that kind to show",
        f"SHOW {' | '.join(shown)}{hint}",
        token.span,
    )


def refuse_parameters(tokens: Sequence[Token], what: str) -> None:
    """Raise at the first parameter of a statement whose text is stored."""
    for token in tokens:
        if token.kind == "parameter":
            reason = "the statement is stored, and a parameter's value would be lost"
            raise refused(f"the parameter {token.text} in {what}", reason, "write the value itself", token.span)


def refuse_write(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise for forms of INSERT, DELETE and COPY that are not kept; `top` indexes the tokens outside brackets."""
    verb, following = tokens[0].word, [token.word for token in tokens[1:5]]
    if verb == "INSERT" and following[:1] == ["OR"]:
        raise refused("INSERT OR …", "tables have no unique keys", "write INSERT INTO", tokens[1].span)
    if verb == "INSERT" and following[2:4] == ["DEFAULT", "VALUES"]:
        raise refused("DEFAULT VALUES", "columns have no defaults", "write VALUES (…)", tokens[3].span)
    if verb == "INSERT" and following[2:4] in (["BY", "NAME"], ["BY", "POSITION"]):
        raise refused(
            "BY", "it is not in this version", "name the columns: INSERT INTO t (a, b) SELECT …", tokens[3].span
        )
    for index in top:
        follower = tokens[index + 1].word if index + 1 < len(tokens) else ""
        _refuse_clause(verb, tokens, index, follower)


def _refuse_clause(verb: str, tokens: Sequence[Token], index: int, follower: str) -> None:
    """Raise when the token at `index` starts a clause that is not kept."""
    word, span = tokens[index].word, tokens[index].span
    if verb == "COPY":
        if word == "TO" and index > 1:  # before that it is the table's name
            way = "run a SELECT with the command line's --format, or use Result.arrow()"
            raise refused("COPY … TO", "COPY only reads files in this version", way, span)
    elif word == "RETURNING" and tokens[index - 1].word != ".":
        raise refused("RETURNING", "a write gives back its number of rows only", "SELECT the rows first", span)
    elif word == "ON" and follower == "CONFLICT" and _conflict_action(tokens, index + 2):
        way = "use INSERT … SELECT … WHERE NOT EXISTS (…), or ON DUPLICATE KEY in the property graph"
        raise refused("ON CONFLICT", "tables have no unique keys", way, Span(span.start, tokens[index + 1].span.stop))


def _conflict_action(tokens: Sequence[Token], after: int) -> bool:
    """Whether ON CONFLICT is the clause and not a join on a column of that name."""
    return after < len(tokens) and tokens[after].word in {"DO", "ON", "("}
