"""The random numbers of `kernels/rng.py` as torch operators, the same on every device.

torch has no unsigned arithmetic, but its int64 wraps: a word is the int64 of the same bits, which only shifts and
comparisons must know.

    >>> import torch
    >>> hex(int(_mix(torch.tensor(1))))
    '0x5692161d100b05e5'
"""

from torch import Tensor

_LOW = 2**32 - 1
_LEAST = -(2**63)


def signed(word: int) -> int:
    """The int64 of a word's bits.

    >>> signed(2**64 - 1), signed(7)
    (-1, 7)
    """
    return word - 2**64 if word >= 2**63 else word


_GOLDEN = signed(0x9E3779B97F4A7C15)
FIRST, SECOND = signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)


def shifted(words: Tensor, bits: int) -> Tensor:
    """The words moved right, with zeros coming in."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _mix(words: Tensor) -> Tensor:
    """Each word scrambled: see `rng.mix`."""
    z = (words ^ shifted(words, 30)) * FIRST
    z = (z ^ shifted(z, 27)) * SECOND
    return z ^ shifted(z, 31)


def fold(key: Tensor | int, part: Tensor) -> Tensor:
    """The key extended by each part; keys and parts broadcast."""
    return _mix((_mix(part + _GOLDEN) ^ key) + _GOLDEN)


def draw(key: Tensor, slot: Tensor | int) -> Tensor:
    """Each key's 64 random bits number `slot`; keys and slots broadcast.

    >>> import torch
    >>> key = torch.tensor([signed(0xF0A625C1C1AB29D8)])
    >>> [hex(bits % 2**64) for bits in draw(key, torch.arange(2)).tolist()]
    ['0xfbc33fa4663df263', '0xb9945e293c549cf6']
    """
    return _mix(key + (signed(slot * _GOLDEN % 2**64) if isinstance(slot, int) else slot * _GOLDEN))


def high_half(key: Tensor) -> Tensor:
    """The upper 32 bits of each key's first draw."""
    return shifted(_mix(key), 32)


def below(bits: Tensor, n: Tensor) -> Tensor:
    """floor(bits * n / 2^64) for words `bits` and 1 ≤ n < 2^63: numbers 0 ≤ result < n.

    >>> import torch
    >>> below(torch.tensor(signed(0xFBC33FA4663DF263)), torch.tensor([10, 2**31 - 1, 2**40])).tolist()
    [9, 2111938513, 1081312519270]
    """
    a, b = shifted(bits, 32), bits & _LOW
    c, d = n >> 32, n & _LOW
    q = a * d + shifted(b * d, 32)
    t = b * c + (q & _LOW)
    return a * c + shifted(q, 32) + shifted(t, 32)


def unsigned_order(words: Tensor) -> Tensor:
    """Integers that are ordered as the words are.

    >>> import torch
    >>> unsigned_order(torch.tensor([-1, 0, 1])).argsort().tolist()
    [1, 2, 0]
    """
    return words ^ _LEAST
