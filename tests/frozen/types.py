"""The names under which types are stored: a new database and one of any earlier commit have these and no others.

A Python name may change; what stands here is on the disks of users. Each line is the path of an object in a JSON
document, or a table of the catalog, with the names of its fields: `[]` is any item, `<name>` any name of the user's.
"""

from __future__ import annotations

ELEMENT = "name table features event_time nulls_static labels properties"
FEATURE = "name columns default dtype sparse width history"
PERIOD = "months days microseconds"
FILE = "path rows bytes sha256"


def graph(path: str) -> dict[str, str]:
    """PropertyGraph with VertexElement, EdgeElement, FeatureSpec, FeatureHistory, Properties and Property."""
    return {
        path: "name vertices edges",
        f"{path}.vertices[]": f"{ELEMENT} key target on_duplicate classes",
        f"{path}.vertices[].features[]": FEATURE,
        f"{path}.vertices[].features[].history": "table key event_time",
        f"{path}.vertices[].properties": "named excepted",
        f"{path}.vertices[].properties.named[]": "column name",
        f"{path}.edges[]": f"{ELEMENT} source_key source destination_key destination weight on_dangling event_end",
        f"{path}.edges[].features[]": FEATURE,
    }


CATALOG = {
    **graph("graphs.definition"),
    **graph("snapshots.definition.graph"),
    "snapshots.definition": "id name graph version window unit filters form nodes edges bytes created path pin layout "
    "refreshed",  # Snapshot, Window, Filter, Pin
    "snapshots.definition.window": "start stop closed",
    "snapshots.definition.filters[]": "element condition",
    "snapshots.definition.pin": "head tag window",
    "graphs.retention": "rules keep_tagged",  # Retention, Rule, Period
    "graphs.retention.rules[]": "keeps length text",
    "graphs.retention.rules[].length": PERIOD,
    "samplers.definition": "id name text snapshot seeds edges batch hops method created author generation",  # Sampler
    "caches.definition": "id name sampler place room created author",  # Cache
    "tasks.definition": "id name schedule condition body folder timeout retries overlap catch_up suspended created "
    "author",  # Task, Schedule, Period
    "tasks.definition.schedule": "text cron zone every anchor",
    "tasks.definition.schedule.every": PERIOD,
    "versions.facts": "version time message author changes",
    "versions.facts.changes create": "change table name columns",
    "versions.facts.changes columns": "change table columns",
    "versions.facts.changes rows": f"change table first {FILE}",
    "versions.facts.changes deletes": f"change table first {FILE}",
    "versions.facts.changes ids": f"change map first merged {FILE}",
    "versions.facts.changes drop": "change table",
    "versions.facts.changes loaded": "change table files",
    "upkeep.facts": "number time after changes",
    "upkeep.facts.changes[]": f"change owner replaced first {FILE}",
    "upkeep.facts.changes rows": f"change owner replaced first {FILE}",
    "upkeep.facts.changes deletes": f"change owner replaced first {FILE}",
}
"""In columns of the catalog that hold JSON."""
FILES = {
    "caches/*.json": "cache process open generation stats",  # CacheReport, CacheStats
    "caches/*.json.stats": "bytes rows filled edges hits misses bytes_read bytes_filled bytes_saved refills drawn "
    "seconds age batch error",
    "topology/manifest.json": "kind digest edges nodes first_time last_time skipped files seal",
    "topology/manifest.json.files": "<file>",
    "topology/manifest.json.files.<file>": "bytes sha256",
    "features/manifest.json": "kind digest widths parts defaults growth count changed rows target files seal",
    "features/manifest.json.widths": "<name>",
    "features/manifest.json.parts": "<name>",
    "features/manifest.json.defaults": "<name>",
    "features/manifest.json.growth": "since steps",
    "features/manifest.json.growth.steps": "<name>",
    "features/manifest.json.target": "column classes dtype",
    "features/manifest.json.files": "<file>",
    "features/manifest.json.files.<file>": "bytes sha256",
    "snapshots/manifest.json": "kind layout files seal",  # SnapshotLayout, VertexLayout, EdgeLayout
    "snapshots/manifest.json.layout": "vertices edges",
    "snapshots/manifest.json.layout.vertices[]": "name count nodes map_id key features feature_names target patch "
    "history history_names",
    "snapshots/manifest.json.layout.edges[]": "name form edges topology features feature_names patch feature_patch "
    "reason bytes before",
    "snapshots/manifest.json.files": "<file>",
    "snapshots/manifest.json.files.<file>": "bytes sha256",
}
"""In files of the database."""
ROWS = {
    "runs": "task name run attempt cause state holder scheduled started ended version step published retry rows bytes "
    "error log replaced",  # TaskRun
    "exports": "task run attempt statement path sha256",  # RunExport
    "loaded": "table_id path bytes modified version",
    "leader": "one holder beat host pid since",
    "segments": f"id table_id kind first added shape {FILE}",
    "id_segments": f"map_id first {FILE}",
    "artefacts": "digest kind path bytes family version base",
    "garbage": "path since",
    "versions": "version time message author parent hash facts",
}
"""Columns of tables of the catalog that are read by name."""
LINEAGE = {
    **graph("lineage.pinned.graph"),
    "lineage": "snapshot graph version window definition pinned database snapdb tables_version tables_digest sampler "
    "seeds given_seeds rng seed generation epoch classes widths zero_weight rules",
    "lineage.pinned": "graph filters unit",  # Pinned
    "lineage.pinned.filters[]": "element condition",
    "lineage.rules": "both exclude known lasting",
    "lineage.classes": "<name>",
    "lineage.classes.<name>": "count digest names",
    "lineage.widths": "<name>",
    "lineage.widths.<name>": "<name>",
}
"""In the lineage of a batch."""
STATE = {
    "state": "epoch consumed visits rng snapshot seeds seed_type fanouts batch_size seed order drawing temporal link "
    "subset layout reuse_hops refresh generation zero_weight",
    "state.snapshot": "snapshot graph version window definition",
    "state.drawing": "method replace weights weighted dependent",  # Drawing
    "state.temporal": "inclusive within",  # Temporal
    "state.link": "edge negatives exclude",  # Link
    "state.link.negatives": "count weight known among",  # Negatives
    "state.refresh": "strategy every share amplify fetch visited shared above",  # Refresh
    "state.visits": "window rounds checksum",
}
"""In the state of a stream."""
