"""Random texts that resemble statements: walks through the grammars' rules, and real statements with mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random

from lark.grammar import Rule

import snapdb
from tests.support.inside.sql import _grammar, scan, split
from tests.support.places import ROOT
from tests.support.slt import parse_slt

SHOP = """
CREATE TABLE customer (cid BIGINT NOT NULL, name VARCHAR, age FLOAT, joined TIMESTAMP);
INSERT INTO customer SELECT i, 'c' || i, i / 2, TIMESTAMP '2026-01-01' + i * INTERVAL '1 day' FROM range(12) r(i);
CREATE TABLE product AS SELECT 'p' || i AS pid, i * 1.5 AS price FROM range(8) r(i);
CREATE TABLE bought AS SELECT i % 12 AS cid, 'p' || (i * 7 % 8) AS pid, i % 3 + 1 AS qty,
  TIMESTAMP '2026-06-01' + i * INTERVAL '9 hours' AS ts FROM range(60) r(i) MESSAGE 'first load';
CREATE TAG june;
INSERT INTO bought VALUES (3, 'p1', 2, TIMESTAMP '2026-07-01 00:00:00') MESSAGE 'day 2';
CREATE PROPERTY GRAPH shop VERTEX TABLES (customer KEY (cid) FEATURES (age DEFAULT 0), product KEY (pid))
  EDGE TABLES (bought SOURCE KEY (cid) REFERENCES customer DESTINATION KEY (pid) REFERENCES product
    EVENT TIME (ts) WEIGHT (qty));
CREATE SNAPSHOT q3 OF shop;
CREATE SNAPSHOT week OF shop FOR EVENT_TIME WINDOW INTERVAL '7 days';
CREATE SAMPLER train AS SAMPLE FROM q3 SEEDS (SELECT cid FROM customer) AS customer FANOUT (DEFAULT => [3, 2]) BATCH 4;
"""

NAMES = [
    *("customer", "product", "bought", "shop", "q3", "week", "train", "june", "cid", "pid", "qty", "ts", "age", "name"),
    *("new_one", "t", "nothing", "at", "if", "batch", "q3.bought", "Customer", "parquet", "csv", "memory", "layout"),
]
WORDS: Mapping[str, Sequence[str]] = {
    "AMONG": ["IN"],
    "FROM_DATABASE": ["FROM DATABASE"],
    "CONSTRAINT": ["PRIMARY KEY (cid)", "CONSTRAINT c CHECK (qty > 0)", "UNIQUE (a, b)", "CHECK (", "UNIQUE"],
    "NAME": [*NAMES, '"customer"', '"Odd; name"', '"a""b"', "名前"],
    "STRING": [
        "'june'",
        "'out.csv'",
        "'out.parquet'",
        "'it''s'",
        "''",
        "E'\\n'",
        "$$x$$",
        "'2026-06-10'",
        "'1GB'",
        "'7 days'",
        "'full'",
        "'%o%'",
        "'cpu'",
        "'USING CRON 0 3 * * * UTC'",
    ],
    "NUMBER": ["0", "1", "2", "3", "5", "64", "0.5", "1e-3", "20", "99999999999999999999", "0x1F", "1_000"],
    "QUERY": [
        "SELECT cid FROM customer",
        "SELECT * FROM bought AT (VERSION => 3)",
        "VALUES (1), (2)",
        "FROM q3.bought",
        "SELECT cid, ts AS seed_time FROM bought",
        "SELECT nothing FROM customer",
        "SELECT e_id FROM q3.bought",
    ],
    "CONDITION": ["bought.qty > 1", "cid IN (SELECT cid FROM customer)", "qty = 'x'", "nothing > 0", "age IS NULL"],
    "EXPRESSION": ["1", "'june'", "now()", "qty + 1", "(SELECT 2)", "DATE '2026-07-01'", "-3"],
    "CTES": ["x AS (SELECT 1 AS a)", "RECURSIVE r(n) AS (SELECT 1), q AS MATERIALIZED (FROM r)"],
    "SOURCES": ["customer", "product p JOIN bought b ON p.pid = b.pid", "(SELECT 1 AS x) s"],
    "COLUMNS": ["a BIGINT", "cid BIGINT NOT NULL, name VARCHAR", "v FLOAT[4]", "a NO_TYPE", "qty INTEGER DEFAULT 1"],
    "PARAMETER": ["$x", "?"],
    "QUESTION": ["?"],
    "STATEMENT": ["SELECT 1", "SAMPLE USING train", "CREATE SNAPSHOT s_{date} OF shop", "DROP TABLE t"],
}
ODD = [
    "\x00",
    "\u202e",
    "\u200b",
    "\ufeff",
    "'",
    '"',
    "$",
    "\\",
    "(",
    ")",
    "]",
    "{",
    ";",
    "--",
    "/*",
    "*/",
    "?",
    "$x",
    "é",
    "\r\n",
]


@cache
def _rules(family: str) -> Mapping[str, Sequence[Rule]]:
    """Return the rules of a grammar by the symbol that they define."""
    found: dict[str, list[Rule]] = {}
    for rule in _grammar(family).rules:
        found.setdefault(str(rule.origin.name), []).append(rule)
    return found


@cache
def _keywords(family: str) -> Mapping[str, str]:
    return {terminal.name: str(terminal.pattern.value) for terminal in _grammar(family).terminals if terminal.pattern}


@cache
def _depth(family: str, symbol: str, within: int = 12) -> int:
    """Return the depth in rules of a symbol's shortest text."""
    rules = _rules(family).get(symbol)
    if rules is None:
        return 0
    if within == 0:
        return 99
    return 1 + min(max([_depth(family, str(part.name), within - 1) for part in r.expansion] or [0]) for r in rules)


FAMILIES = sorted(
    entry.name.removesuffix(".lark") for entry in files("snapdb_grammar").iterdir() if entry.name.endswith(".lark")
)


def walked(random: Random) -> str:
    """Return a text that is generated from a grammar's rules, with random SQL fragments and names."""
    family = random.choice(FAMILIES)
    text = " ".join(_walk(random, family, "start", 14))
    return f"SELECT * FROM GRAPH_TABLE ({text})" if family == "patterns" else text


def _walk(random: Random, family: str, symbol: str, budget: int) -> Iterator[str]:
    rules = _rules(family).get(symbol)
    if rules is None:
        yield _keywords(family).get(symbol) or random.choice(WORDS[symbol])
        return
    costs = [max([_depth(family, str(part.name)) for part in rule.expansion] or [0]) for rule in rules]
    fitting = [rule for rule, cost in zip(rules, costs, strict=True) if cost < budget]
    rule = random.choice(fitting or [rules[costs.index(min(costs))]])
    for part in rule.expansion:
        yield from _walk(random, family, str(part.name), budget - 1)


@cache
def real_statements() -> Sequence[str]:
    """Return every parsable statement in the golden files, the grammar's examples and the documentation."""
    scripts = [r.body for path in sorted((ROOT / "tests" / "sql").glob("*.slt")) for r in parse_slt(path.read_text())]
    for page in [ROOT / "grammar" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        scripts += re.findall(r"```sql[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)
    found = []
    for script in scripts:
        try:
            found += [script[span.start : span.stop] for span in split(script)]
        except snapdb.ParseError:
            continue
    return list(dict.fromkeys(text for text in found if "TMP" not in text and len(text) < 800))


def mutated(random: Random, text: str) -> str:
    """Return a text with one to three mistakes: deleted, repeated, swapped or replaced tokens, or odd characters."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        try:
            tokens = [token.text for token in scan(text)]
        except snapdb.ParseError:
            return text
        if not tokens:
            return text
        at = random.randrange(len(tokens))
        match random.randrange(7):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                other = random.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = random.choice(WORDS[random.choice(list(WORDS))])
            case 4:
                tokens = tokens[:at]
            case 5:
                tokens[at] = random.choice(scan_all(random))
            case _:
                place = random.randrange(len(text) + 1)
                return text[:place] + random.choice(ODD) + text[place:]
        text = " ".join(tokens)
    return text


def scan_all(random: Random) -> Sequence[str]:
    """Return the tokens of a random real statement."""
    return [token.text for token in scan(random.choice(real_statements()))] or ["x"]


def texts(random: Random) -> str:
    """Return a random walk or a real statement, sometimes with mistakes."""
    text = walked(random) if random.random() < 0.5 else random.choice(real_statements())
    return mutated(random, text) if random.random() < 0.6 else text
