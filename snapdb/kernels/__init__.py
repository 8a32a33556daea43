"""Numba kernels: serial machine code over numpy arrays, which runs without the GIL.

Kernels only read and write arrays. They do not depend on graphs, files or SQL.
"""
