"""The language reference: each statement's syntax, clauses and example, from its grammar and its page."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from snapdb.sql.synopsis import grammar
from snapdb.types.algorithms import ALGORITHM_NAMES, algorithm
from snapdb.types.text import nearest

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_EXCERPT = re.compile(r"<!-- grammar: (\w+): ([\w ]+) -->")
_EXAMPLE = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_TABLE = re.compile(r"^\|.+\|\n\|[-| :]+\|\n(?:\|.*\|\n?)+", re.MULTILINE)
_BLOCK = re.compile(r"<!--.*?-->|^```.*?^```$|^\|[^\n]*$", re.MULTILINE | re.DOTALL)
"""Matches everything except prose. A table row ends at the end of its line."""
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CELL = re.compile(r"(?<!\\)\|")
_LEFT = 30
"""The maximum length of a clause that is printed on the same line as its meaning. Longer clauses are on a separate
line."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A section of a language page, which describes one statement or several related ones."""

    title: str
    """The statements in the section's title, such as `BEGIN, COMMIT, ROLLBACK`."""
    names: tuple[str, ...]
    """The leading words of each statement, starting with those in the title."""
    summary: str
    """The first paragraph of the section as plain text."""
    grammar: str
    """The grammar that parses the statements, or empty for DuckDB statements."""
    rules: tuple[str, ...]
    """The statements' grammar rules."""
    clauses: tuple[tuple[str, str], ...]
    """The clauses, each with its meaning."""
    example: str
    """Runnable example statements."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The names, without synonyms and without names that only add words to the title."""
        titles = self.title.split(", ")
        first = [grammar(self.grammar).words(rule)[0] for rule in self.rules]
        return (
            *titles,
            *(name for name in first if name and not any(_plain(name).startswith(_plain(t)) for t in titles)),
        )

    @property
    def headline(self) -> str:
        """The first sentence of the summary."""
        return re.split(r"(?<=[.:])\s", self.summary, maxsplit=1)[0].rstrip(".:")

    def text(self, width: int = 80) -> str:
        """Return the topic in lines of at most `width` characters."""
        parts = [self.title + "\n" + textwrap.fill(self.summary, width, initial_indent="  ", subsequent_indent="  ")]
        if self.rules:
            parts.append("Syntax:\n" + textwrap.indent(grammar(self.grammar).synopsis(self.rules, width - 2), "  "))
        elif self.title in ALGORITHM_NAMES:
            parts.append("Syntax:\n" + textwrap.indent(algorithm(self.title).synopsis(width - 2), "  "))
        if self.clauses:
            parts.append("Clauses:\n" + "\n".join(_two_columns(self.clauses, width)))
        if self.example:
            parts.append("Example:\n" + textwrap.indent(self.example, "  "))
        return "\n\n".join(parts)


def _two_columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Format names in one column and their descriptions in another."""
    left = max((len(name) for name, _ in rows if len(name) <= _LEFT), default=0)
    for name, text in rows:
        lines = textwrap.wrap(text, max(width - left - 4, 20)) or [""]
        if len(name) <= left:
            yield f"  {name:<{left}}  {lines.pop(0)}".rstrip()
        else:
            yield from textwrap.wrap(name, width, initial_indent="  ", subsequent_indent="    ")
        yield from (" " * (left + 4) + line for line in lines)


def help_text(words: str, width: int = 80) -> str:
    """Return the help text of a statement, or a list of all statements that begin with the given words.

    Raises:
        ValueError: No statement begins with these words.

    >>> help_text("craete task nightly")
    Traceback (most recent call last):
    ValueError: no statement begins with "craete task nightly"; did you mean CREATE TASK?
    >>> help_text("create task nightly").splitlines()[0]
    'CREATE TASK'
    """
    sought = _plain(words)
    chosen = _named(sought) or [t for t in topics() if any(_plain(name).startswith(sought) for name in t.names)]
    if len(chosen) == 1:
        return chosen[0].text(width)
    listed = {name: topic for topic in chosen for name in topic.listed if _plain(name).startswith(sought)}
    if not listed:
        near = nearest(" ".join(words.split()), (name for topic in topics() for name in topic.names))
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f'no statement begins with "{words}"{hint}')
    rows = [(name, topic.headline if name in topic.title else f"see {topic.title}") for name, topic in listed.items()]
    return "\n".join(_two_columns(sorted(rows), width))


def _named(sought: str) -> list[Topic]:
    """Return the topic of the statement with this name, or of the statement whose name is a prefix of these words."""
    found = [topic for topic in topics() if sought in map(_plain, topic.names)]
    shorter = sought.rpartition(" ")[0]
    return found or (_named(shorter) if shorter else [])


def topic_names() -> list[str]:
    """Return the names of all statements in alphabetical order, without duplicates.

    >>> topic_names()[:3]
    ['ALTER PROPERTY GRAPH', 'ALTER TABLE', 'ALTER TASK']
    """
    return sorted(name for topic in topics() for name in topic.listed)


def _plain(words: str) -> str:
    """Normalize words for comparison. PROPERTY is optional before GRAPH, as in statements."""
    return " ".join(word for word in re.sub(r"[^\w\s]", " ", words).upper().split() if word != "PROPERTY")


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics, sorted by title."""
    pages = (entry for entry in _pages().iterdir() if entry.name.endswith(".md"))
    sections = (topic for page in pages for topic in _topics(page.read_text(encoding="utf-8")))
    return tuple(sorted(sections, key=lambda topic: topic.title))


def _pages() -> Traversable:
    """Return the directory of the language pages, in the installed package or in the checkout."""
    package = files("snapdb_grammar")
    installed = package.joinpath("pages")
    return installed if installed.is_dir() else Path(str(package)).parents[1] / "docs" / "language"


def _topics(page: str) -> Iterator[Topic]:
    titles = list(_SECTION.finditer(page))
    for title, following in zip(titles, [*titles[1:], None], strict=True):
        text = page[title.end() : None if following is None else following.start()]
        yield _topic(_unmarked(title[1]), text.partition("\n### ")[0])


def _topic(title: str, text: str) -> Topic:
    # A comment on the page names the family and the rules whose syntax is printed.
    found = _EXCERPT.search(text)
    family, listed = ("", []) if found is None else (found[1], found[2].split())
    rules = [rule for rule in grammar(family).statements() if rule in listed] if family else []
    leading = (words for rule in rules for words in grammar(family).words(rule))
    names = dict.fromkeys([*title.split(", "), *filter(None, leading)])  # a clause of queries begins with a name
    example = _EXAMPLE.search(text)
    table = _TABLE.search(text)
    return Topic(
        title,
        tuple(names),
        _unmarked(_BLOCK.sub("", text).strip().split("\n\n")[0]),
        family,
        tuple(rules),
        () if table is None else tuple(_clauses(table.group())),
        "" if example is None else example[1].strip(),
    )


def _clauses(table: str) -> Iterator[tuple[str, str]]:
    """Yield the clauses in a Markdown table with their meanings, which include any owner and default."""
    heads, _, *rows = ([_unmarked(cell) for cell in _CELL.split(line)[1:-1]] for line in table.strip().splitlines())
    for clause, *cells in rows:
        if heads[1] == "of":
            yield clause, f"{cells[0]}: {cells[1]}" if cells[0] else cells[1]
        elif len(cells) > 1 and cells[1]:
            default = cells[1] if cells[1] == "required" else f"{heads[2]}: {cells[1]}"
            yield clause, "; ".join(filter(None, (cells[0], default)))
        else:
            yield clause, cells[0]


def _unmarked(text: str) -> str:
    """Return text on one line without Markdown markup."""
    return " ".join(re.sub(r"`|\*\*", "", _LINK.sub(r"\1", text)).replace("\\|", "|").split())
