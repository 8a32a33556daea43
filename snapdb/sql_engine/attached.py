"""Queries over Parquet files of attached databases: the columns that a query reads are fetched before it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from snapdb.remote import provide_columns

_READ = re.compile(r"read_parquet\(\[((?:'(?:[^']|'')*'(?:, )?)*)\]")
"""A table function that reads files. Only snapdb writes it with a list."""
_LITERAL = re.compile(r"'((?:[^']|'')*)'")


def files_in(texts: Iterable[str]) -> set[Path]:
    """Return the Parquet files that SQL reads.

    >>> files_in(["SELECT a FROM read_parquet(['/db/it''s.parquet'], hive_partitioning = false)"])
    {PosixPath("/db/it's.parquet")}
    """
    lists = (match[1] for text in texts for match in _READ.finditer(text))
    return {Path(literal[1].replace("''", "'")) for text in lists for literal in _LITERAL.finditer(text)}


def provide_metadata(texts: Iterable[str]) -> None:
    """Fetch the metadata of the files that SQL reads, which DuckDB needs to bind it."""
    for path in files_in(texts):
        provide_columns(path, ())


def provide_scanned(texts: Iterable[str], plan: str) -> None:
    """Fetch the columns that a query reads, given its plan in JSON and the texts of the query and its views.

    A column with the same name in another file is fetched too, because a plan does not name the files.
    """
    files = files_in(texts)
    scans = list(_scans(json.loads(plan)))
    for path in files:
        provide_columns(path, _Scanned(scans))


class _Scanned(Collection[str]):
    """The columns that scans read, as a collection that can only be asked for a name."""

    def __init__(self, scans: list[dict[str, Any]]) -> None:
        listed = [scan.get("Projections", []) for scan in scans]
        # The field of a struct is projected as `column.field`.
        names = [name for names in listed for name in ([names] if isinstance(names, str) else names)]
        self._names = {part for name in names for part in (name, name.partition(".")[0])}
        # The names in a filter are not quoted, so that a column is read if its name occurs anywhere in the text.
        self._filters = [str(scan[key]) for scan in scans for key in scan if "Filter" in key]

    def __contains__(self, name: object) -> bool:
        return name in self._names or any(str(name) in text for text in self._filters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _scans(node: Any) -> Iterator[dict[str, Any]]:
    for each in node if isinstance(node, list) else [node]:
        if "PARQUET" in each["name"]:
            yield each["extra_info"]
        yield from _scans(each["children"])
