"""The documentation builds as a site in which no link is dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

PICTURES = ROOT / "docs" / "pictures"
SHOWN = re.compile(r'<img[^>]* src="([^":]+)"')


def test_the_site_builds_and_no_link_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {"index.html", "sampling", "grammar"} <= {path.name for path in (tmp_path / "site").iterdir()}
    marks = [page for page in (tmp_path / "site").rglob("*.html") if re.search(r"```|\\\|", page.read_text("utf-8"))]
    assert marks == [], "Markdown that is shown instead of read"
    first = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert '<span class="k">SNAPSHOT</span>' in first, "SQL is highlighted by snapdb's lexer, as it is installed"
    assert "assets/extra.css" in first
    shown = [
        (page, src) for page in (tmp_path / "site").rglob("*.html") for src in SHOWN.findall(page.read_text("utf-8"))
    ]
    assert len(shown) >= len(list(PICTURES.glob("*.svg")))
    assert [src for page, src in shown if not (page.parent / src).is_file()] == []


def test_the_pictures_are_what_their_scripts_write(tmp_path: Path) -> None:
    """`python docs/pictures` writes them anew."""
    subprocess.run([sys.executable, PICTURES, tmp_path], check=True, timeout=PATIENCE)
    written = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_text("utf-8") for path in PICTURES.glob("*.svg")}
    for name, text in written.items():
        assert "prefers-color-scheme:dark" in text or name == "sample.svg", "a drawn sample brings its background along"
        assert "<title" in text


def test_every_picture_is_shown_with_a_text_for_those_who_do_not_see_it() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [found for page in pages for found in re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text("utf-8"))]
    assert {path.rpartition("/")[2] for _, path in shown} == {path.name for path in PICTURES.glob("*.svg")}
    assert [path for alt, path in shown if len(alt.split()) < 5] == []
