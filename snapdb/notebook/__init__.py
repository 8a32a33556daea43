"""Support for Jupyter and IPython: `%load_ext snapdb` adds the `%snap` and `%%snap` magics."""

from snapdb.notebook.magics import load_ipython_extension, unload_ipython_extension
from snapdb.on_first_use import public_names

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
__dir__ = public_names(__name__)
