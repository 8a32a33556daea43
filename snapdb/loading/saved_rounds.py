"""The rounds of rows as plain values for JSON: a text for each slot of a relation."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from snapdb.arrays import Int32s
from snapdb.errors import InputError
from snapdb.sampling.rounds import Rounds
from snapdb.types import Relation


def packed(window: int, rounds: Rounds) -> dict[str, Any]:
    """The rounds that a window begins with.

    >>> from snapdb.types import EdgeType
    >>> knows = Relation(EdgeType("person", "knows", "person"), "IN")
    >>> saved = packed(3, {(knows, 0): np.array([0, 3, 1], np.int32)})
    >>> window, rounds = unpacked(saved, {(knows, 0): 3})
    >>> window, rounds[knows, 0]
    (3, array([0, 3, 1], dtype=int32))
    """
    rows = [[*relation.edge, relation.direction, slot, _text(values)] for (relation, slot), values in rounds.items()]
    return {"window": window, "rounds": rows, "checksum": _checksum(window, rows)}


def unpacked(saved: Any, nodes: Mapping[tuple[Relation, int], int]) -> tuple[int, dict[tuple[Relation, int], Int32s]]:
    """The number of the window, and its rounds; those of the first window where nothing was saved.

    Args:
        nodes: the rows that there are, and how many.

    Raises:
        InputError: what was saved is damaged, or of other rows.
    """
    if saved is None:
        return 0, {rows: np.zeros(count, np.int32) for rows, count in nodes.items()}
    try:
        window = saved["window"]
        texts = {(*names, slot): text for *names, slot, text in saved["rounds"]}
        expected = {(*relation.edge, relation.direction, slot): (relation, slot) for relation, slot in nodes}
        if not isinstance(window, int) or not 0 < window < 2**31 or texts.keys() != expected.keys():
            raise ValueError("it is of other rows")
        if saved["checksum"] != _checksum(window, saved["rounds"]):
            raise ValueError("its checksum is another")
        return window, {rows: _values(texts[name], nodes[rows], window) for name, rows in expected.items()}
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise InputError(
            f"the rounds of this state are damaged ({error}); leave 'visits' out of it, and the batches before are "
            "sampled again",
            code="stream-state",
        ) from error


def _checksum(window: int, rows: Any) -> int:
    """Of all that is saved: each text has its own, but none tells which rows it is of, or of which window."""
    return zlib.crc32(json.dumps([window, rows]).encode())


def _text(values: Int32s) -> str:
    return base64.b64encode(zlib.compress(values.astype("<i4").tobytes(), 1)).decode("ascii")


def _values(text: str, nodes: int, window: int) -> Int32s:
    """The rounds of so many rows, none later than the window."""
    inflate = zlib.decompressobj()
    plain = inflate.decompress(base64.b64decode(text, validate=True), 4 * nodes + 1)
    values = np.frombuffer(plain, "<i4").astype(np.int32)
    if values.size != nodes or (nodes and not 0 <= int(values.min()) <= int(values.max()) <= window):
        raise ValueError(f"rounds of {nodes} rows from 0 to {window} are expected")
    return values
