"""Samplers: the statement, its clauses, the plan, and a drawn sample."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from snapdb.database import Database
from snapdb.pictures.details import details_html
from snapdb.pictures.svg import legend_svg
from snapdb.sql import parse_one
from snapdb.sql.samples import Sample
from snapdb.sql_engine import quote, text_literal
from snapdb_ui.pages.page import Ask, Column, Page, Panel, drawn, listing, table_of
from snapdb_ui.reader import dicts, rows

_SAMPLERS = (
    Column("name", "sampler", "samplers/{name}"),
    Column("snapshot", "snapshot", "snapshots/{snapshot}"),
    Column("seeds", "seeds"),
    Column("kind", "kind"),
    Column("hops", "hops"),
    Column("batch", "batch"),
    Column("method", "method"),
    Column("created", "created"),
    Column("author", "author"),
)
_LIST = listing("SHOW SAMPLERS", _SAMPLERS, "There are no samplers.")
_ANALYZED = 4
"""The number of batches that EXPLAIN ANALYZE builds."""
_SEEDS = 500


def _statement(db: Database, ask: Ask) -> Mapping[str, Any]:
    clauses = rows(db, f"DESCRIBE SAMPLER {quote(ask.name)}")
    found = dicts(db, f"SELECT * FROM snapdb.samplers WHERE name = {text_literal(ask.name)}")
    return {"sampler": found[0], "table": table_of(clauses, blank=True), "empty": "", "name": ask.name}


def _plan(db: Database, ask: Ask) -> Mapping[str, Any]:
    using = _using(db, ask)
    (row,) = dicts(db, f"EXPLAIN (FORMAT json) {using}")
    return {"plan": json.loads(row["plan"])["plan"], "statement": f"EXPLAIN {using}"}


def _using(db: Database, ask: Ask) -> str:
    """Return SAMPLE USING or WALK USING and the name of the sampler."""
    found = dicts(db, f"SELECT method FROM snapdb.samplers WHERE name = {text_literal(ask.name)}")
    verb = "WALK" if found and found[0]["method"] == "WALK" else "SAMPLE"
    return f"{verb} USING {quote(ask.name)}"


def _analyze(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = dicts(db, f"SELECT statement FROM snapdb.samplers WHERE name = {text_literal(ask.name)}")
    seeds = _few_seeds(found[0]["statement"]) if found else ""
    statement = f"EXPLAIN ANALYZE {_using(db, ask)} {seeds}".strip()
    return {"lines": [row["plan"] for row in dicts(db, statement)], "statement": statement}


def _few_seeds(statement: str) -> str:
    """Return the SEEDS clause of a SAMPLE or WALK statement with only the seeds of a few batches."""
    sample = parse_one(statement)
    assert isinstance(sample, Sample)
    seeds, batch = sample.clauses.seeds, sample.clauses.batch
    if seeds is None or batch is None:
        return ""
    query = f"SELECT * FROM (\n{seeds.query.text}\n) LIMIT {_ANALYZED * int(batch.value)}"
    name = quote(seeds.type.text)
    return f"SEEDS EDGES {name} ({query})" if seeds.edges else f"SEEDS ({query}) AS {name}"


def _sample(db: Database, ask: Ask) -> Mapping[str, Any]:
    batch, seeds = ask.number("batch", 0), ask.number("seeds", 2, 1, _SEEDS)
    name = ask.name if ask.name.isidentifier() else quote(ask.name)
    drawing = db.draw(name, batch=batch, seeds=seeds)
    return {
        "drawing": drawing,
        "svg": drawn(drawing.svg()),
        "legend": drawn(legend_svg(drawing)),
        "details": drawn(details_html(drawing)),
        "data": drawing.as_json(),
        "call": f"db.draw({name!r}, batch={batch}, seeds={seeds})",
        "name": ask.name,
        "batch": batch,
        "seeds": seeds,
    }


PAGES = (
    Page("/samplers", "samplers", "Samplers", (Panel("samplers", "Samplers", _LIST, "table.html"),)),
    Page(
        "/samplers/{name}",
        "samplers",
        "Sampler {name}",
        (
            Panel("statement", "Statement", _statement, "sampler.html"),
            Panel("plan", "Plan", _plan, "plan.html"),
            Panel("analyze", f"Measured over {_ANALYZED} batches", _analyze, "analyze.html", on_click="Run ANALYZE"),
        ),
    ),
    Page(
        "/samplers/{name}/sample",
        "samplers",
        "A sample of {name}",
        (Panel("sample", "Sample", _sample, "sample.html"),),
    ),
)
