"""Files of the user's by path or glob, and by their own names, in which nothing is a glob."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapdb.relational.quote import text_literal
from snapdb.relational.seat import Session

__all__ = ["file_literal", "files_behind", "files_literal"]


def files_behind(session: Session, path: str) -> tuple[str, ...]:
    """The names of the files behind a path or glob, in order; none where nothing is there."""
    return tuple(str(name) for (name,) in session.rows(f"SELECT file FROM glob({text_literal(path)}) ORDER BY file"))


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
