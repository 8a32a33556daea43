"""What a stream was asked for, opened when it begins, and again when something newer is published."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from snapdb.catalog import Catalog
from snapdb.errors import SnapdbError
from snapdb.execute.opening import Opened
from snapdb.execute.standing import once_it_stands
from snapdb.graph.lineage import published
from snapdb.loading.source import Source
from snapdb.plan.samples import SamplePlan
from snapdb.plan.samples.statements import streamed
from snapdb.sql.ast import Sample, SampleUsing
from snapdb.types import Published

_CALLER = 5
"""Frames from a warning to whoever renews the stream."""


class _Mark(NamedTuple):
    """What a stream follows: it goes on when that is another one."""

    published: Published
    sampler: tuple[str, int] | None
    """The text of a named one, and the generation of its rows."""

    def same(self, other: _Mark) -> bool:
        return self.sampler == other.sampler and self.published.content == other.published.content


@dataclass(frozen=True, slots=True)
class Following:
    """A sampler's name or statement, with the ways to open it and to what there is now."""

    query: str
    limited: bool
    """Memory was said by the caller: an error about it is not about the statement."""
    open: Callable[[Sample | SampleUsing], tuple[SamplePlan, Opened]]
    """Opens the statement in a database, with the caller's seeds and parameters."""
    catalog: Callable[[], Catalog]

    def opened(self) -> Source:
        """The newest publication.

        Raises:
            BindError: a name leads nowhere, or it is no sampler's statement.
            CorruptError: a file of the snapshot is missing or damaged.
            DataError: the seeds do not fit.
        """
        with streamed(self.query) as statement:
            plan, opened = once_it_stands(lambda: self.open(statement))
        now = published(plan.snapshot)
        sampler = None if plan.sampler is None else (plan.sampler.text, plan.sampler.generation)
        look = _Look(self, plan, _Mark(now, sampler))
        about = partial(self._about, plan, statement.source)
        return Source(
            opened.view, opened.seeds, opened.spec, plan.way, opened.cache, now, opened.lease.release, look.newer, about
        )

    @contextmanager
    def _about(self, plan: SamplePlan, text: str) -> Iterator[None]:
        places = replace(plan.places, memory=None) if self.limited else plan.places
        try:
            with places.under():
                yield
        except SnapdbError as error:
            error.located(text)
            raise


class _Look:
    """From one publication to the next."""

    def __init__(self, following: Following, plan: SamplePlan, mark: _Mark) -> None:
        self._following, self._plan, self._mark = following, plan, mark
        self._seen: Catalog | None = None

    def newer(self) -> Source | None:
        """What was published since; None: nothing, or the snapshot is gone.

        Raises:
            SnapdbError: it cannot be opened, or its seeds cannot be read.
        """
        catalog = self._following.catalog()
        if catalog is self._seen:
            return None
        now = self._now(catalog)
        if now is None or now.same(self._mark):
            self._seen = catalog
            return None
        try:
            return self._following.opened()
        except SnapdbError as error:
            if error.code != "interrupted":
                was, name = self._mark.published, now.published.name
                error.message = (
                    f"{name} was published anew (version {now.published.version}), and the stream, at version "
                    f"{was.version} of {was.name}, cannot go on with it: {error.message}"
                )
            raise

    def _now(self, catalog: Catalog) -> _Mark | None:
        """What there is now; None, with a warning: it was dropped."""
        sampler, name = self._plan.sampler, self._plan.snapshot.name
        if sampler is not None:
            found = catalog.samplers.get(sampler.name.lower())
            if found is None:
                self._tell_gone(f"sampler {sampler.name}")
                return None
            sampler, name = found, found.snapshot
        snapshot = catalog.snapshots.get(name.lower())
        if snapshot is None:
            self._tell_gone(f"snapshot {name}")
            return None
        return _Mark(published(snapshot), None if sampler is None else (sampler.text, sampler.generation))

    def _tell_gone(self, what: str) -> None:
        was = self._mark.published
        warnings.warn(
            f"{what} was dropped: the stream goes on with {was.name} at version {was.version}, whose files stay until "
            "it is closed; create it again, or open another stream",
            RuntimeWarning,
            stacklevel=_CALLER,
        )
