"""Numba kernels: serial machine code over numpy arrays, which runs without the GIL.

Kernels read and write arrays only. They know no graphs, files or SQL.
"""
