"""A Bloom filter of an id map: finds in a fraction of a join's time that some of a million keys are not in it.

Bloom, 1970, with one bit for a key: a key whose bit is not set was never there, and of those that were never there one
in 64 is taken for a key that was. A filter stays in the process, and takes the map's new files as they come.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from snapdb.relational import Session, key_rows, quote
from snapdb.storage.home import Home
from snapdb.storage.ids import IdMap

LARGEST = 10_000_000
"""Keys of a map that are worth a filter: 128 MiB of bits, and about a second to read them."""
_BITS = 64
"""For each key, at least."""
_LEFT = 4
"""Filters that a process keeps: those that were asked for last."""
_BATCH = 500_000

_filters: OrderedDict[tuple[str, int], KeyFilter] = OrderedDict()


@dataclass(slots=True)
class KeyFilter:
    """The bits of a map's keys."""

    types: tuple[str, ...]
    bits: npt.NDArray[np.uint8]
    files: set[str] = field(default_factory=set)
    """That were read."""

    @staticmethod
    def empty(id_map: IdMap) -> KeyFilter:
        """A filter with room for the keys of a map, and none of them."""
        size = 1 << max(16, (id_map.limit * _BITS - 1).bit_length())
        return KeyFilter(tuple(column.type for column in id_map.columns), np.zeros(size // 8, np.uint8))

    @property
    def keys(self) -> int:
        """How many keys it has room for."""
        return self.bits.size * 8 // _BITS

    def take(self, session: Session, id_map: IdMap, home: Home) -> None:
        """Add the keys of files that it has not."""
        if new := [segment for segment in id_map.segments if segment.path not in self.files]:
            names = [f"k{i}" for i in range(len(self.types))]
            query = f"SELECT {self.place(names)} AS place FROM ({key_rows(new, id_map.columns, home.path)})"
            for batch in session.reader(query, rows=_BATCH):
                place = batch.column(0).to_numpy()
                np.bitwise_or.at(self.bits, place >> 3, np.uint8(1) << (place & 7).astype(np.uint8))
            self.files |= {segment.path for segment in new}

    def place(self, key: Sequence[str]) -> str:
        """The bit of a key in SQL; types cannot hold every key, and such a one has some bit."""
        cast = ", ".join(f"TRY_CAST({quote(name)} AS {kind})" for name, kind in zip(key, self.types, strict=True))
        return f"(hash({cast}) & {self.bits.size * 8 - 1})::UINTEGER"

    def lacks(self, places: npt.NDArray[np.uint32]) -> bool:
        """Whether one of these bits is not set."""
        return not ((self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1).all()


def lack(session: Session, rows: str, keys: Sequence[tuple[KeyFilter, Sequence[str]]]) -> bool:
    """Whether a key of these rows is not in its map, or NULL; False may be wrong.

    Args:
        keys: Filters, each with the columns of the key that is looked for.
    """
    places = ", ".join(f"{known.place(key)} AS p{i}" for i, (known, key) in enumerate(keys))
    for batch in session.reader(f"SELECT {places} FROM ({rows})", rows=_BATCH):
        if any(known.lacks(column.to_numpy()) for (known, _), column in zip(keys, batch.columns, strict=True)):
            return True
    return False


def key_filter(session: Session, id_map: IdMap, home: Home) -> KeyFilter:
    """The filter of all keys of a map."""
    name = (str(home.path), id_map.id)
    found = _filters.pop(name, None)
    if found is None or found.keys < id_map.limit:
        found = KeyFilter.empty(id_map)
    found.take(session, id_map, home)
    _filters[name] = found
    while len(_filters) > _LEFT:
        _filters.popitem(last=False)
    return found
