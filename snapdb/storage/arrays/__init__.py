"""Arrays of snapshots: adjacencies and features, written once and memory-mapped, and their patches."""
