"""What a query that DuckDB refused meant: the place of the name that it did not find, and the nearest that there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from snapdb.catalog import Catalog
from snapdb.catalog.system_tables import FACTS, SCHEMA
from snapdb.errors import CorruptError, SnapdbError, Span
from snapdb.plan.asked import Asked
from snapdb.types.text import did_you_mean

_QUALIFIED = re.compile(r'^(\S+) has no column "([^"]*)"$')
_NAMING = ("duplicate-", "folder-", "no-file", "unknown-")
"""How the codes of errors about a name begin."""
_LISTED = 8
"""How many names a message tells of."""


def explain_refusal(error: SnapdbError, asked: Asked, inner: Span | None, catalog: Catalog) -> None:
    """The error with what the catalog knows about its name, and its place in the statement.

    Args:
        error: Of the run of `asked`; it is changed.
        inner: Where in its text DuckDB says that the mistake is, if it says so.
    """
    if error.code == "interrupted" or isinstance(error, CorruptError):
        error.span = None
        return
    named = _mentioned(asked.text, error.message) if error.code.startswith(_NAMING) else None
    if inner is None or (named is not None and not (inner.start <= named.start < inner.stop)):
        inner = named or inner
    if error.code == "unknown-table":
        said = asked.text[inner.start : inner.stop] if inner else ""
        error.message = _unknown_table(error.message, said, catalog, asked.text)
    elif error.code == "unknown-column" and (found := _QUALIFIED.search(error.message)):
        known = sorted(set(_columns(asked, catalog)))
        error.message += did_you_mean(found[2], known)
    error.span = asked.place(inner)


def _mentioned(text: str, message: str) -> Span | None:
    """The place of the first quoted name of the message, where the text has it just once."""
    name = re.search(r'"([^"]+)"', message)
    places = [] if name is None else [*islice(_words(text, name[1]), 2)]
    return Span(places[0], places[0] + len(name[1])) if name is not None and len(places) == 1 else None


def _words(text: str, word: str) -> Iterator[int]:
    """Where a word stands by itself; it may be long, and a regular expression of it would be long in the making."""
    place = text.find(word)
    while place >= 0:
        stop = place + len(word)
        alone = not (_is_letter(text[place - 1 : place]) or _is_letter(text[stop : stop + 1]))
        if alone:
            yield place
        place = text.find(word, stop if alone else place + 1)


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _columns(asked: Asked, catalog: Catalog) -> Iterator[str]:
    """The columns of all tables that the query mentions, and of the elements of its snapshots."""
    tables = {name.lower() for name in asked.names.views}
    for schema, views in asked.names.schemas.items():
        if (snapshot := catalog.snapshots.get(schema.lower())) is not None:
            tables |= {element.table.lower() for element in snapshot.graph.elements}
        tables |= {name.lower() for name in views}
    for name in tables & catalog.tables.keys():
        yield from (column.name for column in catalog.tables[name].columns)


def _unknown_table(message: str, said: str, catalog: Catalog, query: str) -> str:
    name = (re.findall('"(.*)"', message) or [""])[0]
    if said.startswith("'"):
        return f"no file {said}, or its name does not tell its format; say read_csv({said}), read_json or read_parquet"
    schema, dot, element = said.partition(".")
    if dot and schema.strip('"').lower() == SCHEMA:
        there = did_you_mean(name, FACTS) or f"; there are {_facts_named()}"
        return f"no table {SCHEMA}.{name}{there}"
    if dot and (snapshot := catalog.snapshots.get(schema.strip('"').lower())) is not None:
        known = [e.name for e in snapshot.graph.elements]
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        return f"snapshot {snapshot.name} has no element {element}{hint}"
    if (kind := catalog.kind_of(name)) == "snapshot":
        first = catalog.snapshot(name).graph.vertices[0].name
        whole = f", or write SUMMARIZE SNAPSHOT {name}" if query.upper().startswith("SUMMARIZE") else ""
        return f'"{name}" is a snapshot: read one of its elements, e.g. {name}.{first}{whole}'
    if kind == "graph":
        return f'"{name}" is a graph: read its tables, or CREATE SNAPSHOT s OF {name} and read s.<element>'
    if name.lower() == SCHEMA:
        return f'"{name}" is the schema of what there is: read one of its tables, {_facts_named()}'
    if (sampler := catalog.samplers.get(name.lower())) is not None:
        return f'"{name}" is a sampler: write SAMPLE USING {sampler.name}'
    if (cache := catalog.caches.get(name.lower())) is not None:
        return f'"{name}" is a cache: write DESCRIBE CACHE {cache.name}'
    if (task := catalog.tasks.get(name.lower())) is not None:
        return f'"{name}" is a task: write DESCRIBE TASK {task.name}, or SHOW TASK RUNS OF {task.name}'
    names = catalog.names()
    return message + (did_you_mean(name, names) or _there_are(names))


def _facts_named() -> str:
    return ", ".join(f"{SCHEMA}.{name}" for name in FACTS)


def _there_are(names: list[str]) -> str:
    more = ", …" if len(names) > _LISTED else ""
    return f"; there are: {', '.join(names[:_LISTED])}{more}" if names else "; there is none yet"
