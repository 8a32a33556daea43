"""The detail line of each operator in a sample plan, such as its back end, method or encoding, with the reason."""

from collections.abc import Sequence

from snapdb.execute.session import ExecutionContext
from snapdb.graph import GraphView
from snapdb.graph.adjacency import outgoing_artifact, serves_outgoing
from snapdb.graph.features import HistoryFeature, SparseReader, stored_type
from snapdb.graph.layout import EdgeLayout
from snapdb.graph.view import Feature
from snapdb.kernels.rng import EVERY_HOP
from snapdb.plan.caches import spill_words
from snapdb.plan.samples.plans import step_words, visit_words
from snapdb.sampling.rounds import RowTable
from snapdb.storage.artifacts import find_artifact
from snapdb.types import FULL, Cache, Drawing, ExecutionHints, Refresh, Relation, SampleSpec, TimeUnit, Visits

_SCAN = "reads every eligible edge"
_METHODS = {
    "UNIFORM": "uniform without replacement (Floyd), cost per drawn edge",
    "LATEST": f"the latest edges, the end of each row; BOTH {_SCAN}",
    "TOPK": f"the largest weights: {_SCAN}",
    "FULL": "every eligible edge",
    "PRIORITY": f"priority sampling with Horvitz-Thompson weights: {_SCAN}",
    "BOTTOMK": f"the smallest hashes of edges: {_SCAN}",
    "LABOR": f"the smallest hashes of neighbours, shared by all rows: {_SCAN}",
}

_UNITS = (
    (86_400_000_000, "day"),
    (3_600_000_000, "hour"),
    (60_000_000, "minute"),
    (1_000_000, "second"),
    (1_000, "millisecond"),
    (1, "microsecond"),
)


def method(drawing: Drawing) -> str:
    """Return the sampling method and its cost.

    >>> method(Drawing("FULL"))
    'METHOD FULL: every eligible edge'
    """
    by = ", ".join(f"{edge}.{column}" for edge, column in drawing.weights)
    weight = f" WEIGHT BY {by or 'the weight of the graph'}" if drawing.weighted else ""
    how = _METHODS[drawing.method]
    if drawing.method == "UNIFORM" and drawing.replace:
        how = "prefix sums of a row's weights" if drawing.weighted else "cost per drawn edge"
    elif drawing.method == "UNIFORM" and drawing.weighted:
        how = f"exponential race: {_SCAN}"
    again = " WITH REPLACEMENT" if drawing.replace else ""
    shared = f" DEPENDENT BATCHES {drawing.dependent}" if drawing.dependent > 1 else ""
    return f"METHOD {drawing.method}{shared}{weight}{again}: {how}"


def refresh(policy: Refresh, *, auto: bool) -> str:
    """Return the resolved REFRESH clause. `auto` means that AUTO chose the period.

    >>> from fractions import Fraction
    >>> refresh(Refresh("OTF", 50, Fraction("0.15"), fetch=Fraction("0.6"), above=30), auto=True)
    'OTF 15 PERCENT EVERY 50 BATCHES, by AUTO, AMPLIFY 2, FETCH 60 PERCENT, DEGREE ABOVE 30'
    """
    share = f" {float(100 * policy.share):g} PERCENT" if policy.strategy == "OTF" else ""
    words = [f"{policy.strategy}{share} EVERY {policy.every:,} BATCHES", *(["by AUTO"] if auto else [])]
    words.append(f"AMPLIFY {float(policy.amplify):g}")
    if policy.fetch is not None:
        words.append(f"FETCH {float(100 * policy.fetch):g} PERCENT")
    words += ["SCOPE VISITED"] * policy.visited + ["SHARED"] * policy.shared
    if policy.above:
        words.append(f"DEGREE ABOVE {policy.above:,}")
    return ", ".join(words)


def eligible(spec: SampleSpec, unit: TimeUnit | None) -> str:
    """Describe which edges can be sampled and which nodes a hop expands. `unit` is the unit of event times."""
    words = ["each hop expands all nodes so far" if spec.layout == "BLOCKS" else "each hop expands the new nodes"]
    if spec.temporal is not None:
        sign = "<=" if spec.temporal.inclusive else "<"
        words.append(f"one tree per seed, edges with time {sign} its time")
        if spec.temporal.within is not None:
            words.append(f"no older than {_length(spec.temporal.within, unit)}")
    if spec.link is not None and spec.link.exclude != "NONE":
        words.append("without the seed edges" + (" and their reverse edges" if spec.link.exclude == "BOTH" else ""))
    if spec.reuse_hops:
        words.append("the same samples at every hop")
    return ", ".join(words)


def walk_weights(drawing: Drawing) -> str:
    """Describe the weights of a walk's steps, or return '' if the steps are uniform."""
    if not drawing.weighted:
        return ""
    by = ", ".join(f"{edge}.{column}" for edge, column in drawing.weights)
    return f"WEIGHT BY {by or 'the weight of the graph'}"


def visits(by_walks: Visits, drawing: Drawing) -> str:
    """Describe the walks whose most visited vertices are the neighbours."""
    words = [visit_words(by_walks), *step_words(by_walks.walk), walk_weights(drawing)]
    return ", ".join(word for word in words if word)


def bounds(spec: SampleSpec, unit: TimeUnit | None) -> str:
    """Describe the time bounds of a seed's walks, or return '' if there are none. `unit` is the unit of event times."""
    if spec.temporal is None:
        return ""
    words = f"edges with time {'<=' if spec.temporal.inclusive else '<'} that of the seed"
    return words + (
        f", no older than {_length(spec.temporal.within, unit)}" if spec.temporal.within is not None else ""
    )


def _length(within: int, unit: TimeUnit | None) -> str:
    """
    >>> _length(7 * 86_400_000_000, "timestamp"), _length(5_400_000_000, "timestamp"), _length(3600, "integer")
    ('7 days', '90 minutes', '3,600')
    """
    if unit != "timestamp":
        return f"{within:,}"
    size, name = next((size, name) for size, name in _UNITS if within % size == 0)
    return f"{within // size:,} {name}{'' if within == size else 's'}"


def row_form(
    context: ExecutionContext, layout: EdgeLayout, relation: Relation, backend: str, hints: ExecutionHints
) -> str:
    """Return the encoding of a relation's rows and the reason for it."""
    if relation in hints.idle:
        return "not reachable from the seeds, not opened"
    if backend == "torch":
        return "rows flattened for torch"
    form = f"encoding {layout.form}" + (f" ({layout.reason})" if layout.reason else "")
    if relation.direction == "IN":
        return form + (", with a patch" if layout.patch else "")
    if relation.direction == "BOTH":
        return f"rows of both directions merged in memory, IN has {form}"
    if (
        serves_outgoing(layout)
        and find_artifact(context.store.catalog_db, outgoing_artifact(layout).digest) is not None
    ):
        return "reverse adjacency, sorted by source, read from disk"
    return f"reverse adjacency sorted by source in memory, by destination it has {form}"


def count_words(count: int) -> str:
    """Return a fanout as it is written in SQL."""
    return "FULL" if count == FULL else str(count)


def feature_words(view: GraphView, kind: str, name: str, feature: Feature) -> str:
    """Describe a feature and how its rows are read."""
    how = "rows"
    if isinstance(feature, HistoryFeature):
        how = "the last value before the seed's time or the window's end"
    elif isinstance(feature, SparseReader):
        how = "sparse rows"
    width = feature.shape[1] if len(feature.shape) > 1 else 1
    stored = "" if (encoding := stored_type(feature)) is None else f" stored as {encoding}"
    return f"{kind}.{name}: {how} of {width} {feature.dtype.name}{stored}, of {view.node_counts[kind]:,} vertices"


def gathered(hints: ExecutionHints) -> str:
    """Describe when features are read."""
    return "together with sampling" if hints.fused else "after sampling, by batch"


def back_end(spec: SampleSpec, hints: ExecutionHints) -> tuple[str, str]:
    """Return 'numba' or 'torch', and the reason for the choice."""
    on_gpu = (spec.device or "").startswith("cuda")
    if spec.backend is not None:
        return spec.backend, "set by WITH"
    if on_gpu and hints.backend is None:
        return "torch", "as batches are built on the GPU"
    return "numba", "the default" if on_gpu else "the faster back end on the CPU"


def negatives(spec: SampleSpec) -> str:
    """Return the distribution of negative samples."""
    link = spec.link
    if link is None or link.negatives is None:
        return "none"
    clause = link.negatives
    how = f"weighted by {clause.weight}" if clause.weight else "uniform"
    known = f", without known destinations {clause.known}" if clause.known else ""
    known += f" by {' and '.join(edge.edge for edge in clause.among)}" if clause.among else ""
    return f"{clause.count} per positive among {link.edge.destination}, {how}{known}"


def seed_order(spec: SampleSpec) -> str:
    """Return the order of an epoch's seeds and the share of the seeds that the epoch uses."""
    what = spec.seed_type if spec.link is None else f"{spec.link.edge.edge} edges"
    share = "" if spec.subset is None else f", {float(100 * spec.subset):g} percent of them per epoch"
    return f"{what}, {spec.order}{share}"


def rows(tables: Sequence[RowTable]) -> str:
    """Describe a pool's rows: their size, and the relations and hops that share them."""
    if not tables:
        return "no hop uses pool rows"
    lines = [
        f"{table.size:,} edges of {table.traversal.relation.edge.edge} {table.traversal.relation.direction} at "
        + ("all hops" if table.slot == EVERY_HOP else f"hop {table.slot}")
        for table in tables
    ]
    return f"rows of {', of '.join(lines)}"


def cache(kept: Cache, *, serves: bool) -> str:
    """Describe where a cache stores its rows and whether batches read them."""
    room = "room for all rows" if kept.room is None else f"room for {kept.room:,} bytes"
    return f"{kept.name} IN {kept.place}, {room}{'' if serves else '; not used by batches'}"


def feature_cache(kept: Cache, *, serves: bool, fits: bool) -> str:
    """Describe the memory and disk space that a feature cache may use, and whether batches read it."""
    assert kept.features is not None
    room = "1/8 of the available memory" if kept.room is None else f"room for {kept.room:,} bytes"
    spill = spill_words(kept.features)
    packs = "" if spill is None else f", SPILL {spill}"
    why = "; not used because the features fit in memory" if fits else "; not used by batches"
    return f"{kept.name} FEATURES IN MEMORY, {room}{packs}{'' if serves else why}"
