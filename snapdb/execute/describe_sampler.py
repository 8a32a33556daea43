"""DESCRIBE SAMPLER: every clause of SAMPLE, and what holds for it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from snapdb.catalog.listing import listing
from snapdb.plan.samples.bind import BATCH, EPOCHS, LAYOUT, ORDER, REPEATABLE, statement_of
from snapdb.sql.lexer import scan
from snapdb.types import Sampler

_FIELDS = (("clause", pa.string()), ("value", pa.string()), ("said", pa.bool_()))

_CLAUSES: dict[str, tuple[str, str | None]] = {
    "seeds": ("SEEDS", None),
    "fanouts": ("FANOUT", None),
    "method": ("METHOD", "UNIFORM"),
    "weights": ("WEIGHT BY", None),
    "replace": ("REPLACEMENT", "WITHOUT REPLACEMENT"),
    "temporal": ("TEMPORAL", None),
    "within": ("WITHIN", None),
    "negatives": ("NEGATIVES", None),
    "known": ("EXCLUDE KNOWN", None),
    "exclude": ("EXCLUDE SEEDS", None),
    "subset": ("SUBSET", "100 PERCENT PER EPOCH"),
    "allow_duplicates": ("ALLOW DUPLICATES", "false"),
    "layout": ("LAYOUT", LAYOUT),
    "reuse_hops": ("REUSE HOPS", "false"),
    "order": ("ORDER", ORDER),
    "batch": ("BATCH", str(BATCH)),
    "repeatable": ("REPEATABLE", f"({REPEATABLE})"),
    "epochs": ("EPOCHS", str(EPOCHS)),
    "refresh": ("REFRESH", "FBL"),
    "device": ("ON", "'cpu'"),
    "backend": ("WITH", "numba on a CPU, torch on a GPU"),
    "memory": ("WITH (memory)", None),
}
"""Field of `Clauses` → what it is called, and what holds where it is not said; None: nothing."""


def describe_sampler(sampler: Sampler) -> pa.RecordBatch:
    """A row a clause: its name, what it says or what holds without it, and whether the sampler says it."""
    return listing(_FIELDS, list(_rows(sampler)))


def _rows(sampler: Sampler) -> Iterator[tuple[str, str | None, bool]]:
    clauses = statement_of(sampler).clauses
    yield "FROM", sampler.snapshot, True
    for field, (clause, default) in _CLAUSES.items():
        said = getattr(clauses, field)
        if said is not None:
            yield clause, _value(field, clause, sampler.text[said.span.start : said.span.stop]), True
        else:
            yield clause, "EXCLUDE SEEDS" if field == "exclude" and sampler.edges else default, False


def _value(field: str, clause: str, text: str) -> str:
    """What a clause says after the words that it is called by; all of it where it begins with others.

    >>> _value("batch", "BATCH", "BATCH 512"), _value("replace", "REPLACEMENT", "WITH REPLACEMENT")
    ('512', 'WITH REPLACEMENT')
    """
    words, tokens = clause.split(), scan(text)
    if field == "exclude" or [token.word for token in tokens[: len(words)]] != words:
        return text
    if len(tokens) > len(words):
        return text[tokens[len(words)].span.start :]
    return "EVER" if clause == "EXCLUDE KNOWN" else "true"
