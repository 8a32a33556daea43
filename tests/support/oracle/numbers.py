"""The numbers of the sampling contract `snapdb-1` in plain Python integers: hashes, keys, draws, logarithms.

Section names in parentheses ("Numbers", "Keys", …) refer to the contract.
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
"""The value that replaces the hop in every key under REUSE HOPS."""


def mix(z: int) -> int:
    """Return a scrambled 64-bit integer ("Numbers").

    >>> hex(mix(1))
    '0x5692161d100b05e5'
    """
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def fold(k: int, x: int) -> int:
    """Return the key `k` extended by the part `x` ("Numbers")."""
    return mix(((k ^ mix((x + G) & MASK)) + G) & MASK)


def key(seed: int, *parts: int) -> int:
    """Return the parts folded from left to right, starting with fold(0, seed) ("Numbers")."""
    k = fold(0, seed & MASK)
    for part in parts:
        k = fold(k, part & MASK)
    return k


def draw(k: int, i: int) -> int:
    """Return the i-th draw of a key, 64 random bits ("Numbers": r_i)."""
    return mix((k + i * G) & MASK)


def below(r: int, n: int) -> int:
    """Return a draw scaled exactly to 0 ≤ result < n: floor(r * n / 2^64) ("Numbers")."""
    return (r * n) >> 64


def u32(k: int) -> int:
    """Return 32 random bits of a key: r_0 >> 32 ("Weighted, hashed, ordered")."""
    return draw(k, 0) >> 32


def type_text(edge: EdgeKey, direction: Direction) -> bytes:
    """Return the text of an edge type and direction, whose byte order is the sampling order ("Keys", "Batch")."""
    source, name, destination = edge
    return b"\x00".join(word.lower().encode() for word in (source, name, destination)) + b"\x00" + direction.encode()


def type_hash(edge: EdgeKey, direction: Direction) -> int:
    """Return an edge type and direction as a part of draw keys ("Keys": ET).

    >>> hex(type_hash(("customer", "bought", "product"), "IN"))
    '0x860da7d90bdd38f6'
    """
    return int.from_bytes(sha256(type_text(edge, direction)).digest()[:8], "little")


def pick_key(seed: int, batch: int, hop: int, et: int, node: int, ordinal: int | None = None) -> int:
    """Return the key of a node's draw in a batch and hop. For disjoint trees, the seed's ordinal is last ("Keys")."""
    return key(seed, PICK, batch, hop, et, node, *([] if ordinal is None else [ordinal]))


def floyd(k: int, d: int, count: int) -> list[int]:
    """Return `count` distinct positions of 0 ≤ p < d in draw order, or all d ascending if d ≤ count ("Uniform draws").

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
    """Return T[i] = round(log2(1 + i/4096) * 2^40) for i = 0..4096, from 50 digits ("Weighted, hashed, ordered").

    >>> log_table()[0], log_table()[2048], log_table()[4096] == 2**40
    (0, 643173071356, True)
    """
    with localcontext() as context:
        context.prec = 50
        two = Decimal(2).ln()
        exact = ((1 + Decimal(i) / 4096).ln() / two * 2**40 for i in range(4097))
        return tuple(int(value.to_integral_value(ROUND_HALF_EVEN)) for value in exact)


def race_length(bits: int) -> int:
    """Return approximately -log2((2*bits + 1) / 2^33) * 2^40: the exponential-race time of an edge of weight 1.

    `bits` are 32 random bits ("Weighted, hashed, ordered": L).

    >>> race_length(2**31) / 2**40 < 1 < race_length(2**31 - 1) / 2**40
    True
    """
    table = log_table()
    y = 2 * bits + 1
    e = y.bit_length() - 1
    m = y << (33 - e)
    c, x = (m >> 21) & 4095, m & (2**21 - 1)
    return ((33 - e) << 40) - table[c] - (((table[c + 1] - table[c]) * x) >> 21)
