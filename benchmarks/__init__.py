"""Benchmarks: graphs made from a recipe, and the measurements of RESULTS.md."""
