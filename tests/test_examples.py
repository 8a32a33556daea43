"""The examples on the real data sets reach the figures that the data sets' authors and earlier measurements give."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def example(name: str) -> Callable[[list[str]], dict[str, float]]:
    """The `main` of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[[list[str]], dict[str, float]] = module.main
    return main


@pytest.mark.data
def test_a_gcn_on_full_neighbourhoods_classifies_cora(data: Path) -> None:
    figures = example("cora")(["--data", str(data), "--seeds", "5" if os.environ.get("SNAPDB_SOAK") else "1"])
    assert figures["accuracy"] >= 0.795


@pytest.mark.data
def test_graph_sage_on_sampled_neighbourhoods_finds_banned_workers(data: Path) -> None:
    figures = example("tolokers")(["--data", str(data)])
    assert figures["auc"] >= 0.80


@pytest.mark.data
def test_edgebank_over_snapshots_gives_the_known_average_precision(data: Path) -> None:
    figures = example("edgebank")(["--data", str(data)])
    assert figures["snapshots"] == 119
    assert figures["ap"] == pytest.approx(0.910, abs=0.005)
    assert figures["ap_static"] == pytest.approx(0.846, abs=0.005)


@pytest.mark.data
def test_every_edge_sampled_from_askubuntu_is_in_the_file_and_in_time(data: Path) -> None:
    figures = example("askubuntu")(["--data", str(data), "--date", "2014-06-01"])
    assert figures["strangers"] == 0
    assert figures["sampled"] == sum(count for name, count in figures.items() if name.startswith("edges:"))
    assert min(count for name, count in figures.items() if name.startswith(("edges:", "nodes:"))) > 0


@pytest.mark.data
def test_daily_snapshots_of_travel_share_one_topology_and_expire(data: Path) -> None:
    figures = example("mobility")(["--data", str(data), "--days", "30", "--kept", "3"])
    assert figures["flows"] == figures["flows sampled"] > 0
    assert figures["expired"] == 27
    assert figures["bytes: snapshots kept"] < figures["bytes: snapshots"] / 5


@pytest.mark.data
def test_a_graph_refreshed_month_by_month_is_the_graph_built_at_once(data: Path) -> None:
    figures = example("askubuntu_months")(["--data", str(data), "--months", "12"])
    assert figures["months"] == 12
    assert figures["same"]


@pytest.mark.parametrize("name", ["cora", "tolokers", "edgebank", "askubuntu", "askubuntu_months", "mobility"])
def test_an_example_without_its_data_says_so_and_stops(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example(name)(["--data", str(tmp_path)]) == {}
    assert "skipped: no data set at" in capsys.readouterr().err
