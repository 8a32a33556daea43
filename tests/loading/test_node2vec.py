"""Node2Vec: its steps against a naive twin, repeatable vectors, keys, and errors."""

from pathlib import Path

import numpy as np
import pytest
import torch

import snapdb
from snapdb.errors import InputError
from snapdb.train import Node2Vec
from tests.support.inside.kernels import descend

WALK = "WALK FROM s SEEDS (SELECT id FROM person) AS person LENGTH 8 PER SEED 4 DIRECTION BOTH {more} BATCH 8"
PAIRS = "WINDOW 2 NEGATIVES 5"


@pytest.fixture(scope="module")
def cliques(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two cliques of ten persons, joined by one edge, and their teams."""
    path = tmp_path_factory.mktemp("node2vec") / "cliques.snapdb"
    with snapdb.connect(path) as db:
        db.script("""
            CREATE TABLE person AS SELECT 100 + range AS id, range // 10 AS team FROM range(20);
            CREATE TABLE team AS SELECT 'north' AS country, range AS number FROM range(2);
            CREATE TABLE knows AS SELECT a.id AS a, b.id AS b FROM person a JOIN person b ON a.id < b.id
              WHERE a.team = b.team OR (a.id = 100 AND b.id = 119);
            CREATE TABLE plays AS SELECT id, 'north' AS country, team AS number FROM person;
            CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id), team KEY (country, number)) EDGE TABLES (
              knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person,
              plays SOURCE KEY (id) REFERENCES person DESTINATION KEY (country, number) REFERENCES team);
            CREATE SNAPSHOT s OF g;
        """)
    return path


def _naive_steps(
    pairs: np.ndarray, negatives: np.ndarray, vectors: np.ndarray, contexts: np.ndarray, rate: float
) -> float:
    """Take the steps of word2vec's skip-gram in plain numpy, and return the loss."""
    loss = 0.0
    for (center, context), drawn in zip(pairs.T.tolist(), negatives.tolist(), strict=True):
        error = np.zeros(vectors.shape[1])
        for node, label in [(context, 1.0), *((node, 0.0) for node in drawn if node not in (context, -1))]:
            likely = 1 / (1 + np.exp(-vectors[center] @ contexts[node]))
            loss -= np.log(likely if label else 1 - likely)
            error += rate * (label - likely) * contexts[node]
            contexts[node] += rate * (label - likely) * vectors[center]
        vectors[center] += error
    return float(loss)


def test_the_kernel_takes_the_steps_of_word2vec() -> None:
    rng = np.random.default_rng(3)
    vectors, contexts = rng.normal(size=(2, 6, 16)).astype(np.float32)
    pairs, negatives = rng.integers(0, 6, (2, 40)), rng.integers(-1, 6, (40, 3))
    expected = vectors.astype(np.float64), contexts.astype(np.float64)
    naive = _naive_steps(pairs, negatives, *expected, 0.05)
    loss = descend(pairs, negatives, vectors, contexts, np.empty(16, np.float32), np.float32(0.05))
    assert loss == pytest.approx(naive, rel=1e-4)
    np.testing.assert_allclose(vectors, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(contexts, expected[1], rtol=1e-3, atol=1e-4)


def test_vertices_of_a_clique_get_similar_vectors(cliques: Path) -> None:
    with snapdb.connect(cliques) as db, db.stream(WALK.format(more=PAIRS)) as stream:
        model = Node2Vec.of(stream, width=16)
        history = model.fit(stream, epochs=30, lr=0.05)
        table = model.table(stream)
    assert history.losses[-1] < history.losses[0]
    assert history.pairs > 0
    assert table.column_names == ["key", "embedding"]
    team = (table.column("key").to_numpy() - 100) // 10
    unit = torch.nn.functional.normalize(torch.tensor(table.column("embedding").to_pylist()))
    similar = (unit @ unit.T).fill_diagonal_(-2).argmax(1).numpy()
    assert (team[similar] == team).mean() >= 0.9


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_the_same_stream_gives_the_same_vectors(cliques: Path, threads: int) -> None:
    def vectors(count: int) -> bytes:
        with snapdb.connect(cliques) as db, db.stream(WALK.format(more=PAIRS), threads=count) as stream:
            model = Node2Vec.of(stream, width=8, seed=2)
            model.fit(stream, epochs=2)
            return model.vectors().numpy().tobytes()

    assert vectors(threads) == vectors(1)


def test_forward_is_the_loss_for_an_optimizer(cliques: Path) -> None:
    with snapdb.connect(cliques) as db, db.stream(WALK.format(more=PAIRS)) as stream:
        batch = stream[0]
        model = Node2Vec.of(stream, width=8)
        with torch.no_grad():
            model.context.weight.normal_(generator=torch.Generator().manual_seed(1))
        loss = model(batch)
        loss.backward()
    vectors, contexts = model.embedding.weight.detach(), model.context.weight.detach()
    expected = 0.0
    for i, (center, context) in enumerate(batch.pairs.T.tolist()):
        expected -= torch.nn.functional.logsigmoid(vectors[center] @ contexts[context]).item()
        for node in batch.negatives[i].tolist():
            expected -= torch.nn.functional.logsigmoid(-vectors[center] @ contexts[node]).item()
    assert loss.item() == pytest.approx(expected / batch.pairs.shape[1], rel=1e-5)
    assert model.embedding.weight.grad is not None
    assert model.embedding.weight.grad.is_sparse


def test_a_metapath_gives_vectors_to_every_vertex_type(cliques: Path) -> None:
    text = """WALK FROM s SEEDS (SELECT id FROM person) AS person LENGTH 6 PER SEED 2
      ALONG (plays OUT, plays IN) WINDOW 2 NEGATIVES 2 BATCH 8"""
    with snapdb.connect(cliques) as db, db.stream(text) as stream:
        model = Node2Vec.of(stream, width=8)
        model.fit(stream)
        assert model.vectors("person").shape == (20, 8)
        assert model.vectors("team").shape == (2, 8)
        assert model.table(stream, "team").column_names == ["country", "number", "embedding"]
        with pytest.raises(ValueError, match="choose a vertex type: person, team"):
            model.vectors()
        with pytest.raises(ValueError, match="walks do not visit 'teams'; they visit person, team"):
            model.vectors("teams")


def test_a_stream_without_pairs_is_refused(cliques: Path) -> None:
    with snapdb.connect(cliques) as db:
        with db.stream(WALK.format(more="")) as stream, pytest.raises(InputError, match="WINDOW 5") as found:
            Node2Vec.of(stream)
        assert found.value.code == "needs-pairs"
        sample = "SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [2])"
        with db.stream(sample) as stream, pytest.raises(InputError, match="WINDOW 5"):
            Node2Vec.of(stream)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ValueError, match="width must be a positive multiple of 8, found 12"):
        Node2Vec({"person": 0}, 3, width=12)
