"""The reference trainer: metrics against their definitions, models against dense formulas, fits that repeat."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

import snapdb
from snapdb.train import (
    GCN,
    GraphSAGE,
    accuracy,
    average_precision,
    evaluate,
    fit,
    hits_at,
    mean_reciprocal_rank,
    predict,
    ranks,
    roc_auc,
)
from snapdb.train.optimizer import Adam
from tests.support.refusals import refused

NODES, EDGES, WIDTH = 300, 2_400, 4

GRAPH = """
CREATE PROPERTY GRAPH g
  VERTEX TABLES (node KEY (id) FEATURES (x) TARGET (y))
  EDGE TABLES (
    likes SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id),
    knows SOURCE KEY (src) REFERENCES node (id) DESTINATION KEY (dst) REFERENCES node (id))
"""


def arrays(seed: int = 5) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Features [nodes, width], edges [2, E], and labels that only the neighbours' features tell."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((NODES, WIDTH), dtype=np.float32)
    edges = rng.integers(0, NODES, (2, EDGES))
    total = np.zeros(NODES)
    np.add.at(total, edges[1], x[edges[0], 0])
    return x, edges, (total > 0).astype(np.int64)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snapdb.Database]:
    """The toy graph: `likes` holds the edges of `arrays`, `knows` a few others."""
    folder = tmp_path_factory.mktemp("toy")
    x, edges, y = arrays()
    rows = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), WIDTH)
    pq.write_table(pa.table({"id": np.arange(NODES), "x": rows, "y": y}), folder / "node.parquet")
    pq.write_table(pa.table({"src": edges[0], "dst": edges[1]}), folder / "likes.parquet")
    pq.write_table(pa.table({"src": edges[1, :100], "dst": edges[0, :100]}), folder / "knows.parquet")
    with snapdb.connect() as db:
        for name in ("node", "likes", "knows"):
            columns = "id, x::FLOAT[4] AS x, y" if name == "node" else "*"
            db.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM '{folder}/{name}.parquet'")
        db.execute(GRAPH)
        db.execute("CREATE SNAPSHOT s OF g")
        yield db


def sample(fanout: str, where: str = "true", batch: int = 64) -> str:
    return f"SAMPLE FROM s SEEDS (SELECT id FROM node WHERE {where}) AS node FANOUT ({fanout}) BATCH {batch}"


@pytest.mark.parametrize("seed", range(4))
def test_roc_auc_counts_the_pairs_that_are_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 2, 60), rng.integers(0, 12, 60)
    pairs = [(a > b) + (a == b) / 2 for a in scores[y == 1] for b in scores[y == 0]]
    assert roc_auc(y, scores) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_sums_precision_over_steps_of_recall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 2, 60), rng.integers(0, 12, 60)
    total, before = 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        taken = scores >= threshold
        recall = y[taken].sum() / y.sum()
        total += (recall - before) * y[taken].mean()
        before = recall
    assert average_precision(y, scores) == pytest.approx(total)


def test_metrics_read_tensors_and_logits_of_two_classes() -> None:
    y = torch.tensor([0, 1, 1])
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 0.5]])
    assert accuracy(y, logits) == pytest.approx(2 / 3)
    assert roc_auc(y, logits) == 1.0
    assert average_precision(y, logits) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", [roc_auc, average_precision])
def test_ranking_metrics_refuse_targets_of_one_class_or_of_three(metric: object) -> None:
    assert callable(metric)
    for targets in ([1, 1], [0, 2], [0, 1, 1]):
        with refused("metric-values"):
            metric(targets, [0.1, 0.2])


@pytest.mark.parametrize("seed", range(4))
def test_a_filtered_rank_counts_who_is_above_and_half_of_who_is_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, scores = rng.integers(0, 15, 20), rng.integers(0, 6, (20, 15)).astype(np.float32)
    known = np.stack([rng.integers(0, 20, 90), rng.integers(0, 15, 90)])  # some pairs twice, some are targets
    true = set(zip(*known.tolist(), strict=True))
    found = []
    for row, own in enumerate(target):
        others = [scores[row, c] for c in range(15) if c != own and (row, c) not in true]
        found.append(1 + sum(score > scores[row, own] for score in others) + others.count(scores[row, own]) / 2)
    assert ranks(target, scores, known).tolist() == found
    assert ranks(torch.from_numpy(target), torch.from_numpy(scores), torch.from_numpy(known)).tolist() == found
    assert (ranks(target, scores) >= found).all()
    assert mean_reciprocal_rank(found) == pytest.approx(sum(1 / rank for rank in found) / 20)
    assert hits_at(3, found) == sum(rank <= 3 for rank in found) / 20


def test_a_model_that_scores_all_alike_is_in_the_middle_of_the_ranks() -> None:
    assert ranks([0, 3], np.zeros((2, 5))).tolist() == [3.0, 3.0]
    assert ranks([0, 3], np.zeros((2, 5)), known=np.empty((2, 0))).tolist() == [3.0, 3.0]


def test_ranks_refuse_what_is_not_among_the_candidates_and_what_is_no_number() -> None:
    scores, broken = np.zeros((2, 5)), np.zeros((2, 5))
    broken[1, 2] = np.nan
    for use, named in (
        (lambda: ranks([0, 5], scores), "0 to 5"),
        (lambda: ranks([0, 1], scores, known=[[0, -1], [1, 1]]), "-1 to 0"),
        (lambda: ranks([0, 1, 2], scores), "found 2 for 3"),
        (lambda: ranks([0, 1], scores[:, 0]), "(2,)"),
        (lambda: ranks([0, 1], scores, known=[[0, 1], [1, 1], [1, 2]]), "(3, 2)"),
        (lambda: ranks([0, 1], broken), "1 of 2 rows"),
        (lambda: average_precision([1, 0, 1], [0.5, np.nan, 0.1]), "1 of 3 rows"),
    ):
        with refused("metric-values", named):
            use()


@pytest.mark.parametrize(("values", "named"), [([], "none"), ([1, 0], "0"), ([np.nan], "nan")])
def test_what_sums_up_ranks_refuses_numbers_that_are_none(values: list[float], named: str) -> None:
    for metric in (mean_reciprocal_rank, lambda ranks: hits_at(1, ranks)):
        with refused("metric-values", named):
            metric(values)


def dense_gcn(model: GCN, mix: Tensor) -> Tensor:
    """The two-layer network on the whole graph, with its mixing matrix written out."""
    x, _, _ = arrays()
    first, second = model.linear
    hidden = torch.relu(mix @ first(torch.from_numpy(x)))
    logits: Tensor = mix @ second(hidden)
    return logits


def adjacency() -> Tensor:
    """[nodes, nodes] row v counts the edges into v, and one self loop."""
    _, edges, _ = arrays()
    matrix = torch.eye(NODES)
    return matrix.index_put_((torch.from_numpy(edges[1]), torch.from_numpy(edges[0])), torch.ones(EDGES), True)


def test_mean_gcn_on_full_neighbourhoods_is_that_of_the_whole_graph(db: snapdb.Database) -> None:
    model = GCN(WIDTH, 2, normalize="mean", seed=1)
    seen = predict(model, db.stream(sample("likes => [FULL, FULL]")))
    mix = adjacency() / adjacency().sum(dim=1, keepdim=True)
    torch.testing.assert_close(seen.logits, dense_gcn(model, mix).detach())


def test_symmetric_gcn_with_one_more_hop_is_that_of_the_whole_graph(db: snapdb.Database) -> None:
    model = GCN(WIDTH, 2, normalize="symmetric", seed=1)
    seen = predict(model, db.stream(sample("likes => [FULL, FULL, FULL]")))
    degree = adjacency().sum(dim=1)
    mix = adjacency() * degree.rsqrt()[:, None] * degree.rsqrt()[None, :]
    torch.testing.assert_close(seen.logits, dense_gcn(model, mix).detach())


def test_a_batch_of_all_nodes_trains_like_any_other(db: snapdb.Database) -> None:
    whole = predict(GraphSAGE(WIDTH, 2, seed=2), db.stream(sample("likes => [FULL, FULL]", batch=NODES)))
    parts = predict(GraphSAGE(WIDTH, 2, seed=2), db.stream(sample("likes => [FULL, FULL]", batch=37)))
    torch.testing.assert_close(whole.logits, parts.logits)
    assert whole.input_id.equal(torch.arange(NODES))
    assert whole.y is not None
    assert whole.y.equal(torch.from_numpy(arrays()[2]))


def test_relations_of_one_node_type_are_summed(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 2, layers=1, norm=False, residual=False, seed=3)
    seen = predict(model, db.stream(sample("likes => [FULL], knows => [FULL]", batch=50)))
    x, edges, _ = arrays()
    with torch.no_grad():
        state = torch.relu(model.encode(torch.from_numpy(x)))
        means = torch.zeros_like(state)
        for source, target in ((edges[0], edges[1]), (edges[1, :100], edges[0, :100])):
            count = np.maximum(np.bincount(target, minlength=NODES), 1)
            total = torch.zeros_like(state).index_add(0, torch.from_numpy(target), state[torch.from_numpy(source)])
            means += total / torch.from_numpy(count)[:, None]
        expected = model.read(torch.relu(model.root[0](state) + model.neighbour[0](means)))
    torch.testing.assert_close(seen.logits, expected)


def test_graph_sage_learns_what_only_neighbours_tell(db: snapdb.Database) -> None:
    scores = {}
    for layers in (0, 1):
        model = GraphSAGE(WIDTH, 2, hidden=16, layers=layers, dropout=0.0, seed=0)
        fit(model, db.stream(sample("likes => [FULL]", "id % 4 > 0")), epochs=60, lr=0.01, seed=0)
        test = db.stream(sample("likes => [FULL]", "id % 4 = 0"))
        scores[layers] = evaluate(model, test, {"auc": roc_auc})["auc"]
    assert scores[1] > 0.9
    assert scores[0] < 0.75


def test_the_same_fit_gives_the_same_weights_on_any_number_of_stream_threads(db: snapdb.Database) -> None:
    def weights(threads: int) -> list[Tensor]:
        model = GraphSAGE(WIDTH, 2, hidden=16, seed=4)
        stream = db.stream(sample("likes => [3, 3]"), threads=threads)
        history = fit(model, stream, epochs=3, seed=9)
        assert len(history.losses) == 3
        return [p.detach().clone() for p in model.parameters()]

    first = weights(1)
    for other in (weights(1), weights(2)):
        assert all(a.equal(b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_those_of_torchs_adam(weight_decay: float) -> None:
    ours, theirs = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizers = (
        Adam(ours.parameters(), lr=0.01, weight_decay=weight_decay),
        torch.optim.Adam(theirs.parameters(), lr=0.01, weight_decay=weight_decay),
    )
    for row in torch.arange(20.0).reshape(5, 4):
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            torch.autograd.backward(model(row).square().sum())
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_fitting_loads_nothing_of_torch_compile() -> None:
    program = """
import sys, torch, snapdb.train
model = torch.nn.Linear(2, 2)
from snapdb.train.optimizer import Adam
optimizer = Adam(model.parameters(), lr=0.1)
torch.autograd.backward(model(torch.ones(2)).sum())
optimizer.step()
optimizer.zero_grad()
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_fitting_leaves_the_callers_random_numbers_alone(db: snapdb.Database) -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    fit(GraphSAGE(WIDTH, 2, hidden=4, seed=1), db.stream(sample("likes => [2, 2]")), epochs=1)
    assert torch.rand(3).equal(expected)


def test_the_best_epochs_weights_stay_and_patience_ends_the_run(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 2, hidden=8, seed=1)
    kept: list[Tensor] = []
    script = iter([0.5, 0.9, 0.8, 0.7, 0.6])

    def validate() -> float:
        kept.append(model.read.weight.detach().clone())
        return next(script)

    history = fit(model, db.stream(sample("likes => [2, 2]")), epochs=20, validate=validate, patience=2)
    assert (history.best, history.scores) == (1, (0.5, 0.9, 0.8, 0.7))
    assert model.read.weight.equal(kept[1])


def test_a_transform_stands_before_the_model(db: snapdb.Database) -> None:
    stream = db.stream(sample("likes => [2, 2]"))
    model = GraphSAGE(WIDTH, 2, hidden=8, seed=1)
    blind = predict(model, stream, transform=torch.zeros_like)
    assert (blind.logits == blind.logits[0]).all()


def test_unlabelled_seeds_are_predicted_but_not_learned(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 2, hidden=8, seed=1)
    query = "SAMPLE FROM s SEEDS (SELECT id, {y} AS y FROM node) AS node FANOUT (likes => [2, 2]) BATCH 100"
    with refused("nothing-to-learn"):
        fit(model, db.stream(query.format(y="-1")), epochs=1)
    assert len(predict(model, db.stream(query.format(y="-1"))).logits) == NODES


def test_float_targets_are_regressed(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 1, hidden=16, layers=1, dropout=0.0, seed=1)
    query = "SAMPLE FROM s SEEDS (SELECT id, x[1]::FLOAT AS y FROM node) AS node FANOUT (likes => [2]) BATCH 100"
    history = fit(model, db.stream(query), epochs=40, lr=0.01)
    assert history.losses[-1] < 0.1 * history.losses[0]


def test_a_batch_that_pads_a_rank_is_not_scored_again(db: snapdb.Database) -> None:
    query, model = sample("likes => [2]", "id < 160"), GraphSAGE(WIDTH, 2, layers=1)
    ranks_ = [list(db.stream(query, rank=rank, world_size=2, pad=True)) for rank in (0, 1)]
    assert [[batch.padding for batch in batches] for batches in ranks_] == [[False, False], [False, True]]
    found = predict(model, [batch for batches in ranks_ for batch in batches])
    assert found.input_id.tolist() == list(range(160))
    scores = evaluate(model, ranks_[1], {"seeds": lambda y, logits: float(len(y))})
    assert predict(model, db.stream(query).map_style()).input_id.tolist() == list(range(160))  # type: ignore[arg-type]
    assert scores == {"seeds": float(ranks_[1][0].batch_size)}


def test_what_is_no_stream_is_told_how_to_open_one(db: snapdb.Database) -> None:
    model = GraphSAGE(WIDTH, 2, layers=1)
    for given, name in (("valid", "valid"), (db, "train")):
        said = rf"the argument must be a stream or a list of batches.*; pass db.stream\('{name}'\)"
        with pytest.raises(TypeError, match=said):
            fit(model, given, epochs=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=said):
            predict(model, given)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=said):
            evaluate(model, given, {"accuracy": accuracy})  # type: ignore[arg-type]
    assert model.training


def test_models_refuse_batches_they_cannot_read(db: snapdb.Database) -> None:
    with refused("model-inputs", "'symmetric'", "'mean'"):
        GCN(WIDTH, 2, normalize="both")
