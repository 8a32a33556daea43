"""The version of snapdb. No other file defines it."""

__version__ = "0.1.0"
