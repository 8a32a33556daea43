"""A statement that is printed and parsed again is the same statement."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import snapdb
from snapdb.sql import format_sql, parse
from tests.support.inside.sql import FAMILIES, Statement, load_family
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.slt import parse_slt
from tests.support.trees import STATEMENTS

EXAMPLES = int(os.environ.get("SNAPDB_FUZZ", "1500")) // 150
"""Trees a class; a whole run of the fuzzer draws more."""
for name in FAMILIES:
    load_family(name)
KINDS = {
    kind for kind in Statement.__subclasses__() if getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
}
"""Every class of statements; dataclasses with slots leave a twin behind, which is no statement of its module."""
SLT = sorted((ROOT / "tests" / "sql").glob("*.slt"))
PAGES = [ROOT / "README.md", ROOT / "grammar" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_statement_is_printed_and_tested() -> None:
    assert set(STATEMENTS) == KINDS


@pytest.mark.parametrize("kind", sorted(STATEMENTS, key=str), ids=lambda kind: kind.__name__)
def test_what_is_printed_is_parsed_as_the_same_tree(kind: type[Statement]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(STATEMENTS[kind])
    def holds(tree: Statement) -> None:
        assert parse(tree.to_sql()) == (tree,)

    holds()


def holds_for(text: str) -> int:
    """How many statements of a text were printed and read again; none where it is no text of the language."""
    try:
        trees = parse(text)
    except snapdb.ParseError:
        return 0
    printed = format_sql(text)
    assert parse(printed) == trees
    assert format_sql(printed) == printed, "the one spelling is its own spelling"
    return len(trees)


@pytest.mark.parametrize("path", SLT, ids=lambda path: path.stem)
def test_the_statements_of_golden_files_hold(path: Path) -> None:
    assert sum(holds_for(record.body) for record in parse_slt(path.read_text()) if record.kind in ("ok", "query")) > 0


def test_the_statements_of_the_documentation_hold() -> None:
    texts = [text for page in PAGES for text in re.findall(r"```sql[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)]
    assert sum(map(holds_for, texts)) > 100


SHOP = """
create or replace property graph "Shop" vertex tables (person key (cid) features (emb as x, (age, income) as profile
default 0) target (churn), product as item key (pid)) edge tables (buys source key (cid) references person
destination key (pid) references item weight (qty) event time (ts, gone))
"""
PRINTED = """
CREATE OR REPLACE PROPERTY GRAPH "Shop"
  VERTEX TABLES (
    person KEY (cid) FEATURES (emb AS x, (age, income) AS profile DEFAULT 0.0) TARGET (churn AS y),
    product AS item KEY (pid))
  EDGE TABLES (
    buys SOURCE KEY (cid) REFERENCES person DESTINATION KEY (pid) REFERENCES item EVENT TIME (ts, gone) WEIGHT (qty))
"""


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        (SHOP.replace('"Shop"', '"My shop"'), PRINTED.replace('"Shop"', '"My shop"').strip()),
        ("drop graph shop", "DROP PROPERTY GRAPH shop"),
        ('update t as "T" set a=1 , b = f( 2 ) where a>0', "UPDATE t AS T SET a = 1, b = f( 2 ) WHERE a>0"),
        ("copy t from E'a\\x41' with (header true, quote '''')", "COPY t FROM 'aA' (header, quote '''')"),
        ("create snapshot q of g for event_time as of(now())", "CREATE SNAPSHOT q OF g FOR EVENT_TIME AS OF (now())"),
        ("create tag \"if\" at (tag=>'june')", "CREATE TAG \"if\" AT (TAG => 'june')"),
        ("start transaction", "BEGIN"),
        ("abort work", "ROLLBACK"),
        ("select  1 -- as it stands\n + 2", "select  1 -- as it stands\n + 2"),
    ],
)
def test_there_is_one_spelling(written: str, printed: str) -> None:
    (tree,) = parse(written)
    assert tree.to_sql() == printed


def test_a_long_sample_takes_a_line_for_each_clause() -> None:
    text = "sample from q batch 64 fanout (default=>[10,full]) seeds (select cid from customer) as customer in order"
    assert format_sql(text + " method labor dependent batches 4 on 'cuda:0'") == (
        "SAMPLE FROM q\n"
        "  SEEDS (select cid from customer) AS customer\n"
        "  FANOUT (DEFAULT => [10, FULL])\n"
        "  METHOD LABOR DEPENDENT BATCHES 4\n"
        "  IN ORDER\n"
        "  BATCH 64\n"
        "  ON 'cuda:0';\n"
    )


def test_a_text_without_statements_is_empty() -> None:
    assert snapdb.format_sql(" ; -- nothing\n") == ""


def test_a_mistake_is_shown_where_it_is() -> None:
    with refused("unknown-statement", "DROP", at="DORP") as error:
        format_sql("SELECT 1; DORP TABLE t")
    assert error.value.span == (10, 14)
