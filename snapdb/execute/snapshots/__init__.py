"""CREATE SNAPSHOT and REFRESH SNAPSHOT: the arrays of a snapshot are built and published."""
