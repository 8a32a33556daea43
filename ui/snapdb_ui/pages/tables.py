"""Tables and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapdb.database import Database
from snapdb.sql_engine import quote, text_literal
from snapdb_ui.cells import count_text
from snapdb_ui.pages.overview import TABLES, growth
from snapdb_ui.pages.page import Ask, Column, Page, Panel, table, table_of
from snapdb_ui.reader import dicts, rows

_ROWS = 100
_VERSIONS = 200
_HISTORY = (
    Column("version", "version"),
    Column("time", "time"),
    Column("table", "table", "tables/{table}?version={version}"),
    Column("rows_added", "added", text=count_text),
    Column("rows_removed", "removed", text=count_text),
    Column("message", "message"),
    Column("author", "author"),
    Column("tag", "tag"),
)


def _columns(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = dicts(db, f"SHOW COLUMNS OF {quote(ask.name)}")
    wanted = (
        Column("name", "column"),
        Column("type", "type"),
        Column("nullable", "nullable"),
        Column("default_value", "default"),
    )
    return {"table": table(found, wanted), "empty": "The table has no columns."}


def _rows(db: Database, ask: Ask) -> Mapping[str, Any]:
    version = ask.number("version", 0)
    at = f" AT (VERSION => {version})" if version else ""
    statement = f"SELECT * FROM {quote(ask.name)}{at} LIMIT {_ROWS}"
    versions = dicts(
        db, f'SELECT DISTINCT version FROM snapdb.versions WHERE "table" = {text_literal(ask.name)} ORDER BY 1 DESC'
    )
    found = rows(db, statement)
    return {
        "table": table_of(found),
        "empty": "There are no rows.",
        "versions": [row["version"] for row in versions],
        "version": version,
        "statement": statement,
    }


def _history(db: Database, ask: Ask) -> Mapping[str, Any]:
    return {**_versions(db, ask, f'"table" = {text_literal(ask.name)}'), "path": f"tables/{ask.name}"}


def _versions(db: Database, ask: Ask, where: str = "true") -> Mapping[str, Any]:
    before = ask.number("before", 0)
    older = f" AND version < {before}" if before else ""
    found = dicts(
        db, f'SELECT * FROM snapdb.versions WHERE {where}{older} ORDER BY version DESC, "table" LIMIT {_VERSIONS + 1}'
    )
    last = found[_VERSIONS - 1]["version"] if len(found) > _VERSIONS else None
    return {"table": table(found[:_VERSIONS], _HISTORY), "empty": "There are no versions.", "before": last}


def _growth(db: Database, ask: Ask) -> Mapping[str, Any]:
    return growth(db, ask, f'"table" = {text_literal(ask.name)}')


PAGES = (
    Page("/tables", "tables", "Tables", (Panel("tables", "Tables", TABLES, "table.html"),)),
    Page(
        "/tables/{name}",
        "tables",
        "Table {name}",
        (
            Panel("columns", "Columns", _columns, "table.html"),
            Panel("growth", "Rows by version", _growth, "growth.html"),
            Panel("rows", f"First {_ROWS} rows", _rows, "rows.html"),
            Panel("history", "History", _history, "history.html"),
        ),
    ),
    Page("/versions", "versions", "Versions", (Panel("versions", "Versions", _versions, "history.html"),)),
)
