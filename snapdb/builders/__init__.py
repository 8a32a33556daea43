"""The building of a snapshot's arrays: dense ids, adjacencies, features and the files that hold them."""
