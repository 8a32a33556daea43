"""The daemon: one process leads a database and fires its tasks, and others wait to take over."""

from snapdb.daemon.serve import serve

__all__ = ["serve"]
