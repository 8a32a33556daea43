"""Errors for statements that are not supported, each with the reason and an alternative."""

from collections.abc import Mapping, Sequence

from snapdb.errors import ParseError, Span
from snapdb.sql.lexer import Token
from snapdb.types import did_you_mean

_ONE_DATABASE = "a snapdb database is one directory of tables, graphs and snapshots"

_ENGINE = "it would change the SQL engine for all statements"

_SAVEPOINT = ("a transaction is rolled back as a whole", "write ROLLBACK, then BEGIN a new transaction")

_NO_UPSERT = "upserts are clauses of INSERT"

_UPSERT = "write INSERT INTO t … ON CONFLICT (key) DO UPDATE SET …"

_PLAIN_TABLES = "a database contains only tables, definitions, property graphs, snapshots, samplers, caches and tasks"

_LEADING: Mapping[str, tuple[str, str]] = {
    "ANALYZE": ("statistics are maintained automatically", "leave it out"),
    "ATTACH": (_ONE_DATABASE, "open the other database with snapdb.connect, or read its Parquet files in a SELECT"),
    "CALL": (_ENGINE, "write SELECT * FROM function(…) for a function that only reads"),
    "CHECKPOINT": ("every statement is durable when it returns", "leave it out"),
    "COMMENT": ("tables have no comments", "describe a change by MESSAGE '…'"),
    "DETACH": (_ONE_DATABASE, "close the database instead"),
    "EXPORT": (_ONE_DATABASE, "write BACKUP DATABASE TO 'path', or COPY t TO 'file'"),
    "GRANT": ("snapdb has no users", "set the permissions of the database directory"),
    "IMPORT": (_ONE_DATABASE, "use COPY t FROM 'path' or CREATE TABLE t AS SELECT * FROM 'path'"),
    "INSTALL": ("extensions run third-party code", "convert the data to Parquet or CSV first"),
    "LIST": ("SHOW lists objects by kind", "write SHOW {}"),
    "LOCK": ("statements acquire the locks that they need", "leave it out"),
    "LOAD": ("extensions run third-party code", "convert the data to Parquet or CSV first"),
    "MATCH": ("graph patterns are not implemented", "join a snapshot's elements: FROM q.knows k JOIN q.person p ON …"),
    "PRAGMA": (_ENGINE, "use SHOW, DESCRIBE or system tables such as snapdb.tables"),
    "RELEASE": _SAVEPOINT,
    "REPLACE": (_NO_UPSERT, _UPSERT),
    "RESET": (_ENGINE, "leave it out"),
    "RESTORE": ("versions are immutable", "write CREATE OR REPLACE TABLE t AS SELECT * FROM t AT (VERSION => 3)"),
    "REVOKE": ("snapdb has no users", "set the permissions of the database directory"),
    "SAVEPOINT": _SAVEPOINT,
    "SET": (_ENGINE, "leave it out"),
    "UPSERT": (_NO_UPSERT, _UPSERT),
    "USE": (_ONE_DATABASE, "open the other database with snapdb.connect"),
}

_KINDS: Mapping[str, tuple[str, str]] = {
    "DATABASE": (_ONE_DATABASE, "open another directory with snapdb.connect"),
    "INDEX": ("tables have no indexes", "leave it out: snapshots are indexed automatically"),
    "MATERIALIZED": (_PLAIN_TABLES, "use CREATE TABLE … AS SELECT …, and a task that runs it"),
    "SECRET": (_ENGINE, "copy the files to this machine first"),
    "TRIGGER": (_PLAIN_TABLES, "run the statement after the INSERT"),
    "UNIQUE": ("tables have no indexes", "leave it out: snapshots are indexed automatically"),
}

_PROMPT = frozenset({"EXIT", "HELP", "QUIT"})
_LISTED = frozenset({"ALL", "CATALOGS", "DATABASES", "FUNCTIONS", "INDEXES", "SCHEMAS", "SETTINGS", "USERS", "VIEWS"})
"""The objects that SHOW lists in other databases."""

_OURS = (
    *("TABLE", "VIEW", "MACRO", "TYPE", "SEQUENCE", "SCHEMA", "PROPERTY"),
    *("SNAPSHOT", "SAMPLER", "TAG", "CACHE", "TASK"),
)

CREATED = "TABLE, VIEW, MACRO, TYPE, SEQUENCE, SCHEMA, PROPERTY GRAPH, SNAPSHOT, SAMPLER, TAG, CACHE or TASK"
"""The kinds of objects that CREATE and DROP accept."""


def unsupported(what: str, reason: str, way: str, span: Span) -> ParseError:
    """Return the error for a statement that is recognized but not supported."""
    return ParseError(f"{what} is not supported: {reason}; {way}", span=span, code="refused")


def unknown_statement(tokens: Sequence[Token], known: Sequence[str]) -> ParseError:
    """Return the error for a first word that does not start a statement."""
    token = tokens[0]
    if token.word in _LEADING:
        reason, way = _LEADING[token.word]
        named = [after.text for after in tokens[1:] if after.word != "TABLE"]
        return unsupported(token.word, reason, way.format(named[-1] if named else "t"), token.span)
    hint = did_you_mean(token.text, known) if token.kind == "word" else ""
    if token.word in _PROMPT:
        hint = "; it is a command of the prompt, where \\? lists all commands"
    if token.text in {"\\", "."}:
        hint = "; commands that begin with it exist only at the prompt (\\? lists them); write SHOW or DESCRIBE instead"
    return ParseError(f"unknown statement {token.text[:40]}{hint}", span=token.span, code="unknown-statement")


def unknown_kind(verb: str, token: Token) -> ParseError:
    """Return the error for a word after CREATE or DROP that is not a kind of object."""
    known = f"expected {CREATED} after {verb}"
    if token.word in _KINDS:
        reason, way = _KINDS[token.word]
        return unsupported(
            f"{verb} {token.word}", reason, way if verb == "CREATE" else f"write {verb} {CREATED}", token.span
        )
    if token.word == "GRAPH":
        message = f"expected PROPERTY GRAPH after {verb}, found {token.text}; write {verb} PROPERTY GRAPH"
        return ParseError(message, span=token.span, code="unknown-kind")
    hint = did_you_mean(token.text, [*_OURS, *_KINDS]) if token.kind == "word" else ""
    if not hint and verb == "DROP" and token.kind == "word":
        hint = f"; write DROP TABLE {token.text[:40]} for a table"
    return ParseError(f"{known}, found {token.text[:40]}{hint}", span=token.span, code="unknown-kind")


def unknown_refreshed(token: Token) -> ParseError:
    """Return the error for a word after REFRESH that is not a kind of object."""
    hint = did_you_mean(token.text, ["SNAPSHOT", "CACHE"]) if token.kind == "word" else ""
    if not hint and token.kind == "word" and token.word not in _KINDS:
        hint = f"; write REFRESH SNAPSHOT {token.text[:40]}"
    return ParseError(
        f"expected SNAPSHOT or CACHE after REFRESH, found {token.text[:40]}{hint}", span=token.span, code="unknown-kind"
    )


def unknown_altered(token: Token) -> ParseError:
    """Return the error for an invalid word after ALTER, or for changes to a graph other than its retention."""
    if token.word in {"GRAPH", "PROPERTY", "SNAPSHOT", "TAG", "SAMPLER", "CACHE"}:
        kind = "PROPERTY GRAPH" if token.word in {"GRAPH", "PROPERTY"} else token.word
        reason = "it is replaced as a whole"
        return unsupported(f"ALTER {kind}", reason, f"write CREATE OR REPLACE {kind} …", token.span)
    hint = did_you_mean(token.text, ["TABLE", "TASK"]) if token.kind == "word" else ""
    return ParseError(
        f"expected TABLE, TASK or PROPERTY GRAPH after ALTER, found {token.text[:40]}{hint}",
        span=token.span,
        code="unknown-kind",
    )


def refuse_savepoint(token: Token) -> None:
    """Raise ParseError for ROLLBACK to a savepoint."""
    if token.word == "TO":
        raise unsupported("ROLLBACK TO", *_SAVEPOINT, token.span)


def described_tag(token: Token) -> ParseError:
    """Return the error for DESCRIBE TAG."""
    return unsupported("DESCRIBE TAG", "a tag is only the name of a version", "write SHOW TAGS LIKE 'name'", token.span)


def unknown_show(tokens: Sequence[Token], shown: Sequence[str]) -> ParseError:
    """Return the error for a word after SHOW that is not one of its lists."""
    token = tokens[1]
    hint = did_you_mean(token.text, shown) if token.kind == "word" else ""
    way = _described(tokens)
    if way is None or (hint and len(tokens) == 2):
        way = f"SHOW {' | '.join(shown)}{hint}"
    return unsupported(f"SHOW {token.text[:40]}", "SHOW lists objects by kind", f"write {way}", token.span)


def _described(tokens: Sequence[Token]) -> str | None:
    """Return the DESCRIBE statement that is equivalent to a SHOW of one object, or None for other words."""
    first, *rest = tokens[1:]
    if first.word == "CREATE" and len(rest) == 2:
        first, rest = rest[0], rest[1:]
    kind = f"{first.word} " if first.word in {"GRAPH", "SNAPSHOT", "SAMPLER", "CACHE", "TASK"} else ""
    if len(rest) == 1 and (kind or first.word == "TABLE"):
        return f"DESCRIBE {kind}{rest[0].text[:40]}"
    alone = not rest and first.kind in {"word", "quoted"} and first.word not in _LISTED
    return f"DESCRIBE {first.text[:40]}" if alone else None


def refuse_mixed(tokens: Sequence[Token]) -> None:
    """Raise ParseError at the first ? in a statement with named parameters, because the two kinds cannot be mixed."""
    marks = [token for token in tokens if token.kind == "parameter"]
    if len({token.text[0] for token in marks}) > 1:
        mark = next(token for token in marks if token.text[0] == "?")
        reason = "parameters are either positional or named"
        raise unsupported("? together with $name", reason, "write $name for each of them", mark.span)


def refuse_parameters(tokens: Sequence[Token], what: str) -> None:
    """Raise ParseError at the first parameter of a statement whose text is stored."""
    for token in tokens:
        if token.kind == "parameter":
            reason = "the statement is stored without values of parameters"
            raise unsupported(f"the parameter {token.text} in {what}", reason, "write the value", token.span)
