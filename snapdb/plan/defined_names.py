"""The views, macros, types and sequences that a query names, as statements that a session runs before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from snapdb.catalog import Catalog
from snapdb.errors import SnapdbError, Span
from snapdb.plan.sequences import sequence_state
from snapdb.sql.lexer import Token, scan
from snapdb.sql.syntax import SqlFragment
from snapdb.sql_engine import DefinedName, Names, quote_all, together
from snapdb.types import Definition

if TYPE_CHECKING:
    from snapdb.plan.scope import BindContext

_SEQUENCE_FUNCTIONS = frozenset(("nextval", "currval"))


class DefinedNames(NamedTuple):
    """The names that a query reads from definitions."""

    names: Names
    shapes: Names
    """The same names, over tables without rows."""


def bind_definitions(context: BindContext, tokens: Sequence[Token], words: Collection[str]) -> DefinedNames | None:
    """Return the definitions that a query names, and all that they read, or None without any.

    Args:
        context: The context of the query.
        tokens: The tokens of the query.
        words: The case-folded words of the query that can be names.
    """
    definitions = context.catalog.definitions
    if context.in_definition or not definitions:
        return None
    # A definition that is being created is not there yet, so its name in its own text is that of something else.
    known = [one for key, one in definitions.items() if key not in context.reading]
    found, texts = _reached(known, tokens, words)
    if not found:
        return None
    takes = any(token.word == "NEXTVAL" for tokens_, _ in texts for token in tokens_)
    bound = [_bind(context, one, takes=takes) for one in known if one.key in found]
    return DefinedNames(together(one.names for one in bound), together(one.shapes for one in bound))


def _reached(
    known: Sequence[Definition], tokens: Sequence[Token], words: Collection[str]
) -> tuple[set[tuple[str, str]], list[tuple[Sequence[Token], Collection[str]]]]:
    """Return the keys of the definitions that a text names, directly or through others.

    The second value contains the tokens and the words of all of these texts.
    """
    found: set[tuple[str, str]] = set()
    texts = [(tokens, words)]
    for tokens_, words_ in texts:  # grows by the texts of the definitions
        for one in _named(known, tokens_, words_):
            if one.key not in found:
                found.add(one.key)
                texts.append(_text_of(one))
    return found, texts


def _text_of(definition: Definition) -> tuple[Sequence[Token], Collection[str]]:
    """Return the tokens and the case-folded words of the SQL in a definition."""
    tokens = scan(definition.body) if definition.kind in ("view", "macro") else ()
    return tokens, {token.identifier.lower() for token in tokens if token.kind in ("word", "quoted")}


def tables_behind(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """Return the case-folded names of tables, and instead of views those of the tables that they may read."""
    behind = dict[str, None]()
    for name in names:
        if (view := catalog.view(name)) is None:
            behind[name.lower()] = None
            continue
        _, texts = _reached(list(catalog.definitions.values()), *_text_of(view))
        words = {word for _, own in texts for word in own}
        behind |= {
            folded: None
            for folded in catalog.tables
            if catalog.view(folded) is None and (folded in words or words.issuperset(folded.split(".")))
        }
    return list(behind)


def reads_row_ids(catalog: Catalog, words: Collection[str]) -> bool:
    """Return whether a definition that a query may name, directly or through others, may contain rowid."""
    named = any(folded.rpartition(".")[2] in words for _, folded in catalog.definitions)
    return named and any("rowid" in one.body.lower() for one in catalog.definitions.values())


def _named(definitions: Iterable[Definition], tokens: Sequence[Token], words: Collection[str]) -> Iterator[Definition]:
    called: set[str] | None = None
    strings: set[str] | None = None
    for definition in definitions:
        schema, last = split_name(definition.name, definition.schema)
        match definition.kind:
            case "schema" | "table":
                continue
            case "sequence":
                # Functions of sequences take names as strings.
                if strings is None:
                    used = words & _SEQUENCE_FUNCTIONS if isinstance(words, set) else _SEQUENCE_FUNCTIONS
                    strings = {t.string_value.lower() for t in tokens if t.kind == "string"} if used else set()
                if definition.name.lower() in strings:
                    yield definition
            case "macro":
                if called is None:
                    called = {t.identifier.lower() for t, after in pairwise(tokens) if after.text == "("}
                if last.lower() in called and (not schema or schema.lower() in words):
                    yield definition
            case _:
                if last.lower() in words and (not schema or schema.lower() in words):
                    yield definition


def split_name(name: str, schema: str) -> tuple[str, str]:
    """Return the schema and the last part of a name that may be qualified."""
    return (schema, name[len(schema) + 1 :]) if schema else ("", name)


def _bind(context: BindContext, definition: Definition, *, takes: bool) -> DefinedNames:
    """Return a definition with the tables that it reads. SQL that is not valid any more fails only if a query uses it.

    Args:
        context: The context of the query.
        definition: The definition.
        takes: Whether the query may take values of sequences.
    """
    key = DefinedName(definition.kind, *split_name(definition.name, definition.schema))
    if definition.kind == "type":
        return _alone(key, f"AS {definition.body}")
    if definition.kind == "sequence":
        return _sequence(context, key, definition, takes=takes)
    within = replace(context, in_definition=True, parameters=None, places={})
    try:
        query = within.bind_query(SqlFragment(definition.body, Span(0, len(definition.body))))
    except SnapdbError as error:
        error.message = f"in {definition.kind} {definition.name}: {error.message}"
        error.span = None
        raise
    columns = f" ({quote_all(definition.names)})" if definition.names else ""
    rest = f"{columns} AS {query.text}" if definition.kind == "view" else query.text
    shapes = query.shapes or query.names
    return DefinedNames(
        replace(query.names, definitions={**query.names.definitions, key: rest}),
        replace(shapes, definitions={**shapes.definitions, key: rest}),
    )


def _sequence(context: BindContext, key: DefinedName, definition: Definition, *, takes: bool) -> DefinedNames:
    """Return a sequence, of which an earlier statement of the session may have taken values."""
    state = sequence_state(context, definition, takes=takes)
    taken = {} if state.second is None else {key: state.second}
    names = Names(definitions={key: state.options}, taken=taken)
    return DefinedNames(names, names)


def _alone(key: DefinedName, rest: str) -> DefinedNames:
    names = Names(lasting=True, definitions={key: rest})
    return DefinedNames(names, names)


def in_schema(names: Names, schema: str) -> Names:
    """Return names that can be used together with those of the current version, because they are in a schema.

    A view is bound in its own schema first, so it reads the tables there.
    """
    definitions = {replace_schema(key, schema): rest for key, rest in names.definitions.items()}
    schemas: dict[str, Mapping[str, str]] = dict(names.schemas)
    if names.views:
        schemas[schema] = {**schemas.get(schema, {}), **names.views}
    taken = {replace_schema(key, schema): value for key, value in names.taken.items()}
    return Names({}, schemas, names.sources, names.lasting, definitions, taken)


def replace_schema(key: DefinedName, schema: str) -> DefinedName:
    """Return a name in a schema, unless it is already in one."""
    return key if key.schema else key._replace(schema=schema)
