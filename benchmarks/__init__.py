"""Benchmarks: synthetic graphs, and the measurements published in RESULTS.md."""
