"""The candidates of completion in a statement, by grammar and by clause."""
