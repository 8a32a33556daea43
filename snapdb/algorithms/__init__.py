"""Graph algorithms as table functions: a snapshot as arrays, the methods, and their rows."""
