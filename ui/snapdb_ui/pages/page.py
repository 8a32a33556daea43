"""A page as a value: an address, and panels that load one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from snapdb.database import Database
from snapdb_ui.cells import Cell, cell
from snapdb_ui.reader import Rows, dicts


class Ask(NamedTuple):
    """What an address asks for."""

    names: Mapping[str, str]
    """The parts of the path, such as the name of a table."""
    options: Mapping[str, str]
    """The query string."""

    @property
    def name(self) -> str:
        """The name of the object that the page shows."""
        return self.names["name"]

    def number(self, option: str, default: int, least: int = 0, most: int = 1 << 40) -> int:
        """Return an option as a number within bounds. Text that is no number is the default."""
        text = self.options.get(option, "")
        return min(max(int(text), least), most) if re.fullmatch("-?[0-9]{1,18}", text) else default


Load = Callable[[Database, Ask], Mapping[str, Any]]
"""Returns the values of a panel's template."""


class Panel(NamedTuple):
    """A part of a page with its own request, error and Cancel button."""

    name: str
    title: str
    load: Load
    template: str
    repeated: bool = False
    """Whether the panel is read again every few seconds."""
    on_click: str = ""
    """The label of the button that loads the panel, if it does not load by itself."""


class Page(NamedTuple):
    """A page."""

    path: str
    section: str
    """The entry of the navigation that is marked."""
    title: str
    """The title, with {name} for the parts of the path."""
    panels: tuple[Panel, ...]


class Column(NamedTuple):
    """A column of a table of objects."""

    name: str
    title: str
    link: str = ""
    """The address to which the values link, relative to the first page, with {column} for values of the row."""
    text: Callable[[Any], str] | None = None
    """Returns a value as text. The default shows it as a query does."""
    state: bool = False
    """Whether the values are states, which have colours."""


class Entry(NamedTuple):
    """A cell of a table, with the address it links to."""

    cell: Cell
    link: str | None


class Table(NamedTuple):
    """What templates draw as a table."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    numbers: Sequence[bool]
    """Whether each column contains numbers, which are aligned to the right."""


def drawn(svg: str) -> Markup:
    """Return a picture of `snapdb.pictures`, in which all texts are escaped, for a template."""
    return Markup(svg)  # noqa: S704


def listing(statement: str, columns: Sequence[Column], empty: str) -> Load:
    """Return the function of a panel that lists objects.

    Args:
        statement: A SHOW statement.
        columns: The columns to show.
        empty: The text if there are no objects.
    """
    return lambda db, ask: {"table": table(dicts(db, statement), columns), "empty": empty}


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> Table:
    """Return objects as a table."""
    entries = [[_entry(row, column) for column in columns] for row in rows]
    return Table([column.title for column in columns], entries, _numbers(entries, len(columns)))


def table_of(found: Rows, *, blank: bool = False) -> Table:
    """Return the rows of a result as a table. In descriptions, NULL is blank."""
    empty = Cell("")
    rows = [[Entry(empty if blank and one.kind == "null" else one, None) for one in row] for row in found.rows]
    return Table(found.names, rows, _numbers(rows, len(found.names)))


def address(*parts: object) -> str:
    """Return the address of an object, relative to the first page.

    A slash cannot be quoted as %2F, which servers decode before they split the path, and browsers resolve "..".

    >>> address("tables", "bought"), address("tables", "a b/c"), address("tables", "..")
    ('tables/bought', 'tables/a%20b~2Fc', 'tables/~2E~2E')
    """
    return "/".join(_segment(str(part)) for part in parts)


def name_in(segment: str) -> str:
    """Return the name in a part of a path.

    >>> name_in("a b~2Fc")
    'a b/c'
    """
    return re.sub("~([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), segment)


def _segment(name: str) -> str:
    special = r"[.]" if not name.strip(".") else r"[~/%?#\\]"
    return quote(re.sub(special, lambda found: f"~{ord(found[0]):02X}", name), safe="")


def _entry(row: Mapping[str, Any], column: Column) -> Entry:
    value = row[column.name]
    shown = cell(value)
    if column.text is not None:
        shown = Cell(column.text(value), kind="number" if isinstance(value, int | float) else "")
    if column.state and value is not None:
        shown = Cell(str(value), kind="state")
    link = None
    if column.link and value is not None:
        link = column.link.format_map({name: _segment(str(row[name])) for name in re.findall(r"{(\w+)}", column.link)})
    return Entry(shown, link)


def _numbers(rows: Sequence[Sequence[Entry]], width: int) -> list[bool]:
    kinds = [{row[i].cell.kind for row in rows} for i in range(width)]
    return [bool(found) and found <= {"number", "null", ""} and "number" in found for found in kinds]
