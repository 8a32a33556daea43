"""The input files of COPY FROM and INSERT: column matching, detection of new files, and files to copy unchanged."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from snapdb.errors import BindError, CommitConflict, SnapdbError
from snapdb.plan.scope import BindContext
from snapdb.sql_engine import (
    SqlSession,
    file_literal,
    from_parquet,
    is_hidden,
    is_parquet_form_of_union,
    is_plain,
    quote,
    text_file_form,
    text_literal,
)
from snapdb.storage.tables.loaded_files import LoadedFile, LoadRecord, has_footer, loaded_files, stat_file
from snapdb.types import Column, Table
from snapdb.types.text import did_you_mean

_NAMED_FILES = 5
"""The maximum number of files that a message names. The message only counts the remaining files."""
_WORTH = 8 << 20
"""The minimum size in bytes for copying a file as a segment. It is better to merge smaller files into one."""


class File(NamedTuple):
    """The declared properties of an input file before it is read."""

    format: str
    headed: bool
    """Whether the HEADER option is set, which means that the first line contains the column names."""
    options: str
    """The other options, in the syntax of DuckDB's reader."""
    table: Table
    wanted: Sequence[str]
    """The table columns to fill."""


class Matched(NamedTuple):
    """How to read the wanted columns from a file. Files with equal values can share one reader."""

    select: str
    reader: str
    options: str
    supplied: tuple[str, ...]
    types: tuple[str, ...] = ()
    """The types of all columns in the file, for readers that require them."""

    def sql(self, path: str) -> str:
        """Return the query over `path`, an SQL expression for a path, a glob or a list of paths."""
        return f"SELECT {self.select} FROM {self.reader}({path}{self.options})"


def match_columns(session: SqlSession, file: File, path: str, label: str) -> Matched:
    """Determine how to read `path`, an SQL expression. Errors refer to it as `label`.

    Raises:
        BindError: The columns do not match those of the table.
    """
    match file.format:
        case "csv":
            return _from_csv(session, file, path, label)
        case "json":
            return _from_json(session, file, path, label)
        case _:
            return _from_parquet(session, file, path, label)


def _from_parquet(session: SqlSession, file: File, path: str, label: str) -> Matched:
    columns = session.describe(f"SELECT * FROM read_parquet({path}{file.options})")
    unions = {
        c.name: from_parquet(quote(c.name), column.type)
        for c in columns
        if (column := file.table.column(c.name)) is not None and is_parquet_form_of_union(c.type, column.type)
    }
    types = tuple(c.type for c in columns)
    return _by_name(file, label, [c.name for c in columns], "read_parquet", file.options, types, unions)


def _from_json(session: SqlSession, file: File, path: str, label: str) -> Matched:
    """Match the keys of JSON objects, one per line or in an array. The value of a missing key is NULL."""
    table = file.table
    names = {c.name.lower(): c.name for c in session.describe(f"SELECT * FROM read_json({path}{file.options})")}
    # DuckDB returns values that are not objects as a single column named json.
    if "json" in names and len(names) == 1 and table.column("json") is None:
        raise BindError(
            f"{label} does not contain JSON objects; their keys must be the columns of {table.name}",
            code="file-columns",
        )
    extra = [name for folded, name in names.items() if table.column(folded) is None]
    types = {names.get(w.lower(), w): text_file_form(c.type) for w in file.wanted if (c := table.column(w)) is not None}
    # Blobs are escaped as in SQL, '\\xFF'. DuckDB decodes them in a cast from VARCHAR, but not when it reads JSON.
    read = {name: "VARCHAR" if type_ == "BLOB" else type_ for name, type_ in types.items()}
    options = f", columns = {_json_struct(read)}{file.options}"
    return _by_name(file, label, [*types, *extra], "read_json", options)


def _by_name(
    file: File,
    label: str,
    names: Sequence[str],
    reader: str,
    options: str,
    types: tuple[str, ...] = (),
    values: Mapping[str, str] = MappingProxyType({}),
) -> Matched:
    """Match columns by name, regardless of case and order. Exactly the wanted columns must be present.

    Args:
        file: The declared properties of the file.
        label: The file in messages.
        names: The columns of the file.
        reader: The table function that reads the file.
        options: The options of the reader.
        types: The types of the columns, for readers that require them.
        values: The values of columns that are not read as they are, as SQL.
    """
    table, wanted = file.table, file.wanted
    named = {name.lower(): name for name in names}
    # A misspelt column in the file must not silently become NULL in the table.
    if missing := [w for w in wanted if w.lower() not in named]:
        hint = did_you_mean(missing[0], names) or f"; its columns are {', '.join(names)}"
        raise BindError(
            f'column "{missing[0]}" of table {table.name} does not exist in {label}{hint}', code="unknown-column"
        )
    extra = [name for name in names if table.column(name) is None]
    if extra:
        hint = f"list the columns to load: COPY {table.name} ({', '.join(wanted)}) FROM {label}"
        raise BindError(
            f'column "{extra[0]}" of {label} does not exist in table {table.name}; {hint}', code="file-columns"
        )
    chosen = ", ".join(values.get(named[w.lower()], quote(named[w.lower()])) for w in wanted)
    return Matched(chosen, reader, options, tuple(wanted), types)


def _from_csv(session: SqlSession, file: File, path: str, label: str) -> Matched:
    """Match the columns of a CSV file by name if it has a header, otherwise by position."""
    table, wanted = file.table, file.wanted
    columns = session.describe(f"SELECT * FROM read_csv({path}{file.options})")
    types = {w: text_file_form(c.type) for w in wanted if (c := table.column(w)) is not None}
    known = {c.name.lower(): c.name for c in columns}
    if any(w.lower() in known for w in wanted):
        cast = {known[w.lower()]: type_ for w, type_ in types.items() if w.lower() in known}
        options = f", types = {_json_struct(cast)}{file.options}"
        return _by_name(file, label, [c.name for c in columns], "read_csv", options)
    # Without a header, DuckDB names the columns column0, column1 and so on, so any other names come from a detected
    # header.
    if not file.headed and any(not re.fullmatch(r"column\d+", c.name) for c in columns):
        names = ", ".join(c.name for c in columns)
        raise BindError(
            f"{label} seems to have a header ({names}), but table {table.name} does not have these columns; "
            "write HEADER false if the first line is data, or HEADER true to load the columns by position",
            code="file-columns",
        )
    if len(columns) != len(wanted):
        raise BindError(
            f"{label} has {len(columns)} columns, and their names are not those of table {table.name}, which "
            f"needs {len(wanted)} here ({', '.join(wanted)})",
            code="file-columns",
        )
    header = "" if file.headed else ", header = false"
    options = f", columns = {_json_struct(types)}, auto_detect = true{file.options}{header}"
    return Matched("*", "read_csv", options, tuple(wanted))


def _json_struct(types: Mapping[str, str]) -> str:
    """Return columns and their types as a struct literal for DuckDB's readers."""
    return f"{{{', '.join(f'{text_literal(name)}: {text_literal(type_)}' for name, type_ in types.items())}}}"


class NewFiles(NamedTuple):
    """The files that matched a path or glob when they were listed."""

    names: tuple[str, ...]
    """The names of the files to load, in loading order."""
    files: tuple[LoadedFile, ...]
    """The identities of these files when they were listed."""
    unfinished: tuple[str, ...] = ()
    """The incomplete files, each with the reason. The next run retries them."""
    changed: tuple[str, ...] = ()
    """The files that changed after they were loaded, each with the version that loaded it."""

    def notes(self) -> str:
        """Return a note about the skipped files, to append to a message.

        >>> NewFiles((), (), ("day3.parquet (half written)",)).notes()
        '; postponed to the next run: day3.parquet (half written)'
        """
        left = f"; postponed to the next run: {_first_names(self.unfinished)}" if self.unfinished else ""
        old = f"; changed, but not loaded again: {_first_names(self.changed)}" if self.changed else ""
        return left + old

    def check_unmoved(self) -> None:
        """Raise CommitConflict, naming the first such file, if a file to load has changed since it was listed."""
        for name, file in zip(self.names, self.files, strict=True):
            if (current := stat_file(name)) != file:
                how = "no longer exists" if current is None else "changed while it was read"
                raise CommitConflict(f"{name} {how}, so nothing was loaded; run the statement again", code="file-moved")


def find_new_files(session: SqlSession, context: BindContext, table: Table, path: str, format_: str) -> NewFiles:
    """Return the complete, not yet loaded files that a path or glob matches, sorted by name."""
    candidates = list(_files_behind(session, context, path))
    known = loaded_files(context.store.catalog_db, table.id, (file.path for _, file in candidates))
    # Files that this transaction loads are in the catalog only after its commit.
    known |= {file.path: LoadRecord(file, 0) for owner, file in context.catalog.loading if owner == table.id}
    names, files, unfinished, changed = [], [], [], []
    for name, file in candidates:
        session.check_stopped()
        if (memory := known.get(file.path)) is not None:
            if memory.file != file:
                by = f"version {memory.version}" if memory.version else "this transaction"
                changed.append(f"{name} (since {by} loaded it)")
        elif why := _unfinished(session, name, file, format_):
            unfinished.append(f"{name} ({why})")
        else:
            known[file.path] = LoadRecord(file, 0)  # another matching name may be a link to this file
            names.append(name)
            files.append(file)
    return NewFiles(tuple(names), tuple(files), tuple(unfinished), tuple(changed))


def _files_behind(session: SqlSession, context: BindContext, path: str) -> Iterator[tuple[str, LoadedFile]]:
    """Yield each file that a path or glob matches, with its current identity.

    Hidden files are skipped, because they may be temporary files that are renamed once they are complete. The
    database's own files are skipped because opening and closing the catalog file would release the POSIX locks that
    SQLite holds on it.
    """
    own = os.path.join(os.path.realpath(context.store.db_dir.path), "")
    for name in session.files_behind(path):
        session.check_stopped()
        if is_hidden(name, path) or os.path.realpath(name).startswith(own):
            continue
        context.store.sql_engine.check_folder(name)
        if (file := stat_file(name)) is not None:  # otherwise it was removed after it was listed
            yield name, file


def _unfinished(session: SqlSession, name: str, file: LoadedFile, format_: str) -> str | None:
    """Return why a file is incomplete, or None if it appears complete. Text files always appear complete."""
    if not file.bytes:
        return "empty"
    if format_ == "parquet" and not (has_footer(name) and _is_readable(session, name)):
        return "half written"
    return None


def _is_readable(session: SqlSession, name: str) -> bool:
    """Return whether the footer of a Parquet file describes readable columns."""
    try:
        session.describe(f"FROM read_parquet({file_literal(name)})")
    except SnapdbError as error:
        if error.code in {"interrupted", "folder-not-allowed"}:  # neither concerns the file's content
            raise
        return False
    return True


def _first_names(names: Sequence[str]) -> str:
    """Return the first few names and the number of remaining ones.

    >>> _first_names(["a", "b"]), _first_names("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _NAMED_FILES:,} more" if len(names) > _NAMED_FILES else ""
    return ", ".join(names[:_NAMED_FILES]) + more


def copyable(session: SqlSession, files: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the files if each of them has exactly these columns with these types, otherwise none."""
    # A copied file is not rewritten, so NOT NULL would not be checked, and a type that Parquet changes would be stored
    # wrongly.
    if not all(c.nullable and is_plain(c.type) for c in columns):
        return ()
    wanted = {c.name.lower(): c.type for c in columns}
    return tuple(files) if files and all(_is_copyable(session, file, wanted) for file in files) else ()


def _is_copyable(session: SqlSession, file: str, wanted: dict[str, str]) -> bool:
    local = Path(file)
    if not local.is_file() or local.stat().st_size < _WORTH:
        return False
    source = f"read_parquet({file_literal(file)}, hive_partitioning = false)"
    return {c.name.lower(): c.type for c in session.describe(f"FROM {source}")} == wanted
