"""Pygments highlights the language by its own scanner and the words of its grammars."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexers.sql import SqlLexer
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String, _TokenType

from tests.support.inside.sql import SnapdbLexer, keywords
from tests.support.places import ROOT

PAGES = [ROOT / "README.md", ROOT / "grammar" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def pieces(text: str) -> list[tuple[str, _TokenType]]:
    """The pieces of a text that are not blank."""
    return [(piece, kind) for _, kind, piece in SnapdbLexer().get_tokens_unprocessed(text) if piece.strip()]


def kind_of(piece: str, text: str) -> _TokenType:
    (kind,) = {kind for word, kind in pieces(text) if word == piece}
    return kind


@pytest.mark.parametrize(
    ("text", "piece", "kind"),
    [
        ("CREATE SNAPSHOT june OF shop", "SNAPSHOT", Keyword),
        ("create snapshot june of shop", "snapshot", Keyword),
        ("CREATE SNAPSHOT june OF shop", "june", Name),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (p KEY (id) FEATURES (x))", "FEATURES", Keyword),
        ("SAMPLE FROM june SEEDS (SELECT 1) AS p FANOUT (e => [5])", "FANOUT", Keyword),
        ("SELECT max(ts) AS latest FROM t", "latest", Name),
        ("SELECT max(ts) AS latest FROM t", "max", Name.Function),
        ("SELECT a FROM june.window", "window", Name),
        ("SELECT [1]::FLOAT[1]", "FLOAT", Keyword.Type),
        ("SELECT 1::int", "int", Keyword.Type),
        ("SELECT sum(x) OVER (PARTITION BY y)", "PARTITION", Keyword),
        ("SELECT 'it''s'", "'it''s'", String.Single),
        ("SELECT $$it's$$", "$$it's$$", String.Single),
        ('SELECT "select"', '"select"', Name),
        ("SELECT 0.5e3", "0.5e3", Number),
        ("SELECT a >= 2", ">", Operator),
        ("SELECT $name", "$name", Name.Variable),
        ("SELECT 1 -- why", "-- why", Comment.Single),
        ("SELECT /* a /* b */ c */ 1", "/* a /* b */ c */", Comment.Multiline),
        ("\\d june", "\\d", Keyword.Pseudo),
        ("SELECT 1 \\gx", "\\gx", Keyword.Pseudo),
        ("SELECT 1;\n.tables\nSELECT 2", ".tables", Keyword.Pseudo),
        ("CREATE TASK t AS $$ REFRESH SNAPSHOT s; $$;", "REFRESH", Keyword),
        ("CREATE TASK t AS $$ REFRESH SNAPSHOT s; $$;", "$$", String.Delimiter),
        ("SELECT 'open", "'open", Error),
        ("SELECT 1 /* open", "/* open", Error),
    ],
)
def test_a_piece_is_highlighted_as_what_it_is(text: str, piece: str, kind: _TokenType) -> None:
    assert kind_of(piece, text) is kind


def test_the_keywords_are_those_of_the_grammars() -> None:
    assert {"SNAPSHOT", "FANOUT", "FEATURES", "RETENTION", "AMPLIFY"} < keywords()
    for word in keywords() - {"CREATE"}:
        assert kind_of(word, f"CREATE {word}") in Keyword


@settings(deadline=None)
@given(st.text(alphabet="SELECT a'\"$-/*;\\.\n()\u00e9\u00a0", max_size=40))
def test_the_pieces_of_any_text_are_the_text(text: str) -> None:
    position = 0
    for start, _, piece in SnapdbLexer().get_tokens_unprocessed(text):
        assert (start, piece) == (position, text[start : start + len(piece)])
        position += len(piece)
    assert position == len(text)


def test_the_statements_of_the_documentation_have_no_errors() -> None:
    for page in PAGES:
        if page.name != "errors.md":
            for block in re.findall(r"```sql[^\n]*\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
                assert [piece for piece, kind in pieces(block) if kind is Error] == [], page


def test_pygments_finds_the_lexer_by_its_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["snapdb"].partition(":")
    lexer = getattr(import_module(module), name)
    assert issubclass(lexer, SqlLexer)
    assert lexer.aliases == ["snapdb"]
