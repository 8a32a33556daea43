"""Kernels that draw edges: by method, time and weight, with negative sampling and relabeling to local ids."""
