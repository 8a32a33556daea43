"""Kernels of the neighbour pool. They draw its rows, cache them, and sample from them."""
