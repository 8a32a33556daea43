"""The vocabulary: frozen values that the rooms hand to each other. No I/O, no engine."""

from snapdb.types.cache import Cache, CacheStats
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
from snapdb.types.properties import Properties, Property
from snapdb.types.published import Published
from snapdb.types.retention import Retention, Rule
from snapdb.types.sampler import Sampler
from snapdb.types.sampling import (
    FULL,
    RNG_SCHEME,
    Backend,
    Drawing,
    Fanout,
    Link,
    Method,
    Negatives,
    Refresh,
    Relation,
    SampleSpec,
    SeedOrder,
    Temporal,
)
from snapdb.types.snapshot import ALL_TIME, FORMS, PINNED, Filter, Form, Pin, Snapshot, TimeUnit, Window
from snapdb.types.suggest import did_you_mean, nearest
from snapdb.types.table import Column, Segment, Table, Tag, Version
from snapdb.types.task import CatchUp, Cause, Overlap, Period, Run, RunExport, RunState, Schedule, Task
from snapdb.types.way import PLAIN, Way

__all__ = [
    "ALL_TIME",
    "FORMS",
    "FULL",
    "PINNED",
    "PLAIN",
    "RNG_SCHEME",
    "Backend",
    "Cache",
    "CacheStats",
    "CatchUp",
    "Cause",
    "Column",
    "Direction",
    "Drawing",
    "EdgeElement",
    "EdgeType",
    "Fanout",
    "FeatureSpec",
    "Filter",
    "Form",
    "History",
    "Link",
    "Method",
    "Negatives",
    "Overlap",
    "Period",
    "Pin",
    "Properties",
    "Property",
    "PropertyGraph",
    "Published",
    "Refresh",
    "Relation",
    "Retention",
    "Rule",
    "Run",
    "RunExport",
    "RunState",
    "SampleSpec",
    "Sampler",
    "Schedule",
    "SeedOrder",
    "Segment",
    "Snapshot",
    "Table",
    "Tag",
    "Task",
    "Temporal",
    "TimeUnit",
    "Version",
    "VertexElement",
    "Way",
    "Window",
    "did_you_mean",
    "nearest",
    "type_hash",
]
