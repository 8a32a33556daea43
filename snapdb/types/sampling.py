"""The resolved form of SAMPLE statements, hints for building batches, named samplers and caches."""

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
"""The name of the draw formulas, recorded with every sampler, batch and export."""

SeedOrder = Literal["SHUFFLE", "IN ORDER", "FIXED"]
Method = Literal["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR"]
Backend = Literal["numba", "torch"]
IdType = Literal["int64", "int32"]
ZeroWeight = Literal["NEVER", "WITH ALL"]


@lru_cache(1 << 10)
def _hash_of(edge: EdgeType, direction: Direction) -> int:
    """`EdgeType.type_hash`, cached, as every hop of every batch needs it."""
    return edge.type_hash(direction)


class Relation(NamedTuple):
    """An edge type with the direction in which it is traversed from the seeds."""

    edge: EdgeType
    direction: Literal["IN", "OUT", "BOTH"]
    """IN: from destinations to sources. OUT: from sources to destinations. BOTH: both, in one row."""

    @property
    def expands(self) -> str:
        """The vertex type of the expanded nodes (for BOTH: of both ends, which are equal)."""
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
        """The key in a batch: the edge type, or for OUT PyG's reverse type, (destination, 'rev_' + edge, source)."""
        if self.direction == "OUT":
            return EdgeType(self.edge.destination, f"rev_{self.edge.edge}", self.edge.source)
        return self.edge


@dataclass(frozen=True, slots=True)
class Fanout:
    """The number of neighbours to sample over one edge type, hop by hop."""

    edge: EdgeType
    direction: Direction
    counts: tuple[int, ...]
    """The number per hop, from the seeds on; FULL takes all, 0 skips this type at that hop."""

    @property
    def sort_key(self) -> bytes:
        """The sort key of edge types within a hop: they are sampled in this order."""
        return self.edge.type_text(self.direction)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The traversals of the type: BOTH between different vertex types is one IN and one OUT traversal."""
        if self.direction == "BOTH" and self.edge.source != self.edge.destination:
            return (Relation(self.edge, "IN"), Relation(self.edge, "OUT"))
        return (Relation(self.edge, self.direction),)


@dataclass(frozen=True, slots=True)
class Drawing:
    """The method of sampling among the eligible edges of a node."""

    method: Method = "UNIFORM"
    replace: bool = False
    """Whether an edge may be sampled more than once (WITH REPLACEMENT)."""
    weights: tuple[tuple[str, str], ...] = ()
    """(edge type, column of its table) with weights; edges of other types have weight 1."""
    weighted: bool = False
    """Whether weights are used: by WEIGHT BY, TOPK or PRIORITY."""
    dependent: int = 1
    """LABOR: the number of batches over which each neighbour's variate is redrawn once; 1 redraws all in every
    batch."""
    zero_weight: ZeroWeight = "NEVER"
    """When edges of weight 0 are delivered under WEIGHT BY and PRIORITY. NEVER: not at all. WITH ALL: where a node has
    no more edges than the fanout, which is the rule of lineages that record no other."""

    def scores_edges(self, relation: Relation) -> bool:
        """Whether sampling a relation reads edge ids: to hash them, or to order equal scores."""
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
    """Negative samples: destinations that are not neighbours, drawn for each seed edge."""

    count: int
    """The number per positive."""
    weight: str | None
    """The column of the destination's table with weights, or DEGREE; None: uniform."""
    known: Literal["EVER", "BEFORE", "AT"] | None
    """EXCLUDE KNOWN: existing destinations of the source are excluded, of any time, before the seed's time, or at
    it."""
    among: tuple[EdgeType, ...] = ()
    """The edge types of EXCLUDE KNOWN … IN, which define existing destinations; empty: the seeds' own type."""


@dataclass(frozen=True, slots=True)
class Link:
    """Seed edges: batches start from their sources, then destinations, then negatives."""

    edge: EdgeType
    negatives: Negatives | None
    exclude: Literal["NONE", "PAIR", "BOTH"]
    """The edges of this type that no seed of the batch may see: none, those between a seed's ends, or also reverse
    ones."""

    @property
    def known_types(self) -> tuple[EdgeType, ...]:
        """The edge types that define existing destinations; empty without EXCLUDE KNOWN."""
        if self.negatives is None or self.negatives.known is None:
            return ()
        return self.negatives.among or (self.edge,)


@dataclass(frozen=True, slots=True)
class Refresh:
    """REFRESH: a row of AMPLIFY * fanout edges per node is sampled once and reused by many batches, which draw from it.

    The row's round, a number in its key that increases with batches, determines which batches share a row. The
    strategies are those of GraphSnapShot; snapdb adds that a row is a pure function of its key. FBL resamples for each
    batch and has no Refresh.
    """

    strategy: Literal["FCR", "OTF"]
    """FCR (full refresh) resamples all rows at once; OTF (rolling refresh) resamples some rows at every batch."""
    every: int | None
    """The period in batches; None: AUTO, until the number of batches per epoch is known."""
    share: Fraction = Fraction(1)
    """OTF: the share of the rows that is resampled per period, 0 < share ≤ 1."""
    amplify: Fraction = Fraction(2)
    """The size of a row as a multiple of the fanout, rounded up; at least 1."""
    fetch: Fraction | None = None
    """The share of the fanout that is drawn from the row, the rest coming from the other neighbours; None: all of
    it."""
    visited: bool = False
    """OTF: whether only rows that batches accessed are resampled, all at once."""
    shared: bool = False
    """Whether a node has one row for all hops, sized for the largest fanout."""
    above: int = 0
    """The degree up to which nodes have no row: batches draw from all of their edges."""

    @property
    def period(self) -> int:
        """The period in batches, `every`; known in the policy of an open sampler."""
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
        """Whether all rows to resample are resampled when a period begins; otherwise nodes take turns."""
        return self.strategy == "FCR" or self.visited

    def size(self, fanout: int) -> int:
        """The number of edges in a row for this fanout.

        >>> Refresh("FCR", 50, amplify=Fraction("1.5")).size(5)
        8
        """
        return math.ceil(self.amplify * fanout)

    def row_size(self, fanout: Fanout, count: int) -> int:
        """The number of edges in the row of a hop with a finite count."""
        return self.size(max(fanout.counts) if self.shared else count)

    def kept(self, fanout: int) -> int:
        """The number of edges of a fanout that come from the row.

        >>> Refresh("OTF", 50, fetch=Fraction("0.6")).kept(5)
        3
        """
        return fanout if self.fetch is None else math.floor(fanout * self.fetch + Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """A SAMPLE statement with its names resolved."""

    snapshot: str
    seed_type: str
    """The vertex type of the seeds; for seed edges that of their sources."""
    seed_query: str
    fanouts: tuple[Fanout, ...]
    batch_size: int
    seed: int
    """The number of REPEATABLE, 0 ≤ seed < 2^64."""
    order: SeedOrder
    text: str
    """The text of the statement, which is recorded in every batch's lineage."""
    drawing: Drawing = Drawing()  # frozen
    temporal: Temporal | None = None
    link: Link | None = None
    subset: Fraction | None = None
    """The share of the seeds in one epoch, 0 < share ≤ 1; None: all."""
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    """NODES: a hop expands the nodes that are new in the previous hop. BLOCKS: it expands every node of the batch so
    far."""
    reuse_hops: bool = False
    """Whether draws are the same at every hop."""
    allow_duplicates: bool = False
    """Whether the same seed may occur more than once."""
    device: str | None = None
    """The device on which batches are built, e.g. 'cuda:0'; None: the CPU."""
    backend: Backend | None = None
    """The back end; None: torch on a GPU, else numba."""
    memory: int | None = None
    """The maximum bytes of a stream; None: as many as its threads need."""
    ids: IdType = "int64"
    """The dtype of node ids in a stream's batches; rows of SAMPLE have the user's keys."""
    refresh: Refresh | None = None
    """The neighbor pool; None: FBL, every batch is resampled."""
    generation: int = 0
    """The generation of a named sampler's rows: REFRESH CACHE starts a new one, in which all rows differ."""

    @property
    def hops(self) -> int:
        return max((len(f.counts) for f in self.fanouts), default=0)

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a separate tree, which shares no node with others."""
        return self.temporal is not None

    @property
    def in_order(self) -> bool:
        """Whether a batch depends on the rows that batches before it accessed."""
        return self.refresh is not None and self.refresh.visited


@dataclass(frozen=True, slots=True)
class ExecutionHints:
    """Hints for building batches; they never change their content."""

    threads: int | None = None
    """The number of threads; None: one per core."""
    fused: bool = True
    """Whether the thread that samples a batch also reads its features, while its ids are in the cache; else they are
    read when the batch is delivered."""
    idle: frozenset[Relation] = frozenset()
    """Relations that no seed reaches, which are not opened."""
    meets: frozenset[str] | None = None
    """Vertex types that a batch may contain; None: all. The births of other types are not read."""
    reads: frozenset[str] | None = None
    """Elements whose features and targets are opened; None: all."""
    drawing: Drawing | None = None
    """An equivalent drawing that costs less; None: the statement's."""
    backend: Backend | None = None
    """The back end if the statement names none; None: numba, or torch on a GPU."""

    def applied(self, spec: SampleSpec) -> SampleSpec:
        """The spec with these hints applied."""
        return replace(spec, drawing=self.drawing or spec.drawing, backend=spec.backend or self.backend)

    def may_meet(self, vertex: str) -> bool:
        """Whether a batch may contain vertices of a type."""
        return self.meets is None or vertex in self.meets

    def opens(self, element: str) -> bool:
        """Whether the features of a vertex or edge type are opened."""
        return self.reads is None or element in self.reads


PLAIN_HINTS = ExecutionHints(threads=1, fused=False, backend="numba")
"""The hints before any rule."""


# Named SAMPLE statements, their caches, and the statistics of a cache


@dataclass(frozen=True, slots=True)
class Sampler:
    """A named SAMPLE statement, with the properties that lists show."""

    id: int
    name: str
    text: str
    """The complete statement, SAMPLE FROM …, as it was written; SAMPLE USING is resolved."""
    snapshot: str
    """The name of the snapshot, which may be replaced."""
    seeds: str
    """The vertex type of the seeds, or their edge type."""
    edges: bool
    """Whether the seeds are edges."""
    batch: int
    hops: int
    method: Method
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    generation: int = 0
    """The generation of its neighbor pool: REFRESH CACHE starts the next, in which all rows are resampled."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The location and the size of the cached rows of a named sampler. Caches never change a batch."""

    id: int
    name: str
    sampler: str
    """The name of the sampler, which may be replaced."""
    place: Literal["MEMORY", "FILE"]
    room: int | None
    """The maximum bytes; None: enough for all rows."""
    created: int
    """Microseconds since 1970 UTC."""
    author: str


@document_attributes
@dataclass(frozen=True, slots=True)
class CacheStats:
    """The fill level of a stream's cache, and its effect since the stream was opened."""

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
    """The number of rows that batches looked up and did not find in it."""
    bytes_read: int = 0
    """Bytes of the topology's neighbours that were read, by batches on a miss and to fill the cache."""
    bytes_filled: int = 0
    """The part of `bytes_read` that filled it."""
    bytes_saved: int = 0
    """Bytes of neighbours that batches read from it instead of the topology."""
    refills: int = 0
    """The number of passes that drew rows, the first one included."""
    drawn: int = 0
    """The number of rows that these passes drew."""
    seconds: float = 0.0
    """The seconds that these passes took."""
    age: float | None = None
    """The average age of its rows, in batches; None: it has no rows."""
    batch: int | None = None
    """The global number of the last batch that was started."""
    error: str | None = None
    """The error that stopped filling it; None: none did."""

    @property
    def hit_rate(self) -> float | None:
        """The share of looked-up rows that were hits; None: none was looked up."""
        looked = self.hits + self.misses
        return self.hits / looked if looked else None
