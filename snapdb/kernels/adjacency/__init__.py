"""Kernels for adjacency rows: encodings, spans of logical rows, sorting, merging, edge selection and degrees."""
