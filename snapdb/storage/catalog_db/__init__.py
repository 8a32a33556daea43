"""The catalog database: the database directory, its SQLite file, file locks, the schema, and the rows of tasks."""
