"""A .npz file of arrays that are written one after another and part by part, so that none need fit into memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_RIGHTS = 0o644 << 16
"""Of a member that is unpacked: to be read by all."""


class ArrayArchive:
    """Writes what `numpy.load(path, allow_pickle=False)` reads; the same arrays always make the same bytes."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)

    def add(self, name: str, dtype: npt.DTypeLike, shape: tuple[int, ...], parts: Iterable[npt.NDArray[Any]]) -> None:
        """Write an array whose values come in parts, one after another in C order."""
        member = zipfile.ZipInfo(f"{name}.npy")  # says no time of its own
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
