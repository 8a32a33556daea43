"""Resolved SAMPLE statements, execution hints, named samplers and caches."""

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
"""The fanout value that means all neighbours."""

RNG_SCHEME = "snapdb-1"
"""The name of the random number scheme, which is recorded with every sampler, batch and export."""

SeedOrder = Literal["SHUFFLE", "IN ORDER", "FIXED"]
Method = Literal["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK", "LABOR"]
SamplerMethod = Method | Literal["WALK", "BY WALKS"]
Backend = Literal["numba", "torch"]
IdType = Literal["int64", "int32"]
ZeroWeight = Literal["NEVER", "WITH ALL"]


@lru_cache(1 << 10)
def _hash_of(edge: EdgeType, direction: Direction) -> int:
    """Return `EdgeType.type_hash` from a cache, because every hop of every batch needs it."""
    return edge.type_hash(direction)


class Relation(NamedTuple):
    """An edge type and the direction in which sampling traverses it, starting from the seeds."""

    edge: EdgeType
    direction: Literal["IN", "OUT", "BOTH"]
    """IN traverses edges from destination to source, OUT from source to destination. BOTH combines the two in one
    row."""

    @property
    def expands(self) -> str:
        """The vertex type of the expanded nodes. With BOTH, the two ends have the same type."""
        return self.edge.source if self.direction == "OUT" else self.edge.destination

    @property
    def reaches(self) -> str:
        """The vertex type of the neighbours."""
        return self.edge.destination if self.direction == "OUT" else self.edge.source

    @property
    def hash(self) -> int:
        """The hash of the edge type and direction, which is part of the draw key."""
        return _hash_of(self.edge, self.direction)

    @property
    def key(self) -> EdgeType:
        """The key in a batch: the edge type or, for OUT, PyG's reverse type (destination, 'rev_' + edge, source)."""
        if self.direction == "OUT":
            return EdgeType(self.edge.destination, f"rev_{self.edge.edge}", self.edge.source)
        return self.edge


@dataclass(frozen=True, slots=True)
class Fanout:
    """The number of neighbours to sample over one edge type, for each hop."""

    edge: EdgeType
    direction: Direction
    counts: tuple[int, ...]
    """The number of neighbours per hop, starting at the seeds. FULL samples all neighbours, and 0 skips the type at
    that hop."""

    @property
    def sort_key(self) -> bytes:
        """The sort key of edge types within a hop, which determines the sampling order."""
        return self.edge.type_text(self.direction)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The type's traversals. BOTH between different vertex types becomes an IN and an OUT traversal."""
        if self.direction == "BOTH" and self.edge.source != self.edge.destination:
            return (Relation(self.edge, "IN"), Relation(self.edge, "OUT"))
        return (Relation(self.edge, self.direction),)


@dataclass(frozen=True, slots=True)
class Drawing:
    """The method of selecting among a node's eligible edges."""

    method: Method = "UNIFORM"
    replace: bool = False
    """Whether an edge can be sampled more than once (WITH REPLACEMENT)."""
    weights: tuple[tuple[str, str], ...] = ()
    """Pairs of (edge type, weight column of its table). Edges of other types have weight 1."""
    weighted: bool = False
    """Whether weights are used, by WEIGHT BY, TOPK or PRIORITY."""
    dependent: int = 1
    """LABOR: the number of batches over which each neighbour's random variate is redrawn once. With 1, every batch
    redraws all variates."""
    zero_weight: ZeroWeight = "NEVER"
    """When edges of weight 0 are delivered under WEIGHT BY and PRIORITY. With NEVER, they are not delivered. With WITH
    ALL, they are delivered if a node has at most as many edges as the fanout. Lineages that do not record a rule use
    WITH ALL."""

    def scores_edges(self, relation: Relation) -> bool:
        """Return whether sampling a relation reads edge ids, to hash them or to order edges with equal scores."""
        if self.weighted or self.method not in ("UNIFORM", "FULL", "LATEST"):
            return True
        # Under BOTH, LATEST merges the rows of the two directions and orders edges with equal times by id.
        return self.method == "LATEST" and relation.direction == "BOTH"


@document_attributes
@dataclass(frozen=True, slots=True)
class Temporal:
    """The TEMPORAL clause. Each seed has a separate tree, without edges and nodes later than the seed's time."""

    inclusive: bool
    """Whether a tree includes edges at the seed's own time (TEMPORAL <= instead of TEMPORAL <)."""
    within: int | None
    """The maximum age of an edge at the seed's time, in the unit of event times, or None if unbounded."""


@dataclass(frozen=True, slots=True)
class Negatives:
    """Negative sampling: for each seed edge, draws destinations that are not neighbours of its source."""

    count: int
    """The number of negatives per positive edge."""
    weight: str | None
    """The weight column of the destination's table, or DEGREE. If None, destinations are drawn uniformly."""
    known: Literal["EVER", "BEFORE", "AT"] | None
    """EXCLUDE KNOWN: whether the source's existing destinations are excluded at any time (EVER), before the seed's time
    (BEFORE) or at that time (AT). If None, no destinations are excluded."""
    among: tuple[EdgeType, ...] = ()
    """The edge types in EXCLUDE KNOWN … IN, which define existing destinations. If empty, the seeds' own type defines
    them."""


@dataclass(frozen=True, slots=True)
class Link:
    """Seed edges. Batches start with their sources, followed by their destinations and the negatives."""

    edge: EdgeType
    negatives: Negatives | None
    exclude: Literal["NONE", "PAIR", "BOTH"]
    """The edges of the seeds' type that a batch hides from all of its seeds. NONE hides none, PAIR hides those that
    connect the two ends of a seed, and BOTH also hides the reverse edges."""

    @property
    def known_types(self) -> tuple[EdgeType, ...]:
        """The edge types that define existing destinations, or none without EXCLUDE KNOWN."""
        if self.negatives is None or self.negatives.known is None:
            return ()
        return self.negatives.among or (self.edge,)


@dataclass(frozen=True, slots=True)
class Refresh:
    """REFRESH: sample a row of AMPLIFY * fanout edges per node once, and let many batches draw from it.

    A row's key contains its round, a number that increases over the batches. Batches of the same round share the row.
    The strategies come from GraphSnapShot. In snapdb, a row is also a pure function of its key. FBL resamples every
    batch and has no Refresh.
    """

    strategy: Literal["FCR", "OTF"]
    """FCR (full refresh) resamples all rows at once. OTF (rolling refresh) resamples some of the rows in every
    batch."""
    every: int | None
    """The period in batches, or None for AUTO until the number of batches per epoch is known."""
    share: Fraction = Fraction(1)
    """OTF: the share of the rows that is resampled per period, 0 < share ≤ 1."""
    amplify: Fraction = Fraction(2)
    """The size of a row as a multiple of the fanout, at least 1. The product is rounded up."""
    fetch: Fraction | None = None
    """The share of the fanout that is drawn from the row. The remainder is drawn from the other neighbours. None draws
    the whole fanout from the row."""
    visited: bool = False
    """OTF: whether only the rows that batches have accessed are resampled, all at once."""
    shared: bool = False
    """Whether a node has a single row for all hops, sized for the largest fanout."""
    above: int = 0
    """The maximum degree of a node without a row. For such nodes, batches draw from all edges."""

    @property
    def period(self) -> int:
        """The period in batches. It is always known for an open sampler."""
        if self.every is None:
            raise ValueError("REFRESH EVERY AUTO has no number of batches until a sampler is opened")
        return self.every

    @property
    def turned(self) -> int:
        """The share in units of 2^-32, which is the unit of rounds.

        >>> Refresh("OTF", 50, share=Fraction("0.15")).turned
        644245094
        """
        # The share is in fixed point, because kernels compare it with 32-bit node hashes. Adding a half rounds it to
        # the nearest unit.
        return math.floor(self.share * 2**32 + Fraction(1, 2))

    @property
    def at_once(self) -> bool:
        """Whether all due rows are resampled at the start of a period. Otherwise they are spread over the period."""
        return self.strategy == "FCR" or self.visited

    def size(self, fanout: int) -> int:
        """Return the number of edges in a row for a fanout.

        >>> Refresh("FCR", 50, amplify=Fraction("1.5")).size(5)
        8
        """
        # Fractions are exact. A product of floats such as 1.1 * 50 = 55.00000000000001 would be rounded up to one edge
        # too many.
        return math.ceil(self.amplify * fanout)

    def row_size(self, fanout: Fanout, count: int) -> int:
        """Return the number of edges in the row of a hop with a finite count."""
        return self.size(max(fanout.counts) if self.shared else count)

    def kept(self, fanout: int) -> int:
        """Return the number of edges in a fanout that are drawn from the row.

        >>> Refresh("OTF", 50, fetch=Fraction("0.6")).kept(5)
        3
        """
        return fanout if self.fetch is None else math.floor(fanout * self.fetch + Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class RandomWalk:
    """The clauses of WALK: random walks from each seed, instead of sampled neighbourhoods."""

    length: int
    """The number of steps of each walk, at least 1."""
    steps: tuple[Relation, ...]
    """The metapath, which repeats: step i traverses steps[i % len(steps)]."""
    per_seed: int = 1
    """The number of walks from each seed."""
    back: Fraction = Fraction(1)
    """RETURN p: a step back to the previous vertex has weight 1/p (node2vec)."""
    inout: Fraction = Fraction(1)
    """INOUT q: a step to a vertex that is not adjacent to the previous one has weight 1/q (node2vec)."""
    restart: Fraction = Fraction(0)
    """RESTART r: the probability that a step that ends at the seeds' vertex type goes to the seed, 0 ≤ r < 1."""
    clock: Literal["any", "forward", "backward"] = "any"
    """TIME RESPECTING: whether event times along a walk must not decrease (forward) or not increase (backward)."""
    strict: bool = False
    """Whether event times must increase (forward) or decrease (backward)."""
    window: int | None = None
    """WINDOW w: pairs of vertices at most w steps apart in a walk are in the batch. None for no pairs."""
    negatives: int = 0
    """NEGATIVES n: the number of random vertices per pair."""

    @property
    def biases(self) -> tuple[int, int, int]:
        """The weights of steps back, to a neighbour of the previous vertex and to others, as integers in lowest terms.

        >>> RandomWalk(80, (), back=Fraction("0.25"), inout=Fraction(4)).biases
        (16, 4, 1)
        """
        weights = (1 / self.back, Fraction(1), 1 / self.inout)
        scale = math.lcm(*(weight.denominator for weight in weights))
        whole = [int(weight * scale) for weight in weights]
        common = math.gcd(*whole)
        back, near, far = (weight // common for weight in whole)
        return back, near, far

    @property
    def second_order(self) -> bool:
        """Whether a step depends on the previous vertex."""
        return self.back != 1 or self.inout != 1

    @property
    def vertex_types(self) -> tuple[str, ...]:
        """The vertex type of each of the length + 1 vertices of a walk."""
        reached = (self.steps[i % len(self.steps)].reaches for i in range(self.length))
        return (self.steps[0].expands, *reached)


@dataclass(frozen=True, slots=True)
class Visits:
    """FANOUT (BY WALKS …): a node's neighbours are the vertices that random walks from it visit most (PinSAGE)."""

    walk: RandomWalk
    """The walks from each node."""
    tops: tuple[int, ...]
    """The maximum number of neighbours per hop, starting at the seeds."""

    @property
    def relation(self) -> Relation:
        """The relation of the edges in a batch, from the visited vertices to the nodes whose walks visited them."""
        node = self.walk.steps[0].expands
        return Relation(EdgeType(node, "walks", node), "IN")


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """A SAMPLE or WALK statement with its names resolved."""

    snapshot: str
    seed_type: str
    """The vertex type of the seeds, or of the sources of seed edges."""
    seed_query: str
    fanouts: tuple[Fanout, ...]
    batch_size: int
    seed: int
    """The number in REPEATABLE, 0 ≤ seed < 2^64."""
    order: SeedOrder
    text: str
    """The statement text, which is recorded in every batch's lineage."""
    drawing: Drawing = Drawing()  # frozen, so the default can be shared safely
    temporal: Temporal | None = None
    link: Link | None = None
    subset: Fraction | None = None
    """The share of the seeds that is used per epoch, 0 < share ≤ 1, or None for all seeds."""
    layout: Literal["NODES", "BLOCKS"] = "NODES"
    """With NODES, a hop expands the nodes that the previous hop discovered. With BLOCKS, a hop expands all of the
    batch's nodes so far."""
    reuse_hops: bool = False
    """Whether a node's draws are the same at every hop."""
    allow_duplicates: bool = False
    """Whether a seed can occur more than once."""
    device: str | None = None
    """The device on which batches are built, e.g. 'cuda:0', or None for the CPU."""
    backend: Backend | None = None
    """The back end, or None for the default: torch on a GPU, otherwise numba."""
    memory: int | None = None
    """The maximum number of bytes that a stream uses, or None for as many as its threads need."""
    ids: IdType = "int64"
    """The dtype of node ids in a stream's batches. SAMPLE returns rows with the user's keys instead."""
    refresh: Refresh | None = None
    """The neighbour pool, or None (FBL) if every batch is resampled."""
    generation: int = 0
    """The generation of a named sampler's rows. REFRESH CACHE starts a new generation, which resamples all rows."""
    walk: RandomWalk | None = None
    """The clauses of WALK, or None for SAMPLE. `fanouts` then has each relation of the metapath once, with count 1."""
    visits: Visits | None = None
    """FANOUT (BY WALKS …), or None. `fanouts` then has each relation of the metapath once, with count 1 per hop."""

    @property
    def hops(self) -> int:
        return max((len(f.counts) for f in self.fanouts), default=0)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations whose rows are read."""
        return tuple(relation for fanout in self.fanouts for relation in fanout.relations)

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a separate tree that shares no nodes with other trees."""
        return self.temporal is not None

    @property
    def in_order(self) -> bool:
        """Whether a batch depends on the rows that earlier batches accessed."""
        return self.refresh is not None and self.refresh.visited


@dataclass(frozen=True, slots=True)
class ExecutionHints:
    """Hints for building batches. They never change the content of a batch."""

    threads: int | None = None
    """The number of threads, or None for one per core."""
    fused: bool = True
    """Whether the thread that samples a batch also reads its features, while the node ids are in the CPU cache.
    Otherwise, features are read when the batch is delivered."""
    idle: frozenset[Relation] = frozenset()
    """The relations that cannot be reached from the seeds. They are not opened."""
    meets: frozenset[str] | None = None
    """The vertex types that a batch can contain, or None for all. The birth times of other types are not read."""
    reads: frozenset[str] | None = None
    """The elements whose features and targets are opened, or None for all."""
    drawing: Drawing | None = None
    """A cheaper equivalent of the statement's sampling method, or None to use the statement's."""
    backend: Backend | None = None
    """The back end if the statement does not name one. None selects torch on a GPU, otherwise numba."""

    def applied(self, spec: SampleSpec) -> SampleSpec:
        """Return the spec with these hints applied."""
        return replace(spec, drawing=self.drawing or spec.drawing, backend=spec.backend or self.backend)

    def may_meet(self, vertex: str) -> bool:
        """Return whether a batch can contain vertices of a type."""
        return self.meets is None or vertex in self.meets

    def opens(self, element: str) -> bool:
        """Return whether the features of a vertex or edge type are opened."""
        return self.reads is None or element in self.reads


PLAIN_HINTS = ExecutionHints(threads=1, fused=False, backend="numba")
"""The hints before the optimizer applies any rule."""


# Named SAMPLE and WALK statements, their caches, and cache statistics.


@dataclass(frozen=True, slots=True)
class Sampler:
    """A named SAMPLE or WALK statement, with the properties that SHOW lists."""

    id: int
    name: str
    text: str
    """The complete statement, SAMPLE FROM … or WALK FROM …, as the user wrote it, except that USING is already
    resolved."""
    snapshot: str
    """The snapshot name. A later statement can replace the snapshot with this name."""
    seeds: str
    """The vertex type or edge type of the seeds."""
    edges: bool
    """Whether the seeds are edges."""
    batch: int
    hops: int
    """The number of hops, or the length of random walks."""
    method: SamplerMethod
    """The sampling method, or WALK for random walks."""
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    generation: int = 0
    """The generation of the sampler's neighbour pool. REFRESH CACHE starts the next generation, which resamples all
    rows."""

    @property
    def verb(self) -> Literal["SAMPLE", "WALK"]:
        """The first word of the statement."""
        return "WALK" if self.method == "WALK" else "SAMPLE"


@dataclass(frozen=True, slots=True)
class CachedFeatures:
    """The FEATURES clause of a cache, which then holds rows of features instead of edges."""

    spill: int | Literal["AUTO"] | None = None
    """The bytes of the disk for packs, AUTO for a quarter of the free bytes, or None for no packs."""
    always: bool = False
    """Whether the cache is also used if the features fit in memory."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The location and size of a cache for a named sampler's rows. Caches never change a batch."""

    id: int
    name: str
    sampler: str
    """The sampler name. A later statement can replace the sampler with this name."""
    place: Literal["MEMORY", "FILE"]
    room: int | None
    """The maximum number of bytes, or None for enough to cache all rows."""
    created: int
    """Microseconds since 1970 UTC."""
    author: str
    features: CachedFeatures | None = None
    """How it caches features, or None if it caches edges."""

    @property
    def what(self) -> Literal["EDGES", "FEATURES"]:
        """What its rows are."""
        return "EDGES" if self.features is None else "FEATURES"


@document_attributes
@dataclass(frozen=True, slots=True)
class CacheStats:
    """The contents of a stream's cache, and its effect since the stream was opened."""

    bytes: int = 0
    """The total size of its arrays in bytes."""
    rows: int = 0
    """The capacity in rows, including both sampled and complete rows."""
    filled: int = 0
    """The number of rows in the cache."""
    edges: int = 0
    """The number of edges in the cached rows."""
    hits: int = 0
    """The number of row lookups that were cache hits."""
    misses: int = 0
    """The number of row lookups that were cache misses."""
    bytes_read: int = 0
    """The bytes of neighbours read from the topology, both on cache misses and to fill the cache."""
    bytes_filled: int = 0
    """The part of `bytes_read` that was used to fill the cache."""
    bytes_saved: int = 0
    """The bytes of neighbours that batches read from the cache instead of the topology."""
    refills: int = 0
    """The number of passes that sampled rows, including the first one."""
    drawn: int = 0
    """The number of rows that these passes sampled."""
    seconds: float = 0.0
    """The total duration of these passes, in seconds."""
    age: float | None = None
    """The average age of the cached rows in batches, or None if the cache is empty."""
    batch: int | None = None
    """The global number of the batch that was started last."""
    error: str | None = None
    """The error that stopped the filling of the cache, or None."""

    @property
    def hit_rate(self) -> float | None:
        """The share of row lookups that were cache hits, or None if there were no lookups."""
        return _share(self.hits, self.misses)


@document_attributes
@dataclass(frozen=True, slots=True)
class FeatureCacheStats:
    """The contents of a stream's feature cache, and its effect since the first batch."""

    bytes: int = 0
    """The total size in bytes of the rows in memory, their bitmaps and the buffers."""
    rows: int = 0
    """The capacity in rows, over all features."""
    filled: int = 0
    """The number of rows in memory, counted feature by feature as each is complete."""
    hits: int = 0
    """The number of rows that batches read from memory."""
    misses: int = 0
    """The number of rows that batches read from files."""
    requests: int = 0
    """The number of requests to files, both by batches and to fill the cache."""
    bytes_read: int = 0
    """The bytes of these requests, which are whole pages."""
    bytes_useful: int = 0
    """The bytes of the rows that batches read from files."""
    bytes_saved: int = 0
    """The bytes of the rows that batches read from memory."""
    bytes_written: int = 0
    """The bytes written to packs."""
    segments: int = 0
    """The number of segments that were packed."""
    batches: int = 0
    """The number of batches in these segments."""
    packed: int = 0
    """The number of batches in complete packs that were not read yet."""
    direct: int = 0
    """The number of batches whose rows were read directly, because no pack had them."""
    waited: float = 0.0
    """The seconds for which threads waited for packs."""
    seconds: float = 0.0
    """The duration of choosing rows, filling the cache and packing, in seconds."""
    error: str | None = None
    """The error that stopped filling the cache, or None."""

    @property
    def hit_rate(self) -> float | None:
        """The share of rows that were in memory, or None if no rows were read."""
        return _share(self.hits, self.misses)


def _share(hits: int, misses: int) -> float | None:
    """Return the share of hits, or None if there were neither hits nor misses."""
    return hits / (hits + misses) if hits + misses else None
