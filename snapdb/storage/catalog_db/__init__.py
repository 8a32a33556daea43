"""The catalog of a database: its directory, its SQLite file, what is in that and who may use it when."""
