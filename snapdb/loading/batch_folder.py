"""Directories of batch files, which are written while a stream yields batches and are read back byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from torch.utils.data import Dataset

from snapdb.attribute_docs import document_attributes
from snapdb.errors import CorruptError, FormatError
from snapdb.loading.batch import Batch
from snapdb.loading.batch_files import CONTAINERS, flatten, read, write
from snapdb.loading.walk_batch import WalkBatch
from snapdb.storage.manifests import Folder, FolderWriter, read_folder
from snapdb.types.text import counted


class BatchWriter:
    """Writes batches to a directory, one file per batch, on the calling threads."""

    def __init__(self, folder: FolderWriter, format_: str) -> None:
        self._folder, self._format = folder, format_
        self._schema: dict[str, str] = {}

    def __call__(self, batch: Batch | WalkBatch) -> int:
        """Write a batch's file and return its size in bytes."""
        flat = flatten(batch)
        epoch, number = batch.index
        name = f"epoch-{epoch}/batch-{number:06d}.{self._format}"
        with open(self._folder.file(name), "wb") as file:
            write(self._format, flat, file)
        # One schema describes every batch, because all batches of a stream have the same arrays.
        self._schema = {path: fact.type for path, fact in flat.arrays().items()}
        return self._folder.wrote(name, epoch=epoch, batch=number, seeds=batch.batch_size)

    def finish(self, lineage: Mapping[str, Any], epochs: int) -> None:
        """Publish the directory with its manifest once all batches are written."""
        self._folder.finish(
            {
                "kind": "batches",
                "file_format": self._format,
                "epochs": epochs,
                "schema": self._schema,
                "lineage": dict(lineage),
            }
        )


@document_attributes
class BatchFolder(Dataset[Batch]):
    """The batches of an exported directory, epoch by epoch, byte for byte as the stream yielded them.

    The items are `Batch`, or `WalkBatch` for random walks, although the static type is `Batch`.

    It is a map-style torch Dataset. Pass it to a DataLoader with `batch_size=None`, shuffled or not, with any number of
    workers. `read_batches` opens it.
    """

    lineage: Mapping[str, Any]
    """The lineage of the exported stream. `snapdb.replay` rebuilds its batches from the database."""

    def __init__(self, folder: Folder, *, verify: bool = True) -> None:
        """List the batches in a directory. Call `read_batches` instead of this constructor.

        Args:
            folder: The directory with its manifest.
            verify: Whether to compare each file with its SHA-256 when it is read.

        Raises:
            CorruptError: The manifest is damaged.
            FormatError: A newer snapdb wrote the files.
        """
        self._folder, self._verify = folder, verify
        self._format = str(folder.manifest.get("file_format"))
        if self._format not in CONTAINERS:
            raise FormatError(
                f"{folder.path} has files of format {self._format!r}; this snapdb reads {', '.join(CONTAINERS)}",
                code="newer-format",
            )
        places = {_place(facts): name for name, facts in folder.files.items()}
        lineage = folder.manifest.get("lineage")
        if None in places or len(places) < len(folder.files) or not isinstance(lineage, Mapping):
            raise CorruptError(
                f"the manifest of {folder.path} does not list the files of batches; export it again",
                code="damaged-file",
            )
        self.lineage = lineage
        self._places = sorted(place for place in places if place)
        self._names = [places[place] for place in self._places]

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The content of the directory's manifest.json."""
        return self._folder.manifest

    @property
    def epochs(self) -> list[int]:
        """The numbers of the epochs in the directory, in ascending order."""
        return sorted({epoch for epoch, _ in self._places})

    def epoch(self, number: int) -> BatchFolder:
        """Return the batches of one epoch.

        Raises:
            IndexError: The directory has no such epoch.
        """
        if number not in self.epochs:
            raise IndexError(
                f"epoch {number} does not exist: the folder has {', '.join(map(str, self.epochs)) or 'none'}"
            )
        files = {name: facts for name, facts in self._folder.files.items() if facts["epoch"] == number}
        return BatchFolder(self._folder._replace(files=files), verify=self._verify)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Batch:
        """Return the batch at an index, which starts at 0 and counts over all epochs.

        Raises:
            CorruptError: The file is missing or damaged.
            IndexError: The directory has fewer batches.
        """
        if isinstance(index, bool) or not isinstance(index, int):
            raise TypeError(f"the index of a batch must be a non-negative integer, found {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"batch {index} does not exist: there are {len(self)} (numbered from 0)")
        name = self._names[index]
        content = self._folder.checked(name, digest=self._verify)
        try:
            batch = read(self._format, content).restored()
        except Exception as error:  # a parser can raise any exception for damaged bytes
            raise CorruptError(
                f"{self._folder.path / name} is not a valid {self._format} file of a batch; export it again",
                code="damaged-file",
            ) from error
        if batch.index != self._places[index]:
            raise CorruptError(
                f"{self._folder.path / name} contains batch {batch.index[1]} of epoch {batch.index[0]}; export it "
                "again",
                code="damaged-file",
            )
        return cast("Batch", batch)  # as in streams, whose static type is also that of neighbourhoods

    def __iter__(self) -> Iterator[Batch]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        epochs = counted(len(self.epochs), "epoch")
        return f"BatchFolder({counted(len(self), 'batch', 'batches')} of {epochs} in {self._folder.path})"


def read_batches(path: str | os.PathLike[str], *, verify: bool = True) -> BatchFolder:
    """Open a directory of batches written by COPY (SAMPLE … | WALK …) TO or `snapdb export`. No database is needed.

    Args:
        path: The directory.
        verify: Whether to compare each file with the SHA-256 in the manifest when it is read.

    Returns:
        The batches. Each batch is read when it is indexed.

    Raises:
        InputError: The directory does not exist or contains no batches.
        FormatError: The directory was written by a newer snapdb.
        CorruptError: The manifest is damaged. If a batch file is damaged, indexing raises the error.
    """
    return BatchFolder(read_folder(path, "batches"), verify=verify)


def _place(facts: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return a file's (epoch, batch), or None if its metadata does not contain them."""
    epoch, number = facts.get("epoch"), facts.get("batch")
    if type(epoch) is not int or type(number) is not int or min(epoch, number) < 0:
        return None
    return epoch, number
