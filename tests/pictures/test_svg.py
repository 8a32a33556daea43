"""Pictures as SVG: well-formed, without scripts or styles, and with hostile texts as texts only."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import hypot
from pathlib import Path
from xml.etree import ElementTree

import pytest

import snapdb
from snapdb.pictures import SampleDrawing, degree_chart, growth_chart
from snapdb.pictures.elements import COLORS, SHAPES, DrawnEdge, DrawnNode, LeftOut, look_of
from snapdb.pictures.layout import rings
from tests.support.refusals import refused

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><image href=x onerror=alert(1)>",
    "&lt;b&gt; &amp; ]]> <!-- -->",
    "\u202egnp.exe\u202c",
    "שלום عليكم",
    "🦀👩‍👩‍👧 e\u0301",
    "tab\there\nline\r\x00\x1b[31m\x7f",
    "\ufffe\uffff\u2028",
    "javascript:alert(1)",
    "x" * 5000,
    "",
)


def node(place: int, type_: str, key: str, hop: int) -> DrawnNode:
    return DrawnNode(place, type_, key, hop, hop == 0, None, None, (("x", key),))


def drawing_of(nodes: list[DrawnNode], edges: list[DrawnEdge], types: tuple[str, ...] = ("a",)) -> SampleDrawing:
    return SampleDrawing(
        "train", "now", "SAMPLE USING train", 0, 2, 9, 1, types[0], tuple(nodes), tuple(edges), (), types, ("e",), True,
        "integer", LeftOut(), "",
    )  # fmt: skip


def edge(place: int, source: int, target: int, *, late: bool = False) -> DrawnEdge:
    return DrawnEdge(place, source, target, "e", "in", 0, place + 100, 7, late, None, ())


def tree_of(svg: str) -> ElementTree.Element:
    """The parsed picture, in which nothing can load or run anything."""
    tree = ElementTree.fromstring(svg)
    allowed = {"svg", "g", "title", "text", "rect", "circle", "polygon", "polyline", "path", "line"}
    allowed |= {"div", "details", "summary", "table", "thead", "tr", "th", "td", "br"}
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= allowed
    names = {name for element in tree.iter() for name in element.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name or name in ("style", "src")]
    values = [value for element in tree.iter() for value in element.attrib.values()]
    assert not [value for value in values if "url(" in value or value.startswith(("http", "javascript"))]
    return tree


def titles(tree: ElementTree.Element, class_: str) -> list[str]:
    groups = [group for group in tree.iter(f"{SVG}g") if class_ in group.get("class", "").split()]
    return ["".join(group.find(f"{SVG}title").itertext()) for group in groups]  # type: ignore[union-attr]


def escaped(text: str) -> str:
    """What a picture shows for a text."""
    cut = text if len(text) <= 400 else f"{text[:399]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def test_hostile_keys_and_names_are_texts() -> None:
    nodes = [node(i, HOSTILE[i % len(HOSTILE)], key, min(i, 1)) for i, key in enumerate(HOSTILE)]
    edges = [edge(i, i + 1, 0) for i in range(len(HOSTILE) - 1)]
    drawing = drawing_of(nodes, edges, HOSTILE)
    tree = tree_of(drawing.svg())
    lines = [title.split("\n") for title in titles(tree, "node")]
    assert [line[1] for line in lines] == [escaped(f"x: {key}") for key in HOSTILE]
    shown = ["".join(text.itertext()) for text in tree.iter(f"{SVG}text")]
    assert all(text.isprintable() for text in shown)
    assert escaped("\u202egnp.exe\u202c")[:13] + "…" in shown
    rows = [row for row in tree_of(drawing._repr_html_()).iter("tr") if row[0].tag == "td"]
    assert ["".join(row[1].itertext()) for row in rows[: len(HOSTILE)]] == [escaped(f"x: {key}") for key in HOSTILE]


def test_hostile_keys_of_a_real_sample(db: snapdb.Database) -> None:
    keys = [key for key in HOSTILE if "\x00" not in key]
    db.execute("CREATE TABLE v (id VARCHAR)")
    for key in keys:
        db.execute("INSERT INTO v VALUES (?)", [key])
    db.script("""
        CREATE TABLE e AS SELECT a.id AS a, b.id AS b FROM v a, v b WHERE a.id <> b.id;
        CREATE PROPERTY GRAPH g VERTEX TABLES (v KEY (id))
          EDGE TABLES (e SOURCE KEY (a) REFERENCES v DESTINATION KEY (b) REFERENCES v);
        CREATE SNAPSHOT now OF g;
    """)
    drawing = db.draw("SAMPLE FROM now SEEDS (SELECT id FROM v) AS v FANOUT (e => [FULL])", seeds=1)
    assert {one.key for one in drawing.nodes} == set(keys)
    tree_of(drawing.svg())
    heads = {title.split("\n")[0] for title in titles(tree_of(drawing.svg()), "node")}
    seed = drawing.nodes[0].key
    assert heads == {escaped(f"v {key} ({'seed' if key == seed else 'hop 1'})") for key in keys}


def test_each_node_and_edge_has_its_id_and_tooltip() -> None:
    nodes = [node(0, "a", "s", 0), node(1, "b", "t", 1), node(2, "a", "u", 1)]
    drawing = drawing_of(nodes, [edge(0, 1, 0), edge(1, 2, 0, late=True)], ("a", "b"))
    tree = tree_of(drawing.svg())
    groups = list(tree.iter(f"{SVG}g"))
    assert [group.get("data-node") for group in groups if group.get("data-node")] == ["0", "1", "2"]
    assert Counter(group.get("data-edge") for group in groups if group.get("data-edge")) == Counter("01")
    assert titles(tree, "edge")[0] == "e: b t → a s\ne_id: 100, hop 0\ntime: 7"
    assert titles(tree, "late") == ["e: a u → a s\ne_id: 101, hop 0\ntime: 7, later than the seed's time"]
    late = next(group for group in groups if "late" in group.get("class", "").split())
    assert {part.get("fill") for part in late.iter(f"{SVG}polygon")} == {"#d00000"}
    others = next(group for group in groups if group.get("class") == "edge")
    assert {part.get("fill") for part in others.iter(f"{SVG}polygon")} != {"#d00000"}


def test_a_click_opens_the_keys_and_features() -> None:
    """Lists below the picture, with what the tooltips contain."""
    nodes = [node(0, "a", "s", 0), node(1, "b", "t", 1)]
    drawing = drawing_of(nodes, [edge(0, 1, 0), edge(1, 1, 0, late=True)], ("a", "b"))
    tree = tree_of(drawing._repr_html_())
    assert [part.text for part in tree.iter("summary")] == ["2 nodes", "2 edges"]
    assert [part.get("open") for part in tree.iter("details")] == [None, None]
    heads = [[cell.text for cell in row] for row in tree.iter("tr") if row[0].tag == "th"]
    assert heads == [["node", "properties"], ["edge", "properties"]]
    rows = ["\n".join(row.itertext()) for row in tree.iter("tr") if row[0].tag == "td"]
    late, edges = titles(tree, "late"), titles(tree, "edge")
    assert rows == [*titles(tree, "node"), *late, *(one for one in edges if one not in late)]
    many = drawing_of(nodes, [edge(i, 1, 0) for i in range(600)], ("a", "b"))
    tree = tree_of(many._repr_html_())
    assert [part.text for part in tree.iter("summary")] == ["2 nodes", "600 edges (500 shown)"]
    assert len(list(tree.iter("tr"))) == 2 + 502


def test_an_arrow_ends_at_the_target() -> None:
    nodes = [node(0, "a", "s", 0), node(1, "a", "t", 1)]
    for source, target in ((1, 0), (0, 1)):
        drawing = drawing_of(nodes, [edge(0, source, target)])
        tree = tree_of(drawing.svg())
        (group,) = (group for group in tree.iter(f"{SVG}g") if group.get("class") == "edge")
        (head,) = group.iter(f"{SVG}polygon")
        x, y = map(float, head.get("points", "").split()[0].split(","))
        places = {}
        for one in tree.iter(f"{SVG}g"):
            if (number := one.get("data-node")) is not None:
                circle = next(one.iter(f"{SVG}circle"))
                places[int(number)] = (float(circle.get("cx", 0)), float(circle.get("cy", 0)))
        distance = {number: hypot(x - place[0], y - place[1]) for number, place in places.items()}
        assert distance[target] < 20 < distance[source]


def test_types_differ_in_shape_and_colour() -> None:
    types = [f"t{i}" for i in range(56)]
    assert len({look_of(types, name) for name in types}) == 56
    assert len({look_of(types, name)[0] for name in types[:8]}) == len(SHAPES) == 8
    assert len({look_of(types, name)[1] for name in types[:7]}) == len(COLORS) == 7
    drawing = drawing_of([node(i, name, name, min(i, 1)) for i, name in enumerate(types)], [], tuple(types))
    tree_of(drawing.svg())


@pytest.mark.parametrize("count", [1, 2, 7, 60, 499])
def test_nodes_do_not_overlap(count: int) -> None:
    nodes = [node(0, "a", "s", 0), *(node(i + 1, "a", str(i), 1) for i in range(count))]
    nodes += [node(count + 1 + i, "a", str(i), 2) for i in range(count // 3)]
    edges = [edge(i, i + 1, 0) for i in range(count)]
    edges += [edge(count + i, count + 1 + i, 1 + i % 5 % count) for i in range(count // 3)]
    layout = rings(nodes, edges)
    assert layout == rings(nodes, edges)
    points = layout.points
    near = [
        (one.id, other.id)
        for one in nodes
        for other in nodes[: one.id]
        if hypot(points[one.id][0] - points[other.id][0], points[one.id][1] - points[other.id][1]) < 16
    ]
    assert near == []
    assert [hypot(*points[one.id]) for one in nodes] == pytest.approx([layout.radii[one.hop] for one in nodes], abs=0.2)


def test_parallel_edges_and_loops_are_apart() -> None:
    nodes = [node(0, "a", "s", 0), node(1, "a", "t", 1)]
    drawing = drawing_of(nodes, [edge(0, 1, 0), edge(1, 1, 0), edge(2, 0, 1), edge(3, 0, 0), edge(4, 0, 0)])
    tree = tree_of(drawing.svg())
    paths = [path.get("d") for path in tree.iter(f"{SVG}path") if path.get("class") == "line"]
    edges = [path for path in paths if path]
    assert len(set(edges)) >= 5


def test_save_writes_by_suffix(tmp_path: Path) -> None:
    drawing = drawing_of([node(0, "a", "s", 0)], [])
    ElementTree.parse(drawing.save(tmp_path / "x.svg"))
    page = drawing.save(str(tmp_path / "x.html")).read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert drawing.svg() in page
    with refused("drawing-format", ".png"):
        drawing.save(tmp_path / "x.png")
    with refused("drawing-format"):
        drawing.save(tmp_path / "x")


def test_a_growth_chart_has_a_point_per_value_and_gaps() -> None:
    svg = growth_chart(["1", "2", "3", "4"], {"<a>": [1, 2000, None, 5], "b": [None, None, None, None]})
    tree = tree_of(svg)
    assert titles(tree, "point") == ["<a>: 1 row\nversion 1", "<a>: 2,000 rows\nversion 2", "<a>: 5 rows\nversion 4"]
    assert len(list(tree.iter(f"{SVG}polyline"))) == 2
    heights = [float(circle.get("cy", 0)) for circle in tree.iter(f"{SVG}circle")]
    assert heights[1] < heights[2] < heights[0], "larger values are higher"


def test_charts_of_nothing() -> None:
    tree_of(growth_chart([], {}))
    tree_of(growth_chart(["1"], {"a": [0]}))
    tree_of(degree_chart([]))
    tree_of(degree_chart([0, 0, 3]))


def test_a_degree_chart_is_logarithmic() -> None:
    tree = tree_of(degree_chart([10, 100, 1000, 0, 1]))
    bars = [bar for bar in tree.iter(f"{SVG}rect") if bar.get("class") == "bar"]
    heights = [float(bar.get("height", 0)) for bar in bars]
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.3)
    assert heights[3] == 0
    assert heights[4] > 0
    assert titles(tree, "bin")[-1] == "1 vertex of degree 5-8"


def test_many_places_have_few_labels() -> None:
    svg = growth_chart([str(i) for i in range(1000)], {"a": list(range(1000))})
    axis = re.search(r'<g class="axis">(.*?)</g>', svg)
    assert axis is not None
    assert axis[1].count("<text") <= 10


def test_labels_of_times_do_not_overlap() -> None:
    days = [f"2026-01-{day:02}" for day in range(1, 21)]
    for width in (300, 400, 560):
        tree = tree_of(growth_chart(days, {"a": list(range(20))}, axis="event time", width=width))
        shown = [float(part.get("x", 0)) for part in tree.iter(f"{SVG}text") if part.text in days]
        assert len(shown) >= 2
        assert min(right - left for left, right in pairwise(shown)) >= 60


def test_keys_are_on_the_side_without_edges() -> None:
    nodes = [node(i, "a", f"key{i}", min(i, 1)) for i in range(6)]
    drawing = drawing_of(nodes, [edge(i, i + 1, 0) for i in range(5)])
    tree = tree_of(drawing.svg())
    shown = {part.text: float(part.get("y", 0)) for part in tree.iter(f"{SVG}text") if part.get("class") == "key"}
    circles = {group.get("data-node"): group.find(f"{SVG}circle") for group in tree.iter(f"{SVG}g")}
    places = {number: float(circle.get("cy", 0)) for number, circle in circles.items() if circle is not None}
    for i in range(1, 6):
        if abs(places[str(i)] - places["0"]) > 5:
            assert (shown[f"key{i}"] < places[str(i)]) == (places[str(i)] < places["0"]), "outside"
