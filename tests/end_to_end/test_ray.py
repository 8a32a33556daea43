"""Workers on Ray build the batches of a single stream, however many there are, and whatever happens to them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import snapdb
import snapdb.ray
from snapdb.errors import InputError
from snapdb.loading import Batch
from tests.support.thoroughness import SOAK

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'snapdb[ray]'")
ray_train = pytest.importorskip("ray.train", reason="ray[train] is not installed")
collective = pytest.importorskip("ray.train.collective", reason="ray[train] is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]

often = pytest.mark.skipif(not SOAK, reason="starts many workers; make soak runs it")
CPUS = 6
FEW = 2 if SOAK else 1
"""Workers of a run, each of which takes seconds to import torch and Ray; `make soak` starts more."""
SETUP = """
CREATE TABLE person AS SELECT 'p' || range AS id,
  list_transform(range(6), lambda i: ((range * 7 + i) % 50) / 50)::FLOAT[6] AS x, range % 5 AS y FROM range(500);
CREATE TABLE knows AS SELECT 'p' || (range * 7919) % 500 AS a, 'p' || (range * 104729 + 1) % 500 AS b FROM range(4000);
CREATE PROPERTY GRAPH g VERTEX TABLES (person KEY (id) FEATURES (x AS x) TARGET (y))
  EDGE TABLES (knows SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT s OF g;
CREATE SAMPLER train AS SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [4, 3]) BATCH 40;
CREATE SAMPLER visited AS SAMPLE FROM s SEEDS (SELECT id FROM person) AS person FANOUT (knows => [4, 3]) BATCH 40
  REFRESH OTF 25 PERCENT EVERY 3 BATCHES SCOPE VISITED;
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A published database."""
    folder = tmp_path_factory.mktemp("ray")
    with snapdb.connect(folder / "db") as db:
        db.script(SETUP)
        db.execute(f"PUBLISH TO '{folder}/published'")
    return f"file://{folder}/published"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A local cluster, whose workers use few real cores."""
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["SNAPDB_CACHE"] = str(tmp_path_factory.mktemp("ray-cache"))
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    try:
        ray.init(
            num_cpus=CPUS,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=200 << 20,
            configure_logging=False,
        )
    except Exception as error:
        pytest.skip(f"Ray cannot start here: {type(error).__name__}: {error}")
    yield
    ray.shutdown()
    del os.environ["SNAPDB_CACHE"]


def digest(batch: Batch) -> str:
    targets = [] if batch.y is None else [batch.y]
    parts = [*batch.n_id.values(), *batch.edge_index.values(), batch.x["person"], *targets]
    return sha256(b"|".join(part.numpy().tobytes() for part in parts)).hexdigest()


def single(url: str, sampler: str = "train", epochs: int = 1) -> Counter[tuple[int, int, str]]:
    with snapdb.connect(url) as db, db.stream(sampler) as stream:
        return Counter((*batch.index, digest(batch)) for _ in range(epochs) for batch in stream)


def record(stream: snapdb.BatchStream[Batch], config: dict[str, Any]) -> None:
    """A training loop that records its batches, and stops or dies after a checkpoint if it should."""
    own = snapdb.ray.rank()
    folder = Path(config["folder"])
    with open(folder / f"{config['run']}-{own['rank']}.jsonl", "a") as file:
        for count, batch in enumerate(stream, 1):
            file.write(json.dumps([*batch.index, digest(batch), torch.get_num_threads()]) + "\n")
            file.flush()
            if count == config.get("stop"):
                snapdb.ray.report(stream, {"count": count}, save=_save)
                return
            if count == config.get("dies") and not (folder / "died").exists():
                snapdb.ray.report(stream, {"count": count}, save=_save)
                ray_train.get_all_reported_checkpoints()  # returns when the run knows this one
                collective.barrier()
                if own["rank"] == 0:
                    (folder / "died").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                collective.barrier()  # never ends, because one worker is dead


def _save(folder: Path) -> None:
    (folder / "model.txt").write_text("weights")


def records(folder: Path, run: str) -> Counter[tuple[int, int, str]]:
    lines = [json.loads(line) for path in folder.glob(f"{run}-*.jsonl") for line in path.read_text().splitlines()]
    return Counter((epoch, index, text) for epoch, index, text, _ in lines)


def fitted(url: str, folder: Path, workers: int | tuple[int, int], run: str, **options: Any) -> Any:
    config = {"folder": str(folder), "run": run, **options.pop("config", {})}
    failures = ray_train.FailureConfig(max_failures=options.pop("failures", 0))
    run_config = ray_train.RunConfig(storage_path=str(folder / "storage"), name=run, failure_config=failures)
    trainer = snapdb.ray.trainer(
        record, url, "train", workers=workers, pad=False, config=config, run_config=run_config, **options
    )
    return trainer.fit()


@often
def test_workers_train_on_the_batches_of_one_stream_and_a_run_continues_with_fewer(
    url: str, cluster: None, tmp_path: Path
) -> None:
    result = fitted(url, tmp_path, 3, "before", config={"stop": 2})
    with result.checkpoint.as_directory() as folder:
        assert (Path(folder) / "model.txt").read_text() == "weights"
    fitted(url, tmp_path, 1, "after", resume=result.checkpoint)
    assert records(tmp_path, "before") + records(tmp_path, "after") == single(url)


def test_a_run_whose_worker_was_killed_continues_under_its_name_with_more(
    url: str, cluster: None, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"(?i)died|killed|worker"):
        fitted(url, tmp_path, FEW, "run", config={"dies": 2})
    assert (tmp_path / "died").exists()
    fitted(url, tmp_path, FEW + 1, "run")
    assert records(tmp_path, "run") == single(url)


@often
def test_an_elastic_run_survives_the_death_of_a_worker(url: str, cluster: None, tmp_path: Path) -> None:
    fitted(url, tmp_path, (1, 3), "run", config={"dies": 1}, failures=1)
    assert (tmp_path / "died").exists()
    assert records(tmp_path, "run") == single(url)


def test_a_function_is_applied_to_every_batch(url: str, cluster: None) -> None:
    def summed(batch: Batch) -> dict[str, Any]:
        return {"epoch": [batch.index[0]], "batch": [batch.index[1]], "digest": [digest(batch)]}

    rows = snapdb.ray.map(url, "train", summed, epochs=2, workers=2, per=3).take_all()
    assert Counter((row["epoch"], row["batch"], row["digest"]) for row in rows) == single(url, epochs=2)


def test_a_query_is_a_dataset(url: str, cluster: None) -> None:
    query = "SELECT y, count(*) AS n, sum(x[1]) AS total FROM s.person WHERE y > $low GROUP BY y ORDER BY y"
    with snapdb.connect(url) as db:
        expected = db.execute(query, {"low": 1}).fetchall()
    rows = snapdb.ray.dataset(url, query, {"low": 1}).take_all()
    assert sorted((row["y"], row["n"], row["total"]) for row in rows) == expected


def test_inference_is_that_of_one_process(url: str, cluster: None) -> None:
    torch.manual_seed(3)
    model = snapdb.train.GraphSAGE(features=6, classes=3, hidden=8, layers=2)
    with snapdb.connect(url) as db:
        expected = db.infer(model, "s", batch=64, threads=1)
    found = snapdb.ray.infer(url, model, "s", batch=64, workers=FEW)
    assert found.ids.equals(expected.ids)
    assert torch.equal(found.states, expected.states)
    with pytest.raises(InputError, match="must return one row per seed"):
        snapdb.ray.infer(url, None, "s", layers=[lambda batch, x: x[:1]], workers=FEW)


def test_what_cannot_work_is_said(url: str, cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(batch: Batch) -> dict[str, Any]:
        return {"id": batch.n_id["person"]}

    cases: list[tuple[str, Callable[[], object]]] = [
        ("too-few-cpus", lambda: snapdb.ray.map(url, "train", ids, workers=CPUS)),
        ("any-order", lambda: snapdb.ray.map(url, "visited", ids)),
        ("no-ray-worker", snapdb.ray.rank),
        ("unknown-sampler", lambda: snapdb.ray.map(url, "nothing", ids)),
        ("unknown-table", lambda: snapdb.ray.dataset(url, "SELECT * FROM nothing")),
    ]
    for code, call in cases:
        with pytest.raises(snapdb.SnapdbError) as caught:
            call()
        assert caught.value.code == code, caught.value
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(InputError, match="snapdb"):
        snapdb.ray.dataset(url, "SELECT 1")


def test_columns_have_equally_many_rows() -> None:
    columns = snapdb.ray._columns({"a": torch.arange(3), "b": np.ones(3)}, digest)
    assert {name: len(values) for name, values in columns.items()} == {"a": 3, "b": 3}
    for wrong in ([1], {}, {"a": [1, 2], "b": [1]}, {"a": 1}):
        with pytest.raises(InputError) as caught:
            snapdb.ray._columns(wrong, digest)
        assert caught.value.code == "not-columns"
