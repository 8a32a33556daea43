"""Statements that are refused by name, each with the reason and the way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from snapdb.errors import ParseError, Span
from snapdb.sql.tokens import Token
from snapdb.types import did_you_mean

__all__ = [
    "LATER",
    "MAIN_OF_WITH",
    "refuse_create",
    "refuse_drop",
    "refuse_insert_tail",
    "refuse_leading",
    "refuse_parameters",
    "refuse_show",
    "refused",
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
    "AUDIT EXCLUDE EXPIRE LABEL METHOD NEGATIVES ON PROPERTIES REFRESH SUBSET TAG TEMPORAL USING WEIGHT WINDOW "
    "WITH WITHIN WITHOUT".split()
)
"""Words of the language that no statement of this version takes where they were found."""

MAIN_OF_WITH = frozenset({"DELETE", "INSERT", "MERGE", "UPDATE"})


def refused(what: str, reason: str, way: str, span: Span) -> ParseError:
    """The error of a statement that is understood and not allowed."""
    return ParseError(f"{what} is refused: {reason}; {way}", span=span, code="refused")


def refuse_leading(token: Token, known: Sequence[str]) -> NoReturn:
    """Raise for a first word that starts none of our statements."""
    if token.word in _LEADING:
        raise refused(token.word, *_LEADING[token.word], token.span)
    hint = did_you_mean(token.text, known) if token.kind == "word" else ""
    raise ParseError(f"no statement starts with {token.text[:40]}{hint}", span=token.span)


def refuse_create(token: Token) -> NoReturn:
    """Raise for the word after CREATE that names nothing that can be created."""
    _refuse_kind("CREATE", token, "CREATE makes a TABLE, a PROPERTY GRAPH or a SNAPSHOT")


def refuse_drop(token: Token) -> NoReturn:
    """Raise for the word after DROP that names nothing that can be dropped."""
    _refuse_kind("DROP", token, "DROP takes a TABLE, a PROPERTY GRAPH or a SNAPSHOT")


def _refuse_kind(verb: str, token: Token, can: str) -> NoReturn:
    if token.word in _KINDS:
        reason, way = _KINDS[token.word]
        raise refused(f"{verb} {token.word}", reason, way if verb == "CREATE" else can, token.span)
    if token.word in {"GRAPH", "NODE", "VERTEX"}:
        raise ParseError("write CREATE PROPERTY GRAPH", span=token.span)
    hint = did_you_mean(token.text, ["TABLE", "PROPERTY GRAPH", "SNAPSHOT", "PROPERTY", *_KINDS])
    raise ParseError(f"{can}, found {token.text[:40]}{hint}", span=token.span)


def refuse_show(token: Token, shown: Sequence[str]) -> NoReturn:
    """Raise for the word after SHOW, with what can be shown."""
    hint = did_you_mean(token.text, shown) if token.kind == "word" else ""
    raise refused(f"SHOW {token.text[:40]}", f"what can be shown is {', '.join(shown)}", f"pick one of these{hint}", token.span)


def refuse_parameters(tokens: Sequence[Token], what: str) -> None:
    """Raise at the first parameter of a statement whose text is stored."""
    for token in tokens:
        if token.kind == "parameter":
            reason = "the statement is stored, and a parameter's value would be lost"
            raise refused(f"the parameter {token.text} in {what}", reason, "write the value itself", token.span)


def refuse_insert_tail(tokens: Sequence[Token], top: Sequence[int]) -> None:
    """Raise for clauses of INSERT and DELETE that publish no plain rows; `top` indexes tokens outside brackets."""
    for index in top:
        word, follower = tokens[index].word, tokens[index + 1].word if index + 1 < len(tokens) else ""
        before = tokens[index - 1].text if index else ""
        span = tokens[index].span
        if word == "RETURNING" and before != ".":
            raise refused("RETURNING", "a write gives back its number of rows only", "SELECT the rows first", span)
        if word == "ON" and follower == "CONFLICT" and _conflict_action(tokens, index + 2):
            reason = "tables have no unique keys"
            way = "INSERT … SELECT … WHERE NOT EXISTS (…), or say ON DUPLICATE KEY in the property graph"
            raise refused("ON CONFLICT", reason, way, Span(span.start, tokens[index + 1].span.stop))


def _conflict_action(tokens: Sequence[Token], after: int) -> bool:
    """Whether ON CONFLICT is the clause and not a join on a column of that name."""
    return after < len(tokens) and tokens[after].word in {"DO", "ON", "("}
