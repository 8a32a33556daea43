"""Completion inside calls of graph algorithms: snapshots, options, and the values of options."""

from __future__ import annotations

from snapdb.sql.algorithms import find_algorithms
from snapdb.sql.lexer import Token
from snapdb.sql_engine import text_literal
from snapdb.types.algorithms import Algorithm, algorithm, default_text
from snapdb_cli.repl.grammar import Spot
from snapdb_cli.repl.words import CandidateGroup, DatabaseNames


def algorithm_candidates(spot: Spot, known: DatabaseNames) -> list[CandidateGroup] | None:
    """Return the candidates at a position inside a call of an algorithm, or None outside, and inside a SELECT in it."""
    opened = _open_bracket(spot.before)
    if opened < 1:
        return None
    # The search for calls needs closed brackets.
    call = Spot(spot.before[: opened + 1], "", "", ())
    ends = (Token("mark", closer, spot.before[-1].span) for closer in call.closers)
    if not any(place.last == opened + 1 for place in find_algorithms((*call.before, *ends))):
        return None
    inside, called = spot.before[opened + 1 :], algorithm(spot.before[opened - 1].text)
    if not inside:
        return [CandidateGroup("snapshot", [text_literal(name) for name in known.snapshots], "text")]
    if inside[-1].text == "=>":
        return _values(called, inside[-2].identifier if len(inside) > 1 else "", inside[0].text, known)
    if inside[-1].text == ",":
        given = {token.identifier.lower() for token in inside if token.kind == "word"}
        options = [f"{option.name} =>" for option in called.options if option.name not in given]
        return [CandidateGroup("option", options, "text")]
    return []


def _open_bracket(tokens: tuple[Token, ...]) -> int:
    """Return the index of the innermost round bracket that is open at the end, or -1."""
    depth = 0
    for index in range(len(tokens) - 1, -1, -1):
        if tokens[index].kind != "mark":
            continue
        depth += {")": 1, "(": -1}.get(tokens[index].text, 0)
        if depth < 0:
            return index
    return -1


def _values(called: Algorithm, name: str, snapshot: str, known: DatabaseNames) -> list[CandidateGroup]:
    """Return the values that are offered for an option."""
    option = called.option(name)
    if option is None:
        return []
    edges = known.edges_of(snapshot.strip("'").lower())
    if option.kind == "names":
        return [CandidateGroup("edge", [text_literal(edge) for edge in edges], "text")]
    if option.kind == "column":
        columns = [c for e in edges for c in known.columns_of.get(f"{snapshot.strip(chr(39))}.{e}".lower(), ())]
        return [
            CandidateGroup(
                "column", [text_literal(column) for column in dict.fromkeys(columns) if column != "e_id"], "text"
            )
        ]
    texts = {
        "direction": ("'out'", "'in'", "'both'"),
        "boolean": ("true", "false"),
        "nodes": ("(SELECT ",),
        "pairs": ("(SELECT ",),
    }.get(option.kind, (default_text(option),) if option.default is not None else ())
    return [CandidateGroup("", texts, "text")]
