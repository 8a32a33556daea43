"""Type checkers see the public types, in an editable install and in an installed package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

SCRIPT = ROOT / "tests" / "support" / "typed_script.py"
"""Each of its lines with a comment is one that mypy reports with this text."""
PACKAGES = {"snapdb": ROOT, "snapdb_cli": ROOT / "cli", "snapdb_ui": ROOT / "ui", "snapdb_grammar": ROOT / "grammar"}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("types")]


def site_packages(place: Path) -> Path:
    """Make a virtual environment that has the libraries of this one, and no snapdb; return its site-packages."""
    venv.create(place, symlinks=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return site


def install(site: Path, *, editable: bool) -> None:
    """Put snapdb there as pip does: by paths of the sources, or as a copy of the packages."""
    if editable:
        (site / "_snapdb.pth").write_text("".join(f"{root}\n" for root in PACKAGES.values()))
        return
    for package, root in PACKAGES.items():
        shutil.copytree(root / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy knows of the libraries, for both layouts."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("editable", [True, False], ids=["editable", "installed"])
def test_mypy_reports_the_public_types(editable: bool, tmp_path: Path, cache: Path) -> None:
    install(site_packages(tmp_path / "env"), editable=editable)
    script = shutil.copy(SCRIPT, tmp_path / "script.py")
    command = [sys.executable, "-m", "mypy", "--python-executable", str(tmp_path / "env" / "bin" / "python")]
    command += ["--config-file", "", "--cache-dir", str(cache), "--ignore-missing-imports", "--no-error-summary"]
    done = subprocess.run(
        [*command, "script.py"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    lines = Path(script).read_text().splitlines()
    wanted = {number: line.partition("  # ")[2] for number, line in enumerate(lines, 1) if "  # " in line}
    reports = re.findall(
        r"^script\.py:(\d+): (?:note: Revealed type is \"(.*)\"|(error: .*?)(?:  \[.*)?)$", done.stdout, re.MULTILINE
    )
    found = {int(number): plain(type_ or error) for number, type_, error in reports}
    assert found == {number: plain(text) for number, text in wanted.items()}, done.stdout + done.stderr


def plain(text: str) -> str:
    """A report without the packages of the standard library and of torch."""
    return re.sub(r"\b(builtins|typing|torch\._tensor)\.", "", text).rstrip("?")
