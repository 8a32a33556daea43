"""How a sampler's batches are made: what the rules of a plan choose."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapdb.types.sampling import Backend, Drawing, Relation, SampleSpec


@dataclass(frozen=True, slots=True)
class Way:
    """How batches are made; none of it changes one."""

    threads: int | None = None
    """How many make them; None: all that there are."""
    fused: bool = True
    """The thread that samples a batch also reads its features, while its ids are warm; else they are read when it is
    handed over."""
    idle: frozenset[Relation] = frozenset()
    """Relations that no seed leads to: nothing of them is opened."""
    meets: frozenset[str] | None = None
    """Vertex types that a batch may hold; None: all. Of no others it is read since when each vertex is there."""
    reads: frozenset[str] | None = None
    """Elements whose features and targets are opened; None: all."""
    drawing: Drawing | None = None
    """Draws the same edges as the statement's, with less work; None: as the statement says."""
    backend: Backend | None = None
    """Where the statement names none; None: numba, or torch on a GPU."""

    def applied(self, spec: SampleSpec) -> SampleSpec:
        """The statement as it is sampled."""
        return replace(spec, drawing=self.drawing or spec.drawing, backend=spec.backend or self.backend)

    def may_meet(self, vertex: str) -> bool:
        """Whether a batch may hold vertices of a type."""
        return self.meets is None or vertex in self.meets

    def opens(self, element: str) -> bool:
        """Whether the features of a vertex or edge type are opened."""
        return self.reads is None or element in self.reads


PLAIN = Way(threads=1, fused=False, backend="numba")
"""The way that no rule has touched."""
