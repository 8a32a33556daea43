"""Scripts in PyG's way learn from our batches: those of examples/pyg, and PyG's own as they are published.

PyG's are not part of this repository: SNAPDB_PYG_EXAMPLES names the folder `examples` of a checkout of PyG.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import example
from tests.support.places import ROOT
from tests.support.waiting import PATIENCE

pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

PAGE = ROOT / "docs" / "pyg.md"
SCRIPTS = ("graph_sage", "link_pred")
"""Those of examples/pyg that read PyG's own data."""


# --- ours --------------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_graph_sage_learns_and_answers_layer_by_layer(data: Path) -> None:
    figures = example("pyg/graph_sage")(["--data", str(data), "--epochs", "8"])
    assert figures["last loss"] < figures["first loss"] * 0.8
    assert figures["accuracy"] > 0.5  # of 7 classes


@pytest.mark.data
def test_hgt_learns_from_a_snapshot_of_two_types(data: Path) -> None:
    figures = example("pyg/hgt")(["--data", str(data), "--epochs", "2"])
    assert figures["last loss"] < figures["first loss"] * 0.8
    assert figures["accuracy"] > 0.4  # of 7 classes


@pytest.mark.data
def test_the_next_edits_are_told_from_others(data: Path) -> None:
    figures = example("pyg/link_pred")(["--data", str(data), "--epochs", "2", "--edits", "6000"])
    assert figures["last loss"] < figures["first loss"] * 0.8
    assert figures["auc"] > 0.85


@pytest.mark.parametrize("name", [*SCRIPTS, "hgt"])
def test_a_script_without_its_data_says_so_and_stops(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example(f"pyg/{name}")(["--data", str(tmp_path)]) == {}
    assert "skipped: no data set at" in capsys.readouterr().err


def before(name: str) -> str:
    """The script with PyG's own loader."""
    text = (ROOT / "examples" / "pyg" / f"{name}.py").read_text()
    found = re.search(r"snapdb\.pyg\.((link_)?loader)\(", text)
    assert found is not None
    theirs = {"loader": "NeighborLoader", "link_loader": "LinkNeighborLoader"}[found[1]]
    text = text.replace(found[0], f"{theirs}(").replace("\nimport snapdb.pyg\n", "\n")
    named = "from torch_geometric.nn import"
    return text.replace(named, f"from torch_geometric.loader import {theirs}\n{named}", 1)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_shows_what_differs_from_the_script_with_pygs_loader(name: str) -> None:
    after = (ROOT / "examples" / "pyg" / f"{name}.py").read_text()
    compared = difflib.unified_diff(before(name).splitlines(), after.splitlines(), lineterm="", n=0)
    changed = [line.rstrip() for line in compared if line[0] in "+-" and line[:3] not in ("+++", "---")]
    diff = "\n".join(line for line in changed if line not in ("+", "-"))
    block = f"```diff\n{diff}\n```"
    if os.environ.get("SNAPDB_RECORD"):
        marked = re.compile(rf"(<!-- {name}\.py -->\n)```diff\n.*?```", re.DOTALL)
        PAGE.write_text(marked.sub(lambda found: found[1] + block, PAGE.read_text()))
    assert f"<!-- {name}.py -->\n{block}\n" in PAGE.read_text(), "SNAPDB_RECORD=1 writes it anew"


# --- PyG's -------------------------------------------------------------------------------------------------------

PUBLISHED = ("reddit.py", "hetero/to_hetero_mag.py", "hetero/temporal_link_pred.py")
CHANGES = {
    r"torch_geometric\.loader import (?:.*, )?NeighborLoader": "snapdb.pyg import loader as NeighborLoader",
    r"torch_geometric\.loader import LinkNeighborLoader": "snapdb.pyg import link_loader as LinkNeighborLoader",
    r"torch_geometric\.datasets": "tests.support.pyg_data_sets",
}
"""What is imported from elsewhere: the loader, and a data set that is here for the one that would be downloaded."""


@pytest.mark.data
@pytest.mark.parametrize("script", PUBLISHED)
def test_a_script_that_pyg_publishes_learns_with_other_imports(script: str, data: Path, tmp_path: Path) -> None:
    folder = os.environ.get("SNAPDB_PYG_EXAMPLES")
    if folder is None:
        pytest.skip("SNAPDB_PYG_EXAMPLES names no folder of PyG's examples")
    text, path = (Path(folder) / script).read_text(), tmp_path / Path(script).name
    for theirs, ours in CHANGES.items():
        text = re.sub(rf"^from {theirs}\b", f"from {ours}", text, flags=re.MULTILINE)
    assert len(re.findall(r"^from (snapdb\.pyg|tests\.pyg_data_sets) import", text, re.MULTILINE)) == 2
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SNAPDB_DATA": str(data)}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    losses = [float(loss) for loss in re.findall(r"Loss: ([\d.]+)", done.stdout)]
    assert len(losses) >= 10, done.stderr
    assert losses[-1] < losses[0] * 0.8
