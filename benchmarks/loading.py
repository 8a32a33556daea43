"""Databases with the benchmark graphs, loaded through SQL."""

from __future__ import annotations

from pathlib import Path

import snapdb
from benchmarks.graphs import DATA, SIZES, load_graph, write_parquet

LOAD = """
CREATE TABLE node AS SELECT id, x::FLOAT[{width}] AS x, label, train FROM '{nodes}';
CREATE TABLE edge AS SELECT src, dst FROM '{edges}';
CREATE PROPERTY GRAPH bench
  VERTEX TABLES (node KEY (id) FEATURES (x AS x TYPE {type}) TARGET (label))
  EDGE TABLES (edge SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id));
CREATE SNAPSHOT whole OF bench
"""


def database_of(size: str, type_: str = "float32") -> Path:
    """Return a database whose snapshot `whole` is the graph, with features of this type. The first call creates it."""
    path = DATA / f"{size}{'' if type_ == 'float32' else f'-{type_}'}.snapdb"
    if not path.exists():
        nodes, edges = write_parquet(load_graph(size), DATA / f"{size}-1")
        draft = path.with_suffix(".draft.snapdb")
        with snapdb.connect(draft) as database:
            database.script(LOAD.format(nodes=nodes, edges=edges, width=SIZES[size].features, type=type_))
        draft.rename(path)
    return path
