"""The scheduler. One process leads a database and starts its scheduled runs, and others wait to take over."""

from snapdb.daemon.serve import serve

__all__ = ["serve"]
