"""Tasks and their runs: a grid of runs, the next ones, and one run with its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapdb.database import Database
from snapdb.sql_engine import quote, text_literal
from snapdb_ui.pages.overview import runs_table
from snapdb_ui.pages.page import Ask, Column, Page, Panel, listing, table_of
from snapdb_ui.reader import dicts, rows

_CELLS = 60
"""The number of runs of a task in the grid."""
_RUNS = 200
_TASKS = (
    Column("name", "task", "tasks/{name}"),
    Column("state", "state", state=True),
    Column("schedule", "schedule"),
    Column("next_run", "next run"),
    Column("last_state", "last state", state=True),
    Column("last_run", "last run"),
    Column("runs", "runs"),
)
_LIST = listing("SHOW TASKS", _TASKS, "There are no tasks.")


def _grid(db: Database, ask: Ask) -> Mapping[str, Any]:
    where = f"WHERE task = {text_literal(ask.name)}" if "name" in ask.names else ""
    found = dicts(
        db,
        "SELECT task, run, state, scheduled, seconds FROM (SELECT *, row_number() OVER (PARTITION BY task ORDER BY "
        f"scheduled DESC, attempt DESC) AS place FROM snapdb.task_runs {where}) WHERE place <= {_CELLS} "
        "ORDER BY task, place DESC",
    )
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        tasks.setdefault(row["task"], []).append(row)
    return {"tasks": tasks, "cells": _CELLS}


def _leader(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = rows(db, "SELECT * FROM snapdb.leader")
    return {"table": table_of(found, blank=True), "empty": "No scheduler is running."}


def _definition(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = rows(db, f"DESCRIBE TASK {quote(ask.name)}")
    return {"table": table_of(found, blank=True), "empty": "The task has no properties."}


def _runs(db: Database, ask: Ask) -> Mapping[str, Any]:
    found = runs_table(db, _RUNS, f"task = {text_literal(ask.name)}")
    return {"table": found, "empty": "The task has not run yet."}


def _attempts(db: Database, ask: Ask) -> Mapping[str, Any]:
    run = ask.names["run"]
    where = f"task = {text_literal(ask.name)} AND run = TRY_CAST({text_literal(run)} AS BIGINT)"
    attempts = dicts(db, f"SELECT * FROM snapdb.task_runs WHERE {where} ORDER BY attempt")
    return {"attempts": attempts, "name": ask.name, "run": run}


PAGES = (
    Page(
        "/tasks",
        "tasks",
        "Tasks",
        (
            Panel("tasks", "Tasks", _LIST, "table.html"),
            Panel("grid", f"Last {_CELLS} runs of each task", _grid, "grid.html"),
            Panel("leader", "Scheduler", _leader, "table.html"),
        ),
    ),
    Page(
        "/tasks/{name}",
        "tasks",
        "Task {name}",
        (
            Panel("definition", "Definition", _definition, "table.html"),
            Panel("grid", f"Last {_CELLS} runs", _grid, "grid.html"),
            Panel("runs", "Runs", _runs, "table.html"),
        ),
    ),
    Page("/runs/{name}/{run}", "tasks", "Run {run} of {name}", (Panel("run", "Attempts", _attempts, "run.html"),)),
)
