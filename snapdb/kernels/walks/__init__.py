"""Random walks: one kernel for plain rows, one for all other rows, and the skip-gram pairs of walks."""
