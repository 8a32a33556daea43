"""Files that COPY … (NEW FILES ONLY) took into tables, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from snapdb.catalog.listing import MOMENT
from snapdb.catalog.state import Catalog
from snapdb.catalog.windows import moment
from snapdb.storage.ledger import Ledger

LOADED = (
    ("table", pa.string()),
    ("path", pa.string()),
    ("bytes", pa.int64()),
    ("modified", MOMENT),
    ("version", pa.int64()),
    ("time", MOMENT),
)
_QUERY = "SELECT * FROM loaded JOIN versions USING (version) WHERE version <= ? ORDER BY version, path"


def loaded_rows(catalog: Catalog, ledger: Ledger) -> Iterable[Sequence[Any]]:
    """A row for each file in a table that is there, in the order of versions; an open transaction's have none yet."""
    names = {table.id: table.name for table in catalog.tables.values()}
    for row in ledger.rows(_QUERY, (catalog.version,)):
        if (name := names.get(row["table_id"])) is not None:
            modified = moment(row["modified"] // 1000)
            yield name, row["path"], row["bytes"], modified, row["version"], moment(row["time"])
    for table_id, file in catalog.loading:
        if (name := names.get(table_id)) is not None:
            yield name, file.path, file.bytes, moment(file.modified // 1000), None, None
