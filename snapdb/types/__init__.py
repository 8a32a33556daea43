"""The vocabulary: frozen values that the rooms hand to each other. No I/O, no engine."""

from snapdb.types.graph import (
    Direction,
    EdgeElement,
    EdgeType,
    FeatureSpec,
    History,
    PropertyGraph,
    VertexElement,
    type_hash,
)
from snapdb.types.sampling import FULL, RNG_SCHEME, Fanout, Relation, SampleSpec, SeedOrder
from snapdb.types.snapshot import ALL_TIME, FORMS, PINNED, Filter, Form, Pin, Snapshot, TimeUnit, Window
from snapdb.types.suggest import did_you_mean
from snapdb.types.table import Column, Segment, Table, Tag, Version

__all__ = [
    "ALL_TIME",
    "FORMS",
    "FULL",
    "PINNED",
    "RNG_SCHEME",
    "Column",
    "Direction",
    "EdgeElement",
    "EdgeType",
    "Fanout",
    "FeatureSpec",
    "Filter",
    "Form",
    "History",
    "Pin",
    "PropertyGraph",
    "Relation",
    "SampleSpec",
    "SeedOrder",
    "Segment",
    "Snapshot",
    "Table",
    "Tag",
    "TimeUnit",
    "Version",
    "VertexElement",
    "Window",
    "did_you_mean",
    "type_hash",
]
