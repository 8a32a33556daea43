"""Path search over adjacency arrays: all, selected, shortest and earliest paths."""
