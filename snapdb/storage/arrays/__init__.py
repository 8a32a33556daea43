"""Arrays of snapshots: adjacencies and features, written once and mapped into memory."""
