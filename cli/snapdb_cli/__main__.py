"""`python -m snapdb_cli`, which is the same as `snapdb`."""

from .main import main

if __name__ == "__main__":
    main(prog_name="snapdb")
