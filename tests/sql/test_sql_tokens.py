"""The scanner, the splitter and the search for AT agree with SQL on quotes, comments and brackets."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapdb.errors import ParseError, Span
from tests.support.inside.sql import bare_ats, is_complete, partners, rewrite, scan, split, time_travels
from tests.support.refusals import refused
from tests.support.thoroughness import examples

PIECES = [
    "a",
    "SELECT",
    "'",
    "''",
    '"',
    "$$",
    "$t$",
    "--",
    "/*",
    "*/",
    ";",
    "(",
    ")",
    "\n",
    "\r",
    " ",
    "1.5",
    "e'",
    "\\",
]
PIECES += ["?", "$x", "é", "=>", "\x00"]


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in scan(text)]


def statements(text: str) -> list[str]:
    return [text[span.start : span.stop] for span in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a$b Été _x1", [("word", "a$b"), ("word", "Été"), ("word", "_x1")]),
        ("'it''s' e'a\\'b'", [("string", "'it''s'"), ("string", "e'a\\'b'")]),
        ('"a ""b"" c"', [("quoted", '"a ""b"" c"')]),
        ("$$ ; ' $$ $tag$ $$ $tag$", [("string", "$$ ; ' $$"), ("string", "$tag$ $$ $tag$")]),
        ("1 1.5 .5 1e-3 1_000 0xFF", [("number", number) for number in ["1", "1.5", ".5", "1e-3", "1_000", "0xFF"]]),
        ("? ?2 $1 $name", [("parameter", parameter) for parameter in ["?", "?2", "$1", "$name"]]),
        ("a=>[-1]", [("word", "a"), ("mark", "=>"), ("mark", "["), ("mark", "-"), ("number", "1"), ("mark", "]")]),
        ("a -- b\nc /* d /* e */ f */ g", [("word", "a"), ("word", "c"), ("word", "g")]),
        ("a -- b\rc", [("word", "a"), ("word", "c")]),
        ("a\u00a0b\u200bc\ufeff\u2028d", [("word", "a"), ("word", "b"), ("word", "c"), ("word", "\u2028d")]),
    ],
)
def test_text_is_cut_into_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "start"),
    [("a 'b", 2), ("a E'b\\'", 2), ('a "b', 2), ("a $$ b $ $", 2), ("a $t$ b $$", 2), ("a /* /* */", 2), ("a 'b''", 2)],
)
def test_what_never_ends_is_an_error_at_its_start(text: str, start: int) -> None:
    with refused("unclosed-comment" if "/*" in text else "unclosed-quote") as caught:
        scan(text)
    assert caught.value.span is not None
    assert caught.value.span.start == start


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        ("''", ""),
        ("E'a\\tb\\'c''d\\u00e9\\x41\\101'", "a\tb'c'déAA"),
        ("$$it's \\n$$", "it's \\n"),
        ("$q$a$$b$q$", "a$$b"),
    ],
)
def test_a_string_stands_for_its_text(text: str, value: str) -> None:
    (token,) = scan(text)
    assert token.string_value == value


@pytest.mark.parametrize("text", ["E'\\ud800'", "E'\\U00110000'", "E'\\0'"])
def test_an_escape_that_is_no_character_is_refused(text: str) -> None:
    (token,) = scan(text)
    with refused("bad-escape"):
        _ = token.string_value


def test_a_quoted_name_keeps_its_case_and_its_quotes() -> None:
    (token,) = scan('"Say ""Hi"""')
    assert token.identifier == 'Say "Hi"'


def test_statements_are_split_outside_quotes_comments_and_brackets() -> None:
    text = "SELECT ';', \";\", $$;$$ -- ;\n; /* ; */ ;; (SELECT 1; ) ; x"
    assert statements(text) == ["SELECT ';', \";\", $$;$$", "(SELECT 1; )", "x"]


def test_a_text_without_statements_splits_into_none() -> None:
    assert split(" ;; -- nothing\n /* here */ ") == ()


def test_an_error_of_the_splitter_shows_the_place() -> None:
    with pytest.raises(ParseError) as caught:
        split("SELECT 1;\nSELECT 'abc")
    assert str(caught.value).endswith("  line 2:\n  SELECT 'abc\n         ^")


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1); ", True),
        ("SELECT 1", False),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT (1;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1; /* ", False),
        ("SELECT $$;", False),
        ("", False),
    ],
)
def test_a_statement_is_complete_at_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_brackets_without_a_partner_are_shown() -> None:
    for text, span in [("(a", Span(0, 1)), ("f(a))", Span(4, 5)), ("[(a])", Span(1, 2))]:
        with pytest.raises(ParseError) as caught:
            partners(scan(text))
        assert caught.value.span == span


@settings(max_examples=examples(300), deadline=None, database=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_tokens_stand_where_they_say_and_lose_nothing_but_space_and_comments(text: str) -> None:
    try:
        tokens = scan(text)
    except ParseError:
        return
    position = 0
    for token in tokens:
        assert text[token.span.start : token.span.stop] == token.text
        between = text[position : token.span.start].strip()
        assert not between or between.startswith(("--", "/*"))
        position = token.span.stop


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t AT (VERSION => 3)", ["t VERSION 3"]),
        (
            "FROM a at(tag=>'x') b JOIN \"B c\" AT (TIMESTAMP => now()) USING (k)",
            ["a TAG 'x'", '"B c" TIMESTAMP now()'],
        ),
        ('SELECT 1 FROM q."t" /* x */ AT -- y\n (VERSION => $v)', ['"t" VERSION $v']),
        ("SELECT * FROM at AT (VERSION => 1)", ["at VERSION 1"]),
        ("FROM t AT (VERSION => (FROM u AT (VERSION => f(2))))", ["t VERSION (FROM u AT (VERSION => f(2)))"]),
        ("SELECT 't AT (VERSION => 3)' -- t AT (VERSION => 3)", []),
        ("SELECT at, t.at FROM at WHERE at (3) AND f(at => 1)", []),
        ("SELECT ts AT TIME ZONE 'UTC' FROM t", []),
        ("SELECT at (VERSION => 3)", []),
    ],
)
def test_a_time_travel_is_a_name_and_a_bound(text: str, expected: list[str]) -> None:
    travels = time_travels(text)
    assert [f"{travel.name.text} {travel.bound.kind} {travel.bound.value.text}" for travel in travels] == expected
    for travel in travels:
        assert text[slice(*travel.span)].startswith(travel.name.text)
        assert text[slice(*travel.span)].endswith(text[slice(*travel.bound.span)])
        assert text[slice(*travel.bound.value.span)] == travel.bound.value.text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT at FROM t",
        "SELECT t.at, x.At AS at FROM t JOIN t x ON t.at = x.at",
        "SELECT at + 1 at FROM t WHERE at = 3 AND at IN (3) GROUP BY at HAVING max(at) > 2 ORDER BY at",
        "WITH at AS (SELECT at FROM t) SELECT * EXCLUDE (at), at FROM at",
        "SELECT sum(at) OVER (PARTITION BY at ORDER BY at) FROM t JOIN t u USING (at)",
        "SELECT {at: at}, list_transform([at], lambda at: at + 1), struct_pack(at := 1) FROM t",
        "SELECT 'at', \"at\", at /* at */ FROM t -- at",
        "SELECT typeof(x AT TIME ZONE 'UTC') FROM (SELECT at, TIMESTAMP '2026-01-01' AS x FROM t)",
    ],
)
def test_a_column_called_at_reaches_duckdb_quoted(query: str) -> None:
    rewritten = rewrite(query, [(span, f'"{query[slice(*span)]}"') for span in bare_ats(query)])
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE t AS SELECT 3 AS "at"')
        assert len(connection.execute(rewritten.text).fetchall()) == 1


def test_a_column_called_at_is_defined_quoted() -> None:
    columns = "at TIMESTAMP NOT NULL, b TIME, At2 INT"
    assert [columns[slice(*span)] for span in bare_ats(columns)] == ["at"]


def test_the_at_of_a_time_travel_is_no_column() -> None:
    text = "SELECT at FROM t AT (VERSION => at + 1) WHERE at"
    assert [span.start for span in bare_ats(text)] == [7, 46]


@settings(max_examples=examples(200), deadline=None, database=None)
@given(st.lists(st.tuples(st.text("abc", max_size=4), st.text("xyz", max_size=4)), max_size=6), st.text("abc"))
def test_a_place_in_a_rewritten_text_leads_back(parts: list[tuple[str, str]], end: str) -> None:
    text, wanted, replacements = "", "", []
    for kept, word in parts:
        replacements.append((Span(len(text + kept), len(text + kept) + 1), word))
        text, wanted = f"{text}{kept}|", wanted + kept + word
    rewritten = rewrite(text + end, replacements[::-1])
    assert rewritten.text == wanted + end
    for index, letter in enumerate(rewritten.text):
        assert (text + end)[rewritten.place(index)] == ("|" if letter in "xyz" else letter)
    assert rewritten.place(len(rewritten.text)) == len(text + end)


def test_replacements_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap at 2"):
        rewrite("abcdef", [(Span(0, 3), "x"), (Span(2, 4), "y")])
