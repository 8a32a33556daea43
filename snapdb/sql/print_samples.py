"""Statements that sample, as text: each clause that was said, in the order in which the grammar lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar

from snapdb.sql.ast import (
    Clauses,
    CreateSampler,
    FanoutClause,
    KnownClause,
    MethodClause,
    NegativesClause,
    RefreshClause,
    Said,
    Sample,
    SampleUsing,
    SeedsClause,
    WeightColumn,
)
from snapdb.sql.print_parts import creation, name, number, size, statement, string
from snapdb.types import FULL

T = TypeVar("T")


def print_sample(tree: Sample) -> str:
    """SAMPLE FROM."""
    return statement(f"SAMPLE FROM {name(tree.snapshot)}", *_clauses(tree.clauses))


def print_sample_using(tree: SampleUsing) -> str:
    """SAMPLE USING."""
    return statement(f"SAMPLE USING {name(tree.sampler)}", *_clauses(tree.clauses))


def print_create_sampler(tree: CreateSampler) -> str:
    """CREATE SAMPLER."""
    head = creation("SAMPLER", tree.name, or_replace=tree.or_replace, if_not_exists=tree.if_not_exists)
    sample = print_sample(tree.sample) if isinstance(tree.sample, Sample) else print_sample_using(tree.sample)
    return statement(f"{head} AS", sample)


def _clauses(said: Clauses) -> Iterator[object]:
    """Each clause that was said as text, in the grammar's order; what was not is no text."""
    yield said.seeds and _seeds(said.seeds)
    yield said.fanouts and f"FANOUT ({', '.join(map(_fanout, said.fanouts.value))})"
    yield said.method and _method(said.method)
    yield said.weights and f"WEIGHT BY {', '.join(map(_weight, said.weights.value))}"
    yield _choice(said.replace, {True: "WITH REPLACEMENT", False: "WITHOUT REPLACEMENT"})
    yield _choice(said.temporal, {True: "TEMPORAL <= SEED_TIME", False: "TEMPORAL < SEED_TIME"})
    yield said.within and f"WITHIN {said.within.value.text}"
    yield said.negatives and _negatives(said.negatives)
    yield said.known and _known(said.known)
    yield _choice(said.exclude, _EXCLUDED)
    yield said.subset and f"SUBSET {number(said.subset.value)} PERCENT PER EPOCH"
    yield said.allow_duplicates and "ALLOW DUPLICATES"
    yield said.layout and f"LAYOUT {said.layout.value}"
    yield said.reuse_hops and "REUSE HOPS"
    yield said.order and said.order.value
    yield said.batch and f"BATCH {said.batch.value}"
    yield said.repeatable and f"REPEATABLE ({said.repeatable.value})"
    yield said.epochs and f"EPOCHS {said.epochs.value}"
    yield said.refresh and print_refresh_clause(said.refresh)
    yield said.device and f"ON {string(said.device.value)}"
    yield said.backend and f"WITH {said.backend.value.upper()}"
    yield said.memory and f"WITH (memory = {string(size(said.memory.value))})"


_KNOWN: dict[Literal["EVER", "BEFORE", "AT"], str] = {
    "EVER": "EXCLUDE KNOWN EVER",
    "BEFORE": "EXCLUDE KNOWN BEFORE SEED_TIME",
    "AT": "EXCLUDE KNOWN AT SEED_TIME",
}
_EXCLUDED: dict[Literal["NONE", "PAIR", "BOTH"], str] = {
    "NONE": "KEEP SEEDS",
    "PAIR": "EXCLUDE SEEDS",
    "BOTH": "EXCLUDE SEEDS BOTH DIRECTIONS",
}


def _choice(said: Said[T] | None, words: Mapping[T, str]) -> str | None:
    return None if said is None else words[said.value]


def _seeds(seeds: SeedsClause) -> str:
    if seeds.edges:
        return f"SEEDS EDGES {name(seeds.type)} ({seeds.query.text})"
    return f"SEEDS ({seeds.query.text}) AS {name(seeds.type)}"


def _fanout(item: FanoutClause) -> str:
    """An item of FANOUT; IN is not said."""
    edge = "DEFAULT" if item.edge is None else name(item.edge)
    direction = "" if item.direction == "IN" else f" {item.direction}"
    counts = ", ".join("FULL" if count == FULL else str(count) for count in item.counts)
    return f"{edge}{direction} => [{counts}]"


def _method(method: MethodClause) -> str:
    dependent = "" if method.dependent == 1 else f" DEPENDENT BATCHES {method.dependent}"
    return f"METHOD {method.method}{dependent}"


def _weight(weight: WeightColumn) -> str:
    return name(weight.column) if weight.edge is None else f"{name(weight.edge)}.{name(weight.column)}"


def _negatives(negatives: NegativesClause) -> str:
    by = negatives.weight
    weighted = "" if by is None else f" WEIGHTED BY {by if isinstance(by, str) else name(by)}"
    return f"NEGATIVES {negatives.count} PER POSITIVE{weighted}"


def _known(known: KnownClause) -> str:
    types = f" IN ({', '.join(map(name, known.types))})" if known.types else ""
    return f"{_KNOWN[known.value]}{types}"


def print_refresh_clause(refresh: RefreshClause) -> str:
    """REFRESH."""
    words = [f"REFRESH {refresh.strategy}"]
    if refresh.percent is not None:
        words.append(f"{number(refresh.percent)} PERCENT")
    if refresh.every is not None:
        words.append("EVERY AUTO" if refresh.every == "AUTO" else f"EVERY {refresh.every} BATCHES")
    if refresh.amplify is not None:
        words.append(f"AMPLIFY {number(refresh.amplify)}")
    if refresh.fetch is not None:
        words.append(f"FETCH {number(refresh.fetch)} PERCENT")
    if refresh.scope is not None:
        words.append(f"SCOPE {refresh.scope}")
    if refresh.shared:
        words.append("SHARED")
    if refresh.above is not None:
        words.append(f"DEGREE ABOVE {refresh.above}")
    return " ".join(words)
