"""What streams say and keep beside their batches: lineage, states, shares, orders of seeds, forms of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

import snapdb
from snapdb import Batch, Database
from tests.frozen import cases
from tests.frozen.prints import digest, normal, of_batches, page
from tests.support.refusals import RECORD
from tests.support.thoroughness import SOAK

SEEN = {
    "sampler": "train",
    "sampler of another": "valid",
    "seed edges": "pairs",
    "visited": "turns",
    "window": "SAMPLE FROM shop_some SEEDS (SELECT name, vip::INTEGER AS y, coalesce(income, 0) AS wage FROM customer) "
    "AS customer FANOUT (bought OUT => [2, 0], knows BOTH => [2, 2]) BATCH 10 REPEATABLE (4)",
    "weights of 0": "SAMPLE FROM web_full SEEDS (SELECT id FROM page) AS page FANOUT (links => [3]) "
    "WEIGHT BY w BATCH 40",
    "temporal": "SAMPLE FROM shop_full SEEDS (SELECT name, 400 AS seed_time FROM customer) AS customer "
    "FANOUT (rents OUT => [2, 0], bought OUT => [3, 0], bought IN => [0, 2]) METHOD LATEST "
    "TEMPORAL <= SEED_TIME WITHIN 300 BATCH 15",
    "refreshed": "SAMPLE FROM town_now SEEDS (SELECT id FROM house) AS house FANOUT (road BOTH => [3, 2]) BATCH 20 "
    "METHOD PRIORITY REFRESH OTF 40 PERCENT EVERY 3 BATCHES AMPLIFY 1.5 FETCH 60 PERCENT DEGREE ABOVE 4",
    "classes": "SAMPLE FROM segments_full SEEDS (SELECT name FROM person) AS person FANOUT (knows => [2]) BATCH 30",
    "subset": "SAMPLE FROM town_past SEEDS (SELECT id FROM house) AS house FANOUT (road => [2]) "
    "SUBSET 40 PERCENT PER EPOCH LAYOUT BLOCKS REUSE HOPS FIXED BATCH 8",
}
"""Streams whose lineage and state are recorded whole."""
ORDERED = "SAMPLE FROM web_past SEEDS ({seeds}) AS page FANOUT (links => [3, 2]) {clauses} BATCH 16"
ORDERS = {
    "shuffle": ("SELECT id FROM page WHERE topic < 3", ""),
    "fixed": ("SELECT id FROM page WHERE topic < 3", "FIXED"),
    "in order": ("SELECT id FROM page WHERE topic < 3 ORDER BY id DESC", "IN ORDER"),
    "subset": ("SELECT id FROM page WHERE topic < 3", "SUBSET 30 PERCENT PER EPOCH"),
    "subset in order": ("SELECT id FROM page WHERE topic < 3 ORDER BY id", "SUBSET 30 PERCENT PER EPOCH IN ORDER"),
    "fcr": ("SELECT id FROM page WHERE topic < 3", "REFRESH FCR EVERY 3 BATCHES"),
    "visited": ("SELECT id FROM page WHERE topic < 3", "REFRESH OTF 50 PERCENT EVERY 3 BATCHES SCOPE VISITED"),
}


def lineages(db: Database, folder: Path) -> str:
    """The lineage and the state of each stream, after two batches of its second epoch."""
    lines = []
    for name, query in SEEN.items():
        with db.stream(query, threads=0) as stream:
            list(stream)
            batches = list(islice(stream, 2))
            lines += [f"## {name}", repr(stream), page(dict(batches[-1].lineage)), page(stream.state_dict())]
            lines += [f"lineage of the stream is that of the batch: {stream.lineage == batches[-1].lineage}", ""]
    return normal("\n".join(lines), folder)


def orders(db: Database) -> str:
    """Batches of three epochs, of ranks, of other seeds, after a state was loaded, and by threads."""
    lines = []
    for name, (seeds, clauses) in ORDERS.items():
        query = ORDERED.format(seeds=seeds, clauses=clauses)
        lines += [f"{name}, {how}: {batches}" for how, batches in _ways(db, query)]
    for name, given in _seeds().items():
        query = ORDERED.format(seeds="SELECT id FROM page ORDER BY id", clauses="IN ORDER")
        with db.stream(query, threads=0, seeds=given) as stream:
            lines.append(f"seeds as {name}: {of_batches(stream, ids=True)}")
    query = (
        "SAMPLE FROM web_past SEEDS (SELECT id FROM page WHERE topic = $topic) AS page FANOUT (links => [2]) BATCH 9"
    )
    with db.stream(query, threads=0, params={"topic": 2}) as stream:
        lines.append(f"parameters: {of_batches(stream)} {stream.lineage['parameters']}")
    with db.stream("train", threads=0, transform=lambda batch: int(batch.input_id.sum())) as sums:
        lines.append(f"transform: {list(sums)}")
    return "\n".join(lines) + "\n"


def _ways(db: Database, query: str) -> Iterator[tuple[str, str]]:
    with db.stream(query, threads=0) as stream:
        for epoch in range(3):
            yield f"epoch {epoch}", of_batches(stream)
        stream.set_epoch(1)
        list(islice(stream, 2))
        state = json.loads(json.dumps(stream.state_dict()))
    with db.stream(query, threads=2) as stream:
        stream.load_state_dict(state)
        yield "rest of epoch 1", of_batches(stream)
        yield "epoch 2 by threads", of_batches(stream)
        stream.set_epoch(4)
        yield "epoch 4", of_batches(stream)
    for rank in range(2):
        for word in ("", "drop_last", "pad"):
            options: dict[str, Any] = {word: True} if word else {}
            with db.stream(query, threads=0, rank=rank, world_size=2, **options) as stream:
                yield f"rank {rank} of 2 {word}".strip(), of_batches(stream)


def _seeds() -> dict[str, Any]:
    """The same seeds in each form that `seeds=` takes."""
    ids = [30, 5, 17, 99, 2]
    return {
        "SELECT": "SELECT id FROM page WHERE id IN (30, 5, 17, 99, 2) ORDER BY id DESC",
        "list": ids,
        "array": np.array(ids),
        "tensor": torch.tensor(ids),
        "Arrow": pa.array(ids),
        "columns": {"id": ids, "y": [1, 2, 3, 4, 5], "weight": [0.5, 1.0, 1.5, 2.0, 2.5]},
    }


def forms(db: Database, folder: Path) -> str:
    """What a batch becomes: words, PyG's data, blocks, tables, its audit, and as one of one type."""
    lines = []
    for name, query in SEEN.items():
        with db.stream(query, threads=0) as stream:
            batch = next(iter(stream))
        lines += [f"## {name}", repr(batch), of_batches([batch], ids=True), page(batch.audit())]
        lines += [f"lineage: {', '.join(batch.lineage)}", f"page: {digest(_page(batch, folder))}"]
        lines += [f"{kind} {key}: {_tensors(value)}" for kind, key, value in _parts(batch)]
        lines.append("")
    return normal("\n".join(lines), folder)


def _page(batch: Batch, folder: Path) -> str:
    """What notebooks show."""
    return normal(batch._repr_html_(), folder).replace(batch.lineage["tables_digest"], "<sha256>")


def _parts(batch: Batch) -> Iterator[tuple[str, str, Any]]:
    """Every tensor and table of a batch, by the form and the name that it has there."""
    for key, table in batch.to_arrow().items():
        yield "arrow", str(key), table
    for number, block in enumerate(batch.to_blocks()):
        for name in sorted(
            name for name in dir(block) if not name.startswith("_") and not callable(getattr(block, name))
        ):
            yield "block", f"{number} {name}", getattr(block, name)
    for store in batch.to_pyg().stores if batch.layout == "NODES" else ():
        for name, value in store.items():
            yield "pyg", f"{store._key} {name}", value


def _tensors(value: Any) -> str:
    match value:
        case pa.Table():
            return f"{', '.join(f'{f.name} {f.type}' for f in value.schema)}: {digest(value)}"
        case torch.Tensor():
            return f"{value.dtype} {tuple(value.shape)} {digest(value)}"
        case _:
            return digest(value) if len(repr(value)) > 200 else repr(value)


def replayed(db: Database) -> str:
    """Batches made again by their lineage, in SQL rows and as tensors, with those that a cache helped to make."""
    lines = []
    for name, query in SEEN.items():
        with db.stream(query, threads=0) as stream:
            stream.set_epoch(1)
            third = list(islice(stream, 3))[-1]
        lineage = json.loads(json.dumps(third.lineage))
        if name != "visited":
            then, again = of_batches([third], ids=True), [snapdb.replay(lineage, third.index[1], db)]
            lines.append(f"{name}: {then}; made again: {of_batches(again, ids=True) == then}")
    return "\n".join(lines) + "\n"


EVERY = 1 if SOAK or RECORD else 5
"""The step between the sampled cases of large groups: `make soak` and recording sample all of them, other runs a fifth,
which includes every method."""
LARGE = 100
"""The number of cases above which a group is large."""


def groups(db: Database, name: str) -> str:
    """A group's batches, a line for each case."""
    group = cases.GROUPS[name]
    variants = [f"{form}: {snapshot} {clause}".strip() for form, (snapshot, clause) in group.variants.items()]
    lines = [
        f"# {', '.join(variants)}",
        *(
            f"{case}: {sampled(db, name, case)}"
            for case in list(group.statements)[:: EVERY if len(group.statements) > LARGE else 1]
        ),
    ]
    return "\n".join(lines) + "\n"


def sampled(db: Database, name: str, case: str) -> str:
    """A case's batches: one digest where all encodings give the same, as they should."""
    group = cases.GROUPS[name]
    found = {}
    for form, (snapshot, clause) in group.variants.items():
        query = f"{group.statements[case]} {clause}".replace("{snapshot}", snapshot)
        with db.stream(query, threads=0) as stream:
            found[form] = of_batches(stream)
    return str(found) if len(set(found.values())) > 1 else next(iter(found.values()))
