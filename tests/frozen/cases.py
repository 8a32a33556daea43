"""Every statement of which batches are recorded: methods x directions x layouts x policies, over every encoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

DIRECTIONS = ("IN", "OUT", "BOTH")
LAYOUTS = ("NODES", "BLOCKS")
METHODS = {
    "uniform": "METHOD UNIFORM",
    "replacement": "WITH REPLACEMENT",
    "weighted": "WEIGHT BY w",
    "weighted replacement": "WEIGHT BY w WITH REPLACEMENT",
    "priority": "METHOD PRIORITY",
    "priority weighted": "METHOD PRIORITY WEIGHT BY w",
    "topk": "METHOD TOPK",
    "latest": "METHOD LATEST",
    "full": "METHOD FULL",
    "bottomk": "METHOD BOTTOMK",
    "labor": "METHOD LABOR",
    "labor dependent": "METHOD LABOR DEPENDENT BATCHES 2",
}
POLICIES = {
    "fcr": "REFRESH FCR EVERY 2 BATCHES",
    "fcr auto": "REFRESH FCR EVERY AUTO AMPLIFY 1.5 SHARED",
    "otf": "REFRESH OTF 50 PERCENT EVERY 2 BATCHES",
    "otf fetch": "REFRESH OTF 40 PERCENT EVERY 3 BATCHES FETCH 60 PERCENT SHARED DEGREE ABOVE 6",
    "otf visited": "REFRESH OTF 100 PERCENT EVERY 2 BATCHES SCOPE VISITED",
    "otf visited fetch": "REFRESH OTF 30 PERCENT EVERY AUTO FETCH 50 PERCENT SCOPE VISITED AMPLIFY 3",
}
REFRESHED = ("uniform", "priority")
"""Methods that go with REFRESH."""


class Group(NamedTuple):
    """Snapshots that hold the same and must give the same batches, and what is sampled of each."""

    variants: Mapping[str, tuple[str, str]]
    """Encoding → its snapshot, and clauses that change no batch."""
    statements: Mapping[str, str]
    """Case → a statement with {snapshot} in it."""


def drawings() -> Iterator[tuple[str, str]]:
    """Each legal combination of a method and a policy: its name and its clauses."""
    for name, method in METHODS.items():
        yield name, f"{method} REFRESH FBL"
        if name in REFRESHED:
            yield from ((f"{name}, {policy}", f"{method} {clause}") for policy, clause in POLICIES.items())


def plain(vertex: str, edge: str, seeds: str, counts: str, clauses: str) -> dict[str, str]:
    """Every drawing x direction x layout over one edge type."""
    return {
        f"{name}, {direction}, {layout}": f"SAMPLE FROM {{snapshot}} SEEDS ({seeds}) AS {vertex} "
        f"FANOUT ({edge} {direction} => {counts}) {drawing} LAYOUT {layout} {clauses}"
        for (name, drawing), direction, layout in product(drawings(), DIRECTIONS, LAYOUTS)
    }


def timed(vertex: str, edge: str, seeds: str, counts: str, within: str) -> dict[str, str]:
    """Every drawing x direction before the seed's time; without policies up to it, and within a length of it too."""
    bounds = {"<": "< SEED_TIME", "<=": "<= SEED_TIME", "within": f"< SEED_TIME WITHIN {within}"}
    return {
        f"{name}, {direction}, {word}": f"SAMPLE FROM {{snapshot}} SEEDS ({seeds}) AS {vertex} "
        f"FANOUT ({edge} {direction} => {counts}) {drawing} TEMPORAL {bound} BATCH 7 REPEATABLE (5)"
        for (name, drawing), direction, (word, bound) in product(drawings(), DIRECTIONS, bounds.items())
        if word == "<" or name in METHODS
    }


def linked(edge: str, time: str, fanout: str, among: str, column: str) -> dict[str, str]:
    """Seed edges: negatives x what is known x what message passing may use, with and without bounds of time."""
    negatives = {
        "none": "",
        "1": "NEGATIVES 1 PER POSITIVE",
        "3": "NEGATIVES 3 PER POSITIVE",
        "by degree": "NEGATIVES 2 PER POSITIVE WEIGHTED BY DEGREE",
        "by column": f"NEGATIVES 2 PER POSITIVE WEIGHTED BY {column}",
    }
    known = {
        "all": "",
        "ever": "EXCLUDE KNOWN",
        "before": "EXCLUDE KNOWN BEFORE SEED_TIME",
        "at": "EXCLUDE KNOWN AT SEED_TIME",
        "among": f"EXCLUDE KNOWN EVER IN ({among})",
    }
    seen = {"excluded": "EXCLUDE SEEDS", "both": "EXCLUDE SEEDS BOTH DIRECTIONS", "kept": "KEEP SEEDS"}
    bounds = {"": "", ", timed": "TEMPORAL < SEED_TIME"}
    found = {}
    for (count, clause), (how, without), (use, keep), (word, bound) in product(
        negatives.items(), known.items(), seen.items(), bounds.items()
    ):
        if not clause and without:
            continue
        found[f"negatives {count}, known {how}, seeds {use}{word}"] = (
            f"SAMPLE FROM {{snapshot}} SEEDS EDGES {edge} (SELECT e_id, {time} AS seed_time FROM {{snapshot}}.{edge} "
            f"WHERE e_id % 20 = 1) FANOUT ({fanout}) {clause} {without} {keep} {bound} BATCH 12"
        )
    return found


def few(statements: Mapping[str, str], step: int) -> dict[str, str]:
    """One of so many statements; a step that shares no divisor with their number comes by all methods."""
    return {name: text for number, (name, text) in enumerate(statements.items()) if number % step == 0}


WEB_SEEDS = "SELECT id FROM page WHERE id % 3 = 1"
WEB_TIMES = (
    "SELECT id, TIMESTAMP '2001-01-15' + INTERVAL 1 DAY * (id % 20) AS seed_time, topic + 1 AS y FROM page "
    "WHERE id % 6 = 2"
)
TOWN_SEEDS = "SELECT id FROM house WHERE id % 2 = 1"
TOWN_TIMES = "SELECT id, 100 + id * 5 AS seed_time FROM house WHERE id % 4 = 2"
WEB = plain("page", "links", WEB_SEEDS, "[4, 2]", "BATCH 14")
TOWN = plain("house", "road", TOWN_SEEDS, "[3, 2]", "BATCH 16 REPEATABLE (3)")
SHOP_FANOUT = (
    "bought => [3, 2], bought OUT => [2, 2], viewed BOTH => [2, 1], knows BOTH => [3, 2], rents OUT => [2, 0], "
    "rents IN => [0, 2], sells BOTH => [2, 2]"
)
SHOP_METHODS = {
    "uniform": "",
    "replacement": "WITH REPLACEMENT",
    "weighted": "WEIGHT BY bought.qty",
    "weighted replacement": "WEIGHT BY bought.score WITH REPLACEMENT",
    "latest": "METHOD LATEST",
    "full": "METHOD FULL",
    "bottomk": "METHOD BOTTOMK",
    "labor": "METHOD LABOR",
    "labor dependent": "METHOD LABOR DEPENDENT BATCHES 3",
}


def mixed() -> dict[str, str]:
    """Over several vertex and edge types: methods x layouts x policies, with and without bounds of time."""
    drawing = {name: f"{clause} REFRESH FBL" for name, clause in SHOP_METHODS.items()}
    drawing |= POLICIES
    found = {}
    for (name, clause), layout in product(drawing.items(), LAYOUTS):
        head = "SAMPLE FROM {snapshot} SEEDS (SELECT name{time} FROM customer WHERE joined < 40) AS customer"
        rest = f"FANOUT ({SHOP_FANOUT}) {clause} LAYOUT {layout} BATCH 20 REPEATABLE (9)"
        found[f"{name}, {layout}"] = f"{head} {rest}".replace("{time}", "")
        found[f"{name}, {layout}, timed"] = f"{head} {rest} TEMPORAL <= SEED_TIME".replace(
            "{time}", ", 300 + joined * 6 AS seed_time, vip::INTEGER AS y"
        )
    return found


CLAUSES = {
    "shuffle": "SHUFFLE",
    "fixed": "FIXED",
    "repeatable": "REPEATABLE (18446744073709551615)",
    "subset": "SUBSET 40 PERCENT PER EPOCH",
    "subset fixed": "SUBSET 30 PERCENT PER EPOCH FIXED",
    "reuse hops": "REUSE HOPS",
    "reuse hops in blocks": "REUSE HOPS LAYOUT BLOCKS",
    "memory": "WITH (memory = '64MB')",
}
"""Clauses of seeds and batches, over two epochs."""
WHOLE = {
    "in order": "SEEDS (SELECT id, topic AS y FROM page WHERE id % 3 = 1 ORDER BY y, id DESC) AS page "
    "FANOUT (links => [3]) IN ORDER",
    "duplicates": "SEEDS (SELECT id % 20 FROM page) AS page FANOUT (links => [3]) ALLOW DUPLICATES",
    "counts": "SEEDS (SELECT id FROM page WHERE id % 9 = 1) AS page FANOUT (links => [2, FULL, 0, 1])",
    "both ways": "SEEDS (SELECT id FROM page WHERE id % 9 = 1) AS page FANOUT (links => [2, 1], links OUT => [1, 2])",
    "default": "SEEDS (SELECT id FROM page WHERE id % 9 = 1) AS page FANOUT (DEFAULT OUT => [2, 2])",
    "columns": "SEEDS (SELECT id, f, topic::DOUBLE AS share, [id, 1]::FLOAT[2] AS pair, id > 9 AS late FROM page "
    "WHERE id % 9 = 1) AS page FANOUT (links => [2])",
    "no edges": "SEEDS (SELECT id FROM page WHERE id % 9 = 1) AS page FANOUT (links => [0])",
    "one seed": "SEEDS (VALUES (5)) AS page FANOUT (links BOTH => [1])",
}
"""Seeds and fanouts."""


def clauses() -> dict[str, str]:
    """Each of CLAUSES and of WHOLE as a statement."""
    head = "SAMPLE FROM {snapshot}"
    found = {
        name: f"{head} SEEDS ({WEB_SEEDS}) AS page FANOUT (links => [4, 2]) {clause} BATCH 14"
        for name, clause in CLAUSES.items()
    }
    return found | {name: f"{head} {rest} BATCH 14" for name, rest in WHOLE.items()}


SHOP_MIXED = mixed()
FORMS = {
    "web_whole": ({"full": "web_full"}, WEB),
    "web_past": ({"ends": "web_past_ends", "bitmap": "web_past_bits", "materialized": "web_past_rows"}, WEB),
    "web_some": ({"materialized": "web_full_rows", "chosen": "web_full"}, few(WEB, 7)),
    "web_part": ({"bitmap": "web_range_bits", "materialized": "web_range_rows", "chosen": "web_range"}, few(WEB, 7)),
    "web_timed": ({"full": "web_full"}, timed("page", "links", WEB_TIMES, "[3, 2]", "INTERVAL '9 days'")),
    "web_links": ({"full": "web_full"}, linked("links", "at", "links BOTH => [3, 2]", "links", "topic")),
    "web_clauses": ({"full": "web_full", "materialized": "web_full_rows"}, clauses()),
    "town_now": ({"full, patched": "town_now", "bitmap, patched": "town_bits"}, TOWN),
    "town_past": ({"ends, patched": "town_past"}, TOWN),
    "town_part": ({"ends, patched": "town_past", "bitmap, patched": "town_past_bits"}, few(TOWN, 7)),
    "town_built": ({"patched": "town_now", "built": "town_whole", "materialized": "town_rows"}, few(TOWN, 7)),
    "town_then": ({"full": "town_then"}, few(TOWN, 7)),
    "town_timed": ({"full, patched": "town_now"}, timed("house", "road", TOWN_TIMES, "[3, 2]", "90")),
    "shop_whole": ({"full": "shop_full"}, SHOP_MIXED),
    "shop_past": ({"chosen": "shop_past"}, SHOP_MIXED),
    "shop_links": (
        {"full": "shop_full"},
        linked(
            "bought", "day", "bought BOTH => [3, 2], knows => [2, 2], viewed BOTH => [1, 1]", "bought, viewed", "price"
        ),
    ),
}
TORCH = {
    "web_torch": ("web_full", few(WEB, 5)),
    "web_clauses_torch": ("web_full", clauses()),
    "town_torch": ("town_now", few(TOWN, 5)),
    "shop_torch": ("shop_full", few(SHOP_MIXED, 7)),
}
GROUPS = {
    name: Group({form: (snapshot, "") for form, snapshot in forms.items()}, statements)
    for name, (forms, statements) in FORMS.items()
} | {
    name: Group({"numba": (snapshot, "WITH numba"), "torch": (snapshot, "WITH torch")}, statements)
    for name, (snapshot, statements) in TORCH.items()
}
"""By the names under which they are recorded."""
