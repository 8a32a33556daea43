"""A shop with every kind of array that an export writes: sparse, timed, weighted and split, with a text target."""

SHOP = """
CREATE TABLE customer AS SELECT i::BIGINT AS cid, [i, i / 2]::FLOAT[2] AS emb, i % 128 AS age,
  CASE WHEN i % 5 = 4 THEN NULL ELSE 'c' || (i % 3) END AS churn, i AS born,
  CASE WHEN i % 4 = 0 THEN 'test' WHEN i % 7 = 0 THEN NULL ELSE 'train' END AS split FROM range(30) r(i);
CREATE TABLE product AS SELECT 'p' || i AS pid, [i % 5, 5 + i % 2] AS idx, [1.5, i]::FLOAT[] AS val FROM range(11) r(i);
CREATE TABLE bought AS SELECT (i * 7 % 30)::BIGINT AS cid, 'p' || (i * 3 % 11) AS pid, i + 30 AS ts, i / 4 AS qty,
  [i, -i]::FLOAT[2] AS basket FROM range(200) r(i);
CREATE TABLE knows AS SELECT (i * 11 % 30)::BIGINT AS a, (i * 17 % 30)::BIGINT AS b FROM range(90) r(i);
CREATE PROPERTY GRAPH shop
  VERTEX TABLES (customer KEY (cid) FEATURES (emb AS x, age AS age TYPE int8) TARGET (churn AS y) EVENT TIME (born),
                 product KEY (pid) FEATURES ((idx, val) AS x SPARSE))
  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product
                 EVENT TIME (ts) WEIGHT (qty) FEATURES (basket AS edge_attr),
               knows SOURCE KEY (a) REFERENCES customer DESTINATION KEY (b) REFERENCES customer);
CREATE SNAPSHOT june OF shop FOR EVENT_TIME FROM 40 TO 200 WHERE customer.cid <> 3;
CREATE SNAPSHOT friends OF shop ELEMENTS (customer, knows);
CREATE SAMPLER train AS SAMPLE FROM june SEEDS (SELECT cid FROM customer) AS customer FANOUT (DEFAULT => [2]) BATCH 16;
CREATE SAMPLER friends AS SAMPLE FROM june SEEDS (SELECT cid FROM customer) AS customer FANOUT (DEFAULT => [2]);
"""
