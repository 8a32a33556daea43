"""What a SAMPLE statement asks for, once its names are bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from snapdb.types.graph import Direction, EdgeType, type_hash, type_text

__all__ = ["FULL", "RNG_SCHEME", "Fanout", "Relation", "SampleSpec", "SeedOrder"]

FULL = -1
"""A fanout that delivers every neighbour."""

RNG_SCHEME = "snapdb-1"
"""The name of the draw formulas; it travels with every sampler, batch and export."""

SeedOrder = Literal["SHUFFLE", "IN ORDER", "FIXED"]


class Relation(NamedTuple):
    """An edge type walked from the seed side to the neighbour side."""

    edge: EdgeType
    direction: Literal["IN", "OUT", "BOTH"]
    """IN walks from destinations to sources, OUT from sources to destinations, BOTH both in one row."""

    @property
    def expands(self) -> str:
        """The vertex type whose nodes are expanded (for BOTH: of equal end types)."""
        return self.edge.source if self.direction == "OUT" else self.edge.destination

    @property
    def reaches(self) -> str:
        """The vertex type of the neighbours."""
        return self.edge.destination if self.direction == "OUT" else self.edge.source

    @property
    def key(self) -> EdgeType:
        """The batch's key: the edge type, or (destination, 'rev_' + edge, source) when walked OUT, as PyG names it."""
        if self.direction == "OUT":
            return EdgeType(self.edge.destination, f"rev_{self.edge.edge}", self.edge.source)
        return self.edge


@dataclass(frozen=True, slots=True)
class Fanout:
    """How many neighbours to draw over one edge type, hop by hop."""

    edge: EdgeType
    direction: Direction
    counts: tuple[int, ...]
    """One number a hop from the seeds on; FULL takes all, 0 stops this type at that hop."""

    @property
    def hash(self) -> int:
        """The edge type's part of the draw key."""
        return type_hash(self.edge, self.direction)

    @property
    def sort_key(self) -> bytes:
        """Edge types of one hop are sampled in the order of this text."""
        return type_text(self.edge, self.direction)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """How the type is walked: BOTH between different vertex types is walked IN and OUT, each over its own nodes."""
        if self.direction == "BOTH" and self.edge.source != self.edge.destination:
            return (Relation(self.edge, "IN"), Relation(self.edge, "OUT"))
        return (Relation(self.edge, self.direction),)


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """A SAMPLE statement with its names resolved."""

    snapshot: str
    seed_type: str
    seed_query: str
    fanouts: tuple[Fanout, ...]
    batch_size: int
    seed: int
    """REPEATABLE's number, 0 ≤ seed < 2^64."""
    order: SeedOrder
    text: str
    """The statement as it was written; it travels in every batch's lineage."""

    @property
    def hops(self) -> int:
        return max((len(f.counts) for f in self.fanouts), default=0)
