"""Graphs of other libraries and files, as tables, a property graph and a snapshot."""
