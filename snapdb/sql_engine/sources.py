"""Sources of queries as SQL: quoted names and literals, tables by name, Arrow objects, and files by path or glob."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from snapdb.errors import InputError
from snapdb.types import Column


def quote(name: str) -> str:
    """An identifier in double quotes.

    >>> quote('od"d')
    '"od""d"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_all(names: Iterable[str]) -> str:
    """Identifiers, comma-separated.

    >>> quote_all(["a", "b c"])
    '"a", "b c"'
    """
    return ", ".join(map(quote, names))


def quote_odd(name: str) -> str:
    """An identifier as a person would write it: in double quotes where it needs them.

    >>> quote_odd("person"), quote_odd("my person"), quote_odd("order")
    ('person', '"my person"', '"order"')
    """
    plain = re.fullmatch(r"[a-z_]\w*", name, re.IGNORECASE | re.ASCII)
    kinds = [kind for _, kind in duckdb.tokenize(name)] if plain else []
    return name if kinds == [duckdb.token_type.identifier] else quote(name)


def text_literal(text: str) -> str:
    """A string in single quotes.

    Raises:
        InputError: it is a path that is not UTF-8, which Python reads as lone surrogates and DuckDB cannot open.

    >>> text_literal("it's")
    "'it''s'"
    """
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        shown = os.fsencode(text).decode(errors="replace")
        raise InputError(f"{shown} is not valid UTF-8; rename the part with the replaced character", code="not-unicode")
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Names:
    """What a session's SQL may name."""

    views: Mapping[str, str] = field(default_factory=dict)
    """Table name → SELECT."""
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Schema (snapshot) name → element name → SELECT."""
    sources: Mapping[str, object] = field(default_factory=dict)
    """Name → Arrow table, for data that a caller registered."""
    lasting: bool = False
    """Whether the views read nothing that could change, so that they may stay for the next who wants the same."""

    @property
    def statements(self) -> tuple[str, ...]:
        """What makes the views."""
        statements = [f"CREATE VIEW {quote(name)} AS {select}" for name, select in self.views.items()]
        for schema, views in self.schemas.items():
            statements.append(f"CREATE SCHEMA {quote(schema)}")
            statements += [f"CREATE VIEW {quote(schema)}.{quote(name)} AS {select}" for name, select in views.items()]
        return tuple(statements)


def together(parts: Iterable[Names]) -> Names:
    """All names of several parts of one query; lasting where those of every part are.

    >>> together([Names({"a": "SELECT 1"}), Names({"b": "SELECT 2"})]).views
    {'a': 'SELECT 1', 'b': 'SELECT 2'}
    """
    views: dict[str, str] = {}
    schemas: dict[str, Mapping[str, str]] = {}
    sources: dict[str, Any] = {}
    lasting = True
    for part in parts:
        views |= part.views
        for name, elements in part.schemas.items():
            schemas[name] = {**schemas.get(name, {}), **elements}
        sources |= part.sources
        lasting = lasting and part.lasting
    return Names(views, schemas, sources, lasting)


def no_rows(columns: Iterable[Column]) -> str:
    """The SELECT of no rows with these columns: it tells names and types, and reads nothing.

    >>> no_rows([Column("a", "INTEGER"), Column("b c", "DATE")])
    'SELECT CAST(NULL AS INTEGER) AS "a", CAST(NULL AS DATE) AS "b c" WHERE false'
    """
    return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {quote(c.name)}' for c in columns)} WHERE false"


# Data of a caller as Arrow, so that SQL can read it: the only door for Python values


_CPU = 1
"""DLPack's number of memory that numpy can read."""


@dataclass(slots=True)
class Stream:
    """Batches that can be read once, while they are produced: they need not fit in memory."""

    batches: pa.RecordBatchReader
    started: bool = False
    """Whether somebody has read from it."""

    def reader(self) -> pa.RecordBatchReader:
        """A reader of the batches; reading, not making it, starts the stream."""

        def read() -> Iterator[pa.RecordBatch]:
            self.started = True
            yield from self.batches

        return pa.RecordBatchReader.from_batches(self.batches.schema, read())


def as_source(data: object) -> object:
    """What SQL can read of `data`: a pyarrow Dataset as it is, a RecordBatchReader as a Stream, all else as a table."""
    dataset = sys.modules.get("pyarrow.dataset")  # imports pandas; whoever has a Dataset has it
    if dataset is not None and isinstance(data, dataset.Dataset):
        return data
    return Stream(data) if isinstance(data, pa.RecordBatchReader) else as_arrow(data)


def as_arrow(data: object) -> pa.Table:
    """A table of what pandas, Arrow, torch, numpy or lists hold, or data of anyone by Arrow's C interface or DLPack.

    One-dimensional data become one column called `id`; a mapping gives a column a key.

    >>> as_arrow([3, 1]).to_pydict()
    {'id': [3, 1]}
    """
    try:
        table = _table(data)
    except InputError:
        raise
    except Exception as error:  # attributes of any library's objects are read, which may raise anything
        raise InputError(f"cannot read this {type(data).__name__} as a table: {error}", code="not-a-table") from error
    if not table.column_names:
        raise InputError("cannot read data without columns as a table", code="not-a-table")
    return table


def _table(data: object) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if isinstance(data, Mapping):
        return pa.table({str(name): _column(values) for name, values in data.items()})
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return pa.Table.from_pandas(data, preserve_index=False)
    if _speaks_arrow(data) and pa.types.is_struct((rows := pa.chunked_array(data)).type):
        return pa.Table.from_struct_array(rows)
    if isinstance(data, list) and data and isinstance(data[0], tuple):
        return pa.table({f"k{i}": _column(list(part)) for i, part in enumerate(zip(*data, strict=True))})
    return pa.table({"id": _column(data)})


def _column(values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not isinstance(values, np.ndarray):
        values = _on_host(values)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise InputError("cannot read a single number as a column; pass a list", code="not-a-table")
    if isinstance(values, np.ndarray | Sequence) and not isinstance(values, str | bytes):
        return pa.array(values, pa.int64()) if len(values) == 0 and isinstance(values, list) else pa.array(values)
    if _speaks_arrow(values):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_array__") or hasattr(values, "to_numpy"):
        return pa.array(values)
    if hasattr(values, "edge_index") or hasattr(values, "edge_types"):  # Data and HeteroData of PyG
        raise InputError(
            f"cannot read {type(values).__name__}, which holds several arrays, as a table; register a table at a time "
            'as a mapping of columns, e.g. {"src": data.edge_index[0], "dst": data.edge_index[1]}',
            code="not-a-table",
        )
    raise InputError(
        f"cannot read {type(values).__name__} as a table; pass Arrow, pandas, a tensor, an array or a mapping of "
        "columns",
        code="not-a-table",
    )


def _speaks_arrow(data: object) -> bool:
    """Whether data of any library tells itself by Arrow's C interface; what pyarrow reads by itself does too."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _on_host(values: Any) -> Any:
    """Tensors of any library as an array, copied from their device where they are on one; all else as it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    if hasattr(values, "__dlpack__"):
        device, _ = values.__dlpack_device__()
        return np.from_dlpack(values) if device == _CPU else np.from_dlpack(values, device="cpu")
    return values


_LINKS = 40
"""So many links one path may have, as Linux has it."""

_OWN = ("tables", "ids", "snapshots", "topology", "features")
"""The folders of a database in which DuckDB may read and write. Not beside them: to open the catalog as a file, and to
close it, would drop the locks that SQLite holds on it."""


class _Bound(NamedTuple):
    """Among the parts of a path: those before it, of a link's target, have to end in this folder."""

    folder: str
    """The one that the link is in, with a slash at its end."""


class Folders(NamedTuple):
    """Some folders, and all that lies in them, and some files by themselves."""

    paths: tuple[str, ...]
    """Of folders: absolute, with links followed; each ends with a slash, so that in/ holds nothing of in-secret/."""
    files: tuple[str, ...] = ()
    """Absolute, with links followed."""

    @classmethod
    def of(cls, own: Path, named: Sequence[str | Path]) -> Folders:
        """A database's data, and what was named: paths that end with a slash or at a folder, or those of files.

        A file that is a link which leads out of its folder is not among them.

        Raises:
            ValueError: a path is not absolute.
            InputError: it is that of the folder of all files.
        """
        if isinstance(named, str) or any(not os.path.isabs(path) for path in named):
            raise ValueError(f"folders must be absolute paths, found {named!r}")
        folders, files = [own / name for name in _OWN], list[str]()
        for path in map(str, named):
            if path.endswith("/") or os.path.isdir(path):
                folders.append(Path(path))
            elif (real := os.path.realpath(path)).startswith(_within(os.path.dirname(path))):
                files.append(real)
        paths = tuple(dict.fromkeys(map(_within, folders)))
        if "/" in paths:
            raise InputError(
                '"/" contains all files, so it does not restrict access; pass folders in it', code="folder-not-allowed"
            )
        return cls(paths, tuple(dict.fromkeys(files)))

    def check(self, path: str | Path) -> None:
        """Raises InputError when a path, links followed, is none of the files and lies in none of the folders."""
        real = os.path.realpath(path)
        if real not in self.files and not real.startswith(self.paths):
            raise InputError(outside(str(path)), code="folder-not-allowed")

    @property
    def settings(self) -> tuple[str, ...]:
        """What makes DuckDB keep to them: it follows links as `check` does, and never again allows more."""
        # Readers take a folder's name for all files in it.
        names = (*self.files, *(path.rstrip("/") for path in self.paths))
        return (
            f"SET GLOBAL allowed_directories = [{', '.join(map(text_literal, self.paths))}]",
            f"SET GLOBAL allowed_paths = [{', '.join(map(text_literal, names))}]",
            "SET GLOBAL enable_external_access = false",
        )


def resolved(path: str) -> str | None:
    """The absolute path without links; None: one of them leads out of the directory that it is in, or they never end.

    A user with write access to a directory on the path could otherwise redirect a reader to any other place.
    A slash at the end stays, and so does what does not exist.
    """
    place, links = "/", 0
    parts: list[str | _Bound] = [*reversed(path.split("/"))]
    while parts:
        part = parts.pop()
        if isinstance(part, _Bound):
            if not os.path.join(place, "").startswith(part.folder):
                return None
        elif part == "..":
            place = os.path.dirname(place)
        elif part not in ("", "."):
            try:
                target = os.readlink(os.path.join(place, part))
            except OSError:  # it is no link, or does not exist
                place = os.path.join(place, part)
                continue
            if (links := links + 1) > _LINKS:
                return None
            parts += [_Bound(os.path.join(place, "")), *reversed(target.split("/"))]
            place = "/" if target.startswith("/") else place
    return os.path.join(place, "") if path.endswith("/") else place


def absolute_paths(paths: Sequence[str | Path] | None) -> list[str] | None:
    """Paths that count from the directory of the process as absolute ones, a slash at the end kept; None: None."""
    if isinstance(paths, str):
        raise TypeError(f"folders must be a list of paths, found {paths!r}")
    return None if paths is None else [os.path.join(os.getcwd(), os.path.expanduser(path)) for path in paths]


def _within(folder: str | Path) -> str:
    """What the paths of all that lies in a folder begin with, links followed."""
    return os.path.join(os.path.realpath(folder), "")


def outside(path: str) -> str:
    """The message for a path in none of the folders."""
    return (
        f'access to "{path}" is not allowed: connections can be restricted to folders (folders=, '
        "--folder), and runs of a task to the files and folders in its body; add the path there, without symbolic "
        "links that lead out of their directory"
    )


def is_hidden(name: str, path: str) -> bool:
    """Whether a file behind a glob, or a folder that the glob chose, begins with a dot, and the glob has none there.

    Such are files that are being written or put aside, by snapdb and others; shells pass over them too.

    >>> [is_hidden(name, "./.in/*") for name in (".in/a.csv", ".in/.a.csv.x7", ".in/.b/a.csv")]
    [False, True, True]
    >>> is_hidden(".in/.a.csv", ".in/.*.csv"), is_hidden(".a.csv", ".a.csv")
    (False, False)
    """
    plain, *marked = re.split(r"[*?[]", path, maxsplit=1)
    folder, _, begun = plain.rpartition("/")
    if not marked or f"/{begun}".endswith("/.") or "/." in path[len(plain) :]:
        return False
    folder = f"{folder}/" if "/" in plain else "."
    within = os.path.relpath(name, os.path.expanduser(re.sub(r"^file:(//(localhost)?)?", "", folder)))
    return any(part.startswith(".") and part != ".." for part in within.split("/"))


def file_literal(name: str) -> str:
    """A file's name as SQL that means this file, though there are brackets or asterisks in it.

    >>> file_literal("it's.csv"), file_literal("a[1]*.csv")
    ("'it''s.csv'", "'a[[]1][*].csv'")
    """
    return text_literal(re.sub(r"[*?[]", r"[\g<0>]", name))


def files_literal(names: Sequence[str]) -> str:
    """Files' names as SQL for a reader of several.

    >>> files_literal(["a.csv", "b.csv"])
    "['a.csv', 'b.csv']"
    """
    return f"[{', '.join(map(file_literal, names))}]"
