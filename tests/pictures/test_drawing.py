"""Drawn samples: their edges are SAMPLE's rows, arrows run as messages do, and late edges are found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import snapdb
from snapdb.execute.rendering import spell
from snapdb.pictures import SampleDrawing
from tests.support.inside.pictures import Extent, draw_parts, read_batch
from tests.support.refusals import refused

SHOP = """
    CREATE TABLE customer AS SELECT 'c' || range AS name, range % 3 AS area, [range, range / 7]::FLOAT[2] AS f
      FROM range(40);
    CREATE TABLE product AS SELECT range AS id, 'p' || range AS title FROM range(30);
    CREATE TABLE bought AS SELECT 'c' || hash(range) % 40 AS who, hash(range + 1) % 30 AS what, range AS day,
      [range % 4]::FLOAT[1] AS price FROM range(400);
    CREATE TABLE knows AS SELECT 'c' || hash(range + 2) % 40 AS a, 'c' || hash(range + 3) % 40 AS b, range AS day
      FROM range(200);
    CREATE PROPERTY GRAPH shop
      VERTEX TABLES (customer KEY (name) FEATURES (f AS x) TARGET (area), product KEY (id))
      EDGE TABLES (
        bought SOURCE KEY (who) REFERENCES customer (name) DESTINATION KEY (what) REFERENCES product (id)
          EVENT TIME (day) FEATURES (price AS edge_attr),
        knows SOURCE KEY (a) REFERENCES customer (name) DESTINATION KEY (b) REFERENCES customer (name)
          EVENT TIME (day));
    CREATE SNAPSHOT now OF shop;
    CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT name FROM customer WHERE area < 2) AS customer
      FANOUT (bought OUT => [4, 0], bought IN => [0, 3], knows BOTH => [3, 2]) BATCH 16 REPEATABLE (3);
    CREATE SAMPLER timed AS SAMPLE FROM now SEEDS (SELECT name, 150 AS seed_time FROM customer) AS customer
      FANOUT (bought OUT => [4, 0], bought IN => [0, 3], knows IN => [3, 2]) TEMPORAL < SEED_TIME;
    CREATE SAMPLER links AS SAMPLE FROM now SEEDS EDGES knows (SELECT e_id, day AS seed_time FROM now.knows)
      NEGATIVES 2 PER POSITIVE FANOUT (knows BOTH => [3, 2], bought OUT => [2, 0]);
"""
SAMPLE = "SAMPLE FROM now SEEDS (SELECT name FROM customer) AS customer FANOUT"

pytestmark = pytest.mark.filterwarnings("ignore::snapdb.DataWarning")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snapdb.Database]:
    with snapdb.connect(tmp_path_factory.mktemp("pictures") / "shop.snapdb") as db:
        db.script(SHOP)
        yield db


def rows_of(db: snapdb.Database, drawing: SampleDrawing) -> list[tuple[Any, ...]]:
    """The rows of SAMPLE for the drawn batch, with keys as text."""
    table = db.execute(drawing.statement).arrow()
    columns = [spell(table.column(name)) for name in ("source", "destination")]
    others = [table.column(name).to_pylist() for name in ("batch", "hop", "type", "direction", "e_id")]
    rows = zip(*others, *columns, strict=True)
    return [row[1:] for row in rows if row[0] == drawing.batch]


def edges_of(drawing: SampleDrawing) -> list[tuple[Any, ...]]:
    """The drawn edges as such rows. A message of an edge that is traversed OUT runs against the edge."""
    edges = []
    for edge in drawing.edges:
        ends = (drawing.nodes[edge.source].key, drawing.nodes[edge.target].key)
        ends = ends if edge.direction == "in" else ends[::-1]
        edges.append((edge.hop, edge.type, edge.direction, edge.e_id, *ends))
    return edges


SAMPLERS = (
    "train",
    "timed",
    "links",
    f"{SAMPLE} (knows => [2, 2])",
    f"{SAMPLE} (knows OUT => [FULL])",
    f"{SAMPLE} (bought BOTH => [3, 3])",
    f"{SAMPLE} (knows BOTH => [3, 2]) LAYOUT BLOCKS EPOCHS 3",
    f"{SAMPLE} (knows IN => [3, 2]) WITH REPLACEMENT IN ORDER".replace("customer)", "customer ORDER BY name)"),
    f"{SAMPLE} (knows => [2, 2]) REFRESH OTF 50 PERCENT EVERY 2 BATCHES SCOPE VISITED",
    "SAMPLE USING train METHOD LATEST EPOCHS 2",
)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("batch", "seeds"), [(0, 2), (3, 1), (1, 5)])
def test_edges_are_the_rows_of_the_batch(shop: snapdb.Database, sampler: str, batch: int, seeds: int) -> None:
    drawing = shop.draw(sampler, batch, seeds)
    assert (drawing.batch, drawing.batch_size) == (batch, seeds)
    assert not drawing.left_out
    assert edges_of(drawing) == rows_of(shop, drawing)
    assert drawing.edges, "the comparison is not empty"


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_nodes_and_arrows_are_those_of_the_stream(shop: snapdb.Database, sampler: str) -> None:
    drawing = shop.draw(sampler, 2, 3)
    if "VISITED" in sampler:
        *_, batch = (batch for batch, _ in zip(shop.stream(drawing.statement), range(3), strict=False))
    else:
        batch = shop.stream(drawing.statement)[2]
    for type_ in batch.n_id:
        assert [node.key for node in drawing.nodes if node.type == type_] == spell(batch.ids(type_))
        hops = Counter(node.hop for node in drawing.nodes if node.type == type_)
        assert [hops[hop] for hop in range(len(batch.num_sampled_nodes[type_]))] == batch.num_sampled_nodes[type_]
    arrows: Counter[tuple[Any, ...]] = Counter()
    for key, index in batch.edge_index.items():
        sources, targets = spell(batch.ids(key.source)), spell(batch.ids(key.destination))
        name = key.edge.removeprefix("rev_")
        pairs = zip(index.T.tolist(), batch.e_id[key].tolist(), strict=True)
        arrows.update((name, e_id, sources[source], targets[target]) for (source, target), e_id in pairs)
    nodes = drawing.nodes
    assert Counter((e.type, e.e_id, nodes[e.source].key, nodes[e.target].key) for e in drawing.edges) == arrows


def test_a_node_has_its_features_and_a_seed_its_target(shop: snapdb.Database) -> None:
    drawing = shop.draw("train")
    seed = drawing.nodes[0]
    ((area, x),) = shop.execute("SELECT area, f[2] FROM customer WHERE name = ?", [seed.key]).fetchall()
    number = int(seed.key.removeprefix("c"))
    assert seed.is_seed
    assert dict(seed.features) == {"x": f"{number}, {x:.4g}", "y": str(area)}
    assert all("y" not in dict(node.features) for node in drawing.nodes if not node.is_seed)
    bought = next(edge for edge in drawing.edges if edge.type == "bought")
    assert dict(bought.features) == {"edge_attr": str(bought.e_id % 4)}
    assert bought.time == bought.e_id


def test_a_temporal_sampler_has_no_late_edge(shop: snapdb.Database) -> None:
    drawing = shop.draw("timed", seeds=4)
    assert drawing.timed
    assert drawing.late == 0
    assert {node.seed_time for node in drawing.nodes} == {150}
    assert {node.tree for node in drawing.nodes} == {0, 1, 2, 3}
    assert "No edge is later than the time of its seed." in drawing.caption


def test_a_forged_time_is_late(shop: snapdb.Database) -> None:
    parts, extent = draw_parts(shop, "timed", 0, 3)
    key = next(key for key, index in parts.batch.edge_index.items() if index.shape[1] > 1)
    times = {name: parts.batch.edge_time[name].clone() for name in parts.batch.edge_time}
    times[key][1] = 150  # TEMPORAL < excludes the seed's own time
    forged = replace(parts, batch=replace(parts.batch, edge_time=times))
    late = [edge for edge in read_batch(forged, extent).edges if edge.late]
    assert [(edge.e_id, edge.time) for edge in late] == [(int(parts.batch.e_id[key][1]), 150)]
    drawing = replace(shop.draw("timed", 0, 3), edges=read_batch(forged, extent).edges)
    assert drawing.late == 1
    assert drawing.as_json()["late"] == 1
    assert drawing.svg().count('class="edge late"') == 1
    assert "1 edge is later than the time of its seed." in drawing.caption


def test_a_sampler_without_temporal_shows_what_leaks(shop: snapdb.Database) -> None:
    """Every edge that is later than a seed which its message can reach."""
    leaking = "SAMPLE FROM now SEEDS (SELECT name, 150 AS seed_time FROM customer) AS customer FANOUT (knows => [5, 5])"
    drawing = shop.draw(leaking, seeds=3)
    assert drawing.late > 0
    assert [edge.late for edge in drawing.edges] == [(edge.time or 0) > 150 for edge in drawing.edges]


def test_seed_edges_and_negatives_are_pairs(shop: snapdb.Database) -> None:
    drawing = shop.draw("links", seeds=2)
    batch = shop.stream(drawing.statement)[0]
    assert batch.edge_label_index is not None
    assert batch.edge_label is not None
    keys = spell(batch.ids("customer"))
    pairs = [(keys[one], keys[other]) for one, other in batch.edge_label_index.T.tolist()]
    nodes = drawing.nodes
    assert [(nodes[pair.source].key, nodes[pair.target].key) for pair in drawing.seed_edges] == pairs
    assert [not pair.negative for pair in drawing.seed_edges] == batch.edge_label.bool().tolist()
    assert "2 seed edges of knows" in drawing.caption


def test_composite_keys_and_features_of_many_values(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE place AS SELECT range AS x, 'row ' || range AS y,
          list_resize([range * 1.0], 40, 0.5)::FLOAT[40] AS f FROM range(9);
        CREATE TABLE road AS SELECT range AS x, 'row ' || range AS y, (range + 1) % 9 AS u, 'row ' || u AS v
          FROM range(9);
        CREATE PROPERTY GRAPH map VERTEX TABLES (place KEY (x, y) FEATURES (f AS x))
          EDGE TABLES (road SOURCE KEY (x, y) REFERENCES place DESTINATION KEY (u, v) REFERENCES place);
        CREATE SNAPSHOT now OF map;
    """)
    drawing = db.draw("SAMPLE FROM now SEEDS (SELECT x, y FROM place) AS place FANOUT (road => [2, 2])")
    assert edges_of(drawing) == rows_of(db, drawing)
    key = json.loads(drawing.nodes[0].key)
    assert key == {"x": key["x"], "y": f"row {key['x']}"}
    assert dict(drawing.nodes[0].features)["x"] == f"{key['x']}, {'0.5, ' * 7}… (40 values)"


def test_a_type_without_nodes_in_the_batch(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE a AS SELECT range AS id FROM range(3);
        CREATE TABLE b AS SELECT range AS id, [1, 2]::FLOAT[2] AS f, 1.5::FLOAT AS g FROM range(3);
        CREATE TABLE e (a BIGINT, b BIGINT, w FLOAT);
        CREATE PROPERTY GRAPH g VERTEX TABLES (a KEY (id), b KEY (id) FEATURES (f AS x, g AS y0)) EDGE TABLES (
          e SOURCE KEY (b) REFERENCES b (id) DESTINATION KEY (a) REFERENCES a (id) FEATURES (w AS edge_attr));
        CREATE SNAPSHOT now OF g;
    """)
    drawing = db.draw("SAMPLE FROM now SEEDS (SELECT id FROM a) AS a FANOUT (e => [2])")
    assert [(node.type, node.hop) for node in drawing.nodes] == [("a", 0), ("a", 0)]
    assert drawing.edges == ()
    assert drawing.svg().count('data-node="') == 2


@pytest.fixture(scope="module")
def hub() -> Iterator[snapdb.Database]:
    """Nodes in layers: each of 10 seeds has 30 neighbours, and each of these 20 more."""
    with snapdb.connect() as db:
        db.script("""
            CREATE TABLE node AS SELECT range AS id FROM range(8000);
            CREATE TABLE link AS SELECT 10 + range AS a, range // 30 AS b FROM range(300)
              UNION ALL SELECT 1000 + range AS a, 10 + range // 20 AS b FROM range(6000);
            CREATE PROPERTY GRAPH tree VERTEX TABLES (node KEY (id))
              EDGE TABLES (link SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
            CREATE SNAPSHOT now OF tree;
        """)
        yield db


def draw_hub(db: snapdb.Database, fanout: str, seeds: int, roots: int = 10) -> SampleDrawing:
    sample = f"SAMPLE FROM now SEEDS (SELECT id FROM node WHERE id < {roots}) AS node FANOUT (link => [{fanout}]) FIXED"
    return db.draw(sample, seeds=seeds)


def test_a_large_batch_has_fewer_seeds(hub: snapdb.Database) -> None:
    drawing = draw_hub(hub, "FULL, 5", 8)
    assert drawing.batch_size == drawing.seeds == 2
    assert len(drawing.nodes) == 2 + 2 * 30 + 2 * 150
    assert edges_of(drawing) == rows_of(hub, drawing)
    assert drawing.left_out.seeds == 6
    assert drawing.left_out.nodes == 8 + 8 * 180 - len(drawing.nodes)
    assert drawing.left_out.edges == 8 * 180 - len(drawing.edges)
    assert "Left out: 6 seeds, 1,086 nodes, 1,080 edges." in drawing.caption


def test_then_the_outermost_hop_is_left_out(hub: snapdb.Database) -> None:
    drawing = draw_hub(hub, "FULL, FULL", 2)
    assert drawing.seeds == 1
    assert len(drawing.nodes) == 31
    assert edges_of(drawing) == [row for row in rows_of(hub, drawing) if row[0] == 0]
    assert drawing.left_out.nodes == 2 * 631 - 31
    assert "The outer neighbours are left out." in drawing.caption


def test_of_a_hub_the_first_neighbours_remain(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE node AS SELECT range AS id FROM range(2000);
        CREATE TABLE link AS SELECT 1 + range AS a, 0 AS b FROM range(1500);
        CREATE PROPERTY GRAPH star VERTEX TABLES (node KEY (id))
          EDGE TABLES (link SOURCE KEY (a) REFERENCES node DESTINATION KEY (b) REFERENCES node);
        CREATE SNAPSHOT now OF star;
    """)
    drawing = draw_hub(db, "FULL", 1, roots=1)
    assert len(drawing.nodes) == 500
    assert edges_of(drawing) == rows_of(db, drawing)[:499]
    assert drawing.left_out.nodes == drawing.left_out.edges == 1001


def test_as_json_is_plain_and_complete(shop: snapdb.Database) -> None:
    drawing = shop.draw("timed")
    plain = json.loads(json.dumps(drawing.as_json(), allow_nan=False))
    assert plain == drawing.as_json()
    assert [node["id"] for node in plain["nodes"]] == list(range(len(drawing.nodes)))
    assert {edge["source"] for edge in plain["edges"]} <= {node["id"] for node in plain["nodes"]}
    assert plain["nodes"][0]["seed_time"] == "150"
    assert [kind["name"] for kind in plain["node_types"]] == list(drawing.node_types)
    assert len({(kind["shape"], kind["color"]) for kind in plain["node_types"]}) == len(drawing.node_types)


def test_times_are_texts(db: snapdb.Database) -> None:
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(5);
        CREATE TABLE met AS
          SELECT range AS a, (range + 1) % 5 AS b, TIMESTAMP '2026-01-01' + INTERVAL 1 DAY * range AS ts FROM range(5);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
          EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (ts));
        CREATE SNAPSHOT now OF g;
    """)
    seeds = "SELECT id, TIMESTAMP '2026-01-20' AS seed_time FROM person"
    drawing = db.draw(f"SAMPLE FROM now SEEDS ({seeds}) AS person FANOUT (met => [2]) TEMPORAL < SEED_TIME")
    plain = drawing.as_json()
    day = plain["edges"][0]["e_id"] + 1
    assert plain["edges"][0]["time"] == f"2026-01-0{day} 00:00:00"
    assert plain["nodes"][0]["seed_time"] == "2026-01-20 00:00:00"


def test_what_cannot_be_drawn(shop: snapdb.Database) -> None:
    with refused("unknown-sampler", "trian", at="trian"):
        shop.draw("trian")
    with refused("not-a-sample", at="SELECT 1"):
        shop.draw("SELECT 1")
    with refused("no-such-batch", "batch 14", "14 batches"):
        shop.draw("train", batch=14)
    with refused("unknown-edge-type", at="nowhere"):
        shop.draw(f"{SAMPLE} (nowhere => [1])")
    with pytest.raises(ValueError, match="seeds must be an integer from 1"):
        shop.draw("train", seeds=0)
    with pytest.raises(ValueError, match="batch must be an integer from 0"):
        shop.draw("train", batch=-1)
    with pytest.raises(TypeError, match="a sampler's name"):
        shop.draw(3)  # type: ignore[arg-type]


def test_parameters_of_a_statement(shop: snapdb.Database) -> None:
    statement = "SAMPLE FROM now SEEDS (SELECT name FROM customer WHERE area = $area) AS customer FANOUT (knows => [2])"
    drawing = shop.draw(statement, params={"area": 1})
    assert int(drawing.nodes[0].key.removeprefix("c")) % 3 == 1


@pytest.mark.parametrize("temporal", ["", "TEMPORAL <= SEED_TIME"])
def test_a_seed_that_occurs_at_several_times_is_a_node_per_time(shop: snapdb.Database, temporal: str) -> None:
    """An edge is late for the occurrence that it leads to, although its source is in the neighbourhoods of all."""
    seeds = "SELECT 'c1' AS name, range * 100 AS seed_time FROM range(3)"
    sample = f"SAMPLE FROM now SEEDS ({seeds}) AS customer FANOUT (knows => [FULL]) {temporal} ALLOW DUPLICATES"
    drawing = shop.draw(sample, seeds=3)
    roots = [node for node in drawing.nodes if node.is_seed]
    assert [node.key for node in roots] == ["c1"] * 3
    assert sorted(node.seed_time or 0 for node in roots) == [0, 100, 200]
    times = [time for (time,) in shop.execute("SELECT day FROM knows WHERE b = 'c1' ORDER BY day").fetchall()]
    for root in roots:
        assert root.seed_time is not None
        drawn = {edge.time: edge.late for edge in drawing.edges if edge.target == root.id}
        allowed = [time for time in times if not temporal or time <= root.seed_time]
        assert drawn == {time: time > root.seed_time for time in allowed}
    assert bool(drawing.late) is not bool(temporal)


def test_an_end_of_several_seed_edges_has_the_earliest_time(db: snapdb.Database) -> None:
    """Without TEMPORAL, a vertex is one node for all seed edges, and every message must precede all of them."""
    db.script("""
        CREATE TABLE person AS SELECT range AS id FROM range(4);
        CREATE TABLE met (a BIGINT, b BIGINT, day BIGINT);
        INSERT INTO met VALUES (0, 1, 50), (0, 2, 20), (3, 1, 30), (3, 0, 10), (3, 0, 40), (2, 3, 25), (2, 3, 5);
        CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id))
          EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person EVENT TIME (day));
        CREATE SNAPSHOT now OF g;
    """)
    seeds = "SELECT e_id, day AS seed_time FROM now.met WHERE a = 0"
    drawing = db.draw(f"SAMPLE FROM now SEEDS EDGES met ({seeds}) FANOUT (met => [FULL, FULL])")
    assert drawing.seeds == 2
    times = {node.key: node.seed_time for node in drawing.nodes if node.is_seed}
    assert times == {"0": 20, "1": 50, "2": 20}
    late = {(drawing.nodes[edge.target].key, edge.time): edge.late for edge in drawing.edges}
    assert late == {("1", 30): False, ("0", 10): False, ("0", 40): True, ("3", 25): True, ("3", 5): False}


def test_an_extent_without_edges(shop: snapdb.Database) -> None:
    parts, extent = draw_parts(shop, "train", 0, 2)
    drawn = read_batch(parts, Extent(dict.fromkeys(extent.nodes, 1), 0, 10))
    assert [(node.type, node.id) for node in drawn.nodes] == [("customer", 0), ("product", 1)]
    assert drawn.edges == drawn.seed_edges == ()
