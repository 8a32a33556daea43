"""A Triton kernel with which a GPU reads rows directly from page-locked host memory, without a copy on the host.

If a graph's features do not fit on the GPU, threads otherwise gather a batch's rows into page-locked memory, from which
they are copied to the GPU. A row then crosses host memory three times. With this kernel, it crosses the bus once,
directly from its original location (zero-copy access: Min et al., "Large Graph Convolutional Network Training with
GPU-Oriented Data Communication Architecture", VLDB 2021).

The kernel requires Triton, which CUDA builds of torch include. With TRITON_INTERPRET=1, it runs on the CPU, for tests.
Reference implementation: `rows[ids]`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_WORDS: dict[int, torch.dtype] = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
"""Integer dtypes by size in bytes, largest first. A row is copied in words of the largest size that divides its
size."""
_MOST = 1024
"""The maximum number of words that a program copies at once."""


# There is one program per row. Its reads are consecutive, so they cross the bus as a few large requests, O(width) per
# row.
@triton.jit
def _copy_rows(rows: Any, ids: Any, out: Any, width: Any, words: tl.constexpr) -> None:
    place = tl.program_id(0).to(tl.int64)
    row = tl.load(ids + place).to(tl.int64)
    for start in range(0, width, words):
        at = start + tl.arange(0, words)
        values = tl.load(rows + row * width + at, mask=at < width)
        tl.store(out + place * width + at, values, mask=at < width)


def gather_zero_copy(rows: Tensor, ids: Tensor) -> Tensor:
    """[n, ...] `rows[ids]`, on the device of `ids`.

    Args:
        rows: [any, ...] A contiguous tensor in page-locked memory or on the device.
        ids: [n] int64 or int32. Each id must be a valid row number, because ids are not checked.
    """
    out = torch.empty((len(ids), *rows.shape[1:]), dtype=rows.dtype, device=ids.device)
    size = out.element_size() * out[0].numel() if len(ids) else 0
    if not size:
        return out
    word = next(width for width in _WORDS if size % width == 0)
    source, target = (values.view(-1).view(torch.uint8).view(_WORDS[word]) for values in (rows, out))
    width = size // word
    _copy_rows[(len(ids),)](source, ids, target, width, words=min(triton.next_power_of_2(width), _MOST))
    return out
