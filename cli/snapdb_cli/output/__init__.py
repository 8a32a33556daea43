"""Results and progress: formats, the table, the pager."""
