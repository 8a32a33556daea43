"""The step from format 6 to 7: what runs of tasks noted in their logs becomes columns and rows."""

from __future__ import annotations

import json
import re
from sqlite3 import Connection

_PUT = re.compile(r'^(\d+) puts (".*"), whose manifest has sha256 ([0-9a-f]{64})$', re.MULTILINE)
_REPLACED = "its task was replaced meanwhile"


def read_logs(connection: Connection) -> None:
    """Record the exports and the replaced tasks that the logs of format 6 mention; the logs stay as they are."""
    found = connection.execute("SELECT task, run, attempt, log FROM runs WHERE log <> ''").fetchall()
    for task, run, attempt, log in found:
        if _REPLACED in log.splitlines():
            connection.execute(
                "UPDATE runs SET replaced = 1 WHERE task = ? AND run = ? AND attempt = ?", (task, run, attempt)
            )
        exports = [(task, run, attempt, int(put[1]), _path(put[2]), put[3]) for put in _PUT.finditer(log)]
        connection.executemany("INSERT OR REPLACE INTO exports VALUES (?, ?, ?, ?, ?, ?)", exports)


def _path(text: str) -> str:
    """A path as it was written in a log; unchanged where an error message only looks like such a line."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text
