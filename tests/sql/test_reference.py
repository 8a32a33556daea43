"""The reference of the language: each statement with its syntax, from the grammar that parses it, and an example."""

from __future__ import annotations

import re

import pytest

from snapdb.sql import parse
from tests.support.inside.sql import FAMILIES, Topic, grammar, help_text, topic_names, topics


def test_every_statement_of_every_grammar_has_a_topic() -> None:
    known = {(topic.grammar, rule) for topic in topics() for rule in topic.rules}
    statements = {(family, rule) for family in FAMILIES for rule in grammar(family).statements()}
    assert statements | {("patterns", "table")} == known  # a pattern is a clause of queries


@pytest.mark.parametrize("topic", topics(), ids=lambda topic: topic.title)
def test_a_topic_fits_the_width_and_its_example_can_be_parsed(topic: Topic) -> None:
    assert parse(topic.example)
    for width in (60, 80, 100):
        shown = topic.text(width).partition("\n\nExample:")[0]
        assert max(map(len, shown.splitlines())) <= width
    assert topic.summary
    assert not re.search(r"`|\]\(|\\\|", topic.text())


@pytest.mark.parametrize("topic", [topic for topic in topics() if topic.rules], ids=lambda topic: topic.title)
def test_every_rule_that_a_synopsis_names_is_defined_there(topic: Topic) -> None:
    text = grammar(topic.grammar).synopsis(topic.rules)
    defined = set(re.findall(r"^where (\w+) is", text, re.MULTILINE))
    used = set(re.findall(r"\b[a-z_]+\b", re.sub(r"'\w+'|where \w+ is( one of)?:", "", text)))
    assert used - defined <= {
        "name",
        "n",
        "expression",
        "condition",
        "query",
        "statement",
        "sources",
        "column",
        "type",
        "constraint",
    }


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("create graph", "CREATE PROPERTY GRAPH"),
        ("desc", "DESCRIBE"),
        ("Start  Transaction", "BEGIN, COMMIT, ROLLBACK"),
        ("alter task nightly suspend;", "CREATE TASK"),
        ("diff snapshot", "DIFF"),
        ("insert into bought", "INSERT"),
    ],
)
def test_a_statement_is_found_by_its_first_words(words: str, title: str) -> None:
    assert help_text(words).splitlines()[0] == title


def test_names_are_listed_once_in_order() -> None:
    names = topic_names()
    assert names == sorted(set(names))
    assert {"ALTER TASK", "COMMIT", "COPY", "SAMPLE", "SELECT"} <= set(names)
    assert not {"DESC", "END", "SAMPLE FROM", "ALTER GRAPH"} & set(names)
    with pytest.raises(ValueError, match=r'^no statement begins with "zzz"$'):
        help_text("zzz")
