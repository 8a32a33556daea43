"""Query sources as SQL: quoted names and literals, tables by name, Arrow objects, and files by path or glob."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import duckdb
import numpy as np
import pyarrow as pa

from snapdb.errors import InputError
from snapdb.remote.files import is_file_url
from snapdb.types import Column

TEMPORARY = "snapdb temporary"
"""The name of the engine's database of temporary tables."""


def quote(name: str) -> str:
    """Return an identifier in double quotes.

    >>> quote('od"d')
    '"od""d"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_all(names: Iterable[str]) -> str:
    """Return identifiers in double quotes, separated by commas.

    >>> quote_all(["a", "b c"])
    '"a", "b c"'
    """
    return ", ".join(map(quote, names))


def temporary_name(name: str) -> str:
    """Return the qualified name of a temporary table, which is in a database of its own.

    >>> temporary_name("t")
    '"snapdb temporary".main."t"'
    """
    return f"{quote(TEMPORARY)}.main.{quote(name)}"


def quote_odd(name: str) -> str:
    """Return an identifier, in double quotes only if SQL requires them.

    >>> quote_odd("person"), quote_odd("my person"), quote_odd("order")
    ('person', '"my person"', '"order"')
    """
    plain = re.fullmatch(r"[a-z_]\w*", name, re.IGNORECASE | re.ASCII)
    kinds = [kind for _, kind in duckdb.tokenize(name)] if plain else []
    return name if kinds == [duckdb.token_type.identifier] else quote(name)


def qualified(schema: str, name: str) -> str:
    """Return the SQL text of a name in a schema, or of the bare name where the schema is empty.

    >>> qualified("my schema", "person"), qualified("", "person")
    ('"my schema".person', 'person')
    """
    return f"{quote_odd(schema)}.{quote_odd(name)}" if schema else quote_odd(name)


def text_literal(text: str) -> str:
    """Return a string literal in single quotes.

    Raises:
        InputError: A path is not UTF-8. Python decodes it to lone surrogates, and DuckDB cannot open it.

    >>> text_literal("it's")
    "'it''s'"
    """
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        shown = os.fsencode(text).decode(errors="replace")
        raise InputError(f"{shown} is not valid UTF-8; rename the part with the replaced character", code="not-unicode")
    return "'" + text.replace("'", "''") + "'"


class DefinedName(NamedTuple):
    """The name of a view, macro, type or sequence that a user defined."""

    kind: str
    schema: str
    """The schema, or '' without one."""
    name: str

    @property
    def sql(self) -> str:
        """The kind and the quoted name."""
        return f"{self.kind.upper()} {self.path}"

    @property
    def path(self) -> str:
        """The quoted name."""
        return f"{quote(self.schema) + '.' if self.schema else ''}{quote(self.name)}"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a session's SQL can use."""

    views: Mapping[str, str] = field(default_factory=dict)
    """Table name → SELECT."""
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Schema (snapshot) name → element name → SELECT."""
    sources: Mapping[str, object] = field(default_factory=dict)
    """Name → Arrow table, for data that the caller registered."""
    lasting: bool = False
    """Whether the views read only immutable data and can be kept for the next session with the same names."""
    definitions: Mapping[DefinedName, str] = field(default_factory=dict)
    """Name of a view, macro, type or sequence that a user defined → the text after it in its CREATE statement."""
    taken: Mapping[DefinedName, int] = field(default_factory=dict)
    """Sequences whose first value an earlier statement took, so that currval returns it → their second value."""

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that create the views."""
        statements = [f"CREATE VIEW {quote(name)} AS {select}" for name, select in self.views.items()]
        own = (name.schema for name in self.definitions if name.schema)
        for schema in dict.fromkeys((*self.schemas, *own)):
            statements.append(f"CREATE SCHEMA {quote(schema)}")
            views = self.schemas.get(schema, {})
            statements += [f"CREATE VIEW {quote(schema)}.{quote(name)} AS {select}" for name, select in views.items()]
        return tuple(statements)

    @property
    def defining(self) -> tuple[str, ...]:
        """The statements that create the definitions, in their order. They follow those of the views."""
        takes = {name: f"; SELECT nextval({text_literal(name.path)})" for name in self.taken}
        return tuple(f"CREATE {name.sql} {rest}{takes.get(name, '')}" for name, rest in self.definitions.items())


def together(parts: Iterable[Names]) -> Names:
    """Return the combined names of several parts of one query. They are lasting if the names of all parts are lasting.

    >>> together([Names({"a": "SELECT 1"}), Names({"b": "SELECT 2"})]).views
    {'a': 'SELECT 1', 'b': 'SELECT 2'}
    """
    views: dict[str, str] = {}
    schemas: dict[str, Mapping[str, str]] = {}
    sources: dict[str, Any] = {}
    definitions: dict[DefinedName, str] = {}
    taken: dict[DefinedName, int] = {}
    lasting = True
    for part in parts:
        # A part that takes values of a sequence decides where it starts.
        ready = {key: definitions[key] for key in part.taken if key in definitions and key not in taken}
        definitions |= {**part.definitions, **ready}
        first = {key: value for key, value in taken.items() if key not in part.definitions or key in part.taken}
        taken = {**first, **{key: value for key, value in part.taken.items() if key not in ready}}
        views |= part.views
        for name, elements in part.schemas.items():
            schemas[name] = {**schemas.get(name, {}), **elements}
        sources |= part.sources
        lasting = lasting and part.lasting
    return Names(views, schemas, sources, lasting, definitions, taken)


def no_rows(columns: Iterable[Column]) -> str:
    """Return a SELECT with the names and types of these columns but no rows. It reads no files.

    >>> no_rows([Column("a", "INTEGER"), Column("b c", "DATE")])
    'SELECT CAST(NULL AS INTEGER) AS "a", CAST(NULL AS DATE) AS "b c" WHERE false'
    """
    return f"SELECT {', '.join(f'CAST(NULL AS {c.type}) AS {quote(c.name)}' for c in columns)} WHERE false"


# The caller's data is converted to Arrow, so that SQL can read it. No other function accepts Python values.


_CPU = 1
"""DLPack's device type for memory that numpy can read."""


@dataclass(slots=True)
class Stream:
    """Batches that can be read only once, while they are produced. They do not have to fit in memory."""

    batches: pa.RecordBatchReader
    started: bool = False
    """Whether reading has started."""

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the batches. The first read starts the stream."""

        def read() -> Iterator[pa.RecordBatch]:
            self.started = True
            yield from self.batches

        return pa.RecordBatchReader.from_batches(self.batches.schema, read())


def as_source(data: object) -> object:
    """Convert `data` for SQL.

    A Dataset is returned unchanged, a RecordBatchReader as a Stream, and other data as a table.
    """
    # Importing it here would import pandas, and callers with a Dataset have already imported it.
    dataset = sys.modules.get("pyarrow.dataset")
    if dataset is not None and isinstance(data, dataset.Dataset):
        return data
    return Stream(data) if isinstance(data, pa.RecordBatchReader) else as_arrow(data)


def as_arrow(data: object) -> pa.Table:
    """Return a table of data from pandas, Arrow, torch, numpy, lists, or a library with Arrow's C interface or DLPack.

    One-dimensional data becomes one column named `id`. A mapping becomes one column per key.

    >>> as_arrow([3, 1]).to_pydict()
    {'id': [3, 1]}
    """
    try:
        table = _table(data)
    except InputError:
        raise
    except Exception as error:  # reading attributes of another library's objects can raise any exception
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
    if hasattr(values, "edge_index") or hasattr(values, "edge_types"):  # PyG's Data and HeteroData
        raise InputError(
            f"cannot read {type(values).__name__}, which holds several arrays, as a table; register one table "
            "at a time "
            'as a mapping of columns, e.g. {"src": data.edge_index[0], "dst": data.edge_index[1]}',
            code="not-a-table",
        )
    raise InputError(
        f"cannot read {type(values).__name__} as a table; pass Arrow, pandas, a tensor, an array or a mapping of "
        "columns",
        code="not-a-table",
    )


def _speaks_arrow(data: object) -> bool:
    """Return whether data from any library has Arrow's C interface, or a type that pyarrow can convert."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _on_host(values: Any) -> Any:
    """Return a tensor from any library as an array, copied from its device if necessary. Other values are unchanged."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    if hasattr(values, "__dlpack__"):
        device, _ = values.__dlpack_device__()
        return np.from_dlpack(values) if device == _CPU else np.from_dlpack(values, device="cpu")
    return values


_LINKS = 40
"""The maximum number of links in a path, as in Linux."""

_OWN = ("tables", "ids", "snapshots", "topology", "features")
"""The directories of a database in which DuckDB can read and write. Others are excluded, because opening and closing
the catalog as a file would release the POSIX locks that SQLite holds on it."""


class _Bound(NamedTuple):
    """A marker in a path. The parts before it come from a link's target, and must not lead out of this directory."""

    folder: str
    """The directory of the link, with a trailing slash."""


class Folders(NamedTuple):
    """Directories with all of their contents, and single files."""

    paths: tuple[str, ...]
    """The directories as absolute paths without links. Each path has a trailing slash, so that in/ does not match
    in-secret/."""
    files: tuple[str, ...] = ()
    """The files as absolute paths without links."""
    urls: tuple[str, ...] = ()
    """The URLs of objects, or with a trailing slash of all objects below."""

    @classmethod
    def of(cls, own: Path, named: Sequence[str | Path]) -> Folders:
        """Return the data directories of a database and the named paths. A path is a directory or a file.

        A path is a directory if it has a trailing slash or exists as one. A file is excluded if it is a link that leads
        out of its directory.

        Raises:
            ValueError: A path is not absolute.
            InputError: A path is the root directory.
        """
        urls = [] if isinstance(named, str) else [str(url) for url in named if is_file_url(str(url))]
        named = named if isinstance(named, str) else [path for path in named if str(path) not in urls]
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
        return cls(paths, tuple(dict.fromkeys(files)), tuple(dict.fromkeys(urls)))

    def check(self, path: str | Path) -> None:
        """Raise InputError if a path, with links resolved, is outside these files and directories."""
        if is_file_url(str(path)):
            if not any(path == url or (url.endswith("/") and str(path).startswith(url)) for url in self.urls):
                raise InputError(outside(str(path)), code="folder-not-allowed")
            return
        whole = str(path).startswith("file:")  # of a publication, for which a task may use the whole folder
        real = os.path.realpath(unquote(urlsplit(str(path)).path) if whole else path)
        allowed = real in self.files or (os.path.join(real, "") if whole else real).startswith(self.paths)
        if not allowed:
            raise InputError(outside(str(path)), code="folder-not-allowed")

    @property
    def settings(self) -> tuple[str, ...]:
        """Statements that restrict DuckDB to these paths, with links resolved as in `check`. They cannot be undone."""
        # Readers expand the name of a directory to all files in it.
        names = (*self.files, *(path.rstrip("/") for path in self.paths), *self.urls)
        below = (*self.paths, *(url for url in self.urls if url.endswith("/")))
        return (
            f"SET GLOBAL allowed_directories = [{', '.join(map(text_literal, below))}]",
            f"SET GLOBAL allowed_paths = [{', '.join(map(text_literal, names))}]",
            "SET GLOBAL enable_external_access = false",
        )


def resolved(path: str) -> str | None:
    """Return the absolute path without links, or None if a link leads out of its directory or there are too many links.

    Otherwise, a user with write access to a directory on the path could redirect a reader to any other file. A trailing
    slash is preserved, and the parts do not have to exist.
    """
    if is_file_url(path):
        return path
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
            except OSError:  # not a link, or it does not exist
                place = os.path.join(place, part)
                continue
            if (links := links + 1) > _LINKS:
                return None
            parts += [_Bound(os.path.join(place, "")), *reversed(target.split("/"))]
            place = "/" if target.startswith("/") else place
    return os.path.join(place, "") if path.endswith("/") else place


def absolute_paths(paths: Sequence[str | Path] | None) -> list[str] | None:
    """Resolve paths against the working directory. A trailing slash is preserved, and None remains None."""
    if isinstance(paths, str):
        raise TypeError(f"folders must be a list of paths, found {paths!r}")
    if paths is None:
        return None
    return [str(p) if is_file_url(str(p)) else os.path.join(os.getcwd(), os.path.expanduser(p)) for p in paths]


def _within(folder: str | Path) -> str:
    """Return the common path prefix of everything in a directory, with links resolved."""
    return os.path.join(os.path.realpath(folder), "")


def outside(path: str) -> str:
    """Return the message for a path outside the allowed directories."""
    return (
        f'access to "{path}" is not allowed: connections can be restricted to folders (folders=, '
        "--folder), and runs of a task to the files and folders in its body; add the path there, without "
        "symbolic links that point outside their directory"
    )


def is_hidden(name: str, path: str) -> bool:
    """Return whether a matched file or directory starts with a dot that the glob does not spell out.

    snapdb, like shells and other programs, treats files whose names start with a dot as temporary or hidden.

    >>> [is_hidden(name, "./.in/*") for name in (".in/a.csv", ".in/.a.csv.x7", ".in/.b/a.csv")]
    [False, True, True]
    >>> is_hidden(".in/.a.csv", ".in/.*.csv"), is_hidden(".a.csv", ".a.csv")
    (False, False)
    """
    plain, *marked = re.split(r"[*?[]", path, maxsplit=1)
    if is_file_url(name):
        return bool(marked) and "/." in name[len(plain) - 1 :]
    folder, _, begun = plain.rpartition("/")
    if not marked or f"/{begun}".endswith("/.") or "/." in path[len(plain) :]:
        return False
    folder = f"{folder}/" if "/" in plain else "."
    within = os.path.relpath(name, os.path.expanduser(re.sub(r"^file:(//(localhost)?)?", "", folder)))
    return any(part.startswith(".") and part != ".." for part in within.split("/"))


def file_literal(name: str) -> str:
    """Return a file name as an SQL string that matches only this file, with brackets and asterisks escaped.

    >>> file_literal("it's.csv"), file_literal("a[1]*.csv")
    ("'it''s.csv'", "'a[[]1][*].csv'")
    """
    return text_literal(re.sub(r"[*?[]", r"[\g<0>]", name))


def files_literal(names: Sequence[str]) -> str:
    """Return file names as SQL for a reader that accepts several files.

    >>> files_literal(["a.csv", "b.csv"])
    "['a.csv', 'b.csv']"
    """
    return f"[{', '.join(map(file_literal, names))}]"
