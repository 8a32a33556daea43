"""The numbers of the sampling contract `snapdb-1` in plain Python integers: hashes, keys, draws, logarithms.

Sections named below ("Numbers", "Keys", …) are those of the contract.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import cache
from hashlib import sha256
from typing import Literal

Direction = Literal["IN", "OUT", "BOTH"]
EdgeKey = tuple[str, str, str]
"""(source vertex type, edge type, destination vertex type)."""

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15
ROW, PICK, FRESH, PHASE, SEEDPERM, NEG, HASH = 1, 2, 3, 4, 5, 6, 7
NO_HOP = 2**32 - 1
"""What stands for the hop in every key under REUSE HOPS."""


def mix(z: int) -> int:
    """A 64-bit integer scrambled ("Numbers").

    >>> hex(mix(1))
    '0x5692161d100b05e5'
    """
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def fold(k: int, x: int) -> int:
    """The key `k` with one more part `x` ("Numbers")."""
    return mix(((k ^ mix((x + G) & MASK)) + G) & MASK)


def key(seed: int, *parts: int) -> int:
    """The parts folded left to right, starting from fold(0, seed) ("Numbers")."""
    k = fold(0, seed & MASK)
    for part in parts:
        k = fold(k, part & MASK)
    return k


def draw(k: int, i: int) -> int:
    """The i-th draw of a key, 64 random bits ("Numbers": r_i)."""
    return mix((k + i * G) & MASK)


def below(r: int, n: int) -> int:
    """A draw brought into 0 ≤ result < n: floor(r * n / 2^64), exactly ("Numbers")."""
    return (r * n) >> 64


def u32(k: int) -> int:
    """The 32 random bits of a key: r_0 >> 32 ("Weighted, hashed, ordered")."""
    return draw(k, 0) >> 32


def type_text(edge: EdgeKey, direction: Direction) -> bytes:
    """The text that names an edge type and direction; its byte order is that of a hop's types ("Keys", "Batch")."""
    source, name, destination = edge
    return b"\x00".join(word.lower().encode() for word in (source, name, destination)) + b"\x00" + direction.encode()


def type_hash(edge: EdgeKey, direction: Direction) -> int:
    """An edge type and direction as a part of draw keys ("Keys": ET).

    >>> hex(type_hash(("customer", "bought", "product"), "IN"))
    '0x860da7d90bdd38f6'
    """
    return int.from_bytes(sha256(type_text(edge, direction)).digest()[:8], "little")


def pick_key(seed: int, batch: int, hop: int, et: int, node: int, ordinal: int | None = None) -> int:
    """The key of one node's draw in one batch and hop; in disjoint trees the seed's ordinal comes last ("Keys")."""
    return key(seed, PICK, batch, hop, et, node, *([] if ordinal is None else [ordinal]))


def floyd(k: int, d: int, count: int) -> list[int]:
    """`count` distinct positions of 0 ≤ p < d in draw order; all d in ascending order when d ≤ count ("Uniform draws").

    >>> floyd(0xF0A625C1C1AB29D8, 20, 5)
    [15, 12, 7, 14, 6]
    """
    if d <= count:
        return list(range(d))
    chosen: list[int] = []
    for j in range(count):
        top = d - count + j + 1
        t = below(draw(k, j), top)
        chosen.append(top - 1 if t in chosen else t)
    return chosen


@cache
def log_table() -> tuple[int, ...]:
    """T[i] = round(log2(1 + i/4096) * 2^40) for i = 0..4096, from 50 decimal digits ("Weighted, hashed, ordered").

    >>> log_table()[0], log_table()[2048], log_table()[4096] == 2**40
    (0, 643173071356, True)
    """
    with localcontext() as context:
        context.prec = 50
        two = Decimal(2).ln()
        exact = ((1 + Decimal(i) / 4096).ln() / two * 2**40 for i in range(4097))
        return tuple(int(value.to_integral_value(ROUND_HALF_EVEN)) for value in exact)


def race_length(bits: int) -> int:
    """-log2((2*bits + 1) / 2^33) * 2^40, nearly: how long an edge of weight 1 takes in the exponential race.

    `bits` are 32 random ones ("Weighted, hashed, ordered": L).

    >>> race_length(2**31) / 2**40 < 1 < race_length(2**31 - 1) / 2**40
    True
    """
    table = log_table()
    y = 2 * bits + 1
    e = y.bit_length() - 1
    m = y << (33 - e)
    c, x = (m >> 21) & 4095, m & (2**21 - 1)
    return ((33 - e) << 40) - table[c] - (((table[c + 1] - table[c]) * x) >> 21)
