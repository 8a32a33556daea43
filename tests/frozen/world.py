"""The database that is recorded: three generated graphs, and one of everything that a database can hold.

No value depends on a hash or a random number of a library, so that the same rows are generated everywhere.
"""

from __future__ import annotations

from snapdb import Database

WEB = """
CREATE TABLE page AS
  SELECT range AS id, range * 7 % 5 AS topic, [range % 7, range % 3]::FLOAT[2] AS f FROM range(120) MESSAGE 'pages';
CREATE TABLE links AS
  SELECT x * x * x // 14400 AS a, y * y * y // 14400 AS b,
         TIMESTAMP '2001-01-01' + INTERVAL 1 HOUR * (n * 37 % 1000) AS at, (n * 13 + x) % 5 AS w,
         (n % 4 / 2)::FLOAT AS strength
  FROM (SELECT range AS n, (range * 40503 + 17) // 7 % 120 AS x, (range * 2654435 + 5) // 11 % 120 AS y
        FROM range(900));
CREATE PROPERTY GRAPH web
  VERTEX TABLES (page KEY (id) FEATURES (f AS x) TARGET (topic AS y))
  EDGE TABLES (links SOURCE KEY (a) REFERENCES page DESTINATION KEY (b) REFERENCES page
    EVENT TIME (at) WEIGHT (w) FEATURES (strength AS edge_attr));
CREATE SNAPSHOT web_full OF web;
CREATE SNAPSHOT web_full_rows OF web WITH (layout = 'materialized');
CREATE SNAPSHOT web_past OF web FOR EVENT_TIME AS OF TIMESTAMP '2001-02-01';
CREATE SNAPSHOT web_past_ends OF web FOR EVENT_TIME AS OF TIMESTAMP '2001-02-01' WITH (layout = 'ends');
CREATE SNAPSHOT web_past_bits OF web FOR EVENT_TIME AS OF TIMESTAMP '2001-02-01' WITH (layout = 'bitmap');
CREATE SNAPSHOT web_past_rows OF web FOR EVENT_TIME AS OF TIMESTAMP '2001-02-01' WITH (layout = 'materialized');
CREATE SNAPSHOT web_range OF web FOR EVENT_TIME FROM DATE '2001-01-08' TO DATE '2001-02-05';
CREATE SNAPSHOT web_range_bits OF web
  FOR EVENT_TIME FROM DATE '2001-01-08' TO DATE '2001-02-05' WITH (layout = 'bitmap');
CREATE SNAPSHOT web_range_rows OF web
  FOR EVENT_TIME FROM DATE '2001-01-08' TO DATE '2001-02-05' WITH (layout = 'materialized');
CREATE SNAPSHOT web_week OF web FOR EVENT_TIME WINDOW INTERVAL '7 days';
CREATE SNAPSHOT web_heavy OF web WHERE links.w > 1 AND topic < 4;
"""
"""Homogeneous: in- and out-degrees follow a power law, with parallel edges, self-loops and weights of 0."""

SHOP = """
CREATE TABLE customer AS
  SELECT 'c' || range AS name, ['gold', 'new', NULL, 'old'][1 + range % 4] AS segment, range % 50 AS joined,
         [range % 7, 1]::FLOAT[2] AS profile, CASE WHEN range % 9 > 0 THEN range * 1.5 END AS income,
         range % 3 = 0 AS vip, [range % 8, 8 + range % 5]::INTEGER[] AS words, [1.0, 0.5]::FLOAT[] AS counts
  FROM range(60);
CREATE TABLE product AS
  SELECT ('00000000-0000-0000-0000-0000000000' || (10 + range))::UUID AS pid, range / 4 AS price,
         'b' || range % 3 AS brand
  FROM range(30);
CREATE TABLE store AS
  SELECT ['Bonn', 'Rome'][1 + range % 2] AS city, range // 2 AS number, DATE '1999-01-01' + range::INTEGER AS opened
  FROM range(8);
CREATE TABLE bought AS
  SELECT 'c' || x AS who, ('00000000-0000-0000-0000-0000000000' || (10 + y))::UUID AS what, n * 31 % 1000 AS day,
         1 + n % 4 AS qty, (n % 5)::DOUBLE AS score
  FROM (SELECT range AS n, (range * 40503 + 3) // 7 % 60 AS x, (range * 2654435 + 5) // 11 % 30 AS y FROM range(400));
CREATE TABLE viewed AS
  SELECT 'c' || x AS who, ('00000000-0000-0000-0000-0000000000' || (10 + y))::UUID AS what, n * 17 % 1000 AS day
  FROM (SELECT range AS n, (range * 30011 + 3) // 5 % 60 AS x, (range * 104729 + 1) // 13 % 30 AS y FROM range(150));
CREATE TABLE knows AS
  SELECT 'c' || (range * 11 % 60) AS a, 'c' || (range * range % 60) AS b, range % 3 AS close FROM range(200);
CREATE TABLE rents AS
  SELECT 'c' || (range * 7 % 60) AS who, ['Bonn', 'Rome'][1 + range % 2] AS city, range % 8 // 2 AS number,
         CASE WHEN range % 10 > 0 THEN range * 13 % 900 END AS since,
         CASE WHEN range % 3 > 0 THEN range * 13 % 900 + 100 END AS until
  FROM range(90);
CREATE TABLE sells AS
  SELECT ['Bonn', 'Rome'][1 + range % 2] AS city, range % 9 // 2 AS number,
         ('00000000-0000-0000-0000-0000000000' || (10 + range * 7 % 30))::UUID AS what
  FROM range(80);
CREATE TABLE fee AS
  SELECT 'c' || range % 60 AS name, (5 + range // 60)::DOUBLE AS amount, range // 60 * 300 AS since FROM range(170);
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (
    customer KEY (name)
      FEATURES (profile AS x, income AS income DEFAULT 0 TYPE float16, (joined, vip) AS flags TYPE int8,
                (words, counts) AS bag SPARSE [13], words AS places SPARSE,
                amount AS fee FROM fee KEY (name) EVENT TIME (since) DEFAULT 0)
      TARGET (segment CLASSES ('old', 'gold', 'new') AS y) EVENT TIME (joined) LABEL human LABEL buyer,
    product KEY (pid) FEATURES (price AS x TYPE float64 DEFAULT 0) TARGET (price)
      PROPERTIES ARE ALL COLUMNS EXCEPT (brand) LABEL thing,
    store KEY (city, number) PROPERTIES (opened AS since))
  EDGE TABLES (
    bought SOURCE KEY (who) REFERENCES customer DESTINATION KEY (what) REFERENCES product
      EVENT TIME (day) WEIGHT (qty) FEATURES ((qty, score) AS edge_attr, score AS score TYPE float64),
    viewed SOURCE KEY (who) REFERENCES customer DESTINATION KEY (what) REFERENCES product EVENT TIME (day),
    knows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer,
    rents SOURCE KEY (who) REFERENCES customer DESTINATION KEY (city, number) REFERENCES store
      EVENT TIME (since, until) NULLS STATIC,
    sells SOURCE KEY (city, number) REFERENCES store DESTINATION KEY (what) REFERENCES product ON DANGLING SKIP);
CREATE PROPERTY GRAPH segments
  VERTEX TABLES (customer AS person KEY (name) FEATURES (vip AS vip TYPE bool) TARGET (segment AS y)
    ON DUPLICATE KEY LAST)
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person WEIGHT (close));
CREATE SNAPSHOT shop_full OF shop;
CREATE SNAPSHOT shop_past OF shop FOR EVENT_TIME AS OF 600;
CREATE SNAPSHOT shop_some OF shop FOR EVENT_TIME BETWEEN 40 AND 800 ELEMENTS (thing, human, bought, knows)
  WHERE bought.qty > 1 AND (customer.vip OR customer.income > 20);
CREATE SNAPSHOT shop_window OF shop FOR EVENT_TIME WINDOW 300 ENDING 900;
CREATE SNAPSHOT segments_full OF segments;
"""
"""Heterogeneous: keys of text, UUIDs and two columns; features of every kind; targets; edges that last; filters."""

TOWN = """
CREATE TABLE house AS
  SELECT range AS id, 'k' || range % 3 AS kind, [range % 5, range % 2]::FLOAT[2] AS f, [range % 6]::INTEGER[] AS tags
  FROM range(90);
CREATE TABLE road AS
  SELECT x AS a, y * y // 90 AS b, n AS t, 1 + n % 4 AS w
  FROM (SELECT range AS n, (range * 40503 + 3) // 7 % 80 AS x, (range * 2654435 + 5) // 11 % 80 AS y FROM range(600));
INSERT INTO road SELECT range, range, 600 + range, 2 FROM range(5) MESSAGE 'self-loops';
INSERT INTO road SELECT 7, 70, 610 + range, range % 3 FROM range(12) MESSAGE 'parallel edges';
CREATE TABLE value AS
  SELECT range % 90 AS id, (range * 3 % 17)::FLOAT AS worth, range // 90 * 200 AS since FROM range(180);
CREATE PROPERTY GRAPH town
  VERTEX TABLES (house KEY (id) FEATURES (f AS x, tags AS tags SPARSE,
    worth AS worth FROM value KEY (id) EVENT TIME (since) DEFAULT -1) TARGET (kind AS y))
  EDGE TABLES (road SOURCE KEY (a) REFERENCES house DESTINATION KEY (b) REFERENCES house EVENT TIME (t) WEIGHT (w)
    FEATURES (w AS edge_attr TYPE int16) ON DANGLING SKIP);
CREATE TAG built;
CREATE SNAPSHOT town_now OF town;
CREATE SNAPSHOT town_rows OF town WITH (layout = 'materialized');
CREATE SNAPSHOT town_bits OF town WITH (layout = 'bitmap');
CREATE SNAPSHOT town_past OF town FOR EVENT_TIME AS OF 450;
CREATE SNAPSHOT town_past_bits OF town FOR EVENT_TIME AS OF 450 WITH (layout = 'bitmap');
CREATE SNAPSHOT town_last OF town FOR EVENT_TIME WINDOW 300;
CREATE SNAPSHOT town_whole OF town;
INSERT INTO road SELECT range * 3 % 80, range * 7 % 85, 100 + range * 40, 3 FROM range(12) MESSAGE 'late edges';
DELETE FROM road WHERE t % 97 = 0 MESSAGE 'some go';
UPDATE road SET w = 9 WHERE t % 149 = 0;
UPDATE house SET f = [9, 9], kind = 'k9' WHERE id % 29 = 3;
INSERT INTO house VALUES (90, 'k7', [1, 1], [7]), (91, NULL, [2, 2], [0]);
INSERT INTO value VALUES (3, 99, 650), (90, 98, 10);
REFRESH SNAPSHOT town_now;
REFRESH SNAPSHOT town_past;
BEGIN;
INSERT INTO road VALUES (90, 3, 640, 1), (3, 90, 641, 2), (500, 3, 642, 1);
DELETE FROM house WHERE id = 88;
DELETE FROM road WHERE t = 601;
UPDATE road SET w = 5 WHERE t = 603;
COMMIT MESSAGE 'two at once';
REFRESH SNAPSHOT town_now DRY RUN;
REFRESH SNAPSHOT town_now;
REFRESH SNAPSHOT town_rows;
REFRESH SNAPSHOT town_bits;
REFRESH SNAPSHOT town_past;
REFRESH SNAPSHOT town_past_bits;
REFRESH SNAPSHOT town_last;
REFRESH SNAPSHOT town_whole FULL;
CREATE SNAPSHOT town_then OF town AT (TAG => 'built');
CREATE SNAPSHOT town_tagged OF town AT (TAG => 'built') FOR EVENT_TIME AS OF 450;
CREATE SNAPSHOT town_third OF town AT (VERSION => 20) WITH (layout = 'bitmap');
"""
"""Changed: rows added, removed and updated, features with a history, snapshots refreshed."""

THINGS = """
CREATE TABLE kinds (
  i INTEGER NOT NULL, b BIGINT DEFAULT 42, h HUGEINT, d DECIMAL(9, 2), f DOUBLE, t VARCHAR DEFAULT 'it''s', o BOOLEAN,
  day DATE, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, u UUID, blob BLOB, l INTEGER[], a FLOAT[2],
  s STRUCT(x INTEGER, y VARCHAR), m MAP(VARCHAR, INTEGER));
INSERT INTO kinds (i) VALUES (1);
INSERT INTO kinds VALUES (2, 3, 4, 5.25, 0.5, 'tÄxt', true, '2001-01-02', '2001-01-02 03:04:05.678901',
  '2001-01-02 03:04:05+02', INTERVAL '1 month 2 days',
  '00000000-0000-0000-0000-000000000001', 'ab'::BLOB, [1, NULL], [1, 2],
  {'x': 1, 'y': 'z'}, MAP {'k': 1});
ALTER TABLE kinds ADD COLUMN added INTEGER DEFAULT 7;
ALTER TABLE kinds DROP COLUMN h;
ALTER TABLE kinds RENAME COLUMN t TO text;
CREATE TABLE gone AS SELECT 1 AS one;
DROP TABLE gone;
CREATE OR REPLACE TABLE small AS SELECT 1 AS n;
CREATE OR REPLACE TAG built_again AT (VERSION => 3);
CREATE SAMPLER train AS SAMPLE FROM web_past SEEDS (SELECT id FROM page WHERE topic < 3) AS page
  FANOUT (links => [4, 2]) BATCH 16 REPEATABLE (7) REFRESH OTF 50 PERCENT EVERY AUTO SHARED;
CREATE SAMPLER valid AS SAMPLE USING train
  SEEDS (SELECT id FROM page WHERE topic = 3) AS page FIXED REFRESH FBL EPOCHS 2;
CREATE SAMPLER pairs AS SAMPLE FROM shop_full
  SEEDS EDGES bought (SELECT e_id, day AS seed_time FROM shop_full.bought
    WHERE qty = 4 AND day > 60)
  NEGATIVES 2 PER POSITIVE WEIGHTED BY DEGREE EXCLUDE KNOWN BEFORE SEED_TIME IN (bought, viewed)
  FANOUT (bought BOTH => [3, 2], DEFAULT => [2, 2]) TEMPORAL < SEED_TIME BATCH 25;
CREATE SAMPLER turns AS SAMPLE FROM town_now SEEDS (SELECT id FROM house) AS house FANOUT (road BOTH => [3, 2]) BATCH 20
  REFRESH OTF 30 PERCENT EVERY 2 BATCHES SCOPE VISITED;
CREATE CACHE near ON SAMPLER train IN MEMORY '1MB';
CREATE CACHE far ON SAMPLER train IN FILE '2MB';
CREATE CACHE all_rows ON SAMPLER turns;
REFRESH CACHE near;
ALTER PROPERTY GRAPH town SET RETENTION
  (all '3 days', daily '7 days', weekly '180 days', monthly '2 years', keep_tagged);
CREATE TASK nightly SCHEDULE 'USING CRON 0 3 * * MON-FRI Europe/Berlin' WITH (timeout = '30 minutes', retries = 3)
  AS CREATE OR REPLACE SNAPSHOT town_{date} OF town FOR EVENT_TIME WINDOW 100;
CREATE TASK steps SCHEDULE EVERY INTERVAL '2 hours' WHEN (changed('town') > 0 AND (SELECT count(*) > 0 FROM house))
  WITH (overlap = queue, catch_up = 'last') AS $$
    DELETE FROM road WHERE w > 100 MESSAGE 'run {run}'; REFRESH SNAPSHOT town_last
  $$;
CREATE TASK paused SCHEDULE EVERY INTERVAL '1 month' AS SELECT 1;
ALTER TASK paused SUSPEND;
"""
"""Column types, changed columns, samplers, caches, retention and tasks."""


def fill(db: Database) -> list[str]:
    """What each statement says of itself that makes the database; the working directory is a folder of the test's."""
    return [str(result) for text in (WEB, SHOP, TOWN, THINGS) for result in db.script(text)]
