"""The database directory on disk: catalog database, table segments, id maps, array artifacts, and their maintenance."""
