"""Which edges of each row a batch draws, by method, time and weight, and the local ids of what it meets."""
