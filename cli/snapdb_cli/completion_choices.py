"""What may stand at the cursor, before what was typed chooses among it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Group(NamedTuple):
    """Candidates of one kind."""

    kind: str
    """What a person sees beside them."""
    texts: Sequence[str]
    form: Literal["name", "word", "text"]
    """A name is quoted where it must be, a word takes the case that is being typed, a text stays as it is."""
    eager: bool = True
    """Whether they are offered before a letter is typed."""


def names(kind: str, texts: Sequence[str]) -> Group:
    """Names, offered at once."""
    return Group(kind, texts, "name")


def words(texts: Sequence[str], *, eager: bool = True) -> Group:
    """Keywords."""
    return Group("", texts, "word", eager)


def functions(texts: Sequence[str]) -> Group:
    """Functions, with the bracket that follows them."""
    return Group("function", [f"{text}(" for text in texts], "word", eager=False)
