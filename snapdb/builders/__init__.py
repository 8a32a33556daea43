"""Builders of a snapshot's arrays: dense ids, adjacencies, features, and the files that contain them."""
