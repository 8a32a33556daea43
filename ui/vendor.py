"""Copies the scripts that the pages use from npm into the package, after a check of their digests.

    python ui/vendor.py

The pages ask no other host for anything, so the scripts are files of the wheel.
"""

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "snapdb_ui" / "static" / "vendor"


class Package(NamedTuple):
    """A package of npm."""

    name: str
    version: str
    sha512: str
    """The digest of the tar file, as npm states it: base64."""
    files: tuple[str, ...]
    """The files that are copied."""


PACKAGES = (
    Package(
        "htmx.org",
        "2.0.11",
        "Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        ("dist/htmx.min.js",),
    ),
    Package(
        "uplot",
        "1.6.32",
        "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        ("dist/uPlot.iife.min.js", "dist/uPlot.min.css"),
    ),
    Package(
        "cytoscape",
        "3.34.4",
        "msY99tMY8iWTg+sIPGfSqDcPNOt4xcj+v/K/7qUFaCUxxlqnMkUYLBjRUzn9W5CU/R2hrmtJa5+UtovrEM2ctg==",
        ("dist/cytoscape.min.js",),
    ),
)


def fetch(package: Package, folder: Path) -> None:
    """Copy the files of a package, and its licence, into the folder of vendored files."""
    source = f"{package.name}@{package.version}"
    npm = shutil.which("npm") or "npm"
    subprocess.run([npm, "pack", "--silent", source], cwd=folder, check=True, capture_output=True)  # noqa: S603  # constants
    archive = folder / f"{package.name}-{package.version}.tgz"
    if hashlib.sha512(archive.read_bytes()).digest() != b64decode(package.sha512):
        raise SystemExit(f"{source} does not have the digest that is written here; nothing was copied")
    with tarfile.open(archive) as tar:
        for name in (*package.files, "LICENSE"):
            member = tar.extractfile(f"package/{name}")
            assert member is not None
            target = f"{package.name}.LICENSE" if name == "LICENSE" else Path(name).name
            (FOLDER / target).write_bytes(member.read())


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            fetch(package, Path(folder))
