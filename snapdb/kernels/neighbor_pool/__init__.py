"""Kernels of the neighbour pool, which draw its rows, cache them, and sample from them."""
