"""The scheduler. Each database has one leader, which starts scheduled runs. Other processes wait to take over."""

from snapdb.daemon.serve import serve

__all__ = ["serve"]
