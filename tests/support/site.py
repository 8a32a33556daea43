"""The pages of a database, asked in process, and their HTML as elements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.support.inside.ui import Access, Reader, application

PORT = 8421
ORIGIN = f"http://127.0.0.1:{PORT}"
SHOP = """
CREATE TABLE customer AS SELECT 'c' || range AS id, [range % 7, range]::FLOAT[2] AS x, range % 3 AS y FROM range(60);
CREATE TABLE product AS SELECT range AS sku, range * 1.5 AS price FROM range(30);
CREATE TABLE bought AS SELECT 'c' || hash(range) % 60 AS who, hash(range * 3) % 30 AS what,
  TIMESTAMP '2026-01-01' + INTERVAL (range) HOUR AS ts FROM range(900);
CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (id) FEATURES (x AS x) TARGET (y), product KEY (sku))
  EDGE TABLES (bought SOURCE KEY (who) REFERENCES customer DESTINATION KEY (what) REFERENCES product EVENT TIME (ts));
CREATE SNAPSHOT january OF shop FOR EVENT_TIME AS OF TIMESTAMP '2026-01-31';
CREATE SNAPSHOT all_times OF shop;
INSERT INTO bought SELECT 'c' || range % 5, 3, TIMESTAMP '2026-02-10' + INTERVAL (range) MINUTE FROM range(400);
INSERT INTO customer SELECT 'd' || range, [50, 50]::FLOAT[2], 1 FROM range(20);
CREATE SNAPSHOT now OF shop;
CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT id FROM customer) AS customer
  FANOUT (bought OUT => [3, 0], bought IN => [0, 2]) BATCH 16;
CREATE SAMPLER recent AS SAMPLE FROM now
  SEEDS (SELECT who AS id, ts AS seed_time FROM bought WHERE ts < TIMESTAMP '2026-01-20') AS customer
  FANOUT (bought OUT => [4, 0], bought IN => [0, 4]) TEMPORAL < SEED_TIME BATCH 8;
CREATE SAMPLER links AS SAMPLE FROM now SEEDS EDGES bought (SELECT e_id FROM now.bought LIMIT 50)
  FANOUT (bought OUT => [3], bought IN => [2]) BATCH 8;
CREATE CACHE near ON SAMPLER train;
ALTER PROPERTY GRAPH shop SET RETENTION (all '1 day', keep_tagged);
CREATE TASK good SCHEDULE EVERY INTERVAL '1 day' AS INSERT INTO product VALUES (1000 + {run}, 1);
CREATE TASK bad SCHEDULE EVERY INTERVAL '1 day' WITH (notify = 'ops') AS SELECT * FROM nowhere;
EXECUTE TASK good;
"""
"""Statements that create a shop with everything that the pages show."""


class Html(HTMLParser):
    """The elements of a page with their attributes, the texts of tables, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.tables: list[list[list[str]]] = []
        self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        match tag:
            case "table":
                self.tables.append([])
            case "tr" if self.tables:
                self.tables[-1].append([])
            case "td" | "th" if self.tables:
                self.tables[-1][-1].append("")
                self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.tables[-1][-1][-1] = (self.tables[-1][-1][-1] + data).strip()

    def table(self, *titles: str) -> list[dict[str, str]]:
        """The rows of the first table that has these columns, as dicts of texts."""
        for head, *rows in (table for table in self.tables if table):
            if set(titles) <= set(head):
                return [dict(zip(head, row, strict=True)) for row in rows]
        raise AssertionError(f"no table with {titles} in {[table[:1] for table in self.tables]}")

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind that have these attributes."""
        return [own for name, own in self.elements if name == tag and wanted.items() <= own.items()]


@dataclass
class Site:
    """A client that is signed in."""

    client: TestClient
    access: Access
    reader: Reader
    extra: dict[str, Any] = field(default_factory=dict)

    def get(self, path: str = "", **options: Any) -> Any:
        """The response to a request for a page."""
        return self.client.get(f"{self.access.base}/{path}", **options)

    def page(self, path: str = "", status: int = 200) -> Html:
        """A page with all of its panels."""
        joint = "&" if "?" in path else "?"
        response = self.get(f"{path}{joint}whole=1")
        assert response.status_code == status, response.text
        return Html(response.text)

    def post(self, path: str, **fields: str) -> Any:
        """The response to a form of the pages."""
        return self.client.post(f"{self.access.base}/{path}", data=fields, headers={"origin": ORIGIN})

    def ran(self, sql: str) -> Html:
        """The page with the result of a statement."""
        response = self.post("sql", sql=sql)
        assert response.status_code == 200, response.text
        return Html(response.text)


@contextmanager
def site(path: Path, *, metrics: str | None = None, signed_in: bool = True, **options: Any) -> Iterator[Site]:
    """The pages of a database."""
    reader, access = Reader(path, **options), Access(metrics=metrics)
    with TestClient(application(reader, access, PORT), base_url=ORIGIN, follow_redirects=False) as client:
        own = Site(client, access, reader)
        if signed_in:
            assert own.get(f"?token={access.token}").status_code == 303
        yield own
    reader.close()
