"""Kernels of the neighbour pool: how its rows are drawn, cached, and sampled from."""
