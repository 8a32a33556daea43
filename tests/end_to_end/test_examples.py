"""The examples on the real data sets reach the figures that the data sets' authors and earlier measurements give."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import example
from tests.support.thoroughness import SOAK
from tests.support.waiting import PATIENCE

often = pytest.mark.skipif(not SOAK, reason="learns for long; make soak runs it")
needs_pyg = pytest.mark.skipif(find_spec("torch_geometric") is None, reason="torch_geometric is not installed")


@pytest.mark.data
def test_a_gcn_on_full_neighbourhoods_classifies_cora(data: Path) -> None:
    figures = example("cora")(["--data", str(data), "--seeds", "5" if SOAK else "1"])
    assert figures["accuracy"] >= 0.795


@often
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


@often
@pytest.mark.data
def test_links_of_a_given_split_have_no_known_negatives_and_no_seed_in_their_messages(data: Path) -> None:
    figures = example("static_links")(["--data", str(data), "--epochs", "1"])
    assert figures["known, own type"] > 0
    assert (figures["known, both types"], figures["seeds seen"]) == (0, 0)
    assert figures["wins"] > 0.6


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


@pytest.mark.data
def test_bags_of_words_and_neighbours_tell_the_topics_of_blogs(data: Path) -> None:
    figures = example("blogcatalog")(["--data", str(data), "--epochs", "15"])
    assert figures["accuracy"] >= 0.74


@pytest.mark.data
def test_what_both_did_last_tells_more_than_whether_they_met_before(data: Path) -> None:
    figures = example("temporal_links")(["--data", str(data), "--set", "collegemsg", "--thin", "5"])
    assert figures["violations"] == 0
    assert figures["edgebank"] == pytest.approx(0.83, abs=0.03)
    assert figures["ap"] >= figures["edgebank"] + 0.05


@often
@pytest.mark.data
def test_facts_are_ranked_among_all_entities_but_other_true_answers(data: Path) -> None:
    """One answer in 1454 would be a hit by chance."""
    figures = example("fb15k237")(["--data", str(data), "--thin", "20", "--epochs", "1"])
    assert figures["popular: hits@10"] == pytest.approx(0.354, abs=0.02)
    assert figures["hits@10"] >= 0.12


@pytest.mark.data
def test_past_facts_forecast_events_better_than_what_was_last_seen(data: Path) -> None:
    """Over all 31 days the rule's MRR is 0.3414, and that of the model, once it learned from 85, is 0.43."""
    figures = example("icews14")(["--data", str(data), "--train-days", "6", "--test-days", "3"])
    assert figures["violations"] == 0
    assert figures["last seen: mrr"] == pytest.approx(0.3271, abs=0.0001)
    assert figures["mrr"] >= figures["last seen: mrr"] + 0.08


@often
@needs_pyg
@pytest.mark.data
def test_other_tags_and_people_tell_a_hidden_tag_better_than_popularity(data: Path) -> None:
    arguments = ["--train-days", "60", "--test-days", "7", "--epochs", "2"]
    figures = example("askubuntu_tags")(["--data", str(data), *arguments])
    assert figures["violations"] == 0
    assert figures["mrr"] >= 1.4 * figures["popular: mrr"]


def followed(*arguments: str) -> dict[str, float]:
    """What a trainer that follows a growing graph came to."""
    figures: dict[str, Any] = example("follow")(["--publications", "2", "--patience", str(PATIENCE), *arguments])
    assert len(set(figures["versions"])) == 2
    assert figures["versions"] == sorted(figures["versions"])
    assert figures["edges"] == sorted(set(figures["edges"]))
    return figures


def test_a_trainer_follows_a_graph_that_grows() -> None:
    assert followed("--by-hand")["accuracy"] > 0.5


@pytest.mark.skipif(not SOAK, reason="waits for a daemon's clock")
def test_a_trainer_follows_what_a_daemon_publishes() -> None:
    assert followed()["accuracy"] > 0.5


@pytest.mark.parametrize(
    "name",
    [
        "askubuntu",
        "askubuntu_months",
        pytest.param("askubuntu_tags", marks=needs_pyg),
        "blogcatalog",
        "cora",
        "edgebank",
        "fb15k237",
        "icews14",
        "mobility",
        "static_links",
        "temporal_links",
        "tolokers",
    ],
)
def test_an_example_without_its_data_says_so_and_stops(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert example(name)(["--data", str(tmp_path)]) == {}
    assert "skipped: no data set at" in capsys.readouterr().err
