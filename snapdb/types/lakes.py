"""Table formats of data lakes, which snapdb does not read or write, and what to do instead."""

_READ = {
    "delta": "deltalake.DeltaTable(path).to_pyarrow_dataset()",
    "iceberg": "pyiceberg's table.scan().to_arrow()",
    "hudi": "hudi's HudiTable(path).read_snapshot()",
    "lance": "lance.dataset(path)",
}
"""The format → how Python reads it as a data frame."""


def about_lake(name: str, *, writes: bool = False) -> str:
    """Return how to exchange data in a lake's table format, or "" for other names.

    >>> about_lake("Delta")
    'Delta tables are read by their own package: df = deltalake.DeltaTable(path).to_pyarrow_dataset(), then FROM df'
    >>> about_lake("iceberg", writes=True)
    'Iceberg tables are written by their own package, from the rows of db.sql(…).arrow()'
    >>> about_lake("parquet")
    ''
    """
    lake = next((each for each in _READ if name.lower().startswith(each)), None)
    if lake is None:
        return ""
    if writes:
        return f"{lake.title()} tables are written by their own package, from the rows of db.sql(…).arrow()"
    return f"{lake.title()} tables are read by their own package: df = {_READ[lake]}, then FROM df"
