"""Every ```sql and ```python block of the documentation runs as it stands, unless it says `no-run`.

The blocks of a page run in the page's order, with an empty folder as the working directory. SQL runs in one database
of that page, Python in one namespace of that page. Each section of the pages of docs/language/ begins with the database
of language.md in an empty folder of its own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import snapdb
from tests.support.places import ROOT

PAGES = sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if page.is_file())
LANGUAGE = ROOT / "docs" / "language.md"
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
FENCE = re.compile(r"^( *)```(\w+)([^\n`]*)\n(.*?)^\1```[ \t]*$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block."""

    line: int
    language: str
    code: str


def blocks(text: str) -> Iterator[Block]:
    """The sql and python blocks of a page that are to run."""
    for fence in FENCE.finditer(text):
        indent, language, information, code = fence.groups()
        if language in ("sql", "python") and "no-run" not in information.split():
            plain = "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))
            yield Block(text.count("\n", 0, fence.start(4)) + 1, language, plain)


def parts_of(page: Path) -> dict[str, list[Block]]:
    """What runs in one database: the blocks of a page, or of a section of a page of the language, by its title."""
    found = list(blocks(text := page.read_text("utf-8")))
    if page.parent.name != "language":
        return {"": found}
    starts = [(text.count("\n", 0, section.start()) + 1, section.group(1)) for section in SECTION.finditer(text)]
    stops = [line for line, _ in starts[1:]] + [text.count("\n") + 1]
    parts = {
        title: [b for b in found if start < b.line < stop] for (start, title), stop in zip(starts, stops, strict=True)
    }
    assert sum(map(len, parts.values())) == len(found), "a block before the first section"
    return parts


PARTS = [
    pytest.param(page, code, id=f"{page.name} {title}".strip())
    for page in PAGES
    for title, code in parts_of(page).items()
    if code
]


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of language.md."""
    path = tmp_path_factory.mktemp("language") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(next(block.code for block in blocks(LANGUAGE.read_text("utf-8")) if block.language == "sql"))
    return path


@pytest.mark.parametrize(("page", "code"), PARTS)
def test_the_blocks_of_a_page_run(
    page: Path, code: list[Block], language: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    if page.parent.name == "language":
        shutil.copytree(language, "shop.snapdb")
    with snapdb.connect("shop.snapdb") as db:
        for block in code:
            try:
                if block.language == "sql":
                    db.script(block.code)
                else:
                    # Lines before the code, so that a traceback counts as the page does.
                    exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True), namespace)
            except Exception as error:
                error.add_note(f"in the {block.language} block at {page.relative_to(ROOT)}:{block.line}")
                raise


def test_blocks_are_found_with_their_lines_and_marks() -> None:
    sql = "# t\n```sql\nSELECT 1;\n```\n"
    skipped = "\n```python no-run\nboom\n```\n```text\nno\n```\n"
    indented = "- item\n  ```python\n  x = 1\n  ```\n"
    text = sql + skipped + indented
    assert list(blocks(text)) == [Block(3, "sql", "SELECT 1;\n"), Block(14, "python", "x = 1\n")]


def test_every_link_between_pages_leads_somewhere() -> None:
    links = [
        (page, link.split("#")[0])
        for page in PAGES
        for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)\s]+)\)", page.read_text())
    ]
    broken = [f"{page.name} -> {link}" for page, link in links if not (page.parent / link).exists()]
    assert broken == []


def test_code_has_at_most_88_columns() -> None:
    """Printed results may be wider, and so are errors.md's examples, which are printed: they scroll in their block."""
    printed = {"text", "diff"}
    wide = [
        f"{page.name}:{text.count(chr(10), 0, fence.start(4)) + number}"
        for page in [*PAGES, ROOT / "grammar" / "README.md"]
        if page.name != "errors.md"
        for text in [page.read_text("utf-8")]
        for fence in FENCE.finditer(text)
        if fence.group(2) not in printed
        for number, line in enumerate(fence.group(4).splitlines(), start=1)
        if len(line) > 88
    ]
    assert wide == []
