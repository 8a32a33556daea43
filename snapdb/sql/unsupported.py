"""Statements that are refused by name, each with the reason and the way round."""

from collections.abc import Mapping, Sequence

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Token
from snapdb.types import did_you_mean

_ONE_DATABASE = "a snapdb database is one directory of tables, graphs and snapshots"

_ENGINE = "it would change the engine under every statement"

_SAVEPOINT = ("the whole transaction is the unit", "write ROLLBACK and begin again")

_NOT_YET = "it is not in this version"

_UPSERT = "write UPDATE t SET … FROM u WHERE …, then INSERT INTO t SELECT … FROM u WHERE NOT EXISTS (…)"

_PLAIN_TABLES = "a database holds tables, property graphs, snapshots, samplers, caches and tags only"

_LEADING: Mapping[str, tuple[str, str]] = {
    "ANALYZE": ("statistics are kept by themselves", "leave it out"),
    "ATTACH": (_ONE_DATABASE, "open the other database with snapdb.connect, or read its Parquet files in a SELECT"),
    "CALL": (_ENGINE, "use SELECT * FROM the function, where it only reads"),
    "CHECKPOINT": ("every statement is durable when it returns", "leave it out"),
    "COMMENT": ("comments on tables are not kept", "say it in MESSAGE '…'"),
    "DEALLOCATE": ("there are no prepared statements", "give parameters to execute"),
    "DETACH": (_ONE_DATABASE, "close the database instead"),
    "EXECUTE": ("there are no prepared statements", "give parameters to execute, or write EXECUTE TASK name"),
    "EXPORT": (_ONE_DATABASE, "copy the directory, or SELECT with the command line's --format"),
    "IMPORT": (_ONE_DATABASE, "use COPY t FROM 'path' or CREATE TABLE t AS SELECT * FROM 'path'"),
    "INSTALL": ("extensions are not loaded: they run code from outside", "convert the data to Parquet or CSV first"),
    "LOAD": ("extensions are not loaded: they run code from outside", "convert the data to Parquet or CSV first"),
    "MATCH": ("patterns are not in this version", "join a snapshot's elements: FROM q.knows k JOIN q.person p ON …"),
    "MERGE": (_NOT_YET, _UPSERT),
    "PRAGMA": (_ENGINE, "use SHOW and DESCRIBE to look around"),
    "PREPARE": ("there are no prepared statements", "give parameters to execute"),
    "RELEASE": _SAVEPOINT,
    "REPLACE": (_NOT_YET, _UPSERT),
    "RESET": (_ENGINE, "leave it out"),
    "SAVEPOINT": _SAVEPOINT,
    "SET": (_ENGINE, "leave it out"),
    "TRUNCATE": ("a table is emptied by a version like any other", "write DELETE FROM t"),
    "UPSERT": (_NOT_YET, _UPSERT),
    "USE": (_ONE_DATABASE, "open the other database with snapdb.connect"),
}

_KINDS: Mapping[str, tuple[str, str]] = {
    "DATABASE": (_ONE_DATABASE, "open another directory with snapdb.connect"),
    "FUNCTION": (_PLAIN_TABLES, "write the expression in the query"),
    "INDEX": ("tables have no indexes", "leave it out: graphs are indexed by themselves"),
    "MACRO": (_PLAIN_TABLES, "write the expression in the query"),
    "SCHEMA": (_PLAIN_TABLES, "put the prefix into the table's name"),
    "SECRET": (_ENGINE, "copy the files here first"),
    "SEQUENCE": (_PLAIN_TABLES, "number rows with row_number() OVER () in the query"),
    "TEMP": ("temporary tables are not kept apart", "use WITH … AS (…) in the query"),
    "TEMPORARY": ("temporary tables are not kept apart", "use WITH … AS (…) in the query"),
    "TRIGGER": (_PLAIN_TABLES, "run the statement after the INSERT"),
    "TYPE": (_PLAIN_TABLES, "write the type in the column's definition"),
    "UNIQUE": ("tables have no indexes", "leave it out: graphs are indexed by themselves"),
    "VIEW": (_PLAIN_TABLES, "use CREATE TABLE … AS SELECT …, or WITH … AS (…) in the query"),
}

_OURS = ("TABLE", "PROPERTY", "SNAPSHOT", "SAMPLER", "TAG", "CACHE", "TASK")

CREATED = "TABLE, PROPERTY GRAPH, SNAPSHOT, SAMPLER, TAG, CACHE and TASK"
"""What CREATE and DROP take."""


def unsupported(what: str, reason: str, way: str, span: Span) -> ParseError:
    """The error of a statement that is understood and not allowed."""
    return ParseError(f"{what} is refused: {reason}; {way}", span=span, code="refused")


def unknown_statement(token: Token, known: Sequence[str]) -> ParseError:
    """The error for a first word that starts none of our statements."""
    if token.word in _LEADING:
        return unsupported(token.word, *_LEADING[token.word], token.span)
    hint = did_you_mean(token.text, known) if token.kind == "word" else ""
    if token.text in {"\\", "."}:
        hint = "; commands are of the prompt, where \\? lists them; SHOW and DESCRIBE look around anywhere"
    return ParseError(f"no statement starts with {token.text[:40]}{hint}", span=token.span, code="unknown-statement")


def unknown_kind(verb: str, token: Token) -> ParseError:
    """The error for a word after CREATE or DROP that names nothing they know."""
    known = f"{verb} knows {CREATED}"
    if token.word in _KINDS:
        reason, way = _KINDS[token.word]
        return unsupported(f"{verb} {token.word}", reason, way if verb == "CREATE" else known, token.span)
    if token.word == "GRAPH":
        return ParseError(f"write {verb} PROPERTY GRAPH", span=token.span, code="unknown-kind")
    hint = did_you_mean(token.text, [*_OURS, *_KINDS]) if token.kind == "word" else ""
    return ParseError(f"{known}, found {token.text[:40]}{hint}", span=token.span, code="unknown-kind")


def unknown_refreshed(token: Token) -> ParseError:
    """The error for a word after REFRESH that names nothing it knows."""
    hint = did_you_mean(token.text, ["SNAPSHOT", "CACHE"]) if token.kind == "word" else ""
    return ParseError(
        f"REFRESH knows SNAPSHOT and CACHE, found {token.text[:40]}{hint}", span=token.span, code="unknown-kind"
    )


def unknown_altered(token: Token) -> ParseError:
    """The error for a word after ALTER other than TABLE and TASK, and for changes of a graph but of its retention."""
    if token.word in {"GRAPH", "PROPERTY", "SNAPSHOT", "TAG", "SAMPLER", "CACHE"}:
        kind = "PROPERTY GRAPH" if token.word in {"GRAPH", "PROPERTY"} else token.word
        reason = "its parts are not changed one by one"
        return unsupported(f"ALTER {kind}", reason, f"write CREATE OR REPLACE {kind} …", token.span)
    hint = did_you_mean(token.text, ["TABLE", "TASK"]) if token.kind == "word" else ""
    return ParseError(
        f"ALTER knows TABLE, TASK and PROPERTY GRAPH, found {token.text[:40]}{hint}",
        span=token.span,
        code="unknown-kind",
    )


def refuse_savepoint(token: Token) -> None:
    """Raise when ROLLBACK would go back to less than the start."""
    if token.word == "TO":
        raise unsupported("ROLLBACK TO", *_SAVEPOINT, token.span)


def described_tag(token: Token) -> ParseError:
    """The error for DESCRIBE TAG."""
    return unsupported("DESCRIBE TAG", "a tag is only a version's name", "write SHOW TAGS LIKE 'name'", token.span)


def unknown_show(token: Token, shown: Sequence[str]) -> ParseError:
    """The error for a word after SHOW that cannot be shown."""
    hint = did_you_mean(token.text, shown) if token.kind == "word" else ""
    return unsupported(
        f"SHOW {token.text[:40]}",
        "there is nothing of that kind to show",
        f"SHOW {' | '.join(shown)}{hint}",
        token.span,
    )


def refuse_mixed(tokens: Sequence[Token]) -> None:
    """Raise at the first ? of a statement that names parameters too: a value goes by its place or by its name."""
    marks = [token for token in tokens if token.kind == "parameter"]
    if len({token.text[0] for token in marks}) > 1:
        mark = next(token for token in marks if token.text[0] == "?")
        reason = "values are given by place or by name"
        raise unsupported("? beside $name", reason, "write $name for each of them", mark.span)


def refuse_parameters(tokens: Sequence[Token], what: str) -> None:
    """Raise at the first parameter of a statement whose text is stored."""
    for token in tokens:
        if token.kind == "parameter":
            reason = "the statement is stored, and a parameter's value would be lost"
            raise unsupported(f"the parameter {token.text} in {what}", reason, "write the value itself", token.span)
