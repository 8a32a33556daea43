"""The methods that sort by a hash, as one SELECT: the sampling contract a third time, in arithmetic of UHUGEINT.

Each step of a hash is a common table expression that replaces a column, as what a SELECT repeats is computed again.
"""

from __future__ import annotations

from hashlib import sha256

G = 0x9E3779B97F4A7C15
SCRAMBLE = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
WRAP = "18446744073709551616::UHUGEINT"
HASH = 7


class Chain:
    """Steps of a SELECT; each is a table made of the one before."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @property
    def last(self) -> str:
        """The name of the newest table."""
        return f"step{len(self.steps)}"

    def then(self, select: str) -> str:
        """Adds a table and returns its name."""
        self.steps.append(select)
        return self.last

    def text(self, select: str) -> str:
        """The whole SELECT."""
        tables = (f"step{place} AS MATERIALIZED ({step})" for place, step in enumerate(self.steps, start=1))
        return f"WITH {', '.join(tables)} {select}"

    def replace(self, **columns: str) -> None:
        """Replaces columns by what is said of the row before."""
        changed = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        self.then(f"SELECT * REPLACE ({changed}) FROM {self.last}")

    def mix(self, column: str) -> None:
        """Scrambles a column."""
        for shift, factor in SCRAMBLE:
            self.replace(**{column: f"(xor({column}, {column} >> {shift}) * {factor}::UHUGEINT) % {WRAP}"})
        self.replace(**{column: f"xor({column}, {column} >> 31)"})

    def fold(self, part: str) -> None:
        """Folds a part into the column `h`."""
        self.replace(z=f"(({part})::UHUGEINT + {G}::UHUGEINT) % {WRAP}")
        self.mix("z")
        self.replace(h=f"(xor(h, z) + {G}::UHUGEINT) % {WRAP}")
        self.mix("h")


def _name(edge: tuple[str, str, str], direction: str) -> int:
    """The edge type's part of keys."""
    return int.from_bytes(sha256("\0".join((*edge, direction)).encode()).digest()[:8], "little")


def smallest(
    method: str,
    table: str,
    edge: tuple[str, str, str],
    direction: str,
    seeds: str,
    counts: list[int],
    *,
    seed: int,
    batch: int,
) -> str:
    """A SELECT of (hop, source, destination, e_id) that METHOD BOTTOMK, LABOR or PRIORITY draws in one batch.

    Args:
        method: Which hash is sorted by.
        table: Of edges: source and destination by dense id, e_id, weight.
        edge: The edge type, in lower case; its ends are of one type.
        direction: IN or OUT.
        seeds: A SELECT of their dense ids as `node`.
        counts: How many neighbours a node gets, hop by hop.
        seed: REPEATABLE's number.
        batch: The batch's, over all epochs.
    """
    near, far = ("destination", "source") if direction == "IN" else ("source", "destination")
    chain = Chain()
    frontier = met = chain.then(seeds)
    found = []
    for hop, count in enumerate(counts):
        chain.then(
            f"SELECT source, destination, e_id, weight, node, {far} AS far, 0::UHUGEINT AS h, 0::UHUGEINT AS z "
            f"FROM {table} JOIN {frontier} ON node = {near}"
        )
        parts = (
            [HASH, batch, hop, "far"]
            if method == "LABOR"
            else [HASH, batch, hop, _name(edge, direction), "node", "e_id"]
        )
        for part in (seed, *parts):
            chain.fold(str(part))
        score = "h"
        if method == "PRIORITY":
            chain.mix("h")  # the first draw of the key
            score = "((h >> 32)::DOUBLE + 0.5) / weight"
        ranked = chain.then(
            f"SELECT {hop} AS hop, *, row_number() OVER (PARTITION BY node ORDER BY {score}, e_id) AS rank "
            f"FROM {chain.last}"
        )
        drawn = chain.then(f"SELECT * FROM {ranked} WHERE rank <= {count}")
        found.append(f"SELECT hop, source, destination, e_id FROM {drawn}")
        frontier = chain.then(f"SELECT far AS node FROM {drawn} EXCEPT SELECT node FROM {met}")
        met = chain.then(f"SELECT node FROM {met} UNION SELECT node FROM {frontier}")
    return chain.text(" UNION ALL ".join(found) + " ORDER BY ALL")
