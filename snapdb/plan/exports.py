"""Exports: COPY of rows into a file, of snapshots and of batches into folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from snapdb.errors import Span
from snapdb.plan.asked import Asked
from snapdb.plan.plan import Plan, PlanNode, describe_query
from snapdb.plan.samples.plans import SamplePlan
from snapdb.types import Snapshot
from snapdb.types.text import counted

FileFormat = Literal["parquet", "csv", "tsv", "json", "jsonl", "arrow"]


@dataclass(frozen=True, slots=True)
class CopyToPlan(Plan):
    """Rows go into a file."""

    reads: ClassVar[bool] = True
    transactional: ClassVar[bool] = True

    query: Asked
    path: str
    span: Span
    """Of the path."""
    format: FileFormat
    writer: str
    """What DuckDB's COPY is told in parentheses; empty where it does not write the file."""

    def source(self) -> Asked | None:
        return self.query

    def describe(self) -> PlanNode:
        return PlanNode("CopyTo", f"'{self.path}'", (describe_query(self.query),))


SnapshotFormat = Literal["parquet", "npz", "pyg"]


@dataclass(frozen=True, slots=True)
class CopySnapshotPlan(Plan):
    """A whole snapshot goes into a folder."""

    reads: ClassVar[bool] = True

    snapshot: Snapshot
    path: str
    span: Span
    """Of the path."""
    format: SnapshotFormat
    splits: Mapping[str, str]
    """Vertex type → the column whose values become masks, of those that have one."""
    split_said: bool
    """Values of it that make no masks are an error."""
    overwrite: bool
    """An earlier export that stands there is replaced."""

    def describe(self) -> PlanNode:
        splits = {} if self.format == "parquet" else self.splits
        graph = self.snapshot.graph
        vertices = (PlanNode("Vertices", f"{v.name}{_masked(splits.get(v.name))}") for v in graph.vertices)
        edges = (PlanNode("Edges", edge.name) for edge in graph.edges)
        return PlanNode("CopySnapshot", f"{self.snapshot.name} to '{self.path}' as {self.format}", (*vertices, *edges))


BatchFormat = Literal["arrow", "parquet", "npz", "safetensors", "pt"]


@dataclass(frozen=True, slots=True)
class CopySamplePlan(Plan):
    """A sampler's batches go into a folder, one file each."""

    reads: ClassVar[bool] = True

    sample: SamplePlan
    path: str
    span: Span
    """Of the path."""
    format: BatchFormat
    overwrite: bool
    """An earlier export that stands there is replaced."""

    def children(self) -> tuple[Plan, ...]:
        return (self.sample,)

    def describe(self) -> PlanNode:
        epochs = counted(self.sample.epochs, "epoch")
        detail = f"{epochs} to '{self.path}' as {self.format}"
        return PlanNode("CopySample", detail, (self.sample.describe(),))


def _masked(column: str | None) -> str:
    return "" if column is None else f", a mask for each {column}"
