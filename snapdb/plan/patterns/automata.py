"""Path patterns as automata: repeated parts are copied or looped, and empty moves are removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from snapdb.errors import BindError
from snapdb.plan.patterns.paths import BoundPath, Node, Repeat, Step
from snapdb.plan.searches import ACCEPT, Automaton, State, Transition

_MOST = 1_000
"""The maximum number of states."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A step of the automaton: an edge, or a chain of edges with the vertices between them."""

    index: int
    nodes: tuple[int, ...] = ()
    """The indexes of the nodes inside of the chain."""


@dataclass(slots=True)
class Numbers:
    """The indexes of a pattern's nodes and steps."""

    nodes: Mapping[int, int]
    """id() of a Node → its index."""
    chains: Mapping[int, Chain]
    """id() of a Step, or of a Repeat whose edges are one chain → its step."""


def automaton_of(path: BoundPath, numbers: Numbers) -> Automaton:
    """Return the automaton of a path pattern (Thompson's construction, then the removal of empty moves).

    Raises:
        BindError: The bounds of quantifiers need too many states.
    """
    single = _single(path, numbers)
    if single is not None and (single.least <= 1 or path.prefix.search.kind == "all"):
        # The number of edges counts the repetitions, so one state that loops is enough.
        machine = _Machine(numbers, path)
        return machine.automaton(path.items, least_of={id(single): min(single.least, 1)}, looped=True)._bounded(
            single.least if single.least > 1 else 0, single.most
        )
    machine = _Machine(numbers, path)
    if single is not None:
        return machine.automaton(path.items, looped=True)._bounded(0, single.most)
    return machine.automaton(path.items)._bounded(0, None)


def _single(path: BoundPath, numbers: Numbers) -> Repeat | None:
    """Return the repeated part of a pattern whose only edge it contains, or None."""
    edges = [item for item in path.items if not isinstance(item, Node)]
    if len(edges) != 1 or not isinstance(edges[0], Repeat) or len(edges[0].steps) != 1:
        return None
    return edges[0]


@dataclass(slots=True)
class _Built:
    states: tuple[State, ...]
    transitions: tuple[Transition, ...]

    def _bounded(self, least: int, most: int | None) -> Automaton:
        return Automaton(self.states, self.transitions, least, most)


@dataclass(slots=True)
class _Machine:
    """An automaton with empty moves, which is built part by part."""

    numbers: Numbers
    path: BoundPath
    moves: list[list[tuple[int, int | None]]] = field(default_factory=list)
    """Empty moves from each place: the next place, and the node of the pattern that the move binds, or None."""
    edges: list[tuple[int, int, State]] = field(default_factory=list)
    """(place before, place after, state) of each edge."""

    def automaton(
        self, items: Sequence[Node | Step | Repeat], least_of: Mapping[int, int] | None = None, *, looped: bool = False
    ) -> _Built:
        start = self._place()
        final = self._sequence(items, start, least_of or {}, looped)
        by_place: dict[int, list[int]] = {}
        for index, (before, _, _) in enumerate(self.edges):
            by_place.setdefault(before, []).append(index)
        transitions: list[Transition] = []
        arrivals = [(index, after) for index, (_, after, _) in enumerate(self.edges)]
        for state, place in (*arrivals, (len(self.edges), start)):
            closed = dict.fromkeys(self._closure(place, final, by_place, ()))
            transitions += [Transition(state, to, nodes) for to, nodes in closed]
        return _Built(tuple(state for _, _, state in self.edges), tuple(transitions))

    def _place(self) -> int:
        self.moves.append([])
        return len(self.moves) - 1

    def _moved(self, place: int, node: int | None = None) -> int:
        after = self._place()
        self.moves[place].append((after, node))
        return after

    def _sequence(
        self, items: Sequence[Node | Step | Repeat], place: int, least_of: Mapping[int, int], looped: bool
    ) -> int:
        for item in items:
            if isinstance(item, Node):
                place = self._moved(place, self.numbers.nodes[id(item)])
            elif isinstance(item, Step):
                place = self._chain(self.numbers.chains[id(item)], place)
            else:
                place = self._repeated(item, place, least_of.get(id(item), item.least), None if looped else item.most)
        return place

    def _repeated(self, part: Repeat, place: int, least: int, most: int | None) -> int:
        first = place
        for _ in range(least):
            first, place = place, self._once(part, place)
        if most is None:
            if least:
                self.moves[place].append((first, None))
                return self._moved(place)
            hub = self._moved(place)
            self.moves[self._once(part, hub)].append((hub, None))
            return self._moved(hub)
        out = self._place()
        for _ in range(most - least):
            self.moves[place].append((out, None))
            place = self._once(part, place)
        self.moves[place].append((out, None))
        return out

    def _once(self, part: Repeat, place: int) -> int:
        chain = self.numbers.chains.get(id(part))
        if chain is None:
            return self._sequence(part.items, place, {}, looped=False)
        place = self._moved(place, self.numbers.nodes[id(part.items[0])])
        return self._moved(self._chain(chain, place), self.numbers.nodes[id(part.items[-1])])

    def _chain(self, chain: Chain, place: int) -> int:
        for number in range(len(chain.nodes) + 1):
            if len(self.edges) == _MOST:
                raise BindError(
                    f"the pattern needs more than {_MOST:,} states, because each repetition up to the bound is one; "
                    "lower the bounds of its quantifiers",
                    span=self.path.span,
                    code="pattern-size",
                )
            after = self._place()
            self.edges.append((place, after, State(chain.index, number)))
            place = after
            if number < len(chain.nodes):
                place = self._moved(place, chain.nodes[number])
        return place

    def _closure(
        self, place: int, final: int, by_place: Mapping[int, list[int]], nodes: tuple[int, ...]
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the states that empty moves reach from a place, with the nodes that they bind on the way."""
        if place == final:
            yield ACCEPT, nodes
        for state in by_place.get(place, ()):
            yield state, nodes
        for after, node in self.moves[place]:
            yield from self._closure(after, final, by_place, nodes if node is None else (*nodes, node))
