"""Builders of a snapshot's arrays: dense ids, adjacencies and features, and the files that contain them."""
