"""The catalog database: the database directory, its SQLite file, file locks, the schema, and rows of tasks."""
