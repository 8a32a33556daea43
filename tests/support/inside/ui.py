"""Access to the internals of `snapdb_ui`."""

from __future__ import annotations

from snapdb_ui import reader
from snapdb_ui.app import PAGES, application
from snapdb_ui.cells import bytes_text, cell, count_text, text_of
from snapdb_ui.guard import HEADERS, Access
from snapdb_ui.metrics import down_text, metrics_text
from snapdb_ui.metrics_server import MetricsServer
from snapdb_ui.pages.page import address
from snapdb_ui.reader import Reader

__all__ = [
    "HEADERS",
    "PAGES",
    "Access",
    "MetricsServer",
    "Reader",
    "address",
    "application",
    "bytes_text",
    "cell",
    "count_text",
    "down_text",
    "metrics_text",
    "reader",
    "text_of",
]
