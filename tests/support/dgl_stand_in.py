"""A stand-in for DGL, which cannot be installed beside this torch: the documented interface, with DGL's own checks.

It has dgl.graph, dgl.heterograph and dgl.create_block of DGL 2.4, for pairs of id tensors, and the frames of the graphs
that they return. Node and edge types are sorted, as in DGL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

NID = EID = "_ID"
Key = tuple[str, str, str]
Ends = tuple[Tensor, Tensor]


class DGLError(Exception):
    """The error of DGL."""


class Frame(MutableMapping[str, Tensor]):
    """The data of one type: tensors with one row per node or edge, on the graph's device."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.rows, self.device = rows, device
        self.columns: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name]

    def __setitem__(self, name: str, values: Tensor) -> None:
        if values.shape[0] != self.rows:
            raise DGLError(f"Expect number of features to match, got {values.shape[0]} and {self.rows} instead.")
        if values.device != self.device:
            raise DGLError(f"Cannot assign feature {name!r} on another device.")
        self.columns[name] = values

    def __delitem__(self, name: str) -> None:
        del self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


class View:
    """`g.nodes`, `g.edges` and their like: `[type].data` is a frame, and a call returns ids."""

    def __init__(self, frames: Mapping[Any, Frame], ids: Callable[..., Any]) -> None:
        self._frames, self._ids = frames, ids

    def __getitem__(self, key: Any) -> SimpleNamespace:
        if key in self._frames:
            return SimpleNamespace(data=self._frames[key])
        named = [each for each in self._frames if isinstance(each, tuple) and each[1] == key]
        if len(named) != 1:
            raise DGLError(f"Type {key!r} does not exist or is ambiguous.")
        return SimpleNamespace(data=self._frames[named[0]])

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._ids(*args, **options)


class DGLGraph:
    """A graph. Of a block, source and destination nodes of one type are apart."""

    is_block = False

    def __init__(self, ends: Mapping[Key, Ends], sources: Mapping[str, int], destinations: Mapping[str, int]) -> None:
        self._ends = {key: ends[key] for key in sorted(ends)}
        self._sources, self._destinations = dict(sorted(sources.items())), dict(sorted(destinations.items()))
        kinds = {(each.dtype, each.device) for pair in ends.values() for each in pair}
        if len(kinds) > 1 or not all(kind in (torch.int32, torch.int64) for kind, _ in kinds):
            raise DGLError(f"Expect ids of one type, int32 or int64, on one device, but got {kinds}.")
        self.idtype, self.device = next(iter(kinds)) if kinds else (torch.int64, torch.device("cpu"))
        self.canonical_etypes = list(self._ends)
        self.ntypes, self.srctypes, self.dsttypes = list(sources), list(sources), list(destinations)
        frames = {name: Frame(count, self.device) for name, count in self._sources.items()}
        others = {name: Frame(count, self.device) for name, count in self._destinations.items()}
        self.srcnodes = self.nodes = View(frames, lambda ntype: self._numbers(self._sources[ntype]))
        self.dstnodes = self.nodes
        if self.is_block:
            self.dstnodes = View(others, lambda ntype: self._numbers(self._destinations[ntype]))
        edges = {key: Frame(len(pair[0]), self.device) for key, pair in self._ends.items()}
        self.edges = View(edges, lambda etype=None: self._ends[self._only(self._ends) if etype is None else etype])

    def _numbers(self, count: int) -> Tensor:
        return torch.arange(count, dtype=self.idtype, device=self.device)

    @staticmethod
    def _only(types: Any) -> Any:
        if len(types) != 1:
            raise DGLError("The type must be specified, because there is more than one.")
        return next(iter(types))

    @property
    def is_homogeneous(self) -> bool:
        return len(self._sources) == len(self._ends) == 1

    def num_nodes(self, ntype: str | None = None) -> int:
        return sum(self._sources.values()) if ntype is None else self._sources[ntype]

    def num_src_nodes(self, ntype: str | None = None) -> int:
        return self.num_nodes(ntype)

    def num_dst_nodes(self, ntype: str | None = None) -> int:
        return sum(self._destinations.values()) if ntype is None else self._destinations[ntype]

    def num_edges(self, etype: Any = None) -> int:
        return len(self.edges(etype=etype)[0])

    @property
    def srcdata(self) -> Frame:
        return self.srcnodes[self._only(self._sources)].data

    ndata = srcdata

    @property
    def dstdata(self) -> Frame:
        return self.dstnodes[self._only(self._destinations)].data

    @property
    def edata(self) -> Frame:
        return self.edges[self._only(self._ends)].data


class DGLBlock(DGLGraph):
    """A message flow graph, whose first source nodes are its destination nodes."""

    is_block = True


DGLGraph.__module__ = DGLBlock.__module__ = "dgl.heterograph"


def heterograph(data_dict: Mapping[Key, Ends], num_nodes_dict: Mapping[str, int] | None = None) -> DGLGraph:
    counts = _counts(data_dict, (0, 1)) if num_nodes_dict is None else num_nodes_dict
    _check(data_dict, counts, counts)
    return DGLGraph(data_dict, counts, counts)


def graph(data: Ends, *, num_nodes: int | None = None) -> DGLGraph:
    return heterograph({("_N", "_E", "_N"): data}, None if num_nodes is None else {"_N": num_nodes})


def create_block(
    data_dict: Mapping[Key, Ends] | Ends, num_src_nodes: Any = None, num_dst_nodes: Any = None
) -> DGLGraph:
    if not isinstance(data_dict, Mapping):
        numbers = [None if each is None else {"_N": each} for each in (num_src_nodes, num_dst_nodes)]
        return create_block({("_N", "_E", "_N"): data_dict}, *numbers)
    sources = _counts(data_dict, (0,)) if num_src_nodes is None else num_src_nodes
    destinations = _counts(data_dict, (1,)) if num_dst_nodes is None else num_dst_nodes
    _check(data_dict, sources, destinations)
    return DGLBlock(data_dict, sources, destinations)


def _counts(ends: Mapping[Key, Ends], sides: tuple[int, ...]) -> dict[str, int]:
    """The largest id of each type, plus one."""
    counts: dict[str, int] = {}
    for key, pair in ends.items():
        for side in sides:
            name = key[2 * side]
            counts[name] = max(counts.get(name, 0), *((pair[side] + 1).tolist() or [0]), 0)
    return counts


def _check(ends: Mapping[Key, Ends], sources: Mapping[str, int], destinations: Mapping[str, int]) -> None:
    for key, pair in ends.items():
        for counts, name, ids in ((sources, key[0], pair[0]), (destinations, key[2], pair[1])):
            if ids.numel() and counts[name] <= int(ids.max()):
                raise DGLError(f"The given number of nodes of {name} must be larger than the max ID.")
