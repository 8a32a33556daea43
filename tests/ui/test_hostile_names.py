"""Names and values that look like HTML, scripts or paths stay texts on every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.hostile import HOSTILE, create_hostile
from tests.support.inside.ui import address
from tests.support.site import Html, site


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "shop.snapdb"
    create_hostile(path)
    return path


OURS = """
    html head meta title link script body a header p nav ul li main h1 h2 h3 h4 section div span table thead tbody tr th
    td footer details summary pre code button form label select option input textarea kbd figure figcaption dl dt dd b
    svg g rect line path circle polyline polygon text defs marker noscript br ellipse tspan
"""
"""The elements of the templates and pictures."""


def checked(response: Any) -> Html:
    """Require that a page contains only what the templates do."""
    page = Html(response.text)
    for tag, own in page.elements:
        assert tag in OURS.split(), tag
        assert not any(name.startswith("on") or name == "style" for name in own), (tag, own)
        for name in {"href", "src", "action", "formaction"} & own.keys():
            assert re.match(r"/[^/]|[?#]|data:,$", own[name] or ""), own
    scripts = [own["src"] or "" for own in page.all("script")]
    assert len(scripts) == len(set(scripts)) <= 4
    assert all("/static/" in script for script in scripts)
    return page


def test_hostile_names_stay_texts(hostile: Path) -> None:
    with site(hostile) as own:
        for path in ("", "tables", "graphs", "snapshots", "samplers", "tasks", "versions"):
            page = checked(own.get(f"{path}?whole=1"))
            assert HOSTILE[0] in page.text, path
            assert 'class="failure"' not in own.get(f"{path}?whole=1").text
        for i, name in enumerate(HOSTILE):
            for path in (
                address("tables", f"{name} {i}"),
                address("graphs", f"g {name}"),
                f"{address('snapshots', f's {name}')}?against={quote(f's {name}', safe='')}",
                address("samplers", f"r {name}"),
                address("samplers", f"r {name}", "sample"),
                address("tasks", f"t {name}"),
                address("runs", f"t {name}", 1),
            ):
                joint = "&" if "?" in path else "?"
                response = own.get(f"{path}{joint}whole=1")
                assert response.status_code == 200, (path, response.text[:2000])
                assert 'class="failure"' not in response.text, (path, response.text[-1500:])
                assert name.splitlines()[0] in " ".join(checked(response).text.split("\n")), path


def test_links_lead_to_their_objects(hostile: Path) -> None:
    with site(hostile) as own:
        for path in ("tables", "graphs", "snapshots", "samplers", "tasks"):
            links = {a["href"] for a in own.page(path).all("a") if f"/{path}/" in (a["href"] or "")}
            assert len(links) >= len(HOSTILE)
            for link in links:
                assert own.client.get(f"{link}?whole=1").status_code == 200, link
