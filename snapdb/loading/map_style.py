"""An epoch as a map-style Dataset: batches by number, in whatever order a torch sampler asks for them."""

from collections.abc import Callable
from typing import TypeVar

from torch.utils.data import Dataset

_Given = TypeVar("_Given")
"""What the stream gives."""


class MapStyle(Dataset[_Given]):
    """The batches of one epoch. Each is made when it is asked for, in the process that asks."""

    def __init__(self, batches: int, batch: Callable[[int], _Given]) -> None:
        """`batch` gives the batch at a place below `batches`, always the same one."""
        self._batches, self._batch = batches, batch

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, index: int) -> _Given:
        return self._batch(index)

    def __repr__(self) -> str:
        return f"MapStyle({self._batches} batches)"
