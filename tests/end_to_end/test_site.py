"""The documentation builds as a site in which no link is dead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.places import ROOT
from tests.support.waiting import PATIENCE


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
