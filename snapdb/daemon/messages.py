"""What the daemon and its workers say to each other: a line of JSON each, through pipes."""

from __future__ import annotations

import json
from typing import Any

from snapdb.execute.run_ends import Ended
from snapdb.storage.codec import decode, encode
from snapdb.types import Run, Task

END = b'{"do": "end"}\n'
"""The worker is to end, which it does between two runs."""


def encode_run(task: Task, run: Run) -> bytes:
    """The worker is to perform a run."""
    return _line({"do": "run", "task": encode(task), "run": encode(run)})


def decode_run(message: dict[str, Any]) -> tuple[Task, Run]:
    """What `encode_run` wrote, read as JSON."""
    return decode(Task, message["task"]), decode(Run, message["run"])


def encode_stop(why: str) -> bytes:
    """The run that goes on is to stop."""
    return _line({"do": "stop", "why": why})


def encode_end(ended: Ended) -> bytes:
    """The worker tells how a run ended."""
    return _line({"ended": encode(ended)})


def decode_end(line: bytes) -> Ended:
    """What `encode_end` wrote."""
    return decode(Ended, json.loads(line)["ended"])


def _line(message: dict[str, str]) -> bytes:
    return json.dumps(message).encode() + b"\n"
