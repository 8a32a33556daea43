"""What a magic's line asks for: options first, then a database or statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Any

from snapdb.errors import InputError
from snapdb.sql.parameters import value_of
from snapdb.types.suggest import did_you_mean

FORMATS = ("result", "df", "arrow", "polars")

USAGE = f"""\
%load_ext snapdb
%snap shop.snapdb                    open a database (--read-only: never write to it), or use the one of a variable
%snap SELECT …                       run a statement; rows = %snap SELECT … keeps its result
%%snap [OPTIONS]                     run the statements of the cell
  -o, --out NAME                     keep the last result in the variable NAME instead of showing it
  -f, --format {"|".join(FORMATS)}   what a result is
  -p, --param NAME[=VALUE]           the value of $NAME; without VALUE that of the variable NAME, and of no other
%snap --close                        close the database"""

_WORD = re.compile(r"\s*('(?:[^']|'')*'|\"[^\"]*\"|\S+)")
_NAME = re.compile(r"(?!\d)\w+")


@dataclass(frozen=True, slots=True)
class Wish:
    """A magic's line, read."""

    rest: str = ""
    """What follows the options: a database, statements, or nothing."""
    out: str | None = None
    format: str = "result"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False
    close: bool = False
    help: bool = False


def read(line: str, variables: Mapping[str, Any]) -> Wish:
    """The wish of a line; only variables that `--param` names are looked at.

    >>> read("--out rows -f df --param n SELECT $n", {"n": 7})
    Wish(rest='SELECT $n', out='rows', format='df', parameters={'n': 7}, read_only=False, close=False, help=False)

    Raises:
        InputError: an option is not known, or has no value, or a variable is not there.
    """
    wish, rest = Wish(), line.strip()
    while rest.startswith("-") and not rest.startswith("--  ") and not re.match(r"--\s", rest):
        word, rest = _word(rest)
        name, equals, value = word.partition("=")
        option = _OPTIONS.get(name)
        if option is None:
            raise InputError(
                f"no option {name} of snap{did_you_mean(name, _OPTIONS)}; %snap --help lists them", code="notebook-line"
            )
        takes, change = option
        if takes and not equals:
            value, rest = _word(rest)
            if not value:
                raise InputError(f"{name} needs {takes}; %snap --help tells how", code="notebook-line")
        wish = change(wish, value, variables)
    return replace(wish, rest=rest)


def _word(text: str) -> tuple[str, str]:
    """The first word of a text, without its quotes, and the rest."""
    found = _WORD.match(text)
    if found is None:
        return "", ""
    word, rest = found[1], text[found.end() :].strip()
    return (word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word), rest


def _out(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    if not value.isidentifier() or iskeyword(value):
        raise InputError(f"--out takes the name of a variable, found {value!r}", code="notebook-line")
    return replace(wish, out=value)


def _format(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    if value not in FORMATS:
        raise InputError(f"--format takes {', '.join(FORMATS)}, found {value!r}", code="notebook-line")
    return replace(wish, format=value)


def _param(wish: Wish, value: str, variables: Mapping[str, Any]) -> Wish:
    name, equals, text = value.partition("=")
    name = name.removeprefix("$")
    if not _NAME.fullmatch(name):
        raise InputError(f"--param takes NAME or NAME=VALUE, found {value!r}", code="notebook-line")
    if not equals and name not in variables:
        known = [known for known in variables if not known.startswith("_")]
        raise InputError(f"there is no variable {name} for $" + name + did_you_mean(name, known), code="notebook-line")
    return replace(wish, parameters={**wish.parameters, name: value_of(text) if equals else variables[name]})


Change = Callable[[Wish, str, Mapping[str, Any]], Wish]

_OPTIONS: dict[str, tuple[str, Change]] = {
    "-o": ("the name of a variable", _out),
    "--out": ("the name of a variable", _out),
    "-f": (f"one of {', '.join(FORMATS)}", _format),
    "--format": (f"one of {', '.join(FORMATS)}", _format),
    "-p": ("NAME or NAME=VALUE", _param),
    "--param": ("NAME or NAME=VALUE", _param),
    "--read-only": ("", lambda wish, value, variables: replace(wish, read_only=True)),
    "--close": ("", lambda wish, value, variables: replace(wish, close=True)),
    "-h": ("", lambda wish, value, variables: replace(wish, help=True)),
    "--help": ("", lambda wish, value, variables: replace(wish, help=True)),
}
"""Option → what its value is, nothing for a switch, and what it changes."""
