"""Completion at the cursor: commands, keywords, database names and files."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from snapdb.sql.reference import topic_names
from snapdb.sql_engine import quote
from snapdb_cli.repl.candidates import candidates
from snapdb_cli.repl.commands import COMMANDS, find
from snapdb_cli.repl.grammar import Spot, locate
from snapdb_cli.repl.preferences import PREFERENCES, NamedQueries
from snapdb_cli.repl.prompt import is_command, trailing
from snapdb_cli.repl.words import CandidateGroup, DatabaseNames, phrases

_MOST_SLIPS = 5
_NEAR = 0.75
"""The minimum similarity between a misspelt word and a candidate, where 1 means equal."""


def _matching(typed: str, candidates: Sequence[str]) -> list[str]:
    """Return the candidates that match `typed`, best first, ties in their original order. An empty text matches all.

    Case is ignored. Candidates that contain the letters with gaps are returned only if none contains them without gaps,
    and misspellings only if no candidate contains all the letters.

    >>> _matching("per", ["superb", "my_person", "person"])
    ['person', 'my_person', 'superb']
    >>> _matching("cid", ["customer_identity", "amount"]), _matching("perosn", ["amount", "person"])
    (['customer_identity'], ['person'])
    """
    if not typed:
        return list(dict.fromkeys(candidates))
    sought = typed.lower()
    ranked: tuple[list[str], list[str], list[str]] = ([], [], [])
    for candidate in dict.fromkeys(candidates):
        folded = candidate.lower()
        place = folded.find(sought)
        if place < 0:
            continue
        begins_word = place > 0 and not folded[place - 1].isalnum()
        ranked[0 if place == 0 or (place == 1 and folded[0] == '"') else 1 if begins_word else 2].append(candidate)
    # One or two letters occur inside too many names for such matches to be useful.
    ordered = [*ranked[0], *ranked[1], *(ranked[2] if len(sought) > 2 else ())]
    return ordered or _spread(sought, candidates) or _slips(sought, candidates)


def _spread(sought: str, candidates: Sequence[str]) -> list[str]:
    """Return the candidates that contain the letters in order, the first letter at the start of a word."""
    if len(sought) < 2:
        return []
    letters = "[^\n]*?".join(map(re.escape, sought))
    # All candidates are joined into one text with one per line, because one search is faster than ten thousand
    # searches.
    line = re.compile(rf"^(?:[^\n]*?[^a-z0-9\n])??{letters}[^\n]*$", re.MULTILINE)
    lines = set(line.findall("\n".join(candidates).lower()))
    if not lines:
        return []
    close = re.compile(rf"(?:^|[\W_]){letters}")
    near = []
    for candidate in dict.fromkeys(candidates):
        if candidate.lower() in lines and (match := close.search(candidate.lower())):
            near.append((match.end() - match.start(), candidate))
    return [candidate for _, candidate in sorted(near, key=lambda pair: pair[0])]


def _slips(sought: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that begin with something similar to the typed text."""
    if len(sought) < 3:
        return []
    matcher = SequenceMatcher(b=sought, autojunk=False)
    near = []
    length = len(sought)
    needed = frozenset(sought[:3])
    for candidate in dict.fromkeys(candidates):
        folded = candidate.lower()
        if len(needed.intersection(folded[:4])) < 2:
            continue  # a cheap test that excludes most of ten thousand names
        # The user may have misspelt a whole word, or typed only its beginning.
        best = 0.0
        for beginning in {folded[:length], folded[: length + 1]}:
            matcher.set_seq1(beginning)
            if matcher.real_quick_ratio() >= _NEAR and matcher.quick_ratio() >= _NEAR:
                best = max(best, matcher.ratio())
        if best >= _NEAR:
            near.append((-best, candidate))
            if len(near) == _MOST_SLIPS * 20:
                break
    return [candidate for _, candidate in sorted(near, key=lambda pair: pair[0])[:_MOST_SLIPS]]


_MOST = 200


def _paths(typed: str) -> tuple[str, list[str]]:
    """Return the typed prefix of the last path component, and its completions. Directories end with a slash.

    Hidden files are offered once a dot is typed. A directory that cannot be read has no completions.
    """
    folder, slash, part = typed.rpartition("/")
    try:
        place = Path(folder + slash or ".").expanduser()
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except (OSError, RuntimeError, ValueError):
        return part, []
    offered = [
        entry.name + ("/" if _is_folder(entry) else "")
        for entry in entries
        if entry.name.startswith(".") == part.startswith(".")
    ]
    return part, _matching(part, offered)[:_MOST]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


_RESERVED = phrases(
    """
    all, analyse, analyze, and, any, array, as, asc, asymmetric, both, case, cast, check, collate, column,
    constraint, create, default, deferrable, desc, describe, distinct, do, else, end, except, false, fetch, for,
    foreign, from, group, having, in, initially, intersect, into, key, lambda, lateral, leading, limit, not, null,
    offset, on, only, or, order, pivot, pivot_longer, pivot_wider, placing, primary, qualify, references, returning,
    select, show, some, summarize, symmetric, table, then, to, trailing, true, union, unique, unpivot, using,
    variadic, when, where, window, with
    """
)
"""Words that DuckDB or snapdb does not accept as names."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _quoted(name: str) -> str:
    """Return a name as a user would write it, in double quotes only if necessary.

    >>> _quoted("name"), _quoted("my person"), _quoted("order")
    ('name', '"my person"', '"order"')
    """
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else quote(name)


_COMMAND = re.compile(r"\s*([\\.][\w?!+]*)(\s+)?")


def _settings(rest: str) -> list[str]:
    """Return the settings, or the values of the setting that was typed."""
    name, blank, _ = rest.lstrip().partition(" ")
    preference = PREFERENCES.get(name)
    return list(PREFERENCES) if not blank or preference is None else list(preference.values)


_ARGUMENTS: dict[str, Callable[[str], list[str]]] = {
    "setting": _settings,
    "format": lambda rest: list(PREFERENCES["format"].values),
    "query": lambda rest: list(NamedQueries().texts()),
    "switch": lambda rest: ["on", "off", "auto"],
}


class _Suggestion(NamedTuple):
    """One completion."""

    text: str
    replaces: int
    """The number of characters before the cursor that the completion replaces."""
    kind: str
    """The kind, for display, or '' for a keyword."""


def suggest(text: str, known: DatabaseNames, after: str = "") -> list[str]:
    """Return the completions of the last word of `text`, which may be empty, most likely first.

    >>> suggest("SELECT * FROM pay", DatabaseNames(tables=("payments",)))
    ['payments']
    >>> suggest("SAMPLE FROM s METHOD BOT", DatabaseNames()), suggest("sho", DatabaseNames())[0]
    (['BOTTOMK'], 'show caches')
    """
    return [choice.text for choice in complete(text, known, after)]


def complete(text: str, known: DatabaseNames, after: str = "") -> list[_Suggestion]:
    """Return the completions for the position between two texts, most likely first."""
    command = text if is_command(text) else text[trailing(text) or len(text) :]
    if match := _COMMAND.match(command):
        return _in_command(command, known, match)
    spot = locate(text, after)
    if spot is None:
        return []
    if spot.quote == "'":
        return _files(spot.typed, "''")
    return _matched(spot, candidates(spot, known))


def _matched(spot: Spot, groups: Sequence[CandidateGroup]) -> list[_Suggestion]:
    """Return the candidates that match the typed text."""
    lower = spot.typed.islower()  # keywords adopt the case of the typed text
    by_text: dict[str, CandidateGroup] = {}
    for group in groups:
        if spot.quote == '"' and group.form != "name":
            continue
        if not (group.eager or spot.typed):
            continue
        for text in group.texts:
            by_text.setdefault(text.lower() if lower and group.form == "word" else text, group)
    choices = []
    length = len(spot.typed) + len(spot.quote)
    for text in _matching(spot.typed, list(by_text))[:_MOST]:
        group = by_text[text]
        shown = text
        if group.form == "name":
            shown = quote(text) if spot.quote else _quoted(text)
        choices.append(_Suggestion(shown, length, group.kind))
    return choices


def _files(typed: str, apostrophe: str = "'") -> list[_Suggestion]:
    part, offered = _paths(typed)
    return [
        _Suggestion(name.replace("'", apostrophe), len(part), "folder" if name.endswith("/") else "file")
        for name in offered
    ]


def _in_command(text: str, known: DatabaseNames, match: re.Match[str]) -> list[_Suggestion]:
    """Return the names of commands, or the arguments of one."""
    name = match[1]
    if match[2] is None:
        texts = [other for command in COMMANDS for other in command.names if other[0] == name[0]]
        beginning = [other for other in texts if other.startswith(name)]
        return [_Suggestion(other, len(name), "command") for other in beginning or _matching(name, texts)]
    rest = text[match.end() :]
    command = find(name.lower())
    taken = () if command is None else command.takes
    if taken == "file":
        return _files(rest.strip("'\""))
    if taken == "statement":
        return complete(rest, known)
    if taken == "topic":
        lower = rest.islower()
        names = [name.lower() if lower else name for name in topic_names()]
        beginning = [name for name in names if name.lower().startswith(rest.lower())]
        return [_Suggestion(name, len(rest), "statement") for name in beginning or _matching(rest, names)]
    word = re.search(r"\S*$", rest)
    assert word is not None
    if isinstance(taken, tuple):
        choices = [_quoted(name) for name in known.of(*taken)] + _elements(word[0], known, taken)
    else:
        choices = _ARGUMENTS[taken](rest)
    return [_Suggestion(other, len(word[0]), "") for other in _matching(word[0], choices)[:_MOST]]


def _elements(word: str, known: DatabaseNames, taken: Sequence[str]) -> list[str]:
    """Return `snapshot.element` names for a word with a dot, if the command accepts several kinds of names."""
    schema, dot, _ = word.rpartition(".")
    elements = known.elements_of.get(schema.lower(), ()) if dot and len(taken) > 1 else ()
    return [f"{schema}.{_quoted(element)}" for element in elements]


class NamesCompleter(Completer):
    """Completion at the prompt, with the current names of the database."""

    def __init__(self, known: Callable[[], DatabaseNames]) -> None:
        self._known = known

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions at the cursor."""
        text = document.text_before_cursor
        if not complete_event.completion_requested and not re.search(r"[\w.\\]$", text):
            return
        for choice in complete(text, self._known(), document.text_after_cursor):
            yield Completion(choice.text, -choice.replaces, display_meta=choice.kind)
