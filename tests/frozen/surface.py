"""The pages of what the public doors give: each a text, made anew by a function and compared with the recorded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from snapdb import Database
from tests.frozen import api, cases, catalog, files, prints, stored, streams, world

RECORDED = Path(__file__).resolve().parent / "recorded"
"""Where the pages are."""


class Place(NamedTuple):
    """The recorded database, filled."""

    db: Database
    folder: Path
    """Its own directory is in it, and what is written beside it."""
    outcomes: str
    """What statements said of themselves while it was filled."""
    fields: str
    contents: str
    """What was on the disk then."""


def filled(db: Database, folder: Path) -> Place:
    """A database that was just created, with everything in it; the folder is the working directory."""
    outcomes = "\n".join(world.fill(db)) + "\n"
    return Place(db, folder, outcomes, stored.fields(db.path), stored.contents(db.path, folder))


PAGES: Mapping[str, Callable[[], str]] = {
    "errors": api.errors,
    "helps": api.helps,
    "signatures": api.signatures,
    "texts": api.texts,
    "environment": api.environment,
    "prompt": api.prompt,
}
"""Those that need no database."""
READ: Mapping[str, Callable[[Place], str]] = {
    "outcomes": lambda place: prints.normal(place.outcomes, place.folder),
    "fields": lambda place: place.fields,
    "contents": lambda place: place.contents,
    "lists": lambda place: catalog.listed(place.db, catalog.LISTS, place.folder),
    "rows": lambda place: catalog.listed(place.db, catalog.ROWS, place.folder),
    "plans": lambda place: catalog.explained(place.db, place.folder),
    "lineages": lambda place: streams.lineages(place.db, place.folder),
    "orders": lambda place: streams.orders(place.db),
    "forms": lambda place: streams.forms(place.db, place.folder),
    "replayed": lambda place: streams.replayed(place.db),
    "exports": lambda place: files.exports(place.db, place.folder),
    "written": lambda place: files.written(place.db, place.folder),
} | {f"batches_{name}": partial(lambda name, place: streams.groups(place.db, name), name) for name in cases.GROUPS}
"""Those of the recorded database."""
