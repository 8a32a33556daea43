"""The one place that says which snapdb this is."""

__version__ = "0.1.0"
