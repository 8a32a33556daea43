"""Jupyter and IPython: `%load_ext snapdb` brings `%snap` and `%%snap`."""

from snapdb.notebook.magics import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
