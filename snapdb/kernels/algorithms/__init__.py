"""Kernels of graph algorithms: loops over the rows of a graph, which its methods run on threads."""
