"""The keys of nodes are the same however many a type has: kept in memory, or looked up for each batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snapdb

SETUP = """
CREATE TABLE person AS SELECT 'p' || range AS name FROM range(300);
CREATE TABLE place AS SELECT range % 7 AS country, 'c' || range AS city FROM range(50);
CREATE TABLE visits AS SELECT 'p' || range % 300 AS who, (range * 13) % 50 % 7 AS country,
  'c' || (range * 13) % 50 AS city FROM range(900);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (name), place KEY (country, city))
  EDGE TABLES (visits SOURCE KEY (who) REFERENCES person DESTINATION KEY (country, city) REFERENCES place);
INSERT INTO person VALUES ('late');
CREATE SNAPSHOT s OF g;
"""


@pytest.fixture
def town(tmp_path: Path) -> snapdb.Database:
    db = snapdb.connect(tmp_path / "db")
    db.script(SETUP)
    return db


@pytest.mark.parametrize("element", ["person", "place"])
def test_keys_are_looked_up_as_they_are_kept(
    town: snapdb.Database, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = np.array([3, 49, 3, 0, 11], np.int64)
    with town:
        opened = town.open_snapshot("s")
        kept, none = opened.view.keys[element].read(ids), opened.view.keys[element].read(ids[:0])
        opened.lease.release()
        monkeypatch.setattr("snapdb.graph.open._KEPT_KEYS", 10)
        opened = town.open_snapshot("s")
        keys = opened.view.keys[element]
        assert keys.read(ids).equals(kept)
        assert keys.read(ids[:0]).equals(none)
        assert "_keys" not in vars(keys), "no batch has read all keys"
        opened.lease.release()
