"""A shop database that tests of several layers use."""

from __future__ import annotations

SHOP = """
CREATE TABLE customer AS SELECT range * 2 AS cid, [range, 1]::FLOAT[2] AS emb, range % 3 AS y,
  CASE WHEN range % 5 > 0 THEN 80 + range END AS born FROM range(40);
CREATE TABLE product AS SELECT 'p' || lpad(range::VARCHAR, 2, '0') AS pid, range * 1.5 AS price FROM range(24);
CREATE TABLE bought AS SELECT (range * 7 % 40) * 2 AS cid, 'p' || lpad((range * 5 % 24)::VARCHAR, 2, '0') AS pid,
  CASE WHEN range % 10 < 9 THEN 120 + range * 11 % 80 END AS ts, 1 + range % 4 AS qty FROM range(300);
CREATE TABLE follows AS SELECT (range * 3 % 40) * 2 AS a, (range * 11 % 40) * 2 AS b, 120 + range % 80 AS since,
  CASE WHEN range % 3 > 0 THEN 150 + range % 60 END AS til FROM range(150) WHERE 150 + range % 60 > 120 + range % 80;
CREATE TABLE plan AS SELECT (range % 40) * 2 AS cid, range AS fee, 60 + range AS at FROM range(150);
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (
    customer KEY (cid) EVENT TIME (born) NULLS STATIC TARGET (y)
      FEATURES (emb AS x, fee AS fee FROM plan KEY (cid) EVENT TIME (at) DEFAULT -1),
    product KEY (pid) FEATURES (price AS x))
  EDGE TABLES (
    bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product EVENT TIME (ts) NULLS STATIC
      WEIGHT (qty),
    follows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer EVENT TIME (since, til));
CREATE SNAPSHOT s OF shop FOR EVENT_TIME AS OF 190;
CREATE SNAPSHOT late OF shop FOR EVENT_TIME BETWEEN 140 AND 190 WHERE bought.qty > 1;
"""
