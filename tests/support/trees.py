"""Random statements as syntax trees, with one strategy per class, for tests that print, parse or run them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from importlib.resources import files
from typing import Any, TypeVar

from hypothesis import strategies as st

from snapdb.errors import Span
from snapdb.types import FORMS
from tests.support.inside.sql import (
    AddColumn,
    AddConstraint,
    AlterTable,
    AlterTask,
    Audit,
    BackupDatabase,
    Begin,
    CheckDatabase,
    Clauses,
    ClockClause,
    Commit,
    CopyDatabase,
    CopyFrom,
    CopySampleTo,
    CopySnapshotTo,
    CopyTo,
    CreateCache,
    CreateDefinition,
    CreateGraph,
    CreateSampler,
    CreateSnapshot,
    CreateTable,
    CreateTag,
    CreateTask,
    Deallocate,
    Delete,
    Describe,
    DiffGraph,
    DiffSnapshot,
    DiffTable,
    Drop,
    DropColumn,
    DropConstraint,
    DropRetention,
    EdgeClause,
    EventTime,
    Execute,
    ExecuteArgument,
    ExecuteTask,
    ExpireSnapshots,
    Explain,
    FanoutClause,
    FeatureClause,
    HistoryClause,
    Insert,
    KnownClause,
    LabelClause,
    Merge,
    MergeClause,
    MethodClause,
    Name,
    NegativesClause,
    OnConflict,
    Prepare,
    PropertiesClause,
    Publish,
    Query,
    RefreshCache,
    RefreshClause,
    RefreshSnapshot,
    RenameColumn,
    RetentionRule,
    Rollback,
    Sample,
    SampleUsing,
    Schedule,
    SeedsClause,
    SetNullable,
    SetRetention,
    Show,
    Spanned,
    SqlFragment,
    Statement,
    StepClause,
    Summarize,
    TaskOption,
    TimeBound,
    Truncate,
    Update,
    Vacuum,
    VersionBound,
    VertexClause,
    VisitsClause,
    WalkClauses,
    WindowBound,
    _CacheRoom,
)

T = TypeVar("T")
NOWHERE = Span(0, 0)


def _words() -> list[str]:
    """Return every keyword of every grammar, and keywords of the parsers of SQL fragments."""
    grammars = [entry.read_text() for entry in files("snapdb_grammar").iterdir() if entry.name.endswith(".lark")]
    found = {word for text in grammars for word in re.findall(r'"([A-Za-z_]+)"i', text)}
    return sorted(found | {"MESSAGE", "RETURNING", "ON", "CONFLICT", "SELECT", "BY", "AND", "NULL", "UNION", "JOIN"})


WORDS = _words()
PLAIN = [
    "bought",
    "customer",
    "item",
    "ts",
    "été",
    "名前",
    "Wide Name",
    'say "hi"',
    "semi;colon",
    "it's",
    "-- no",
    "/*",
]
ODD = ["a\nb", "a\r\nb", "tab\t", "\u202egnirts", "zero\u200bwidth", "\\", "$$", "$x", "?", "1st", "\u017fet", "😀"]
NAMES = [*PLAIN, *ODD, *WORDS, *map(str.lower, WORDS)]

QUERIES = [
    "SELECT cid FROM customer",
    "select * FROM bought AT (VERSION => 3) AS b WHERE b.note = 'a;b'",
    "WITH t AS (SELECT 1 AS a) SELECT a FROM t",
    "VALUES (1, 'it''s'), (2, $$as is$$)",
    'FROM "Order item" -- a comment\n LIMIT 3',
    "(SELECT 1) UNION ALL (SELECT 2)",
    "SELECT /* nested /* comment */ */ 'MESSAGE' || E'\\'x\\n'",
]
EXPRESSIONS = [
    "1",
    "-2.5",
    "now() - INTERVAL '7 days'",
    "qty + 1",
    "(SELECT max(a) FROM t)",
    "f(a, [1, 2])",
    "{'a': 1}",
]
CONDITIONS = ["bought.qty > 0", "note LIKE '%;--%' AND (a OR b)", "a IS DISTINCT FROM b", '"at" IS NOT NULL']
CTES = ["x AS (SELECT 1 AS a)", "RECURSIVE r(n) AS (VALUES (1)), q AS NOT MATERIALIZED (FROM r)"]
RETURNED = ["*", "a + 1 AS b, t.*", "count(*)"]
SOURCES = ["price p JOIN shop s USING (sid)", "(SELECT 1 AS a) x, t", "price AT (VERSION => 7) AS p"]
COLUMNS = ["cid BIGINT NOT NULL, name VARCHAR", '"odd name" DECIMAL(10, 2)', "v FLOAT[4], s STRUCT(a INTEGER)"]
COLUMN = ["note VARCHAR", "note VARCHAR DEFAULT ''", '"odd name" FLOAT[4] NOT NULL']
MOMENTS = [
    "400",
    "-5",
    "- 5",
    "'2026-01-01'",
    "DATE '2026-07-01'",
    "timestamp '2026-07-01 10:00'",
    "now()",
    "1 + 2",
    "(3)",
]
LENGTHS = [
    "INTERVAL '7 days'",
    "INTERVAL 3 days",
    "INTERVAL - 3 DAY",
    "interval '3' hour",
    "INTERVAL (1 + 2) days",
    "-4",
]
COMPUTED = ["86400000 * 30", "(1 + 2) * 3", "INTERVAL 1 DAY * 30", "(SELECT max(t) FROM e)", "greatest(1, 2)"]

_HELD = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.one_of(
    st.sampled_from(["", "it's", "a;b -- c", "line\nend", "\\n", "/*", "$$", "名前"]), st.text(_HELD, max_size=8)
)
names = st.builds(Name, st.one_of(st.sampled_from(NAMES), st.text(_HELD, min_size=1, max_size=6)), st.just(NOWHERE))
counts = st.integers(-3, 10**12)


def _island(texts: Sequence[str]) -> st.SearchStrategy[SqlFragment]:
    return st.builds(SqlFragment, st.sampled_from(texts), st.just(NOWHERE))


def _some(strategy: st.SearchStrategy[T], least: int = 1, most: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def _maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | strategy


def _spanned(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[Spanned[T]]:
    return st.builds(Spanned, strategy, st.just(NOWHERE))


def _clause(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[Spanned[T] | None]:
    return _maybe(_spanned(strategy))


def _tree(cls: type[T], /, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Return a strategy for a class whose spans are empty. Flags without a given strategy are random."""
    given: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        if not field.compare:
            given[field.name] = st.just("" if field.name == "source" else NOWHERE)
        elif field.type == "bool":
            given[field.name] = st.booleans()
    return st.builds(cls, **{**given, **parts})


def _bound() -> st.SearchStrategy[VersionBound]:
    values = {"VERSION": EXPRESSIONS, "TIMESTAMP": EXPRESSIONS, "TAG": ["'june'", "'it''s'", "E'\\n'", "$$x$$"]}
    kinds = [_tree(VersionBound, kind=st.just(kind), value=_island(value)) for kind, value in values.items()]
    return st.one_of(kinds)


columns = _some(names)
any_columns = _some(names, 0)
messages = _maybe(texts)
bounds = _bound()
"""The bounds of AT and DIFF."""

create_table = st.one_of(
    _tree(CreateTable, name=names, definition=_island(COLUMNS), columns=st.just(()), query=st.none(), message=messages),
    _tree(CreateTable, name=names, definition=st.none(), columns=any_columns, query=_island(QUERIES), message=messages),
)
_defined = {
    "view": _island(QUERIES),
    "macro": _island(["(a) AS a + 1", "(a, b := 2) AS TABLE SELECT a, b", "() AS 1, (a) AS a"]),
    "type": _island(["ENUM ('a', 'b')", "STRUCT (a INTEGER)", "DECIMAL(9, 2)"]),
    "sequence": _maybe(_island(["START 5", "START WITH 5 INCREMENT BY -2 MAXVALUE 9 CYCLE"])),
}
create_definition = st.one_of(
    *(
        _tree(
            CreateDefinition,
            kind=st.just(kind),
            name=names,
            columns=any_columns if kind == "view" else st.just(()),
            recursive=st.booleans() if kind == "view" else st.just(False),
            body=body,
            message=messages,
        )
        for kind, body in _defined.items()
    ),
    _tree(
        CreateDefinition,
        kind=st.just("schema"),
        name=names,
        columns=st.just(()),
        body=st.none(),
        or_replace=st.just(False),
        temporary=st.just(False),
        recursive=st.just(False),
        message=messages,
    ),
)
assigned = _some(st.tuples(names, _island(EXPRESSIONS)))
conflicts = st.one_of(
    st.none(),
    st.builds(OnConflict, any_columns, assigned, _maybe(_island(CONDITIONS))),
    st.builds(OnConflict, any_columns, st.just(()), st.none()),
    st.builds(OnConflict, st.just(()), st.just(()), st.none(), st.sampled_from(["REPLACE", "IGNORE"])),
)
insert = _tree(
    Insert,
    ctes=_maybe(_island(CTES)),
    table=names,
    alias=_maybe(names),
    by_name=st.booleans(),
    columns=any_columns,
    query=_maybe(_island(QUERIES)),
    conflict=conflicts,
    returning=_maybe(_island(RETURNED)),
    message=messages,
)
update = _tree(
    Update,
    ctes=_maybe(_island(CTES)),
    table=names,
    alias=_maybe(names),
    assignments=_some(st.tuples(names, _island(EXPRESSIONS))),
    others=_maybe(_island(SOURCES)),
    where=_maybe(_island(CONDITIONS)),
    returning=_maybe(_island(RETURNED)),
    message=messages,
)
delete = _tree(
    Delete,
    ctes=_maybe(_island(CTES)),
    table=names,
    alias=_maybe(names),
    others=_maybe(_island(SOURCES)),
    where=_maybe(_island(CONDITIONS)),
    returning=_maybe(_island(RETURNED)),
    message=messages,
)
_also = _maybe(_island(CONDITIONS))
_seen = st.sampled_from(["MATCHED", "NOT MATCHED BY SOURCE"])
merge_clauses = st.one_of(
    st.builds(MergeClause, _seen, _also, st.sampled_from(["DELETE", "DO NOTHING", "ERROR"])),
    st.builds(MergeClause, _seen, _also, st.just("UPDATE"), st.just(False), assignments=assigned),
    st.builds(MergeClause, _seen, _also, st.just("UPDATE"), st.booleans()),
    st.builds(
        MergeClause,
        st.just("NOT MATCHED"),
        _also,
        st.just("INSERT"),
        st.booleans(),
        any_columns,
        values=_maybe(_some(_island(EXPRESSIONS))),
    ),
)


def _is_reachable(clauses: Sequence[MergeClause]) -> bool:
    """Whether no clause follows one that applies to all of its rows."""
    return not any(a.rows == b.rows and a.condition is None for i, b in enumerate(clauses) for a in clauses[:i])


merges = st.one_of(
    *(
        _tree(
            Merge,
            ctes=_maybe(_island(CTES)),
            table=names,
            alias=_maybe(names),
            sources=_island(SOURCES),
            condition=condition,
            shared=shared,
            clauses=_some(merge_clauses).filter(_is_reachable),
            returning=_maybe(_island(RETURNED)),
            message=messages,
        )
        for condition, shared in ((_island(CONDITIONS), st.just(())), (st.none(), _some(names)))
    )
)
changes = st.one_of(
    _tree(AddColumn, definition=_island(COLUMN)),
    _tree(DropColumn, column=names),
    _tree(RenameColumn, column=names, new=names),
    _tree(AddConstraint, definition=_island(["PRIMARY KEY (a)", "CONSTRAINT c CHECK (a > 0)", "UNIQUE (a, b)"])),
    _tree(DropConstraint, name=names),
    _tree(SetNullable, column=names),
)
alter_table = _tree(AlterTable, table=names, action=changes, message=messages)

single = st.one_of(st.booleans(), counts, st.floats(-1e30, 1e30), texts)
copy_from = _tree(
    CopyFrom,
    table=names,
    columns=any_columns,
    path=texts,
    options=_some(st.tuples(names, single), 0),
    new_only=st.booleans(),
    message=messages,
)
copy_database = _tree(CopyDatabase, path=texts, tables=_some(st.tuples(names, _maybe(names)), 0), message=messages)
copy_options = _some(st.tuples(names, single | columns), 0)
copy_to = st.one_of(
    _tree(
        CopyTo,
        snapshot=st.none(),
        table=names,
        at=_maybe(bounds),
        columns=any_columns,
        query=st.none(),
        path=texts,
        options=copy_options,
    ),
    _tree(
        CopyTo,
        snapshot=names,
        table=names,
        at=st.none(),
        columns=any_columns,
        query=st.none(),
        path=texts,
        options=copy_options,
    ),
    _tree(
        CopyTo,
        snapshot=st.none(),
        table=st.none(),
        at=st.none(),
        columns=st.just(()),
        query=_island(QUERIES),
        path=texts,
        options=copy_options,
    ),
)
copy_snapshot_to = _tree(CopySnapshotTo, snapshot=names, path=texts, options=copy_options)

event_times = {
    most: _maybe(_tree(EventTime, columns=_some(names, 1, most))) for most in (1, 2)
}  # a vertex has a birth time, and an edge also has an end time
sparse = _clause(_maybe(st.integers(1, 2**31 - 1)))
history = _tree(HistoryClause, table=names, key=columns, event_time=names)
about_features = {
    "default": _maybe(st.floats(-1e30, 1e30) | st.integers(-9, 9).map(float)),
    "dtype": _maybe(names),
    "stored": _maybe(names),
    "sparse": sparse,
    "history": _maybe(history),
}
features = _some(
    st.one_of(
        _tree(FeatureClause, columns=_some(names, 1, 1), name=_maybe(names), **about_features),
        _tree(FeatureClause, columns=_some(names, 2), name=names, **about_features),
    ),
    0,
    2,
)
properties = _maybe(
    st.one_of(
        _tree(
            PropertiesClause,
            all=st.just(False),
            columns=_some(st.tuples(names, _maybe(names)), 0),
            excepted=st.just(()),
        ),
        _tree(PropertiesClause, all=st.just(True), columns=st.just(()), excepted=any_columns),
    )
)
label = st.one_of(
    _tree(LabelClause, name=names, properties=properties), _tree(LabelClause, name=st.none(), properties=properties)
)
labels = st.lists(label, max_size=2, unique_by=lambda label: label.name and label.name.text.lower()).map(tuple)
classes = _spanned(st.lists(texts, min_size=1, max_size=3).map(tuple))


def _vertex(target: Any, classes: Any) -> st.SearchStrategy[VertexClause]:
    return _tree(
        VertexClause,
        table=names,
        alias=_maybe(names),
        key=any_columns,
        features=features,
        event_time=event_times[1],
        target=target,
        on_duplicate=st.sampled_from(["ERROR", "FIRST", "LAST"]),
        labels=labels,
        properties=properties,
        classes=classes,
    )


vertex = _vertex(st.none(), st.none()) | _vertex(names, _maybe(classes))


def _edge(source_key: Any, source_columns: Any, to_key: Any, to_columns: Any) -> st.SearchStrategy[EdgeClause]:
    return _tree(
        EdgeClause,
        table=names,
        alias=_maybe(names),
        key=any_columns,
        source_key=source_key,
        source=names,
        source_columns=source_columns,
        destination_key=to_key,
        destination=names,
        destination_columns=to_columns,
        event_time=event_times[2],
        weight=_maybe(names),
        features=features,
        on_dangling=st.sampled_from(["ERROR", "SKIP"]),
        labels=labels,
        properties=properties,
    )


none = st.just(())
edge = st.one_of(_edge(columns, any_columns, none, none), _edge(none, none, columns, any_columns))
create_graph = _tree(
    CreateGraph, name=names, vertices=_some(vertex, 1, 2), edges=_some(edge, 0, 2), validates=st.booleans()
)
rules = _tree(
    RetentionRule, keeps=st.sampled_from(["all", "daily", "weekly", "monthly", "yearly"]), length=st.just("3 days")
)
set_retention = _tree(SetRetention, graph=names, rules=st.lists(rules, min_size=1, max_size=1).map(tuple))
drop_retention = _tree(DropRetention, graph=names)

moments = _island(MOMENTS)
event_time = st.one_of(
    _tree(TimeBound, kind=st.just("AS OF"), start=st.none(), stop=moments),
    _tree(TimeBound, kind=st.sampled_from(["FROM", "BETWEEN"]), start=moments, stop=moments),
    _tree(WindowBound, length=_island([*LENGTHS, *COMPUTED]), ending=_maybe(moments)),
)
create_snapshot = _tree(
    CreateSnapshot,
    name=names,
    graph=names,
    at=_maybe(bounds),
    event_time=_maybe(event_time),
    elements=any_columns,
    layout=_clause(st.sampled_from(FORMS)),
    where=_maybe(_island(CONDITIONS)),
)
refresh_snapshot = _tree(RefreshSnapshot, name=names)
older, last = _island([*MOMENTS, *LENGTHS[:-1], "INTERVAL '1' day + INTERVAL '1' hour"]), counts
expire_snapshots = st.one_of(
    _tree(ExpireSnapshots, graph=_maybe(names), older=older, last=_maybe(last), by_retention=st.just(False)),
    _tree(ExpireSnapshots, graph=_maybe(names), older=st.none(), last=last, by_retention=st.just(False)),
    _tree(ExpireSnapshots, graph=_maybe(names), older=st.none(), last=st.none(), by_retention=st.just(True)),
)

seeds = _tree(SeedsClause, query=_island(QUERIES), type=names)
_vertex_seeds = _tree(SeedsClause, query=_island(QUERIES), type=names, edges=st.just(False))
fanout = st.one_of(
    _tree(
        FanoutClause, edge=names, direction=st.sampled_from(["IN", "OUT", "BOTH"]), counts=_some(st.integers(-3, 99))
    ),
    _tree(
        FanoutClause,
        edge=st.none(),
        direction=st.sampled_from(["IN", "OUT", "BOTH"]),
        counts=_some(st.integers(-3, 99)),
    ),
)
decimals = st.decimals(-(10**9), 10**9, places=3) | st.sampled_from([Decimal("1E+99"), Decimal("0.1e-7"), Decimal(20)])
walk = {
    "length": st.builds(Spanned, counts, st.just(NOWHERE)),
    "along": _clause(_some(_tree(StepClause, edge=names, direction=st.sampled_from(["IN", "OUT", "BOTH"])))),
    "direction": _clause(st.sampled_from(["IN", "OUT", "BOTH"])),
    "restart": _clause(decimals),
}
visits = _tree(
    VisitsClause,
    walk=st.builds(WalkClauses, per_seed=st.builds(Spanned, counts, st.just(NOWHERE)), **walk),
    tops=_some(counts),
)
fanouts = st.builds(Spanned, st.one_of(_some(fanout), visits), st.just(NOWHERE))
method = st.one_of(
    _tree(
        MethodClause,
        method=st.sampled_from(["UNIFORM", "LATEST", "TOPK", "FULL", "PRIORITY", "BOTTOMK"]),
        dependent=st.just(1),
    ),
    _tree(MethodClause, method=st.just("LABOR"), dependent=counts),
)
draws = {"every": _maybe(st.just("AUTO") | counts), "amplify": _maybe(decimals), "above": _maybe(counts)}
refresh = st.one_of(
    _tree(
        RefreshClause,
        strategy=st.just("FBL"),
        percent=st.none(),
        every=st.none(),
        amplify=st.none(),
        fetch=st.none(),
        scope=st.none(),
        shared=st.just(False),
        above=st.none(),
    ),
    _tree(RefreshClause, strategy=st.just("FCR"), percent=st.none(), fetch=st.none(), scope=st.none(), **draws),
    _tree(
        RefreshClause,
        strategy=st.just("OTF"),
        percent=decimals,
        fetch=_maybe(decimals),
        scope=_maybe(st.sampled_from(["ALL", "VISITED"])),
        **draws,
    ),
)
weights = _some(st.tuples(_maybe(names), names))
negatives = _tree(NegativesClause, count=counts, weight=st.one_of(st.none(), st.just("DEGREE"), names))


def _clauses(**required: st.SearchStrategy[Any]) -> st.SearchStrategy[Clauses]:
    flag, size = st.just(True), st.sampled_from([1, 1536, 10**9, 2 * 10**12, 999_999])
    optional = {
        "seeds": _maybe(seeds),
        "fanouts": _maybe(fanouts),
        "method": _maybe(method),
        "weights": _clause(weights),
        "replace": _clause(st.booleans()),
        "temporal": _clause(st.booleans()),
        "within": _clause(_island(LENGTHS)),
        "negatives": _maybe(negatives),
        "known": _maybe(_tree(KnownClause, value=st.sampled_from(["EVER", "BEFORE", "AT"]), types=_some(names, 0, 2))),
        "exclude": _clause(st.sampled_from(["NONE", "PAIR", "BOTH"])),
        "subset": _clause(decimals),
        "allow_duplicates": _clause(flag),
        "layout": _clause(st.sampled_from(["NODES", "BLOCKS"])),
        "reuse_hops": _clause(flag),
        "order": _clause(st.sampled_from(["SHUFFLE", "IN ORDER", "FIXED"])),
        "batch": _clause(counts),
        "repeatable": _clause(counts),
        "epochs": _clause(counts),
        "refresh": _maybe(refresh),
        "device": _clause(texts),
        "backend": _clause(st.sampled_from(["numba", "torch"])),
        "memory": _clause(size),
    }
    return st.builds(Clauses, **{**optional, **required})


walks = st.builds(
    WalkClauses,
    **walk,
    per_seed=_clause(counts),
    back=_clause(decimals),
    inout=_clause(decimals),
    clock=_maybe(_tree(ClockClause, strict=st.booleans(), clock=st.sampled_from(["forward", "backward"]))),
    window=_clause(counts),
    contrasts=_clause(counts),
)
_NOT_OF_WALKS = ("method", "replace", "negatives", "known", "exclude", "layout", "reuse_hops", "refresh", "fanouts")


def _of_walks(**required: st.SearchStrategy[Any]) -> st.SearchStrategy[Clauses]:
    return _clauses(walk=walks, **dict.fromkeys(_NOT_OF_WALKS, st.none()), **required)


sample = _tree(Sample, snapshot=names, clauses=_clauses(seeds=seeds, fanouts=fanouts) | _of_walks(seeds=_vertex_seeds))
sample_using = _tree(
    SampleUsing, sampler=names, clauses=_clauses() | _of_walks(seeds=_maybe(_vertex_seeds)), only_name=st.just(False)
)
samples = sample | sample_using
create_sampler = _tree(CreateSampler, name=names, sample=samples)
audit = _tree(Audit, sample=samples)
copy_sample_to = _tree(CopySampleTo, sample=samples, path=texts, options=copy_options)

shows = st.one_of(
    _tree(Show, what=st.just("TABLES"), like=_maybe(texts), of=st.none(), at=_maybe(bounds)),
    _tree(
        Show,
        what=st.sampled_from(["COLUMNS", "SNAPSHOTS", "VERSIONS", "TASK RUNS"]),
        like=_maybe(texts),
        of=_maybe(names),
        at=st.none(),
    ),
    _tree(
        Show,
        what=st.sampled_from(["GRAPHS", "SAMPLERS", "TAGS", "CACHES", "TASKS"]),
        like=_maybe(texts),
        of=st.none(),
        at=st.none(),
    ),
)
describe = st.one_of(
    _tree(Describe, kind=st.just("TABLE"), name=names, at=_maybe(bounds)),
    _tree(
        Describe,
        kind=st.sampled_from(["GRAPH", "SNAPSHOT", "SAMPLER", "CACHE", "TASK", None]),
        name=names,
        at=st.none(),
    ),
)
drop = _tree(Drop, kind=st.sampled_from(["TABLE", "GRAPH", "SNAPSHOT", "TAG", "SAMPLER", "CACHE", "TASK"]), name=names)
create_tag = _tree(CreateTag, name=names, at=_maybe(bounds))
details = st.sampled_from(["SUMMARY", "ROWS", "FEATURES"])
diff_table = _tree(DiffTable, table=names, start=bounds, stop=_maybe(bounds))
diff_graph = _tree(DiffGraph, graph=names, start=bounds, stop=_maybe(bounds), detail=details)
diff_snapshot = _tree(DiffSnapshot, after=names, before=names, detail=details)
kept_for = _maybe(_island(["INTERVAL '7 days'", "INTERVAL (1) days"]))
vacuum = st.one_of(
    _tree(Vacuum, table=_maybe(names), url=st.none(), retain=kept_for),
    _tree(Vacuum, table=st.none(), url=_clause(texts), retain=kept_for),
)
publish = _tree(
    Publish,
    snapshots=st.lists(names, max_size=3).map(tuple),
    url=texts,
    tables=st.sampled_from(["all", "seeds", "none"]),
    keep=st.integers(1, 1000),
)

rooms = _tree(_CacheRoom, where=st.sampled_from(["MEMORY", "FILE"]), bytes=st.sampled_from([1, 1536, 4 * 10**9]))
spills = _clause(st.sampled_from([None, 1, 1536, 4 * 10**9]))
of_features = {
    "features": st.just(Spanned(True, NOWHERE)),
    "spill": spills,
    "when": st.sampled_from([None, "needed", "always"]),
}
of_edges = {"features": st.none(), "spill": st.none(), "when": st.none()}
create_cache = st.one_of(
    _tree(CreateCache, name=names, sampler=names, room=_maybe(rooms), **of_edges),
    _tree(CreateCache, name=names, sampler=names, room=_maybe(rooms), **of_features),
)
task_options = st.one_of(
    _tree(TaskOption, name=st.just("timeout"), value=st.just("1 hour")),
    _tree(TaskOption, name=st.just("retries"), value=st.integers(0, 9)),
    _tree(TaskOption, name=st.just("overlap"), value=st.just("skip")),
    _tree(TaskOption, name=st.just("catch_up"), value=st.just("none")),
    _tree(TaskOption, name=st.just("notify"), value=st.sampled_from(["ops", None])),
)
schedules = st.one_of(
    _tree(Schedule, cron=st.sampled_from(["0 3 * * * UTC", "*/5 * * * * Europe/Berlin"]), every=st.none()),
    _tree(Schedule, cron=st.none(), every=_island(LENGTHS[:-1])),
)
BODIES = ["CREATE SNAPSHOT s_{date} OF shop", "INSERT INTO t SELECT '{run}; it''s'", "$$ DROP TABLE t; SELECT 1; $$"]
create_task = _tree(
    CreateTask,
    name=names,
    schedule=schedules,
    when=_maybe(_island(CONDITIONS)),
    options=_some(task_options, 0, 1),
    body=_island(BODIES),
)
alter_task = st.one_of(
    _tree(AlterTask, name=names, action=st.sampled_from(["SUSPEND", "RESUME"]), options=none),
    _tree(AlterTask, name=names, action=st.just("SET"), options=_some(task_options, 1, 1)),
)

arguments = _tree(ExecuteArgument, name=_maybe(names), value=_island(EXPRESSIONS))

query = _island(QUERIES).map(lambda island: Query("", NOWHERE, island))
_BARE: list[type[Statement]] = [Begin, CheckDatabase, Rollback]
STATEMENTS: dict[type[Statement], st.SearchStrategy[Any]] = {
    **{kind: _tree(kind) for kind in _BARE},
    BackupDatabase: _tree(BackupDatabase, path=st.sampled_from(["a", "it's/b"]), copies=st.booleans()),
    AlterTable: alter_table,
    AlterTask: alter_task,
    Audit: audit,
    Commit: _tree(Commit, message=messages),
    CopyDatabase: copy_database,
    CopyFrom: copy_from,
    CopySampleTo: copy_sample_to,
    CopySnapshotTo: copy_snapshot_to,
    CopyTo: copy_to,
    CreateCache: create_cache,
    CreateGraph: create_graph,
    CreateSampler: create_sampler,
    CreateSnapshot: create_snapshot,
    CreateTable: create_table,
    CreateTag: create_tag,
    CreateDefinition: create_definition,
    CreateTask: create_task,
    Deallocate: _tree(Deallocate, name=_maybe(names)),
    Delete: delete,
    Execute: _tree(Execute, name=names, arguments=_some(arguments, 0)),
    Describe: describe,
    DiffGraph: diff_graph,
    DiffSnapshot: diff_snapshot,
    DiffTable: diff_table,
    Drop: drop,
    ExecuteTask: _tree(ExecuteTask, name=names),
    ExpireSnapshots: expire_snapshots,
    Insert: insert,
    Publish: publish,
    Query: query,
    RefreshCache: _tree(RefreshCache, name=names),
    RefreshSnapshot: refresh_snapshot,
    Sample: sample,
    SampleUsing: sample_using,
    SetRetention: set_retention,
    DropRetention: drop_retention,
    Show: shows,
    Summarize: _tree(Summarize, name=names),
    Merge: merges,
    Truncate: _tree(Truncate, table=names, message=messages),
    Update: update,
    Vacuum: vacuum,
}
"""Class → a strategy for its statements. EXPLAIN can contain any of them."""
STATEMENTS[Prepare] = _tree(
    Prepare,
    name=names,
    types=_maybe(_island(["INTEGER, VARCHAR"])),
    statement=st.one_of([each for kind, each in STATEMENTS.items() if kind not in (Deallocate, Execute)]),
)
STATEMENTS[Explain] = _tree(Explain, statement=st.one_of(list(STATEMENTS.values())))
statements = st.one_of(list(STATEMENTS.values()))
