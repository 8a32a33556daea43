"""The grammars have no hidden conflicts, and their README shows only statements that parse."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from lark import Token, Tree

from snapdb.sql import parse, show
from tests.support.inside.sql import FAMILIES, RESERVED, _grammar, fold, load_family, parser, scan
from tests.support.places import ROOT

FOLDER = files("snapdb_grammar")
GRAMMARS = sorted(entry.name.removesuffix(".lark") for entry in FOLDER.iterdir() if entry.name.endswith(".lark"))
README = (ROOT / "grammar" / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)


def test_there_is_one_grammar_a_family() -> None:
    assert sorted([*FAMILIES, "patterns"]) == GRAMMARS  # patterns are part of queries
    assert [load_family(family).grammar for family in FAMILIES] == list(FAMILIES)


@pytest.mark.parametrize("family", GRAMMARS)
def test_a_grammar_has_no_conflicts(family: str) -> None:
    assert _grammar(family, strict=True).rules


@pytest.mark.parametrize("family", GRAMMARS)
def test_the_readme_names_every_rule(family: str) -> None:
    rules = re.findall(r"^([a-z]\w*):", FOLDER.joinpath(f"{family}.lark").read_text(encoding="utf-8"), re.MULTILINE)
    assert rules
    assert [rule for rule in rules if f"`{rule}`" not in README] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_readme_parse(example: str) -> None:
    assert len(parse(example)) == example.count(";\n")


def test_the_readme_names_every_reserved_word() -> None:
    assert all(f"`{word}`" in README for word in RESERVED)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_statement_of_a_grammar_has_a_builder(name: str) -> None:
    made: dict[str, list[str]] = {}
    family = load_family(name)
    for rule in _grammar(name).rules:
        made.setdefault(str(rule.origin.name), []).append(str(rule.expansion[0].name))
    statements = [inner for name in made["start"] for inner in (made[name] if name.startswith("_") else [name])]
    assert sorted(statements) == sorted([*family.builders, *family.nesting])


def test_a_parser_is_built_once() -> None:
    assert parser("show") is parser("show")


def test_a_tree_counts_its_places_in_the_source() -> None:
    source = "  DROP TABLE /* this */ t"
    tree = parser("show").parse(fold(scan(source), show.FAMILY.fragments, source))
    match tree:
        case Tree(children=[Tree(data="drop", children=[Token(type="TABLE"), Token(type="NAME") as name])]):
            assert (name.start_pos, name.end_pos) == (24, 25)
        case _:
            pytest.fail(str(tree))
