"""A Lightning trainer reads one sampler's streams, in its own epochs, on its ranks, and goes on from a checkpoint."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import snapdb
from snapdb import Database
from snapdb.lightning import SnapDataModule, _data_module
from tests.support.examples import example
from tests.support.refusals import refused
from tests.support.streams import workers_alive

lightning: Any = pytest.importorskip("lightning.pytorch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*returned `None`, this fit will run with no optimizer"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on machines of one core
]

TOWN = """
CREATE TABLE person AS SELECT range AS id, range % 2 AS club, [range % 2, 1]::FLOAT[2] AS f, range % 3 AS part
  FROM range(150);
CREATE TABLE met AS SELECT hash(range) % 150 AS a, hash(range + 7) % 150 AS b FROM range(900);
CREATE PROPERTY GRAPH town VERTEX TABLES (person KEY (id) FEATURES (f AS x) TARGET (club AS y))
  EDGE TABLES (met SOURCE KEY (a) REFERENCES person DESTINATION KEY (b) REFERENCES person);
CREATE SNAPSHOT now OF town;
CREATE SAMPLER train AS SAMPLE FROM now SEEDS (SELECT id FROM person WHERE part > 0) AS person
  FANOUT (met BOTH => [3, 3]) BATCH 16 REPEATABLE (1);
"""
BATCHES = 7
"""100 training seeds by 16."""
VAL = "SELECT id FROM person WHERE part = 0"
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Model(lightning.LightningModule):  # type: ignore[misc]
    """A linear map of the seeds' features, which remembers what it saw."""

    def __init__(self, fails_at: tuple[int, int] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(2, 2)
        self.fails_at = fails_at
        self.seen: dict[str, list[tuple[Any, ...]]] = {"train": [], "val": [], "test": []}

    def training_step(self, batch: snapdb.Batch, number: int) -> torch.Tensor:
        if batch.index == self.fails_at:
            raise RuntimeError("the trainer failed")
        self.seen["train"].append((*batch.index, batch.input_id.tolist(), batch.n_id["person"].tolist()))
        return self._loss(batch)

    def validation_step(self, batch: snapdb.Batch, number: int) -> None:
        self.seen["val"].append((*batch.index, batch.input_id.tolist()))

    def test_step(self, batch: snapdb.Batch, number: int) -> None:
        self.seen["test"].append((*batch.index, batch.input_id.tolist()))

    def predict_step(self, batch: snapdb.Batch, number: int) -> list[int]:
        found: list[int] = batch.ids("person")[: batch.batch_size].to_pylist()
        return found

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def _loss(self, batch: snapdb.Batch) -> torch.Tensor:
        assert batch.y is not None
        return cross_entropy(self.layer(batch.x["person"][: batch.batch_size]), batch.y)


def trainer(folder: Path, **options: Any) -> Any:
    mine = {"enable_checkpointing": False, "default_root_dir": folder, "num_sanity_val_steps": 0}
    return lightning.Trainer(**{**QUIET, **mine, **options})


def saving(folder: Path, **when: Any) -> dict[str, Any]:
    """Keeps a checkpoint for each moment."""
    saver = lightning.callbacks.ModelCheckpoint(folder, "{epoch}-{step}", save_top_k=-1, **when)
    return {"callbacks": [saver], "enable_checkpointing": True}


def seen(batches: Iterator[snapdb.Batch] | list[snapdb.Batch]) -> list[tuple[Any, ...]]:
    return [(*batch.index, batch.input_id.tolist(), batch.n_id["person"].tolist()) for batch in batches]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("town") / "town.snapdb"
    with snapdb.connect(path) as db:
        db.script(TOWN)
    return path


@pytest.fixture(scope="module")
def expected(town: Path) -> list[tuple[Any, ...]]:
    """Three epochs of training, as a stream gives them."""
    with snapdb.connect(town) as db, db.stream("train") as stream:
        return [one for _ in range(3) for one in seen(list(stream))]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_trainer_reads_each_stage_from_one_sampler(
    town: Path, tmp_path: Path, expected: list[tuple[Any, ...]], workers: int
) -> None:
    data = SnapDataModule(town, "train", val=VAL, test=[2, 5, 8], predict=[1, 3], threads=2, num_workers=workers)
    model, runs = Model(), trainer(tmp_path, max_epochs=2, num_sanity_val_steps=1)
    runs.fit(model, datamodule=data)
    assert model.seen["train"] == expected[: 2 * BATCHES]
    validated = model.seen["val"][1:]
    assert [one[:2] for one in validated] == [(0, number) for number in range(4)] * 2
    assert validated[:4] == validated[4:]
    runs.test(model, datamodule=data, verbose=False)
    assert [one[:2] for one in model.seen["test"]] == [(0, 0)]
    assert sorted(runs.predict(model, datamodule=data)[0]) == [1, 3]
    assert workers_alive() == 0


def test_epochs_that_are_cut_short_are_those_of_the_trainer(
    town: Path, tmp_path: Path, expected: list[tuple[Any, ...]]
) -> None:
    model = Model()
    runs = trainer(tmp_path, max_epochs=2, limit_train_batches=3)
    runs.fit(model, datamodule=SnapDataModule(town, "train"))
    runs.fit_loop.max_epochs = 3
    runs.fit(model, datamodule=SnapDataModule(town, "train"))
    assert model.seen["train"] == [one for one in expected if one[1] < 3]


@pytest.mark.parametrize(("steps", "workers"), [(3, 2), (BATCHES, 0), (BATCHES, 2), (BATCHES + 4, 0)])
def test_training_goes_on_from_a_checkpoint_with_the_next_batch(
    town: Path, tmp_path: Path, expected: list[tuple[Any, ...]], steps: int, workers: int
) -> None:
    whole = Model()
    trainer(tmp_path, max_epochs=2).fit(whole, datamodule=SnapDataModule(town, "train"))
    failing = Model(fails_at=(1, 5))
    first = trainer(tmp_path, max_epochs=2, **saving(tmp_path, every_n_train_steps=steps))
    with pytest.raises(RuntimeError, match="the trainer failed"):
        first.fit(failing, datamodule=SnapDataModule(town, "train", num_workers=2 - workers))
    assert workers_alive() == 0
    again, data = Model(), SnapDataModule(town, "train", threads=1, num_workers=workers)
    checkpoint = tmp_path / f"epoch={steps // (BATCHES + 1)}-step={steps}.ckpt"
    trainer(tmp_path, max_epochs=2).fit(again, datamodule=data, ckpt_path=checkpoint)
    assert again.seen["train"] == expected[steps : 2 * BATCHES]
    assert torch.equal(again.layer.weight, whole.layer.weight)


def test_a_checkpoint_of_an_epochs_end_goes_on_with_the_next(
    town: Path, tmp_path: Path, expected: list[tuple[Any, ...]]
) -> None:
    short = {"limit_train_batches": 4}
    trainer(tmp_path, max_epochs=1, **short, **saving(tmp_path, save_on_train_epoch_end=True)).fit(
        Model(), datamodule=SnapDataModule(town, "train")
    )
    again = Model()
    trainer(tmp_path, max_epochs=2, **short).fit(
        again, datamodule=SnapDataModule(town, "train"), ckpt_path=tmp_path / "epoch=0-step=4.ckpt"
    )
    assert again.seen["train"] == [one for one in expected if one[0] == 1 and one[1] < 4]


@pytest.mark.parametrize("workers", [0, 1])
def test_without_a_trainer_each_iteration_takes_the_next_epoch(
    town: Path, expected: list[tuple[Any, ...]], workers: int
) -> None:
    with snapdb.connect(town) as db:
        data = SnapDataModule(db, "train", val=VAL, num_workers=workers)
        assert data.state_dict() == {}
        loader = data.train_dataloader()
        assert len(loader) == BATCHES
        assert seen(list(loader)) + seen(list(loader)) == expected[: 2 * BATCHES]
        for _ in zip(range(4), loader, strict=False):
            pass
        state = data.state_dict()
        other = SnapDataModule(db, "train")
        other.load_state_dict(state)
        rest = other.train_dataloader()
        assert other.state_dict() == state
        assert seen(list(rest)) == expected[2 * BATCHES + 4 :]
        assert str(data) == f"SnapDataModule({town}, train; train, val)"
        data.teardown()
        assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_ranks_share_each_epoch_and_have_equally_many_batches(
    town: Path, tmp_path: Path, expected: list[tuple[Any, ...]]
) -> None:
    class Ranked(Model):
        def on_train_end(self) -> None:
            torch.save((self.seen["train"], self.layer.weight), tmp_path / f"{self.global_rank}.pt")

    with snapdb.connect(town) as db:  # the ranks open it by its path
        trainer(tmp_path, max_epochs=2, devices=2, strategy="ddp_fork").fit(
            Ranked(), datamodule=SnapDataModule(db, "train", threads=1)
        )
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for rank, (batches, _) in enumerate(ranks):
        epochs = [expected[epoch * BATCHES : (epoch + 1) * BATCHES] for epoch in range(2)]
        assert batches == [one for epoch in epochs for one in (*epoch, epoch[0])[rank::2]]
    assert torch.equal(ranks[0][1], ranks[1][1])


def test_a_state_of_other_ranks_in_mid_epoch_is_refused(town: Path) -> None:
    data = SnapDataModule(town, "train")
    loader = data.train_dataloader()
    next(iter(loader))
    state = loader.state_dict()
    with refused("stream-state"):
        loader.load_state_dict({**state, "ranks": 2})
    loader.load_state_dict({**state, "consumed": 0, "ranks": 2})
    data.teardown()


def test_seeds_that_were_not_given_are_missed_where_the_trainer_asks(town: Path, tmp_path: Path) -> None:
    data, runs = SnapDataModule(town, "train"), trainer(tmp_path)
    with refused("no-seeds", "test=…"):
        runs.test(Model(), datamodule=data)


@pytest.mark.parametrize("stage", ["val", "test", "predict"])
def test_seeds_that_were_not_given_are_missed_where_their_loader_is_asked_for(town: Path, stage: str) -> None:
    for data in (made := SnapDataModule(town, "train"), pickle.loads(pickle.dumps(made))):
        with refused("no-seeds", stage):
            getattr(data, f"{stage}_dataloader")()


def test_a_path_without_a_database_makes_none(tmp_path: Path) -> None:
    with refused("no-database"):
        SnapDataModule(tmp_path / "none", "train").train_dataloader()
    assert not (tmp_path / "none").exists()


def test_batches_move_to_a_device_as_the_trainer_moves_them(town: Path) -> None:
    data = SnapDataModule(town, "train")
    batch = next(iter(data.train_dataloader()))
    assert data.transfer_batch_to_device(batch, torch.device("meta"), 0).x["person"].device.type == "meta"
    data.teardown()


class Publishing(Model):
    """A model while whose epochs the snapshot moves."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_train_epoch_end(self) -> None:
        first = 1000 + 100 * self.current_epoch
        with snapdb.connect(self.path) as db:
            db.script(f"""
                INSERT INTO person SELECT {first} + range, 1, [1, 1], 1 FROM range(20);
                INSERT INTO met SELECT {first} + range % 20, range FROM range(60);
                REFRESH SNAPSHOT now""")


def test_loaders_that_are_asked_for_anew_follow_the_snapshot(tmp_path: Path) -> None:
    with snapdb.connect(tmp_path / "town.snapdb") as db:
        db.script(TOWN)
    model = Publishing(tmp_path / "town.snapdb")
    anew = trainer(tmp_path, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    anew.fit(model, datamodule=SnapDataModule(model.path, "train", threads=1))
    seeds = [[len(ids) for epoch, _, ids, _ in model.seen["train"] if epoch == at] for at in range(3)]
    assert [(sum(sizes), len(sizes)) for sizes in seeds] == [(100, 7), (120, 8), (140, 9)]


def test_a_machine_without_lightning_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with refused("package-missing", "'snapdb[lightning]'"):
        _data_module()


def test_the_lightning_that_the_program_imported_is_taken(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[tuple[Any, ...]]
) -> None:
    older: Any = pytest.importorskip("pytorch_lightning")
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    assert snapdb.lightning.__file__ is not None
    spec = importlib.util.spec_from_file_location("another_lightning", snapdb.lightning.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Plain(older.LightningModule):  # type: ignore[misc]
        automatic_optimization = False

        def training_step(self, batch: snapdb.Batch, number: int) -> None:
            met.append(batch)

        def configure_optimizers(self) -> None:
            return None

    met: list[snapdb.Batch] = []
    runs = older.Trainer(**QUIET, default_root_dir=tmp_path, max_epochs=1, enable_checkpointing=False)
    runs.fit(Plain(), datamodule=module.SnapDataModule(town, "train"))
    assert seen(met) == expected[:BATCHES]


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_the_example_classifies_cora(data: Path) -> None:
    figures = example("lightning_cora")(["--data", str(data), "--epochs", "12"])
    assert figures["test_accuracy"] >= 0.7


def test_the_example_without_its_data_says_so_and_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert example("lightning_cora")(["--data", str(tmp_path)]) == {}
    assert "skipped: no data set at" in capsys.readouterr().err


def test_data_that_was_saved_with_a_database_opens_it_by_its_path(town: Path) -> None:
    with snapdb.connect(town) as db:
        assert isinstance(db, Database)
        again = pickle.loads(pickle.dumps(SnapDataModule(db, "train")))
    assert len(again.train_dataloader()) == BATCHES
    again.teardown()
