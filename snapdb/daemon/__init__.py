"""The scheduler. For each database, one process is the leader and starts scheduled runs; others wait to take over."""

from snapdb.daemon.serve import serve

__all__ = ["serve"]
