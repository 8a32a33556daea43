"""Each page shows what the statement beside it returns, and works without scripts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import snapdb
from snapdb.errors import SnapdbError
from tests.support.inside.ui import PAGES, bytes_text, cell, count_text, text_of
from tests.support.site import SHOP, Html, Site, site


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "shop.snapdb"
    with snapdb.connect(path) as db:
        db.script(SHOP)
        with pytest.raises(SnapdbError):
            db.execute("EXECUTE TASK bad")
    return path


@pytest.fixture(scope="module")
def db(shop: Path) -> Iterator[snapdb.Database]:
    with snapdb.connect(shop, read_only=True) as own:
        yield own


@pytest.fixture(scope="module")
def pages(shop: Path) -> Iterator[Site]:
    with site(shop) as own:
        yield own


def rows(db: snapdb.Database, statement: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = db.execute(statement).arrow().to_pylist()
    return found


def texts(found: list[dict[str, Any]], *names: str) -> list[tuple[str, ...]]:
    """Values as the pages show them, without NULLs."""
    return [tuple("" if row[name] is None else text_of(row[name]) for name in names) for row in found]


def shown(page: Html, *titles: str) -> list[tuple[str, ...]]:
    """The texts of columns of a table."""
    return [tuple(row[title] for title in titles) for row in page.table(*titles)]


def test_the_overview_lists_tables_caches_runs_and_snapshots(pages: Site, db: snapdb.Database) -> None:
    page = pages.page()
    tables = rows(db, "SHOW TABLES")
    assert shown(page, "table", "rows", "columns", "size", "version") == [
        (t["name"], count_text(t["rows"]), str(t["columns"]), bytes_text(t["bytes"]), str(t["version"])) for t in tables
    ]
    assert shown(page, "cache", "sampler", "contents") == texts(rows(db, "SHOW CACHES"), "name", "sampler", "what")
    runs = rows(db, "SELECT * FROM snapdb.task_runs ORDER BY scheduled DESC")
    assert shown(page, "task", "run", "state", "error") == texts(runs, "task", "run", "state", "error")
    titles = [text for text in page.text.split("\n") if " nodes, " in text and " edges" in text]
    for snapshot in rows(db, "SHOW SNAPSHOTS"):
        counts = f"{snapshot['nodes']:,} nodes, {snapshot['edges']:,} edges"
        assert any(t.startswith(f"{snapshot['name']}: ") and t.endswith(counts) for t in titles)
        assert page.all("a", href=f"{pages.access.base}/snapshots/{snapshot['name']}")


def test_growth_is_that_of_show_versions(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("?panel=growth")
    (figure,) = page.all("figure", **{"class": "chart"})
    data = json.loads(figure["data-lines"] or "")
    newest = {t["name"]: t["rows"] for t in rows(db, "SHOW TABLES")}
    assert dict(zip(data["names"], (counts[-1] for counts in data["data"][1:]), strict=True)) == newest
    for counts, name in zip(data["data"][1:], data["names"], strict=True):
        for version, count in zip(data["data"][0], counts, strict=True):
            at = f"SELECT count(*) AS n FROM {name} AT (VERSION => {version})"
            assert count is None or count == rows(db, at)[0]["n"]
    assert len(page.all("polyline")) == len(newest)


def test_a_table_has_columns_history_and_rows_of_any_version(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("tables/bought")
    assert shown(page, "column", "type") == texts(rows(db, "SHOW COLUMNS OF bought"), "name", "type")
    assert shown(page, "who", "what", "ts") == texts(rows(db, "SELECT * FROM bought LIMIT 100"), "who", "what", "ts")
    history = rows(db, "SELECT * FROM snapdb.versions WHERE \"table\" = 'bought' ORDER BY version DESC")
    assert shown(page, "version", "message", "author") == texts(history, "version", "message", "author")
    first = history[-1]["version"]
    older = pages.page(f"tables/bought?version={first}")
    at = rows(db, f"SELECT * FROM bought AT (VERSION => {first}) LIMIT 100")
    assert shown(older, "who", "what", "ts") == texts(at, "who", "what", "ts")
    assert older.all("option", value=str(first), selected=None)


def test_versions_are_listed_newest_first_and_by_pages(pages: Site, db: snapdb.Database) -> None:
    found = rows(db, 'SELECT * FROM snapdb.versions ORDER BY version DESC, "table"')
    names = ("version", "table", "message", "author", "tag")
    assert shown(pages.page("versions"), *names) == texts(found, *names)
    older = pages.page("versions?before=3")
    assert shown(older, *names) == texts([row for row in found if row["version"] < 3], *names)


def test_a_graph_has_its_elements_snapshots_and_retention(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("graphs/shop")
    described = rows(db, "DESCRIBE GRAPH shop")
    assert shown(page, "element", "kind", "key") == texts(described, "element", "kind", "key")
    assert "bought: who → what" in page.text
    assert "customer: key id, features x" in page.text
    assert shown(page, "snapshot", "version", "form") == texts(rows(db, "SHOW SNAPSHOTS"), "name", "version", "form")
    expired = rows(db, "EXPIRE SNAPSHOTS OF shop BY RETENTION DRY RUN")
    columns = [name for name, value in expired[0].items() if not isinstance(value, datetime)]
    assert expired
    assert shown(page, *columns) == texts(expired, *columns)


def test_a_snapshot_has_its_definition_and_profile(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("snapshots/now")
    described = rows(db, "DESCRIBE SNAPSHOT now")
    assert shown(page, "name", "form", "reason") == texts(described, "name", "form", "reason")
    profile = rows(db, "SUMMARIZE SNAPSHOT now")
    assert shown(page, "element", "kind", "count", "size") == [
        (e["element"], e["kind"], count_text(e["count"]), bytes_text(e["bytes"])) for e in profile
    ]
    bars = re.findall(r"<title>([\d,]+) vert(?:ex|ices) of degree", pages.get("snapshots/now?panel=profile").text)
    assert bars == [f"{count:,}" for e in profile for count in e["degrees"] or ()]


def test_a_difference_has_drift_largest_first_and_in_red(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("snapshots/now?against=january")
    pair = "DIFF SNAPSHOT now WITH january"
    assert shown(page, "element", "added", "removed", "changed", "before", "after") == texts(
        rows(db, pair), "element", "added", "removed", "changed", "before", "after"
    )
    drift = sorted(rows(db, f"{pair} FEATURES"), key=lambda row: -(row["psi"] or 0))
    found = page.table("element", "feature", "component", "psi")
    assert [row["psi"] for row in found] == [f"{row['psi']:.3f}" for row in drift]
    high = sum((row["psi"] or 0) > 0.25 for row in drift)
    degrees = sum((row["degree_psi"] or 0) > 0.25 for row in rows(db, pair))
    assert 0 < high + degrees == len(page.all("tr", **{"class": "drifted"}))
    changes = Counter(row["change"] for row in rows(db, f"{pair} ROWS"))
    assert Counter(row["change"] for row in page.table("change", "element", "e_id")) == {
        kind: min(count, 100) for kind, count in changes.items()
    }


def test_a_sampler_has_its_statement_plan_and_measures(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("samplers/train")
    clauses = rows(db, "DESCRIBE SAMPLER train")
    assert shown(page, "clause", "value") == texts(clauses, "clause", "value")
    statement = rows(db, "SELECT statement FROM snapdb.samplers WHERE name = 'train'")[0]["statement"]
    assert page.all("button", **{"data-copy": statement})
    operators = [
        line.strip("└├│ ").split(" ")[0] for line in (row["plan"] for row in rows(db, "EXPLAIN SAMPLE USING train"))
    ]
    assert {"Stream", "Gather", "Sample", "Expand", "Seeds"} <= set(operators)
    assert len(page.all("b")) >= 5
    measured = Html(pages.get("samplers/train?panel=analyze", headers={"hx-request": "true"}).text)
    assert "actual rows 4 " in measured.text
    (button,) = (b for b in measured.all("button") if "ANALYZE" in (b["data-copy"] or ""))
    assert rows(db, button["data-copy"] or "")  # what is copied runs at the prompt


@pytest.mark.parametrize("sampler", ["train", "recent", "links"])
def test_a_drawn_sample_is_the_rows_of_sample(pages: Site, db: snapdb.Database, sampler: str) -> None:
    page = pages.page(f"samplers/{sampler}/sample?batch=1&seeds=3")
    (place,) = page.all("div", **{"class": "graph"})
    drawing = json.loads(place["data-sample"] or "")
    found = [row for row in rows(db, drawing["statement"]) if row["batch"] == 1]
    assert found
    assert [(e["type"], e["e_id"], e["hop"], e["direction"]) for e in drawing["edges"]] == [
        (row["type"], row["e_id"], row["hop"], row["direction"]) for row in found
    ]
    with db.stream(drawing["statement"].replace(" EPOCHS 1", "")) as stream:
        batch = stream[1]
    assert len(drawing["nodes"]) == sum(len(ids) for ids in batch.n_id.values())
    assert drawing["late"] == 0
    assert "SAMPLE USING" in drawing["statement"]
    assert page.all("svg", **{"class": "snapdb-sample"})  # without scripts
    assert f"db.draw('{sampler}', batch=1, seeds=3)" in page.text


def test_an_edge_that_is_later_than_its_seed_is_told(tmp_path: Path) -> None:
    """Without TEMPORAL, a seed with a time receives messages of later edges."""
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.script(SHOP.split("CREATE CACHE")[0])
        own.execute(
            "CREATE SAMPLER leaky AS SAMPLE FROM now SEEDS (SELECT 'c1' AS id, TIMESTAMP '2026-01-02' AS seed_time) "
            "AS customer FANOUT (bought OUT => [-1]) BATCH 1"
        )
    with site(tmp_path / "shop.snapdb") as own_site:
        page = own_site.page("samplers/leaky/sample?seeds=1")
    (place,) = page.all("div", **{"class": "graph"})
    drawing = json.loads(place["data-sample"] or "")
    late = [edge for edge in drawing["edges"] if edge["late"]]
    assert len(late) == drawing["late"] > 0
    assert all(edge["time"] > "2026-01-02" for edge in late)
    assert "later than the time of" in page.text


def test_tasks_and_runs_are_those_of_the_history(pages: Site, db: snapdb.Database) -> None:
    page = pages.page("tasks")
    names = ("task", "state", "schedule", "last state")
    found = rows(db, "SHOW TASKS")
    assert shown(page, *names) == texts(found, "name", "state", "schedule", "last_state")
    runs = rows(db, "SELECT task, run, state FROM snapdb.task_runs")
    cells = {own["href"]: own["class"] for own in page.all("a") if "run state" in (own.get("class") or "")}
    assert cells == {f"{pages.access.base}/runs/{r['task']}/{r['run']}": f"run state {r['state']}" for r in runs}
    (bad,) = rows(db, "SELECT * FROM snapdb.task_runs WHERE task = 'bad'")
    text = pages.page("runs/bad/1").text
    assert bad["error"] in text
    assert bad["log"] in text
    assert "pending" in text  # the alert
    assert "Task bad has no run 9" in pages.page("runs/bad/9").text
    assert shown(pages.page("tasks/bad"), "run", "state") == [("1", "failed")]


def test_a_page_of_what_does_not_exist_says_so(pages: Site) -> None:
    for path in ("tables/tabel", "graphs/shup", "snapshots/juny", "samplers/trian", "tasks/god"):
        page = pages.page(path, status=404)
        assert "does not exist" in page.text, path
    page = pages.page("samplers/train/sample?batch=9999")
    assert "batch 9999 does not exist" in page.text
    for odd in ("batch=x&seeds=-3", "batch=-1", "batch=--1", f"seeds={'9' * 5000}", "seeds=²"):
        assert "Batch 0 of train" in pages.page(f"samplers/train/sample?{odd}").text
    assert pages.get("tables?panel=nothing").status_code == 404
    assert pages.get("nowhere").status_code == 404
    for run in ("x", "-1", "9" * 5000):
        assert "has no run" in pages.page(f"runs/bad/{run}").text


def test_every_page_works_without_scripts_and_loads_its_panels_with_them(pages: Site) -> None:
    names = {"/tables/{name}": "bought", "/graphs/{name}": "shop", "/snapshots/{name}": "now", "/tasks/{name}": "bad"}
    for page in PAGES:
        path = page.path.lstrip("/").replace("{run:int}", "1")
        path = path.replace("{name}", names.get(page.path, "train" if "sampler" in page.path else "bad"))
        first = Html(pages.get(path).text)
        (refresh,) = first.all("meta", **{"http-equiv": "refresh"})
        assert "whole=1" in (refresh["content"] or "")
        asked = {own["hx-get"] for _, own in first.elements if "hx-get" in own}
        assert asked == {f"?panel={panel.name}" for panel in page.panels}
        for panel in page.panels:
            part = pages.get(f"{path}?panel={panel.name}", headers={"hx-request": "true"})
            assert part.status_code == 200
            assert Html(part.text).all("section", id=f"panel-{panel.name}")
            assert 'class="failure"' not in part.text, (path, panel.name, part.text)
        whole = pages.page(path)
        assert not whole.all("meta", **{"http-equiv": "refresh"})
        for head in (table[0] for table in whole.tables if table):
            assert all(head)


def test_every_control_has_a_name(pages: Site) -> None:
    for path in ("", "tables/bought", "snapshots/now", "samplers/train", "samplers/train/sample", "sql", "tasks"):
        text = pages.get(path if path == "sql" else f"{path}?whole=1").text
        page = Html(text)
        assert page.all("html", lang="en")
        assert len(page.all("h1")) == 1
        assert page.all("nav", **{"aria-label": "Pages"})
        labelled = {own["for"] for own in page.all("label") if "for" in own}
        for tag in ("input", "select", "textarea"):
            for own in page.all(tag):
                around = text.split(f"<{tag}")[0].rfind("<label")
                assert own.get("id") in labelled or own.get("aria-label") or around >= 0, (path, own)
        for own in page.all("svg"):
            assert own.get("aria-label"), path
        ids = [own["id"] for _, own in page.elements if "id" in own]
        assert len(ids) == len(set(ids))


def test_a_large_value_is_cut_and_whole_behind_a_click(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "shop.snapdb") as own:
        own.execute("CREATE TABLE t AS SELECT repeat('é<', 500000) AS text, range(300) AS list")
    with site(tmp_path / "shop.snapdb") as own_site:
        page = own_site.page("tables/t")
    assert len(page.all("details")) == 2
    assert "é<" * 500_000 in page.text
    assert ", … 250 more]" in page.text
    assert cell("x" * 2001).text.endswith("… 1 more")
