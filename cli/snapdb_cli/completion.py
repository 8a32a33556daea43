"""What could stand at the cursor: commands, the words of the language, names of the database, files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from snapdb.relational.quote import quote

from .commands import COMMANDS, takes
from .commands_typed import is_command, trailing
from .completion_choices import Group
from .completion_files import paths
from .completion_match import matching
from .completion_names import Known, written
from .completion_slots import candidates
from .completion_spot import Spot, locate
from .config import PREFERENCES
from .named import queries

_MOST = 200
"""More than anybody reads; menus get slow."""
_COMMAND = re.compile(r"\s*([\\.][\w?!+]*)(\s+)?")


def _settings(rest: str) -> list[str]:
    """The settings, or the values of the one that was named."""
    name, blank, _ = rest.lstrip().partition(" ")
    preference = PREFERENCES.get(name)
    return list(PREFERENCES) if not blank or preference is None else list(preference.values)


_SAID: dict[str, Callable[[str], list[str]]] = {
    "setting": _settings,
    "format": lambda rest: list(PREFERENCES["format"].values),
    "query": lambda rest: list(queries()),
    "switch": lambda rest: ["on", "off", "auto"],
}


class Choice(NamedTuple):
    """One completion."""

    text: str
    replaces: int
    """How many characters before the cursor it takes the place of."""
    kind: str
    """What it is, for the eye; '' for a keyword."""


def suggest(text: str, known: Known, after: str = "") -> list[str]:
    """What the last, perhaps empty, word of `text` may become, the likeliest first.

    >>> suggest("SELECT * FROM pay", Known(tables=("payments",)))
    ['payments']
    >>> suggest("SAMPLE FROM s METHOD BOT", Known()), suggest("sho", Known())[0]
    (['BOTTOMK'], 'show caches')
    """
    return [choice.text for choice in complete(text, known, after)]


def complete(text: str, known: Known, after: str = "") -> list[Choice]:
    """The completions at a place between two texts, the likeliest first."""
    command = text if is_command(text) else text[trailing(text) or len(text) :]
    if found := _COMMAND.match(command):
        return _in_command(command, known, found)
    spot = locate(text, after)
    if spot is None:
        return []
    if spot.quote == "'":
        return _files(spot.typed, "''")
    return _matched(spot, candidates(spot, known))


def _matched(spot: Spot, groups: Sequence[Group]) -> list[Choice]:
    """The candidates that were meant by what was typed."""
    lower = spot.typed.islower()
    by_text: dict[str, Group] = {}
    for group in groups:
        if spot.quote == '"' and group.form != "name":
            continue
        if not (group.eager or spot.typed):
            continue
        for text in group.texts:
            cased = _cased(text, lower) if group.form == "word" else text
            by_text.setdefault(cased, group)
    found = []
    length = len(spot.typed) + len(spot.quote)
    for text in matching(spot.typed, list(by_text))[:_MOST]:
        group = by_text[text]
        shown = text
        if group.form == "name":
            shown = quote(text) if spot.quote else written(text)
        found.append(Choice(shown, length, group.kind))
    return found


def _cased(text: str, lower: bool) -> str:
    """A word as it is being typed, in small letters or not; functions are DuckDB's own small letters."""
    return text.lower() if lower else text


def _files(typed: str, apostrophe: str = "'") -> list[Choice]:
    part, found = paths(typed)
    return [
        Choice(name.replace("'", apostrophe), len(part), "folder" if name.endswith("/") else "file") for name in found
    ]


def _in_command(text: str, known: Known, found: re.Match[str]) -> list[Choice]:
    """A command's name, then what it takes."""
    name = found[1]
    if found[2] is None:
        texts = [other for command in COMMANDS for other in command.names if other[0] == name[0]]
        beginning = [other for other in texts if other.startswith(name)]
        return [Choice(other, len(name), "command") for other in beginning or matching(name, texts)]
    rest = text[found.end() :]
    taken = takes(name)
    if taken == "file":
        return _files(rest.strip("'\""))
    if taken == "statement":
        return complete(rest, known)
    word = re.search(r"\S*$", rest)
    assert word is not None
    if isinstance(taken, tuple):
        choices = [written(name) for name in known.of(*taken)] + _elements(word[0], known, taken)
    else:
        choices = _SAID[taken](rest)
    return [Choice(other, len(word[0]), "") for other in matching(word[0], choices)[:_MOST]]


def _elements(word: str, known: Known, taken: Sequence[str]) -> list[str]:
    """What may follow the snapshot that a word names before its dot, where a snapshot is taken among others."""
    schema, dot, _ = word.rpartition(".")
    found = known.elements_of.get(schema.lower(), ()) if dot and len(taken) > 1 else ()
    return [f"{schema}.{written(element)}" for element in found]


class NamesCompleter(Completer):
    """Completion at the prompt, with whatever names the database has by then."""

    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The completions at the cursor."""
        text = document.text_before_cursor
        if not complete_event.completion_requested and not re.search(r"[\w.\\]$", text):
            return
        for choice in complete(text, self._known(), document.text_after_cursor):
            yield Completion(choice.text, -choice.replaces, display_meta=choice.kind)
