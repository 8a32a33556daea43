"""Kernels that draw edges by method, time and weight, draw negatives, and relabel nodes with local ids."""
