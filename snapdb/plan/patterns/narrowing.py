"""Which types the elements of a path pattern can have, given the ends of the edges beside them (data-flow analysis)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from snapdb.plan.patterns.joins import traversals
from snapdb.plan.patterns.paths import BoundPath, Item, Node, Patterns, Repeat, Step

_Types = frozenset[str]
_FLIPPED = {"left": "right", "right": "left", "any": "any"}


def narrow_types(patterns: Patterns, path: BoundPath) -> None:
    """Restrict the types of a path pattern's variables to those that can occur in a match.

    If no types fit, the pattern has no matches, and the variables keep the types of their labels.
    """
    for item in path.flat:
        variable = patterns.variable(item.variable)
        variable.labelled = variable.labelled or variable.types
    before = {item.variable: patterns.variable(item.variable).types for item in path.flat}
    for _ in range(2):
        for items in (path.items, _reversed(path.items)):
            seen: dict[str, set[str]] = {}
            _follow(patterns, items, None, seen)
            for name in before:
                variable = patterns.variable(name)
                variable.types = tuple(each for each in variable.types if each in seen.get(name, ()))
    if any(not patterns.variable(item.variable).types for item in path.items if not isinstance(item, Repeat)):
        for name, types in before.items():
            patterns.variable(name).types = types


def _reversed(items: Sequence[Item]) -> list[Item]:
    """Return the items of the reverse paths."""
    found: list[Item] = []
    for item in reversed(items):
        if isinstance(item, Repeat):
            inner = tuple(_reversed(item.items))
            found.append(replace(item, items=inner))  # type: ignore[arg-type]
        elif isinstance(item, Step):
            found.append(replace(item, direction=_FLIPPED[item.direction]))  # type: ignore[arg-type]
        else:
            found.append(item)
    return found


def _follow(
    patterns: Patterns, items: Sequence[Item], types: _Types | None, seen: dict[str, set[str]]
) -> _Types | None:
    """Return the types of the vertex after the items, given those of the vertex before them. Records all types."""
    for item in items:
        if isinstance(item, Repeat):
            assert types is not None
            types = _repeated(patterns, item, types, seen)
        elif isinstance(item, Node):
            own = frozenset(patterns.variable(item.variable).types)
            types = own if types is None else types & own
            seen.setdefault(item.variable, set()).update(types)
        else:
            assert types is not None
            types = _step(patterns, item, types, seen)
    return types


def _step(patterns: Patterns, step: Step, types: _Types, seen: dict[str, set[str]]) -> _Types:
    reached: set[str] = set()
    for name in patterns.variable(step.variable).types:
        for _, before, after in traversals(patterns.graph.edges[name], step):
            if before in types:
                reached.add(after)
                seen.setdefault(step.variable, set()).add(name)
    return frozenset(reached)


def _repeated(patterns: Patterns, part: Repeat, types: _Types, seen: dict[str, set[str]]) -> _Types:
    """Return the types after any allowed number of repetitions. A set of types that recurs ends the search."""
    after = set(types) if part.least == 0 else set[str]()
    current, done, known = types, 0, set[tuple[bool, _Types]]()
    while current and (part.most is None or done < part.most):
        following = _follow(patterns, part.items, current, seen)
        assert following is not None
        current, done = following, done + 1
        if done >= part.least:
            after |= current
        state = done >= part.least, current
        if state in known and done >= part.least:
            break
        known.add(state)
    return frozenset(after)
