"""Completion candidates at the cursor: keywords that a grammar accepts, and names usable in a query or expression."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from snapdb.sql.lexer import READS, Token
from snapdb.sql_engine import text_literal
from snapdb.types.algorithms import ALGORITHMS
from snapdb_cli.repl.algorithms import algorithm_candidates
from snapdb_cli.repl.grammar import Slot, Spot, slots
from snapdb_cli.repl.patterns import pattern_candidates, pattern_spot
from snapdb_cli.repl.words import (
    AFTER_TABLE,
    AFTER_VALUE,
    CLAUSES,
    IN_VALUE,
    RELATION,
    SQL_TYPES,
    SQL_WORDS,
    CandidateGroup,
    DatabaseNames,
)


class _Scope(NamedTuple):
    """The names that a query can use."""

    known: DatabaseNames
    snapshot: str = ""
    """The snapshot whose elements do not require a qualifier, as in SEEDS."""
    tables: tuple[str, ...] = ()
    """The tables of the enclosing statement, whose columns can be used."""


def _names(kind: str, texts: Sequence[str]) -> CandidateGroup:
    """Return a group of names that are offered before anything is typed."""
    return CandidateGroup(kind, texts, "name")


def _words(texts: Sequence[str], *, eager: bool = True) -> CandidateGroup:
    """Return a group of keywords."""
    return CandidateGroup("", texts, "word", eager)


def _functions(texts: Sequence[str]) -> CandidateGroup:
    """Return a group of functions, with the opening parenthesis."""
    return CandidateGroup("function", [f"{text}(" for text in texts], "word", eager=False)


def _sources(tokens: Sequence[Token]) -> dict[str, str]:
    """Map each column qualifier in a query to its table, as a key of `columns_of`.

    >>> from snapdb.sql.lexer import scan
    >>> _sources(scan("SELECT * FROM person p, now.Knows JOIN t ON true"))
    {'p': 'person', 'knows': 'now.knows', 't': 't'}
    """
    tables: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.word in {"FROM", "JOIN", "INTO", "UPDATE"}:
            tables.update(_relations(tokens, index + 1))
    return tables


def _relations(tokens: Sequence[Token], index: int) -> Iterator[tuple[str, str]]:
    """Yield the alias and the key of each table in a comma-separated list that begins at a token."""
    while index < len(tokens) and _is_name(tokens[index]):
        path = [tokens[index].identifier.lower()]
        while _marks(tokens, index + 1, ".") and index + 2 < len(tokens) and _is_name(tokens[index + 2]):
            index += 2
            path.append(tokens[index].identifier.lower())
        index += 1
        if index + 1 < len(tokens) and tokens[index].word == "AT" and _marks(tokens, index + 1, "("):
            index = _behind(tokens, index + 1)
        if index < len(tokens) and tokens[index].word == "AS":
            index += 1
        alias = path[-1]
        if index < len(tokens) and _is_name(tokens[index]):
            alias = tokens[index].identifier.lower()
            index += 1
        yield alias, ".".join(path)
        if not _marks(tokens, index, ","):
            return
        index += 1


def _is_name(token: Token) -> bool:
    return token.kind == "quoted" or (token.kind == "word" and token.word not in SQL_WORDS | {"AS", "AT"})


def _marks(tokens: Sequence[Token], index: int, mark: str) -> bool:
    return index < len(tokens) and tokens[index].text == mark


def _behind(tokens: Sequence[Token], opened: int) -> int:
    """Return the index after the parenthesis that closes the one at `opened`."""
    depth = 0
    for index in range(opened, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def _groups(before: Sequence[Token], whole: Sequence[Token], scope: _Scope) -> list[CandidateGroup]:
    """Return the candidates after the tokens `before` of a query or expression. `whole` contains all its tokens."""
    if before and before[-1].text == ".":
        return _qualified(before, whole, scope)
    if not before and not scope.tables:
        return [_words(("SELECT", *READS[1:]))]
    if [token.word for token in before[-2:]] == ["TAG", "=>"]:
        return [_tags(scope.known)]
    clause = _clause(before)
    last = before[-1] if before else None
    if clause in RELATION and last is not None and (last.word == clause or last.text in (",", "(")):
        opens = last.text == "(" and before[-2].word == clause
        return [_words(READS), *_tables(before, scope)] if opens else _tables(before, scope)
    if last is not None and _ends_value(last):
        return [_words(AFTER_TABLE if clause in RELATION else AFTER_VALUE, eager=clause in RELATION)]
    if last is not None and last.word in ("AS", "VALUES"):
        return []
    return _values(whole, scope)


def _ends_value(token: Token) -> bool:
    """Return whether a token ends a value, so that an operator or a keyword must follow."""
    if token.kind in ("quoted", "string", "number", "parameter") or token.text in (")", "]"):
        return True
    return token.kind == "word" and (token.word not in SQL_WORDS or token.word in {"NULL", "TRUE", "FALSE", "END"})


def _clause(before: Sequence[Token]) -> str:
    """Return the keyword of the innermost clause at the cursor. It can be outside the open parentheses."""
    depth = 0
    for index in range(len(before) - 1, -1, -1):
        token = before[index]
        depth += {")": 1, "(": -1}.get(token.text, 0) if token.kind == "mark" else 0
        # The ON of DISTINCT ON does not begin a clause.
        if depth <= 0 and token.word in CLAUSES and not (index and before[index - 1].word == "DISTINCT"):
            return token.word
    return ""


def _tags(known: DatabaseNames) -> CandidateGroup:
    """Return the tags as string literals."""
    return CandidateGroup("tag", [text_literal(tag) for tag in known.tags], "text")


def _tables(before: Sequence[Token], scope: _Scope) -> list[CandidateGroup]:
    known = scope.known
    ctes = [token.identifier for token, follows in pairwise(before) if follows.word == "AS" and _is_name(token)]
    facts = ["snapdb"] if "snapdb" in known.elements_of else []
    readers = [name for name in known.functions if name.startswith(("read_", "generate_", "range", "unnest", "glob"))]
    offered = [
        _names("query", ctes),
        _names("table", known.tables),
        _names("view", known.views),
        _names("snapshot", known.snapshots),
        _names("system tables", facts),
        CandidateGroup("algorithm", [f"{each.name}(" for each in ALGORITHMS], "word", eager=False),
        _functions(readers),
        _words(("GRAPH_TABLE",), eager=False),
    ]
    if scope.snapshot:
        elements = known.elements_of.get(scope.snapshot, known.types)
        return [_names("element", elements), *offered]
    return offered


def _qualified(before: Sequence[Token], whole: Sequence[Token], scope: _Scope) -> list[CandidateGroup]:
    """Return the candidates after a name and a dot."""
    path: list[str] = []
    index = len(before) - 1
    while index > 0 and before[index].text == "." and before[index - 1].kind in ("word", "quoted"):
        path.insert(0, before[index - 1].identifier.lower())
        index -= 2
    known = scope.known
    if len(path) > 1:
        return [_names("column", known.columns_of.get(".".join(path[-2:]), ()))]
    (name,) = path or [""]
    if name in known.elements_of and (index < 0 or before[index].word in RELATION | {","}):
        return [_names("table" if name == "snapdb" else "element", known.elements_of[name])]
    key = _sources(whole).get(name, name)
    columns = known.columns_of.get(f"{scope.snapshot}.{key}") or known.columns_of.get(key) or ()
    return [_names("column", columns), _names("element", known.elements_of.get(name, ()))]


def _values(whole: Sequence[Token], scope: _Scope) -> list[CandidateGroup]:
    """Return the columns of the query's tables, followed by functions and expression keywords."""
    known = scope.known
    read = _sources(whole)
    columns: list[str] = []
    for key in (*scope.tables, *read.values()):
        columns += known.columns_of.get(f"{scope.snapshot}.{key}") or known.columns_of.get(key) or ()
    qualifiers = [alias for alias in read if len(read) > 1 or alias != read[alias]]
    offered = [_names("column", columns or known.columns()), _names("table", qualifiers)]
    return [*offered, _functions(known.functions), _words((*IN_VALUE, *SQL_TYPES), eager=False)]


_Names = Callable[[DatabaseNames, Spot], Sequence[CandidateGroup]]


def _kinds(**labels: str) -> _Names:
    """Return a function that offers the names of the given kinds, with a label for each kind."""
    return lambda known, spot: [_names(label, known.of(kind)) for kind, label in labels.items()]


def _columns_of_table(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    """Return the columns of the statement's table, which is the first table name in it."""
    return [_names("column", known.columns_of.get(_table(known, spot.before), ()))]


def _columns_of_element(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    """Return the columns of the element table whose definition contains the cursor."""
    depth, here = 0, ""
    for index, token in enumerate(spot.before):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if depth == 1 and token.text in ("(", ",") and index + 1 < len(spot.before):
            here = spot.before[index + 1].identifier.lower()
    return [_names("column", known.columns_of.get(here, known.columns()))]


def _columns_of_history(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    """Return the columns of the last table after FROM, which contains a feature's history."""
    after = [
        follows.identifier.lower() for token, follows in pairwise(spot.before) if token.word in ("FROM", "REFERENCES")
    ]
    return [_names("column", known.columns_of.get(after[-1] if after else "", known.columns()))]


def _edge_types(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    return [_names("edge", known.edges_of(_sampled(spot)))]


def _vertex_types(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    return [_names("vertex", known.edges_of(_sampled(spot), vertices=True))]


def _weights(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    return [_names("column", known.columns()), _names("edge", known.types)]


def _vertices_defined(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    """Return the vertex tables of the graph that is being defined."""
    return [_names("vertex", _items(spot.before, "VERTEX", "NODE")), _names("table", known.tables)]


def _options(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    leading = spot.words[0] if spot.words else ""
    choices = {
        "COPY": ("FORMAT", "HEADER", "DELIMITER", "COMPRESSION", "OVERWRITE", "EPOCHS", "SPLIT"),
        "SAMPLE": ("memory", "ids"),
        "WALK": ("memory",),
        "CREATE": (),
    }
    return [_words(choices.get(leading, ()))]


_TASK_OPTIONS: dict[str, tuple[str, ...]] = {
    "timeout": (),
    "retries": (),
    "overlap": ("skip", "queue"),
    "catch_up": ("none", "last", "all"),
    "notify": (),
}
"""Maps each task option to the words that it accepts."""


def _task_options(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    return [CandidateGroup("option", [f"{option} =" for option in _TASK_OPTIONS], "text")]


def _task_values(known: DatabaseNames, spot: Spot) -> Sequence[CandidateGroup]:
    """Return the words accepted by the option before the `=`."""
    return [CandidateGroup("", _TASK_OPTIONS.get(spot.before[-2].identifier.lower(), ()), "text")]


_RELATIONS = _kinds(tables="table", views="view", snapshots="snapshot")
_TABLES = _kinds(tables="table")
_GRAPHS = _kinds(graphs="graph")
_ELEMENTS = _kinds(tables="table", views="view")
_ANYTHING = _kinds(
    tables="table", views="view", graphs="graph", snapshots="snapshot", samplers="sampler", caches="cache", tasks="task"
)
_GUARD = r"( IF EXISTS)?"
_LISTED = r"( .*COMMA)?$"
_PLACES: tuple[tuple[str, _Names], ...] = (
    (
        r"^CREATE( OR REPLACE)?( TEMP| TEMPORARY| PROPERTY)? (TABLE|VIEW|MACRO|FUNCTION|TYPE|SEQUENCE|SCHEMA|GRAPH|"
        r"SNAPSHOT|SAMPLER|CACHE|TASK|TAG)( IF NOT EXISTS)?$",
        _kinds(),
    ),
    (r"(DROP|DESCRIBE|DESC) VIEW" + _GUARD + "$", _kinds(views="view")),
    (r"SEEDS \(\) AS$", _vertex_types),
    (r"((FANOUT|ALONG) LPAR( .*COMMA)?|SEEDS EDGES)$", _edge_types),
    (r"ELEMENTS LPAR" + _LISTED, _kinds(types="element")),
    (r"WEIGHT BY( .*COMMA)?$", _weights),
    (r"((SAMPLE|WALK) USING|(DESCRIBE|DESC|DROP|SHOW|ON) SAMPLER" + _GUARD + ")$", _kinds(samplers="sampler")),
    (r"(DESCRIBE|DESC|DROP|REFRESH) CACHE" + _GUARD + "$", _kinds(caches="cache")),
    (r"((DESCRIBE|DESC|DROP|ALTER|EXECUTE) TASK" + _GUARD + "|RUNS OF)$", _kinds(tasks="task")),
    (r"TASK .*(WITH|SET) LPAR" + _LISTED, _task_options),
    (r"TASK .*EQUAL$", _task_values),
    (r"((SAMPLE|WALK) FROM|SNAPSHOT" + _GUARD + "|DIFF SNAPSHOT NAME WITH)$", _kinds(snapshots="snapshot")),
    (r"(DROP|DESCRIBE|DESC|ALTER)( PROPERTY)? GRAPH" + _GUARD + "$|DIFF( PROPERTY)? GRAPH$", _GRAPHS),
    (r"TAG" + _GUARD + "$", _kinds(tags="tag")),
    (r"VERSIONS OF$", _TABLES),
    (r"COLUMNS OF$", _RELATIONS),
    (r"OF$", _GRAPHS),
    (r"DESCRIBE$|DESC$", _ANYTHING),
    (r"COPY$", _RELATIONS),
    (r"(INSERT INTO|COPY) NAME LPAR|SET" + _LISTED, _columns_of_table),
    (r"(DROP|RENAME)( COLUMN)?" + _GUARD + "$", _columns_of_table),
    (r"(INTO|UPDATE|DELETE FROM|TABLE" + _GUARD + "|VACUUM)$", _TABLES),
    (r"(VERTEX|NODE|EDGE|RELATIONSHIP) TABLES LPAR( [^L]*COMMA)?$", _ELEMENTS),
    (r"(REFERENCES|SOURCE|DESTINATION)$", _vertices_defined),
    (r"FROM NAME (KEY|EVENT TIME|KEY \(\) EVENT TIME) LPAR|REFERENCES NAME LPAR", _columns_of_history),
    (r"FROM$", _TABLES),
    (r"TABLES LPAR .*(KEY|TIME|WEIGHT|TARGET|FEATURES|PROPERTIES|EXCEPT) LPAR", _columns_of_element),
    (r"(WITH|STRING) LPAR" + _LISTED, _options),
)
"""Patterns of the terminals before a name, and the names that may follow. The first matching pattern applies."""


def candidates(spot: Spot, known: DatabaseNames) -> list[CandidateGroup]:
    """Return the candidates at the cursor, names before keywords. If no grammar matches, return query candidates."""
    if (inside := pattern_spot(spot)) is not None:
        return pattern_candidates(inside, known)
    if (called := algorithm_candidates(spot, known)) is not None:
        return called
    explained = _unexplained(spot)
    if explained is not None:
        inner = candidates(explained, known)
        return inner if explained.before else [_words(("ANALYZE", "(FORMAT")), *inner]
    if not spot.before:
        return [_words(_starts(spot))]
    offered = [group for slot in slots(spot) for group in _in_slot(slot, spot, known)]
    return _merged(offered) if offered else _groups(spot.before, spot.whole, _Scope(known))


def _merged(groups: Sequence[CandidateGroup]) -> list[CandidateGroup]:
    """Return the groups, with the keywords of several grammars merged into one order that places OR REPLACE last."""
    eager = sorted(
        {text for group in groups if group.form == "word" and group.eager for text in group.texts},
        key=lambda text: (text.startswith("OR "), text),
    )
    return [*(group for group in groups if group.form != "word" or not group.eager), _words(eager)]


def _starts(spot: Spot) -> list[str]:
    """Return the words with which DuckDB and snapdb statements begin."""
    phrases = {words for slot in slots(spot) for words in (slot.words() if spot.before else slot.pairs())}
    return ["SELECT", *sorted(phrases | set(READS[1:]) | {"EXPLAIN"})]


def _unexplained(spot: Spot) -> Spot | None:
    """Return the statement after EXPLAIN and its options, or None if there is no EXPLAIN."""
    if spot.words[:1] != ("EXPLAIN",):
        return None
    start = 2 if spot.words[1:2] == ("ANALYZE",) else 1
    if spot.words[start : start + 1] == ("(",):
        if ")" not in spot.words[start:]:
            return None
        start = spot.words.index(")", start) + 1
    return Spot(spot.before[start:], spot.typed, spot.quote, spot.after)


def _in_slot(slot: Slot, spot: Spot, known: DatabaseNames) -> list[CandidateGroup]:
    """Return one grammar's candidates: names if it accepts a name, keywords, or the candidates of its SQL fragment."""
    if slot.fragment == "STATEMENT":
        return candidates(Spot(slot.inside, spot.typed, spot.quote, spot.after), known)
    if slot.fragment:
        return _in_fragment(slot, spot, known)
    offered: list[CandidateGroup] = []
    if "NAME" in slot.accepts:
        choices = next((choices for pattern, choices in _PLACES if re.search(pattern, slot.path)), _kinds())
        offered += choices(known, spot)
    if "QUERY" in slot.accepts or "STATEMENT" in slot.accepts:
        offered.append(_words(_starts(Spot((), "", "", ())) if "STATEMENT" in slot.accepts else READS))
    if "STRING" in slot.accepts and slot.path.endswith(" ON"):
        offered.append(CandidateGroup("device", ("'cpu'", "'cuda'", "'cuda:0'"), "text"))
    if {"EXPRESSION", "CONDITION", "SOURCES"} & slot.accepts:
        offered += _in_fragment(slot, spot, known)
    return [*offered, _words(slot.words())]


def _in_fragment(slot: Slot, spot: Spot, known: DatabaseNames) -> list[CandidateGroup]:
    """Return the candidates of a query or expression inside the statement, and the keywords that may end it."""
    if slot.fragment == "COLUMNS":
        return [_words((*SQL_TYPES, "NOT NULL", "DEFAULT"))]
    if slot.path.endswith((" TAG __ANON_0", " TAG")):
        return [_tags(known)]
    offered = _groups(slot.inside, (*slot.inside, *spot.after), _scope(slot, spot, known))
    ends = bool(slot.inside) and slot.inside[-1].word != "VALUES"  # VALUES must be followed by rows
    behind = Slot(slot.family, (*slot.types, slot.fragment)).words() if ends else []
    return [_words(behind), *offered]


def _scope(slot: Slot, spot: Spot, known: DatabaseNames) -> _Scope:
    leading = spot.words[0]
    if leading in ("SAMPLE", "WALK", "AUDIT") or "SAMPLER" in spot.words[:4]:
        return _Scope(known, snapshot=_sampled(spot))
    if slot.fragment == "CONDITION" and leading == "CREATE":
        return _Scope(known, tables=tuple(name.lower() for name in known.types))
    if slot.fragment in ("CONDITION", "EXPRESSION", "SOURCES") and leading in ("UPDATE", "DELETE"):
        return _Scope(known, tables=(_table(known, spot.before),))
    return _Scope(known)


def _sampled(spot: Spot) -> str:
    """Return the snapshot that a SAMPLE or WALK statement reads, in lower case, or '' if it uses a sampler."""
    pairs = pairwise(spot.before)
    return next((name.identifier.lower() for token, name in pairs if token.word == "FROM"), "")


def _table(known: DatabaseNames, tokens: Sequence[Token]) -> str:
    """Return, in lower case, the first name that is a table name."""
    tables = {name.lower() for name in known.tables}
    identifiers = (token.identifier.lower() for token in tokens if token.kind in ("word", "quoted"))
    return next((name for name in identifiers if name in tables), "")


def _items(tokens: Sequence[Token], *kinds: str) -> list[str]:
    """Return the elements that a list such as VERTEX TABLES (…) defines so far, by alias if they have one."""
    elements: list[str] = []
    depth, inside = 0, False
    for index, token in enumerate(tokens):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
        if token.word == "TABLES":
            inside = tokens[index - 1].word in kinds
        starts = depth == 1 and token.text in ("(", ",") and inside and index + 1 < len(tokens)
        if starts:
            aliased = len(tokens) > index + 3 and tokens[index + 2].word == "AS"
            elements.append(tokens[index + 3 if aliased else index + 1].identifier)
    return elements
