"""The features of a snapshot's elements, from an existing artifact, from a patched one, or built from tables."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from snapdb.builders.context import BuildContext
from snapdb.builders.graph_data import EdgeData, VertexData, check_vertices, edges_at, fields, newest, vertices_at
from snapdb.builders.key_lookups import ids_of_rows
from snapdb.catalog.elements import rows_beyond, time_expression
from snapdb.sql_engine import ROW_ID, SqlSession, quote, table_rows
from snapdb.storage.arrays.feature_files import (
    NO_GROWTH,
    FeatureGrowth,
    GrowthSpec,
    added_rows,
    compute_growth,
    growth_spec,
    has_lists,
    write_feature_patch,
    write_features,
    write_target,
)
from snapdb.storage.arrays.feature_history import merge_features, write_history
from snapdb.storage.arrays.feature_types import FeatureSource, check_features
from snapdb.storage.artifacts import (
    ArtifactSpec,
    CachedArtifact,
    digest_of,
    find_artifact,
    find_or_build,
    nearest_artifact,
)
from snapdb.types import FeatureSpec, Table

_MERGE_SHARE = 0.1
"""The share of rows above which a patch is merged into complete arrays."""
_REBUILD_SHARE = 0.5
"""The share of changed rows above which reading all rows again is as fast as patching."""


class _UnfitError(Exception):
    """Changed rows do not fit into the existing arrays.

    Their lists have a different length, or the arrays are newer.
    """


class _Changed(NamedTuple):
    """The difference from the existing arrays."""

    source: FeatureSource
    """The changed or added rows."""
    growth: FeatureGrowth
    """The current classes and widths."""
    left: str | None
    """All current rows if some were removed, or None if none were."""


class Features(NamedTuple):
    """The feature arrays of one element."""

    base: Path
    """The directory of the complete arrays."""
    patch: Path | None
    """The directory of the patch, or None."""
    work: str
    """A description of how the arrays were obtained, for the user."""


def vertex_features(context: BuildContext, session: SqlSession, data: VertexData, *, full: bool = False) -> Features:
    """Check the rows of one vertex type, and return its features and target, if any.

    Raises:
        DataError: A key is NULL or occurs twice, a time or a value is missing, or the class of a target is not
            declared. The message contains the number of such rows and three examples.
    """
    element, table = data.rows.element, data.rows.table
    specs, added = _own(element.features), added_rows(context.store.catalog_db, table, data.rows.root)
    columns = data.features_of("")  # reads only the types, which determine what grows, and no rows
    growing = growth_spec(columns, specs, element.target, element.classes)
    wanted = _wanted_vertices(data, specs, growing)

    def build(directory: Path) -> dict[str, Any]:
        with context.watching(session, f"checking the rows of {element.name}"):
            check_vertices(session, data)
        with context.watching(session, f"reading the keys of {element.name}"):
            source = replace(data.features, dense=ids_of_rows(session, data))
        growth = compute_growth(session, added, growing)
        return _written(context, session, element.name, source, specs, element.target, directory, growth)

    def changed(base: CachedArtifact) -> _Changed | None:
        before = vertices_at(context, data, base.version)
        if before is None or element.on_duplicate != "ERROR":
            return None
        rows = rows_beyond(session, data.rows.root, table, before.rows.table)
        nothing = f"SELECT * FROM ({data.rows.sql}) WHERE false"
        new = nothing if rows is None else f"SELECT * EXCLUDE ({quote(ROW_ID)}) FROM ({rows})"
        check_vertices(session, data, new)
        growth = compute_growth(session, added, growing, FeatureGrowth.of(base.facts), before.rows.table.next_row)
        left = data.rows.sql if _lost(table, before.rows.table) else None
        return _Changed(data.features_of(data.numbered(new)), growth, left)

    return _features(context, session, wanted, specs, element.target, build, changed, full)


def _wanted_vertices(data: VertexData, specs: tuple[FeatureSpec, ...], growing: GrowthSpec) -> ArtifactSpec:
    """Return the artifact of a vertex type's arrays.

    The declared classes and growth determine how values are stored.
    """
    element, table = data.rows.element, data.rows.table
    names = [name for spec in specs for name in spec.columns]
    kept = [_plain(specs), fields(table, [*names, element.target, element.event_time]), element.nulls_static]
    kept += [] if element.classes is None else [list(element.classes)]
    scheme = 3 if growing else 2
    return ArtifactSpec(
        "features",
        digest_of("vertex features", scheme, data.facts(state=True), kept),
        f"features/{table.id}",
        digest_of("vertex features", scheme, data.facts(state=False), kept),
        newest(data),
    )


def edge_features(context: BuildContext, session: SqlSession, data: EdgeData, *, full: bool = False) -> Features | None:
    """Return the features of one edge type by edge id, or None if the graph declares none."""
    element, table = data.rows.element, data.rows.table
    if not element.features:
        return None
    kept = [_plain(element.features), fields(table, [name for spec in element.features for name in spec.columns])]
    wanted = ArtifactSpec(
        "features",
        digest_of("edge features", 2, table.id, table.state, kept),
        f"features/{table.id}",
        digest_of("edge features", 2, table.id, kept),
        newest(data),
    )

    def build(directory: Path) -> dict[str, Any]:
        with context.watching(session, f"checking the rows of {element.name}"):
            check_features(session, data.features, element.features)
        name, features = element.name, element.features
        return _written(context, session, name, data.features, features, None, directory, NO_GROWTH)

    def changed(base: CachedArtifact) -> _Changed | None:
        before = edges_at(context, data, base.version)
        if before is None:
            return None
        rows = rows_beyond(session, data.rows.root, table, before.rows.table)
        everything = table_rows(table, data.rows.root, row_ids=True, ordered=False)
        source = data.features_of(rows or f"SELECT * FROM ({everything}) WHERE false")
        check_features(session, source, element.features)
        return _Changed(source, NO_GROWTH, everything if _lost(table, before.rows.table) else None)

    return _features(context, session, wanted, element.features, None, build, changed, full)


def _lost(table: Table, before: Table) -> bool:
    """Return whether rows of the earlier version may be missing from a table."""
    return table.deletes != before.deletes or table.next_row < before.next_row


def histories(
    context: BuildContext, session: SqlSession, data: VertexData, tables: Mapping[str, Table]
) -> dict[str, Path]:
    """Map each feature to the directory of its history, which is completely rebuilt if its table has changed."""
    histories_by_name = {}
    for spec in data.rows.element.features:
        if spec.history is not None:
            histories_by_name[spec.name] = _history(context, session, data, spec, tables[spec.history.table.lower()])
    return histories_by_name


def _history(context: BuildContext, session: SqlSession, data: VertexData, spec: FeatureSpec, table: Table) -> Path:
    """Return the directory of one feature's history."""
    assert spec.history is not None
    named = [*spec.history.key, spec.history.event_time, *spec.columns]
    facts = [data.id_map.id, data.rows.table.id, table.id, fields(table, named), _plain([spec])]
    wanted = ArtifactSpec(
        "features",
        digest_of("history", 1, facts, table.state, data.id_map.limit),
        f"features/{table.id}",
        digest_of("history", 1, facts),
        max(table.state, newest(data)),
    )
    time = table.column(spec.history.event_time)
    assert time is not None
    same = " AND ".join(f"h.{quote(name)} = m.k{i}" for i, name in enumerate(spec.history.key))
    columns = ", ".join(f"h.{quote(name)}" for name in dict.fromkeys([*spec.history.key, *spec.columns]))
    source = table_rows(table, data.rows.root, row_ids=True, ordered=False)
    rows = (
        f'SELECT {columns}, m.dense AS {quote(ROW_ID)}, {time_expression(time, "h.")} AS "snapdb time", '
        f'h.{quote(ROW_ID)} AS "snapdb order" FROM ({source}) h JOIN ({data.known}) m ON {same}'
    )

    def build(directory: Path) -> dict[str, Any]:
        context.report(f"building the history of {spec.name}", None)
        described = FeatureSource(table.name, rows, table.columns, data.id_map.limit, spec.history.key)  # type: ignore[union-attr]
        return write_history(session, described, spec, directory)

    return find_or_build(context.store.catalog_db, wanted, build).path


def _features(
    context: BuildContext,
    session: SqlSession,
    wanted: ArtifactSpec,
    specs: tuple[FeatureSpec, ...],
    target: str | None,
    build: Callable[[Path], dict[str, Any]],
    changed: Callable[[CachedArtifact], _Changed | None],
    full: bool,
) -> Features:
    """Return the arrays with the wanted digest, the nearest arrays with a patch, or new arrays from `build`."""
    catalog_db = context.store.catalog_db
    # The digest covers everything that determines the content, so artifacts with equal digests do not have to be
    # compared.
    if artifact := find_artifact(catalog_db, wanted.digest):
        if not full:
            return _features_of(artifact, "found")
    elif not full and (base := nearest_artifact(catalog_db, wanted)) and (change := changed(base)):
        patch = _patched(context, session, wanted, specs, target, change, base)
        if patch is not None:
            return patch
    if full:
        wanted = wanted.anew()
    return _features_of(find_or_build(catalog_db, wanted, build), "built")


def _patched(
    context: BuildContext,
    session: SqlSession,
    wanted: ArtifactSpec,
    specs: tuple[FeatureSpec, ...],
    target: str | None,
    change: _Changed,
    base: CachedArtifact,
) -> Features | None:
    """Return the base with a patch of the changed rows, or None if they do not fit into the base."""
    catalog_db, source = context.store.catalog_db, change.source
    (rows,) = session.rows(f"SELECT count(*) FROM ({source.rows})")[0]
    held = max(int(base.facts.get("rows", 0)), 1)
    if rows > _REBUILD_SHARE * held:
        return None
    if change.left is not None and not has_lists(session, source, specs, change.left):
        return None  # the base's list length may come from removed rows

    def patch(directory: Path) -> dict[str, Any]:
        facts = write_feature_patch(session, source, specs, target, base.path, base.facts, directory, change.growth)
        if facts is None:
            raise _UnfitError
        return facts

    try:
        if rows <= _MERGE_SHARE * held:
            return _features_of(find_or_build(catalog_db, wanted, patch, base.path), f"patched: {rows:,} rows")
        # A large patch slows down every read, so it is merged into complete arrays. Copying the base is faster than
        # reading the tables.
        apart = wanted._replace(digest=digest_of(wanted.digest, "patch"))
        newer = find_or_build(catalog_db, apart, patch, base.path)
        merged = find_or_build(catalog_db, wanted, lambda d: merge_features(base.path, newer.path, d))
        return _features_of(merged, f"merged: {rows:,} rows")
    except _UnfitError:
        return None


def _written(
    context: BuildContext,
    session: SqlSession,
    name: str,
    source: FeatureSource,
    specs: tuple[FeatureSpec, ...],
    target: str | None,
    directory: Path,
    growth: FeatureGrowth,
) -> dict[str, Any]:
    """Write the arrays and return their metadata."""
    report = partial(context.step, f"building the features of {name}")
    facts = write_features(session, source, specs, directory, growth, report) | {"rows": source.count}
    return facts if target is None else facts | write_target(session, source, target, directory, growth)


def _features_of(artifact: CachedArtifact, work: str) -> Features:
    """Return the directories of an artifact."""
    return Features(artifact.base or artifact.path, artifact.path if artifact.base else None, work)


def _own(specs: tuple[FeatureSpec, ...]) -> tuple[FeatureSpec, ...]:
    """Return the features that are stored in the element's own table."""
    return tuple(spec for spec in specs if spec.history is None)


def _plain(specs: Any) -> list[Any]:
    """Return the feature properties that determine the arrays, as plain values."""
    # A type of STORED is added only if there is one, so that older digests remain valid.
    return [
        [s.name, list(s.columns), s.default, s.dtype, s.sparse, s.width, *([s.stored] if s.stored else [])]
        for s in specs
    ]
