"""What samplers and SAMPLE statements specify once their names are bound, how batches are built, and caches."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from snapdb.attribute_docs import document_attributes
from snapdb.types.graph import Direction, EdgeType

_NODES = ("batch", "batch_size", "hop", "id", "input_id", "n_id", "num_nodes", "num_sampled_nodes", "seed_time", "y")
_EDGES = ("e_id", "edge_index", "edge_time", "edge_weight", "neighbour", "num_sampled_edges", "seed_side")
_PAIRS = (
    "destination",
    "dst_neg_index",
    "dst_pos_index",
    "edge_label",
    "edge_label_index",
    "edge_label_time",
    "source",
    "src_index",
)

BATCH_NAMES = frozenset((*_NODES, *_EDGES, *_PAIRS))

FULL = -1
"""A fanout that delivers every neighbour."""

RNG_SCHEME = "snapdb-1"
"""The name of the draw formulas; it travels with every sampler, batch and export."""

SeedOrder = Literal["SHUFFLE", "IN ORDER", "FIXED"]
Method = Literal["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR"]
Backend = Literal["numba", "torch"]
IdType = Literal["int64", "int32"]
ZeroWeight = Literal["NEVER", "WITH ALL"]


@lru_cache(1 << 10)
def _hash_of(edge: EdgeType, direction: Direction) -> int:
    """`EdgeType.type_hash`, which every hop of every batch asks for."""
    return edge.type_hash(direction)


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
    def hash(self) -> int:
        """The edge type's and direction's part of the draw key."""
        return _hash_of(self.edge, self.direction)

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
    def sort_key(self) -> bytes:
        """Edge types of one hop are sampled in the order of this text."""
        return self.edge.type_text(self.direction)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """How the type is walked: BOTH between different vertex types is walked IN and OUT, each over its own nodes."""
        if self.direction == "BOTH" and self.edge.source != self.edge.destination:
            return (Relation(self.edge, "IN"), Relation(self.edge, "OUT"))
        return (Relation(self.edge, self.direction),)


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a node's edges are drawn, of those that are eligible."""

    method: Method = "UNIFORM"
    replace: bool = False
    """WITH REPLACEMENT: an edge may be drawn more than once."""
    weights: tuple[tuple[str, str], ...] = ()
    """(edge type, column of its table) whose values weigh the draws; other edge types draw as if all weights were 1."""
    weighted: bool = False
    """WEIGHT BY, TOPK and PRIORITY."""
    dependent: int = 1
    """LABOR: over so many batches each neighbour's variate is drawn anew once; 1 draws all anew in every batch."""
    zero_weight: ZeroWeight = "NEVER"
    """When WEIGHT BY and PRIORITY deliver an edge of weight 0. NEVER: it is not in the row. WITH ALL edges of a node
    that has no more than the fanout: the rule of lineages that record no other."""

    def scores_edges(self, relation: Relation) -> bool:
        """Whether draws over a relation read edge ids: to hash them, or to order equal scores."""
        if self.weighted or self.method not in ("UNIFORM", "FULL", "LATEST"):
            return True
        return self.method == "LATEST" and relation.direction == "BOTH"


@document_attributes
@dataclass(frozen=True, slots=True)
class Temporal:
    """The TEMPORAL clause: each seed has its own tree, which has no edge and no node after the seed's time."""

    inclusive: bool
    """Whether a tree includes edges at the seed's time: TEMPORAL <= and not TEMPORAL <."""
    within: int | None
    """The greatest age of an edge at the seed's time, in the unit of event times. None: unbounded."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """Destinations that are no neighbours, drawn for each seed edge."""

    count: int
    """For each positive."""
    weight: str | None
    """Column of the destination's table that weighs the draws, or DEGREE; None: all alike."""
    known: Literal["EVER", "BEFORE", "AT"] | None
    """EXCLUDE KNOWN: destinations of the source's edges are left out, of any time, before or at the seed's time."""
    among: tuple[EdgeType, ...] = ()
    """EXCLUDE KNOWN … IN: edges of these types are looked at, and of no others; empty: those of the seeds' own type."""


@dataclass(frozen=True, slots=True)
class Link:
    """Seeds are edges: sources enter a batch first, then destinations, then negatives."""

    edge: EdgeType
    negatives: Negatives | None
    exclude: Literal["NONE", "PAIR", "BOTH"]
    """Which edges of this type no seed of the batch may see: those between a seed's ends, or also those back."""

    @property
    def known_types(self) -> tuple[EdgeType, ...]:
        """The edge types whose edges make a destination known; none without EXCLUDE KNOWN."""
        if self.negatives is None or self.negatives.known is None:
            return ()
        return self.negatives.among or (self.edge,)


@dataclass(frozen=True, slots=True)
class Refresh:
    """A node's row, so many of its edges, is drawn once and serves many batches; each batch draws from it.

    The row's round, a number in its key that grows with batches, determines which batches share a row. The strategies
    are GraphSnapShot's; that a row is a pure function of a key is ours. FBL draws afresh for each batch: no Refresh.
    """

    strategy: Literal["FCR", "OTF"]
    """FCR draws all rows anew at once, OTF some of them at every batch."""
    every: int | None
    """Batches; None: AUTO, until it is known how many batches an epoch has."""
    share: Fraction = Fraction(1)
    """Of OTF: which part of the rows is drawn anew over so many batches, 0 < share ≤ 1."""
    amplify: Fraction = Fraction(2)
    """A row holds so many times the fanout, rounded up; 1 or more."""
    fetch: Fraction | None = None
    """Which part of the fanout comes from the row, the rest from the other neighbours; None: all of it."""
    visited: bool = False
    """Of OTF: only rows that batches came by are drawn anew, all at once."""
    shared: bool = False
    """A node has one row for all hops, as large as the largest fanout asks."""
    above: int = 0
    """Nodes of at most so many edges have no row: batches draw from all of their edges."""

    @property
    def period(self) -> int:
        """`every`, where it is known: in the policy of a sampler that is open."""
        if self.every is None:
            raise ValueError("REFRESH EVERY AUTO has no number of batches until a sampler is opened")
        return self.every

    @property
    def turned(self) -> int:
        """The share in units of 2^-32, as rounds count it.

        >>> Refresh("OTF", 50, share=Fraction("0.15")).turned
        644245094
        """
        return math.floor(self.share * 2**32 + Fraction(1, 2))

    @property
    def at_once(self) -> bool:
        """Whether all rows that are drawn anew are so when a period begins; else nodes take turns."""
        return self.strategy == "FCR" or self.visited

    def size(self, fanout: int) -> int:
        """How many edges a row holds that serves this fanout.

        >>> Refresh("FCR", 50, amplify=Fraction("1.5")).size(5)
        8
        """
        return math.ceil(self.amplify * fanout)

    def row_size(self, fanout: Fanout, count: int) -> int:
        """How many edges a row holds that a hop with a finite count draws from."""
        return self.size(max(fanout.counts) if self.shared else count)

    def kept(self, fanout: int) -> int:
        """How many edges of a fanout come from the row.

        >>> Refresh("OTF", 50, fetch=Fraction("0.6")).kept(5)
        3
        """
        return fanout if self.fetch is None else math.floor(fanout * self.fetch + Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """A SAMPLE statement with its names resolved."""

    snapshot: str
    seed_type: str
    """The vertex type of the seeds; of seed edges that of their sources."""
    seed_query: str
    fanouts: tuple[Fanout, ...]
    batch_size: int
    seed: int
    """REPEATABLE's number, 0 ≤ seed < 2^64."""
    order: SeedOrder
    text: str
    """The statement as it was written; it travels in every batch's lineage."""
    drawing: Drawing = Drawing()  # frozen
    temporal: Temporal | None = None
    link: Link | None = None
    subset: Fraction | None = None
    """The share of the seeds that one epoch takes, 0 < share ≤ 1; None: all."""
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    """NODES: a hop expands the nodes that are new in the last one. BLOCKS: every node of the batch so far."""
    reuse_hops: bool = False
    """Draws do not depend on the hop."""
    allow_duplicates: bool = False
    """The same seed may occur more than once."""
    device: str | None = None
    """Where batches are built, e.g. 'cuda:0'; None: on the CPU."""
    backend: Backend | None = None
    """None: torch on a GPU, else numba."""
    memory: int | None = None
    """Bytes that a stream may take; None: as many as its threads need."""
    ids: IdType = "int64"
    """The type of the node ids in a stream's batches; SAMPLE's rows have the user's keys."""
    refresh: Refresh | None = None
    """None: FBL, every batch draws afresh."""
    generation: int = 0
    """Of the named sampler's rows: REFRESH CACHE begins a new one, in which all rows are others."""

    @property
    def hops(self) -> int:
        return max((len(f.counts) for f in self.fanouts), default=0)

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a tree of its own, which shares no node with others."""
        return self.temporal is not None

    @property
    def in_order(self) -> bool:
        """Whether a batch depends on those before it, by which rows these visited."""
        return self.refresh is not None and self.refresh.visited


@dataclass(frozen=True, slots=True)
class ExecutionHints:
    """How batches are built; none of it changes their content."""

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


PLAIN_HINTS = ExecutionHints(threads=1, fused=False, backend="numba")
"""The way that no rule has touched."""


# Named SAMPLE statements, their caches, and the counters of a cache


@dataclass(frozen=True, slots=True)
class Sampler:
    """A SAMPLE statement that was kept under a name, and the facts of it that lists show."""

    id: int
    name: str
    text: str
    """SAMPLE FROM …, whole, as it was written; of SAMPLE USING what that came to."""
    snapshot: str
    """The snapshot's name; another snapshot may take its place."""
    seeds: str
    """The vertex type of the seeds, or their edge type."""
    edges: bool
    """The seeds are edges."""
    batch: int
    hops: int
    method: Method
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    generation: int = 0
    """Of its rows that serve several batches: REFRESH CACHE begins the next, in which all of them are drawn anew."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Where the rows of a named sampler are kept, and how many bytes they may take. No batch depends on it."""

    id: int
    name: str
    sampler: str
    """The sampler's name; another sampler may take its place."""
    place: Literal["MEMORY", "FILE"]
    room: int | None
    """Bytes; None: as many as all rows take."""
    created: int
    """Microseconds since 1970 UTC."""
    author: str


@document_attributes
@dataclass(frozen=True, slots=True)
class CacheStats:
    """How far a stream's cache is filled, and what it was good for since the stream was opened."""

    bytes: int = 0
    """The bytes of all its arrays."""
    rows: int = 0
    """The number of rows that it has room for, drawn rows and whole ones."""
    filled: int = 0
    """The number of rows that it holds."""
    edges: int = 0
    """The number of edges of these rows."""
    hits: int = 0
    """The number of rows that batches read from it."""
    misses: int = 0
    """The number of rows that batches looked up and that it did not hold."""
    bytes_read: int = 0
    """Bytes of the topology's neighbours that were read, by batches where the cache had none and to fill it."""
    bytes_filled: int = 0
    """The part of `bytes_read` that filled it."""
    bytes_saved: int = 0
    """Bytes of neighbours that batches read from it instead."""
    refills: int = 0
    """The number of passes that drew rows, the first one included."""
    drawn: int = 0
    """The number of rows that these passes drew."""
    seconds: float = 0.0
    """That they took."""
    age: float | None = None
    """For how many batches its drawn rows have been the same, on average; None: there are none."""
    batch: int | None = None
    """The last one that was begun, by its global number."""
    error: str | None = None
    """Why it is not filled any further."""

    @property
    def hit_rate(self) -> float | None:
        """Which part of the rows that batches looked for was there; None: they looked for none."""
        looked = self.hits + self.misses
        return self.hits / looked if looked else None
