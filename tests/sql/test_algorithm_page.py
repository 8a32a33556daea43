"""docs/language/algorithms.md: the synopsis and options of each algorithm. `SNAPDB_RECORD=1` rewrites them."""

from __future__ import annotations

import os
import re

from snapdb.types.algorithms import ALGORITHMS, Algorithm, default_text
from tests.support.inside.sql import help_text
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "language" / "algorithms.md"
PLACE = re.compile(r"<!-- algorithm: (\w+) -->\n.*?<!-- /algorithm -->", re.DOTALL)


def block(algorithm: Algorithm) -> str:
    """Return the synopsis and the table of options of an algorithm."""
    lines = algorithm.synopsis(100).splitlines()
    rows = ["| option | meaning | default |", "|---|---|---|"]
    for option in algorithm.options:
        default = "required" if option.required else f"`{text}`" if (text := default_text(option)) else ""
        limits = f", {option.range}" if option.range and option.kind != "direction" else ""
        cells = f"`{option.name}`", f"{option.meaning} ({option.type}{limits})", default
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(
        (f"<!-- algorithm: {algorithm.name} -->", "", "```text", *lines, "```", "", *rows, "", "<!-- /algorithm -->")
    )


def test_the_page_lists_every_algorithm_with_its_options() -> None:
    text = PAGE.read_text("utf-8")
    assert PLACE.findall(text) == [each.name for each in ALGORITHMS]
    blocks = {each.name: block(each) for each in ALGORITHMS}
    made = PLACE.sub(lambda found: blocks[found[1]], text)
    if os.environ.get("SNAPDB_RECORD"):
        PAGE.write_text(made, "utf-8")
    assert PAGE.read_text("utf-8") == made


def test_the_help_of_an_algorithm_has_its_syntax_options_and_an_example() -> None:
    text = help_text("pagerank")
    assert text.splitlines()[0] == "pagerank"
    assert "Syntax:\n  pagerank('snapshot' [, edges => …]" in text
    assert "  damping " in text
    assert "default: 0.85" in text
    assert "Example:" in text
