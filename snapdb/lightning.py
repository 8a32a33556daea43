"""A data module for Lightning, with one sampler and one seed set per trainer stage.

    from snapdb.lightning import SnapDataModule

    data = SnapDataModule("shop.snapdb", "train", val="SELECT cid FROM customer WHERE split = 'val'")
    Trainer(max_epochs=10).fit(model, datamodule=data)

The module uses the Lightning package that the program has imported, or else `lightning`, or else `pytorch_lightning`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from snapdb.attribute_docs import document_attributes
from snapdb.database import Database, connect
from snapdb.errors import InputError
from snapdb.loading import BatchStream
from snapdb.on_first_use import public_names

__dir__ = public_names(__name__)

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _data_module() -> Any:
    """Return the LightningDataModule class of the Lightning package that the program uses.

    Raises:
        InputError: Lightning is not installed.
    """
    for name in sorted(_PACKAGES, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).LightningDataModule
        except ModuleNotFoundError as error:
            if not name.startswith(f"{error.name}"):
                raise
    raise InputError(
        "snapdb.lightning needs lightning or pytorch_lightning, but neither is installed: pip install "
        "'snapdb[lightning]'",
        code="package-missing",
    )


if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule
else:
    LightningDataModule = _data_module()


@document_attributes
class StageLoader(Iterable[Any]):
    """The batches of one trainer stage. Each iteration yields the batches of the trainer's current epoch.

    It counts the batches that the training loop has consumed, even if DataLoader workers build them, so its state can
    be saved and loaded in the middle of an epoch.
    """

    stream: BatchStream[Any]
    """The stream that supplies the batches."""

    def __init__(
        self,
        stream: BatchStream[Any],
        epoch: Callable[[], int | None],
        *,
        num_workers: int = 0,
        pin_memory: bool = False,
    ) -> None:
        """Create a loader that reads the stream in this process, unless workers or pinned memory are requested.

        Args:
            stream: The stream of batches.
            epoch: A function that returns the trainer's current epoch, or None if there is no trainer. In that case,
                each iteration yields the next epoch.
            num_workers: The number of DataLoader workers that build batches. With 0, threads of this process build
                them.
            pin_memory: Whether to copy batches into page-locked memory.
        """
        self.stream = stream
        self._epoch = epoch
        self._taken = 0
        self._source: Iterable[Any] = stream
        if num_workers or pin_memory:
            self._source = DataLoader(stream, batch_size=None, num_workers=num_workers, pin_memory=pin_memory)

    def __len__(self) -> int:
        """Return the number of batches per epoch on this rank. Loading a mid-epoch state does not change it."""
        return self.stream.length(self._epoch())

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the trainer's epoch, or the rest of it after `load_state_dict`."""
        here, epoch = self.stream.lineage["epoch"], self._epoch()
        if epoch is None:
            epoch = here + 1 if self._taken else here
        # The workers are forked below with the current state of the stream. Their reads do not advance it in this
        # process.
        if self._taken or epoch != here:
            self.stream.set_epoch(epoch)
        self._taken = 0
        for batch in self._source:
            self._taken += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the training loop as plain values, which are equal on all ranks."""
        ranks = self.stream.sharing.world_size
        return {**self.stream.state_dict(consumed=self._taken), "ranks": ranks}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved position. The next iteration yields the rest of that epoch if the trainer is in it.

        Raises:
            InputError: The state belongs to another stream, or was saved in the middle of an epoch with a different
                number of ranks.
        """
        self.stream.load_state_dict(state)
        self._taken, here = 0, self.stream.sharing.world_size
        if state["consumed"] and state.get("ranks", here) != here:
            raise InputError(
                f"this checkpoint was saved in mid-epoch on {state['ranks']} ranks, but there are {here} now, and "
                "Lightning counts the batches of one rank; use the same number of ranks, or a checkpoint from the "
                "end of an epoch",
                code="stream-state",
            )


@document_attributes
class SnapDataModule(LightningDataModule):
    """A LightningDataModule whose stages share one sampler and have separate seed sets.

    Training uses the trainer's epochs, and can resume in the middle of an epoch from a checkpoint. Validation, testing
    and prediction always use epoch 0, so that equal weights yield equal scores. The ranks share each epoch and receive
    the same number of batches. A rank that would have one batch fewer repeats one of the epoch's first batches, with
    `batch.padding` set to True.
    """

    path: Path
    """The path of the database directory."""
    sampler: str
    """The sampler's name, or a SAMPLE statement."""
    seeds: dict[str, Any]
    """The seeds by stage ('train', 'val', 'test', 'predict'), or None. For 'train', None means the sampler's own seeds.
    """
    drop_last: bool
    """Whether training skips the batches that only some ranks would receive."""

    def __init__(
        self,
        database: Database | str | Path,
        sampler: str,
        *,
        train: Any = None,
        val: Any = None,
        test: Any = None,
        predict: Any = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        drop_last: bool = False,
        **options: Any,
    ) -> None:
        """Set up the data module. The database is opened when a loader is first used.

        Args:
            database: The path of the database, or an open database, which other processes open by its path.
            sampler: A sampler's name, or a SAMPLE statement.
            train: The training seeds, in any form that `db.stream` accepts: a SELECT, or ids. None uses the sampler's
                seeds.
            val: The validation seeds, or None for no validation.
            test: The seeds of `trainer.test`.
            predict: The seeds of `trainer.predict`.
            num_workers: The number of DataLoader workers that build batches. With 0, threads of this process build
                them, which avoids copies.
            pin_memory: Whether a DataLoader copies batches into page-locked memory.
            drop_last: Whether training skips the batches that only some ranks would receive, instead of repeating
                batches.
            options: Additional arguments of `db.stream`: threads, device, transform, prefetch, memory, params.
        """
        super().__init__()
        self.path = database.path if isinstance(database, Database) else Path(database)
        self.sampler = sampler
        self.seeds = {"train": train, "val": val, "test": test, "predict": predict}
        self.drop_last = drop_last
        self._options = options
        self._loading: dict[str, Any] = {"num_workers": num_workers, "pin_memory": pin_memory}
        self._given = (os.getpid(), database) if isinstance(database, Database) else None
        self._own: tuple[int, Database] | None = None
        self._loaders: dict[str, StageLoader] = {}
        self._resumed: Mapping[str, Any] | None = None
        if val is None:  # Lightning skips a stage whose unwrapped loader is its own method
            missing = partial(self._evaluated, "val")
            self.val_dataloader = update_wrapper(missing, LightningDataModule.val_dataloader)  # type: ignore[method-assign]

    def train_dataloader(self) -> StageLoader:
        """Return the loader for the training seeds, which yields the trainer's epochs."""
        loader = self._loader("train", self._trainers_epoch)
        if self._resumed is not None:
            loader.load_state_dict(self._resumed)
            self._resumed = None
        return loader

    def val_dataloader(self) -> StageLoader:
        """Return the loader for the validation seeds."""
        return self._evaluated("val")

    def test_dataloader(self) -> StageLoader:
        """Return the loader for the test seeds."""
        return self._evaluated("test")

    def predict_dataloader(self) -> StageLoader:
        """Return the loader for the prediction seeds. `batch.input_id` contains their positions in the seed set."""
        return self._evaluated("predict")

    def state_dict(self) -> dict[str, Any]:
        """Return the training position for a checkpoint."""
        return {"train": self._loaders["train"].state_dict()} if "train" in self._loaders else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume training from a checkpoint. The next training loader yields the rest of its epoch."""
        self._resumed = state_dict.get("train")

    def teardown(self, stage: str | None = None) -> None:
        """Close the streams, and the database if this module opened it."""
        self._resumed = None
        for loader in self._loaders.values():
            loader.stream.close()
        if self._own is not None:
            self._own[1].close()
            self._own = None

    def on_exception(self, exception: BaseException) -> None:
        """Close the streams and the database when an exception stops the trainer."""
        self.teardown()

    def __repr__(self) -> str:
        stages = ["train", *(stage for stage, seeds in self.seeds.items() if stage != "train" and seeds is not None)]
        return f"SnapDataModule({self.path}, {' '.join(self.sampler.split())}; {', '.join(stages)})"

    __str__ = __repr__  # Lightning's own __str__ would open every loader

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for spawned ranks, which open the database again."""
        return {**self.__dict__, "_given": None, "_own": None, "_loaders": {}}

    def _evaluated(self, stage: str) -> StageLoader:
        if self.seeds[stage] is None:
            raise InputError(
                f"the data module has no {stage} seeds; pass {stage}=…, a SELECT or ids, to SnapDataModule",
                code="no-seeds",
            )
        return self._loader(stage, lambda: 0)

    def _loader(self, stage: str, epoch: Callable[[], int | None]) -> StageLoader:
        """Return a loader over a new stream, which is closed at the end of the stage."""
        stream = self._database().stream(self.sampler, seeds=self.seeds[stage], **self._sharing(stage), **self._options)
        loader = self._loaders[stage] = StageLoader(stream, epoch, **self._loading)
        return loader

    def _sharing(self, stage: str) -> dict[str, Any]:
        """Return this process's rank in the trainer, and its device if the stream can move batches to it."""
        drops = stage == "train" and self.drop_last
        shares: dict[str, Any] = {"drop_last": drops, "pad": not drops}
        if self.trainer is None:
            return shares
        device = self.trainer.strategy.root_device
        # The stream can move only this process's batches to the GPU, because DataLoader workers have no device.
        if device.type == "cuda" and "device" not in self._options and not any(self._loading.values()):
            shares["device"] = str(device)
        return {**shares, "rank": self.trainer.global_rank, "world_size": self.trainer.world_size}

    def _trainers_epoch(self) -> int | None:
        return None if self.trainer is None else self.trainer.current_epoch

    def _database(self) -> Database:
        """Return the given database if it belongs to this process, or else open it here."""
        for opened in (self._given, self._own):
            if opened is not None and opened[0] == os.getpid():
                return opened[1]
        # Open the database for writing if possible, so that it can store edges sorted by source for the other ranks
        # too. `connect` must not create a database here.
        database = connect(self.path, read_only=not os.access(self.path, os.W_OK))
        self._own = (os.getpid(), database)
        return database
