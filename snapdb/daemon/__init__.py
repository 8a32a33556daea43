"""The scheduler: one process leads a database and starts its scheduled runs; others wait to take over."""

from snapdb.daemon.serve import serve

__all__ = ["serve"]
