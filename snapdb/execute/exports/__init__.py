"""COPY TO: writes the rows of a query, a snapshot, or the batches of a sampler to files."""
