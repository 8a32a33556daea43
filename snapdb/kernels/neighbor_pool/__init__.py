"""The rows of a neighbor pool: how they are drawn, cached, and drawn from."""
