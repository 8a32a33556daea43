"""COPY TO: the rows of a query, a snapshot or the batches of a sampler, written into files."""
