"""Completion inside GRAPH_TABLE (…): graphs, labels, properties, variables, and the keywords of patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapdb.sql.lexer import Token
from snapdb.sql_engine import text_literal
from snapdb_cli.repl.grammar import Slot, Spot, slot_of
from snapdb_cli.repl.words import CandidateGroup, DatabaseNames

_FUNCTIONS = ("element_id(", "path_length(", "vertices(", "edges(", "count(", "sum(", "min(", "max(", "listagg(")
_PREDICATES = ("IS LABELED", "IS SOURCE OF", "IS DESTINATION OF")
_LABEL = re.compile(r"(IS|COLON|VBAR|AMPERSAND|BANG)$")


def pattern_spot(spot: Spot) -> Spot | None:
    """Return the position inside the innermost GRAPH_TABLE (…) that is open at the cursor, or None."""
    depth = 0
    for index in range(len(spot.before) - 1, 0, -1):
        text = spot.before[index].text
        depth += {")": 1, "(": -1}.get(text, 0) if spot.before[index].kind == "mark" else 0
        if depth < 0:
            if spot.before[index - 1].word == "GRAPH_TABLE":
                return Spot(spot.before[index + 1 :], spot.typed, spot.quote, spot.after)
            depth = 0  # a bracket inside of the pattern
    return None


def pattern_candidates(spot: Spot, known: DatabaseNames) -> list[CandidateGroup]:
    """Return the candidates at a position inside GRAPH_TABLE (…)."""
    if not spot.before:
        return [CandidateGroup("snapshot", known.snapshots, "name"), CandidateGroup("graph", known.graphs, "name")]
    slot = slot_of("patterns", spot)
    if slot is None:
        return []
    if slot.fragment and [token.word for token in spot.before[-2:]] == ["TAG", "=>"]:
        return [CandidateGroup("tag", [text_literal(tag) for tag in known.tags], "text")]
    if slot.fragment:
        return _in_expression(slot, spot, known)
    if "NAME" in slot.accepts and _LABEL.search(slot.path):
        graph, is_vertex = spot.before[0].identifier.lower(), spot.closers.startswith(")")
        labels = known.edges_of(graph, vertices=is_vertex) if graph in known.elements_of else known.types
        return [CandidateGroup("label", labels, "name")]
    return [CandidateGroup("", slot.words(), "word")]


def _in_expression(slot: Slot, spot: Spot, known: DatabaseNames) -> list[CandidateGroup]:
    """Return the properties of the variable before a dot, or else the variables and functions."""
    inside, whole = slot.inside, spot.whole
    if inside and inside[-1].text == ".":
        variable = inside[-2].identifier.lower() if len(inside) > 1 else ""
        return [CandidateGroup("property", _properties(variable, whole, known), "name")]
    behind = Slot(slot.family, (*slot.types, slot.fragment)).words() if inside else []
    return [
        CandidateGroup("", behind, "word"),
        CandidateGroup("variable", _variables(whole), "name"),
        CandidateGroup("function", _FUNCTIONS, "word", eager=False),
        CandidateGroup("", _PREDICATES, "word", eager=False),
    ]


def _variables(whole: Sequence[Token]) -> list[str]:
    """Return the variables of elements, which follow an opening bracket."""
    found = []
    for before, token, after in zip(whole, whole[1:], whole[2:], strict=False):
        opens = before.text in ("(", "[") and before.kind == "mark"
        if (
            opens
            and token.kind in ("word", "quoted")
            and (after.text in (")", "]", ":") or after.word in ("IS", "WHERE"))
        ):
            found.append(token.identifier)
    return list(dict.fromkeys(found))


def _properties(variable: str, whole: Sequence[Token], known: DatabaseNames) -> list[str]:
    """Return the columns of the labels with which a variable is declared, or those of all types without one."""
    graph = whole[0].identifier.lower() if whole else ""
    labels = [
        label.identifier
        for name, mark, label in zip(whole, whole[1:], whole[2:], strict=False)
        if name.identifier.lower() == variable and (mark.text == ":" or mark.word == "IS")
    ]
    columns: list[str] = []
    for label in labels or known.types:
        columns += known.columns_of.get(f"{graph}.{label.lower()}") or known.columns_of.get(label.lower()) or ()
    return list(dict.fromkeys(columns))
