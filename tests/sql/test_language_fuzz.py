"""Whatever is typed, the answer is a result or an error that shows its place, and the database goes on as it was.

SNAPDB_FUZZ=n tries n texts instead of a few; SNAPDB_FUZZ_FROM=n begins at another one.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

import snapdb
from snapdb.catalog import Catalog
from snapdb.sql import parse
from tests.support.fuzz_texts import SHOP, texts
from tests.support.inside import catalog_of
from tests.support.inside.sql import Statement

CASES = int(os.environ.get("SNAPDB_FUZZ", "1500"))
FIRST = int(os.environ.get("SNAPDB_FUZZ_FROM", "0"))
CHANGES = 25
"""After so many statements that changed it the database is put back."""


class Shop:
    """A small database that is put back now and then."""

    def __init__(self, folder: Path) -> None:
        self.template = folder / "template"
        self.place = folder / "shop.snapdb"
        with snapdb.connect(self.template) as db:
            db.script(SHOP)
        self.changes = 0
        self.db = self._fresh()

    def _fresh(self) -> snapdb.Database:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.template, self.place)
        return snapdb.connect(self.place)

    def tried(self, text: str) -> str:
        """What became of a text: `ran`, or the error's kind and code."""
        try:
            statements = parse(text)
        except snapdb.SnapdbError as error:
            placed(error, text)
            return f"refused by the parser: {error.code}"
        return [self._ran(statement, text) for statement in statements][-1] if statements else "ran"

    def _ran(self, statement: Statement, text: str) -> str:
        before = catalog_of(self.db)
        try:
            for _ in islice(self.db.run(statement), 3):
                pass
        except snapdb.SnapdbError as error:
            placed(error, text)
            if self.db.transaction_state == "failed":
                self.db.execute("ROLLBACK")
            self._unchanged(before, error)
            return f"{type(error).__name__}: {error.code}"
        if self.db.transaction_state != "idle":
            self.db.execute("ROLLBACK")
        self._count(before is not catalog_of(self.db))
        return "ran"

    def _unchanged(self, before: Catalog, error: snapdb.SnapdbError) -> None:
        """An error changes nothing that a user sees."""
        assert facts(catalog_of(self.db)) == facts(before), str(error)

    def _count(self, changed: bool) -> None:
        self.changes += changed
        if self.changes == CHANGES:
            self.db.close()
            self.db, self.changes = self._fresh(), 0


def facts(catalog: Catalog) -> tuple[object, ...]:
    """What a user sees; ids that were allotted on the way stay allotted."""
    return catalog.tables, catalog.graphs, catalog.snapshots, catalog.samplers


def placed(error: snapdb.SnapdbError, text: str) -> None:
    """Every error of the language shows the place in the text."""
    assert str(error)
    if isinstance(error, snapdb.ParseError | snapdb.BindError):
        assert error.text is not None, str(error)
        assert error.span is not None, str(error)
        assert 0 <= error.span.start <= error.span.stop <= len(error.text), str(error)


def test_every_text_ends_in_a_result_or_an_error_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    outcomes: Counter[str] = Counter()
    for number in range(FIRST, FIRST + CASES):
        text = texts(Random(number))
        try:
            outcomes[shop.tried(text)] += 1
        except Exception as error:
            error.add_note(f"SNAPDB_FUZZ_FROM={number}: {text!r}")
            raise
    assert shop.db.execute("SELECT 1").fetchone() == (1,)
    shop.db.close()
    print("\n".join(f"{count:7d}  {outcome}" for outcome, count in outcomes.most_common()))
    assert outcomes["ran"] > CASES // 50
