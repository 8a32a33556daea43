"""Path searches: a graph as arrays, the search over them, and its rows as a stream of Arrow batches."""
