"""Files of the user's by path or glob, and by their own names, in which nothing is a glob."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from snapdb.errors import InputError, QueryError
from snapdb.relational.quote import text_literal
from snapdb.relational.seat import Session


def files_behind(session: Session, path: str) -> tuple[str, ...]:
    """The names of the files behind a path or glob, in order; none where nothing is there.

    Raises:
        InputError: a name cannot be said in SQL.
    """
    try:
        rows = session.rows(f"SELECT file FROM glob({text_literal(path)}) ORDER BY file")
    except QueryError as error:
        if "Invalid unicode" not in error.message:
            raise
        raise InputError(
            f"the name of a file behind {text_literal(path)} is no UTF-8; rename it", code="unreadable-file"
        ) from error
    return tuple(str(name) for (name,) in rows)


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
