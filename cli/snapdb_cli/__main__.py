"""Entry point of `python -m snapdb_cli`, which is equivalent to `snapdb`."""

from .main import main

if __name__ == "__main__":
    main(prog_name="snapdb")
