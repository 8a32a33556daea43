"""Garbage collection: files that the catalog does not name any more, and when they can be removed."""
