"""`python -m snapdb_cli`: the same as `snapdb`."""

from __future__ import annotations

from .main import main

if __name__ == "__main__":
    main(prog_name="snapdb")
