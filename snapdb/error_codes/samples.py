"""Codes of BindError about SAMPLE."""

from __future__ import annotations

from snapdb.error_codes.code import SAMPLE, Code

_KIND = "BindError"
_PYTHON = "It is about a call from Python."
_LINKS = "SAMPLE FROM s SEEDS EDGES knows (SELECT e_id FROM s.knows) FANOUT (knows => [2])"


def _seeds(query: str) -> str:
    return SAMPLE.replace("SELECT id FROM person", query)


SAMPLES = (
    Code(
        "out-of-range",
        _KIND,
        "A number is outside what its clause takes.",
        "Take one within the bounds that the message names.",
        f"{SAMPLE} BATCH 0",
    ),
    Code(
        "fanout-lengths",
        _KIND,
        "Fanouts of several edge types have different numbers of hops.",
        "Give each as many; 0 draws nothing.",
        SAMPLE.replace("[2]", "[2], likes => [2, 2]"),
    ),
    Code(
        "duplicate-fanout",
        _KIND,
        "An edge type is given a fanout twice in one direction, or two fill one key of a batch.",
        "Keep one of them.",
        SAMPLE.replace("[2]", "[2], knows => [3]"),
    ),
    Code(
        "clauses-clash",
        _KIND,
        "Two clauses exclude each other.",
        "Leave out the one that the message names.",
        f"{SAMPLE} METHOD LABOR WITH REPLACEMENT",
    ),
    Code(
        "needs-weight",
        _KIND,
        "A method goes by weights, and an edge type has none.",
        "Say WEIGHT BY, or give it a WEIGHT in the graph.",
        SAMPLE.replace("knows", "likes") + " METHOD TOPK",
    ),
    Code(
        "weight-not-walked",
        _KIND,
        "WEIGHT BY names an edge type that FANOUT has not.",
        "Leave it out, or walk it.",
        f"{SAMPLE} WEIGHT BY likes.stars",
    ),
    Code(
        "needs-seed-edges",
        _KIND,
        "A clause goes with seeds that are edges, and these are vertices.",
        "Write SEEDS EDGES type (SELECT e_id …), or leave the clause out.",
        f"{SAMPLE} NEGATIVES 1 PER POSITIVE",
    ),
    Code(
        "other-ends",
        _KIND,
        "EXCLUDE KNOWN … IN names an edge type between other vertex types than the seeds'.",
        "Name edge types with the ends of the seeds' type, or leave it out.",
        unshown="It takes two edge types between different vertex types.",
    ),
    Code(
        "needs-negatives",
        _KIND,
        "A clause chooses among negatives, and there are none.",
        "Add NEGATIVES n PER POSITIVE, or leave it out.",
        f"{_LINKS} EXCLUDE KNOWN",
    ),
    Code(
        "needs-temporal",
        _KIND,
        "WITHIN counts back from each seed's time, which TEMPORAL would look at.",
        "Add TEMPORAL < SEED_TIME.",
        f"{SAMPLE} WITHIN 10",
    ),
    Code(
        "needs-seed-time",
        _KIND,
        "A clause needs the time of each seed.",
        "Give it in SEEDS as a column seed_time.",
        f"{SAMPLE} TEMPORAL < SEED_TIME",
    ),
    Code(
        "no-order",
        _KIND,
        "IN ORDER takes the order of SEEDS, which has none by columns that it gives.",
        "Add ORDER BY over columns of the query.",
        f"{SAMPLE} IN ORDER",
    ),
    Code(
        "seed-columns",
        _KIND,
        "SEEDS lacks the key as its first columns, or gives a column whose name batches use for something else.",
        "Select the key first; give the column another name.",
        _seeds("SELECT id, age AS x FROM person"),
    ),
    Code(
        "seed-type",
        _KIND,
        "A column of SEEDS is of a type that does not fit.",
        "Cast it.",
        _seeds("SELECT name AS id FROM person"),
    ),
    Code(
        "not-a-sample",
        _KIND,
        "`stream` was given something else than one SAMPLE statement.",
        "Give it one.",
        unshown=_PYTHON,
    ),
    Code(
        "epochs-in-stream",
        _KIND,
        "A stream's statement has EPOCHS, though a stream is iterated once for each.",
        "Leave EPOCHS out.",
        unshown=_PYTHON,
    ),
    Code(
        "not-a-query",
        _KIND,
        "`seeds=` is given a text that is not one SELECT.",
        "Give one SELECT, or ids.",
        unshown=_PYTHON,
    ),
    Code(
        "several-types",
        _KIND,
        "`only` of a batch means its only type, and it has several.",
        "Name the type.",
        unshown=_PYTHON,
    ),
)
