"""The rows of a relation: physical forms, where logical rows lie, how rows are built, merged and counted."""
