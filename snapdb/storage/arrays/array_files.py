"""Arrays as files: .npy files of a known length, written piece by piece, and .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]

STATIC = -(2**63)
"""The time of static edges, which sorts before every other."""


_BUFFER = 1 << 23
"""Bytes that are written at once, at multiples of this size: the kernel then keeps the file in huge pages."""

_RIGHTS = 0o644 << 16
"""The permissions of an unpacked member: readable by all."""


class ArrayFile:
    """A .npy file that grows by plain writes, so that its pages need not stay in the process's memory."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, length: int) -> None:
        self._file = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 -- closed by __exit__
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, values: npt.NDArray[Any]) -> None:
        """Write the next values, which must have the file's type."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        for at in range(0, data.size, _BUFFER):  # more than the buffer at once would be written at other offsets
            self._file.write(data[at : at + _BUFFER].data)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class TimeSpan:
    """The first and last of the times that were added, except static ones.

    >>> span = TimeSpan()
    >>> span.see(np.array([STATIC, 7, 3]))
    >>> span.facts()
    {'first_time': 3, 'last_time': 7}
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = STATIC

    def see(self, time: npt.NDArray[np.int64]) -> None:
        """Add some times."""
        if not time.size or (last := int(time.max())) == STATIC:
            return
        first = int(time.min())
        if first == STATIC:
            first = int(time[time != STATIC].min())
        self._first = first if self._first is None else min(first, self._first)
        self._last = max(last, self._last)

    def facts(self) -> dict[str, int]:
        """For a manifest: `first_time` and `last_time`; empty when no time was added."""
        return {} if self._first is None else {"first_time": self._first, "last_time": self._last}


# .npz files


class ArrayArchive:
    """A .npz file of arrays that are written one after another, part by part, so that none need fit into memory.

    `numpy.load(path, allow_pickle=False)` reads it; the same arrays always give the same bytes.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)

    def add(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...], parts: Iterable[npt.NDArray[Any]]) -> None:
        """Write an array, given as consecutive parts of its values in C order."""
        member = zipfile.ZipInfo(f"{name}.npy")  # has a constant time
        member.external_attr = _RIGHTS
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        with self._zip.open(member, "w", force_zip64=True) as file:
            np.lib.format.write_array_header_2_0(file, header)
            for part in parts:
                file.write(np.ascontiguousarray(part, dtype).reshape(-1).view(np.uint8).data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
