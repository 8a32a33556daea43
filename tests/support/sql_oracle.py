"""The hash-based methods as one SELECT: a third implementation of the sampling contract, with UHUGEINT arithmetic.

Each step of a hash is a common table expression that replaces a column, because a repeated expression would be computed
again.
"""

from __future__ import annotations

from hashlib import sha256

G = 0x9E3779B97F4A7C15
SCRAMBLE = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
WRAP = "18446744073709551616::UHUGEINT"
HASH = 7


class Chain:
    """A chain of common table expressions, each of which reads the previous one."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @property
    def last(self) -> str:
        """The name of the last table."""
        return f"step{len(self.steps)}"

    def then(self, select: str) -> str:
        """Add a table and return its name."""
        self.steps.append(select)
        return self.last

    def text(self, select: str) -> str:
        """Return the complete SELECT."""
        tables = (f"step{place} AS MATERIALIZED ({step})" for place, step in enumerate(self.steps, start=1))
        return f"WITH {', '.join(tables)} {select}"

    def replace(self, **columns: str) -> None:
        """Replace columns with expressions over the previous table."""
        changed = ", ".join(f"{value} AS {name}" for name, value in columns.items())
        self.then(f"SELECT * REPLACE ({changed}) FROM {self.last}")

    def mix(self, column: str) -> None:
        """Scramble a column."""
        for shift, factor in SCRAMBLE:
            self.replace(**{column: f"(xor({column}, {column} >> {shift}) * {factor}::UHUGEINT) % {WRAP}"})
        self.replace(**{column: f"xor({column}, {column} >> 31)"})

    def fold(self, part: str) -> None:
        """Fold a part into the column `h`."""
        self.replace(z=f"(({part})::UHUGEINT + {G}::UHUGEINT) % {WRAP}")
        self.mix("z")
        self.replace(h=f"(xor(h, z) + {G}::UHUGEINT) % {WRAP}")
        self.mix("h")


def _name(edge: tuple[str, str, str], direction: str) -> int:
    """Return the edge type's part of keys."""
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
    """Return a SELECT of (hop, source, destination, e_id) that METHOD BOTTOMK, LABOR or PRIORITY draws in one batch.

    Args:
        method: The method.
        table: A table of edges: source and destination as dense ids, e_id, weight.
        edge: The edge type in lower case. Its ends have the same type.
        direction: IN or OUT.
        seeds: A SELECT of the seeds' dense ids as `node`.
        counts: The number of neighbours per node at each hop.
        seed: The seed from REPEATABLE.
        batch: The batch number over all epochs.
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
