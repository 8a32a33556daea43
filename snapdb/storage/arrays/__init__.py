"""Snapshot arrays: write-once, memory-mapped adjacencies and features, and their patches."""
