"""One code: what it means, what to do, and statements that show it."""

from __future__ import annotations

from dataclasses import dataclass

WORLD = """
CREATE TABLE person AS FROM (VALUES (1, 'ann', 31), (2, 'bob', 25), (3, 'cy', 42)) t(id, name, age);
CREATE TABLE film AS FROM (VALUES ('m', 'Metropolis'), ('n', 'Nosferatu')) t(code, title);
CREATE TABLE knows AS FROM (VALUES (1, 2, 10, 0.5), (2, 3, 20, 1.5)) t(a, b, at, w);
CREATE TABLE likes AS FROM (VALUES (1, 'm', 5), (3, 'n', 4)) t(person, film, stars);
CREATE PROPERTY GRAPH g
  VERTEX TABLES (person KEY (id) FEATURES (age AS x), film KEY (code))
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (at) WEIGHT (w),
    likes SOURCE KEY (person) REFERENCES person DESTINATION KEY (film) REFERENCES film);
CREATE SNAPSHOT s OF g;
CREATE TAG june;
"""
"""The small database that every example starts from."""

SAMPLE = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2])"
GRAPH = "CREATE PROPERTY GRAPH h VERTEX TABLES (person KEY (id))"
"""A graph to which examples add."""


@dataclass(frozen=True, slots=True)
class Code:
    """A word by which programs know an error."""

    code: str
    kind: str
    """The name of its class."""
    meaning: str
    remedy: str
    example: str | None = None
    """Statements, the last of which fails so in `WORLD`."""
    unshown: str | None = None
    """Why there is no example."""
