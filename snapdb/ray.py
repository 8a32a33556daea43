"""Ray: training, jobs over batches, queries and inference on several machines.

    import snapdb.ray

    trainer = snapdb.ray.trainer(loop, "s3://bucket/shop", "train", workers=8, gpus=True)
    result = trainer.fit()

Each worker opens the published database on its own machine, and fetches only what it reads (docs/publishing.md). Ray
carries the numbers of batches, not the batches: any worker builds any batch, bit for bit as a single stream does.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from snapdb import train
from snapdb.database import Database, connect
from snapdb.errors import BindError, InputError
from snapdb.execute.samples.infer import Inference, OpenInference, open_inference
from snapdb.loading import Batch, BatchStream
from snapdb.loading.source import Sharing
from snapdb.plan.queries import Parameters
from snapdb.remote import is_url

if TYPE_CHECKING:
    from snapdb.arrays import Array
    from snapdb.train.layerwise import BatchStates

_STATE = "stream.json"
"""The file of a checkpoint with the position of the stream."""


def _package(name: str = "ray") -> Any:
    """Return a package of Ray.

    Raises:
        InputError: Ray is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"snapdb.ray needs {name}; install it with: pip install 'snapdb[ray]'", code="needs-extra"
        ) from error


@dataclass(frozen=True, slots=True)
class _Source:
    """A database that workers open."""

    place: str
    """The URL of a published database, or the path of a database that every machine can read."""
    cache: str | None = None
    cache_size: int | str | None = None

    def open(self) -> Database:
        """Open the database read-only."""
        if is_url(self.place):
            return connect(self.place, cache=self.cache, cache_size=self.cache_size)
        return connect(self.place, read_only=True)


def _source(place: str | Path, cache: str | Path | None, cache_size: int | str | None) -> _Source:
    text = str(place) if is_url(str(place)) else str(Path(place).absolute())
    return _Source(text, None if cache is None else str(Path(cache).absolute()), cache_size)


def rank() -> dict[str, int]:
    """Return the arguments of `db.stream` for this worker of a Ray Train run: its rank and the number of workers.

    Examples:
        stream = db.stream("train", **snapdb.ray.rank(), pad=True)

    Raises:
        InputError: The code does not run in a worker of Ray Train.
    """
    ray_train = _package("ray.train")
    try:
        context = ray_train.get_context()
        return {"rank": int(context.get_world_rank()), "world_size": int(context.get_world_size())}
    except Exception as error:  # Ray raises different errors, depending on its version
        raise InputError(
            "snapdb.ray.rank() works only in the training function of a Ray Train worker; elsewhere, pass rank and "
            "world_size to db.stream",
            code="no-ray-worker",
        ) from error


@dataclass(frozen=True, slots=True)
class _Loop:
    """The training function of a worker."""

    loop: Callable[[BatchStream[Batch], dict[str, Any]], None]
    source: _Source
    sampler: str
    threads: int | None
    gpus: bool
    pad: bool
    resume: Any

    def __call__(self, config: dict[str, Any]) -> None:
        """Open this worker's stream, resume it at the checkpoint if there is one, and run the loop."""
        # Ray sets OMP_NUM_THREADS to 1, unless the worker has several CPUs.
        threads = self.threads or _worker_cpus()
        torch.set_num_threads(threads)
        device = str(_package("ray.train.torch").get_device()) if self.gpus else None
        options: dict[str, Any] = {**rank(), "pad": self.pad, "threads": threads, "device": device}
        with self.source.open() as db, db.stream(self.sampler, **options) as stream:
            if (checkpoint := _package("ray.train").get_checkpoint() or self.resume) is not None:
                with checkpoint.as_directory() as folder:
                    path = Path(folder) / _STATE
                    if path.exists():
                        stream.load_state_dict(json.loads(path.read_text()))
            self.loop(stream, config)


def _worker_cpus() -> int:
    resources = _package().get_runtime_context().get_assigned_resources()
    return max(1, int(resources.get("CPU", 1)))


def trainer(
    loop: Callable[[BatchStream[Batch], dict[str, Any]], None],
    place: str | Path,
    sampler: str,
    *,
    workers: int | tuple[int, int] = 1,
    gpus: bool = False,
    threads: int | None = None,
    pad: bool = True,
    resume: Any = None,
    config: Mapping[str, Any] | None = None,
    cache: str | Path | None = None,
    cache_size: int | str | None = None,
    scaling: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return a `ray.train.torch.TorchTrainer` in which each worker trains on its share of a sampler's batches.

    Args:
        loop: The training function, `loop(stream, config)`. Iterating over the stream yields the batches of an epoch
            that belong to this worker. Call `report` to save a checkpoint from which a restarted run resumes, also with
            another number of workers.
        place: The URL of a published database, or the path of a database that all machines can read.
        sampler: The name of a sampler, or a SAMPLE statement.
        workers: The number of workers. Pass (least, most) for an elastic run.
        gpus: Whether each worker has a GPU, to which its stream copies batches.
        threads: The number of threads of each worker, for batches and for torch. Defaults to the CPUs of the worker.
        pad: Whether ranks repeat batches so that all of them have equally many, which DistributedDataParallel needs.
        resume: A `ray.train.Checkpoint` of an earlier run, from whose position in the epoch this run continues. The
            number of workers may differ.
        config: Passed to `loop`.
        cache: The directory of fetched files on each machine. See `snapdb.connect`.
        cache_size: The maximum size of these files. See `snapdb.connect`.
        scaling: Other arguments of `ray.train.ScalingConfig`, such as resources_per_worker.
        options: Other arguments of `TorchTrainer`, such as run_config.

    Raises:
        InputError: Ray is not installed.
    """
    ray_train, torch_trainer = _package("ray.train"), _package("ray.train.torch")
    return torch_trainer.TorchTrainer(
        _Loop(loop, _source(place, cache, cache_size), sampler, threads, gpus, pad, resume),
        train_loop_config=dict(config or {}),
        scaling_config=ray_train.ScalingConfig(num_workers=workers, use_gpu=gpus, **(scaling or {})),
        **options,
    )


def report(
    stream: BatchStream[Batch], metrics: Mapping[str, Any], save: Callable[[Path], object] | None = None
) -> None:
    """Report metrics to Ray Train, with a checkpoint of the stream's position.

    All workers must call it after equally many batches.

    Args:
        stream: This worker's stream.
        metrics: The metrics.
        save: Called in the worker with rank 0 with a directory, to add files such as the model's weights. After a
            restart, `ray.train.get_checkpoint()` returns them.
    """
    ray_train = _package("ray.train")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if rank()["rank"] == 0:
            (Path(folder) / _STATE).write_text(json.dumps(stream.state_dict()))
            if save is not None:
                save(Path(folder))
            checkpoint = ray_train.Checkpoint.from_directory(folder)
        ray_train.report(dict(metrics), checkpoint=checkpoint)


class _Maker:
    """An actor that builds batches by number, and applies a function to them."""

    def __init__(self, source: _Source, sampler: str, function: Callable[[Batch], Mapping[str, Any]]) -> None:
        self._db = source.open()
        self._stream = self._db.stream(sampler, threads=1)
        self._function = function
        self._batches = self._stream.batches

    def __call__(self, numbers: dict[str, Array]) -> dict[str, Array]:
        """Return the rows of the batches with these numbers, counted over all epochs."""
        parts: list[dict[str, Array]] = []
        for number in numbers["id"].tolist():
            epoch, index = divmod(number, self._batches)
            self._stream.set_epoch(epoch)
            parts.append(_columns(self._function(self._stream[index]), self._function))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _columns(result: Any, function: Callable[..., Any]) -> dict[str, Array]:
    """Return the result of a function as arrays of equal length."""
    if not isinstance(result, Mapping) or not result:
        raise InputError(
            f"{getattr(function, '__name__', 'the function')} returned {type(result).__name__}; it must return a dict "
            "of columns, such as {'id': ids, 'score': scores}",
            code="not-columns",
        )
    columns = {
        str(name): value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for name, value in result.items()
    }
    lengths = {name: len(values) if values.ndim else -1 for name, values in columns.items()}
    if len(set(lengths.values())) > 1 or -1 in lengths.values():
        shown = ", ".join(f"{name}: {'no rows' if many < 0 else many}" for name, many in lengths.items())
        raise InputError(f"the columns of a batch must have equally many rows, found {shown}", code="not-columns")
    return columns


def map(  # noqa: A001 -- snapdb.ray.map, as multiprocessing.Pool.map and ray.util.ActorPool.map
    place: str | Path,
    sampler: str,
    function: Callable[[Batch], Mapping[str, Any]],
    *,
    epochs: int = 1,
    workers: int = 1,
    per: int = 8,
    cache: str | Path | None = None,
    cache_size: int | str | None = None,
) -> Any:
    """Return a `ray.data.Dataset` with the rows that a function returns for each batch of a sampler.

    Args:
        place: The URL of a published database, or the path of a database that all machines can read.
        sampler: The name of a sampler, or a SAMPLE statement.
        function: Maps a batch to a dict of columns with equally many rows.
        epochs: The number of epochs.
        workers: The number of actors that build batches. The cluster needs one CPU more, for reading.
        per: The number of batches per call of an actor.
        cache: The directory of fetched files on each machine. See `snapdb.connect`.
        cache_size: The maximum size of these files. See `snapdb.connect`.

    Raises:
        InputError: Ray is not installed, the cluster has too few CPUs, or the sampler's batches depend on previous ones
            (SCOPE VISITED).
    """
    data, source = _package("ray.data"), _source(place, cache, cache_size)
    _check_cpus(workers)
    with source.open() as db, db.stream(sampler, threads=1) as stream:
        refresh = stream.spec.refresh
        if refresh is not None and refresh.visited:
            raise InputError(
                f"the batches of {sampler} depend on the batches before them (SCOPE VISITED), so they cannot be built "
                "in any order; use trainer, or another sampler",
                code="any-order",
            )
        batches = stream.batches
    return data.range(epochs * batches).map_batches(
        _Maker,
        batch_size=per,
        compute=data.ActorPoolStrategy(size=workers),
        fn_constructor_args=(source, sampler, function),
        num_cpus=1,
    )


def _check_cpus(workers: int) -> None:
    """Raise InputError if the cluster has no CPU besides those of the workers, because it would wait forever."""
    ray = _package()
    if not ray.is_initialized():
        ray.init()
    available = int(ray.cluster_resources().get("CPU", 0))
    if workers + 1 > available:
        raise InputError(
            f"{workers} workers and a reader need {workers + 1} CPUs, but the cluster has {available}; use fewer "
            "workers, or add machines",
            code="too-few-cpus",
        )


class _Query:
    """A query whose rows are read in one task."""

    def __init__(self, source: _Source, query: str, parameters: Parameters) -> None:
        self._source, self._query, self._parameters = source, query, parameters

    def __call__(self, _: Any) -> Iterator[pa.Table]:
        with self._source.open() as db:
            for batch in db.execute(self._query, self._parameters):
                yield pa.Table.from_batches([batch])


def dataset(
    place: str | Path,
    query: str,
    params: Parameters = None,
    *,
    cache: str | Path | None = None,
    cache_size: int | str | None = None,
) -> Any:
    """Return the rows of a query as a `ray.data.Dataset` of Arrow blocks. One task runs the query and streams its rows.

    Args:
        place: The URL of a published database, or the path of a database that all machines can read.
        query: A SELECT.
        params: The values of parameters.
        cache: The directory of fetched files on each machine. See `snapdb.connect`.
        cache_size: The maximum size of these files. See `snapdb.connect`.
    """
    data, source = _package("ray.data"), _source(place, cache, cache_size)
    with source.open() as db:
        db.execute(f"EXPLAIN {query}", params)  # reports errors now, instead of in a task
    reads = data.range(1, override_num_blocks=1)
    return reads.map_batches(_Query(source, query, params), batch_size=None, batch_format="pyarrow")


class _Layers:
    """An actor that computes a share of the batches of each pass."""

    def __init__(self, source: _Source, wanted: Inference, sharing: Sharing) -> None:
        self._db = source.open()
        self._open: OpenInference = open_inference(self._db._session, wanted)
        self._passes, self._sharing = self._open.passes, sharing

    def results(self, number: int, kind: str, before: Mapping[str, Array]) -> Iterator[BatchStates]:
        """Yield the states of this actor's batches."""
        with self._passes.layers.at_rest():
            yield from self._passes.results(number, kind, before, self._sharing)


def infer(
    place: str | Path,
    model: Any,
    snapshot: str,
    *,
    workers: int = 1,
    column: str = "embedding",
    node_type: str | None = None,
    layers: Sequence[Callable[[Batch, Any], Any]] | None = None,
    fanout: str | None = None,
    transform: Callable[[Any], Any] | None = None,
    batch: int = 1024,
    threads: int | None = None,
    gpus: bool = False,
    cache: str | Path | None = None,
    cache_size: int | str | None = None,
) -> train.Inferred:
    """Compute a model's output for every vertex of a snapshot, as `db.infer` does, with the batches shared by workers.

    The result is equal to that of `db.infer`. The states of a layer are in Ray's object store between the layers.

    Args:
        place: The URL of a published database, or the path of a database that all machines can read.
        model: See `Database.infer`. Ray sends it to the workers.
        snapshot: The name of the snapshot.
        workers: The number of workers.
        column: See `Database.infer`.
        node_type: See `Database.infer`.
        layers: See `Database.infer`.
        fanout: See `Database.infer`.
        transform: See `Database.infer`.
        batch: See `Database.infer`.
        threads: The number of threads of each worker. Defaults to 1.
        gpus: Whether each worker has a GPU, on which it computes.
        cache: The directory of fetched files on each machine. See `snapdb.connect`.
        cache_size: The maximum size of these files. See `snapdb.connect`.

    Raises:
        BindError: A name does not exist.
        InputError: Ray is not installed, or the model's layers do not return one row per seed.
    """
    ray, source = _package(), _source(place, cache, cache_size)
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"workers must be 1 or more, found {workers!r}")
    wanted = Inference(
        snapshot,
        node_type,
        train.Layers.of(model, layers),
        fanout,
        batch,
        None,
        False,
        column,
        transform,
        threads or 1,
        "cuda" if gpus else None,
    )
    actor = ray.remote(num_cpus=threads or 1, num_gpus=1 if gpus else 0)(_Layers)
    with source.open() as db:
        opened = open_inference(db._session, wanted)
        actors = [actor.remote(source, wanted, Sharing(number, workers)) for number in range(workers)]

        def run(number: int, kind: str, before: Mapping[str, Array]) -> Iterator[BatchStates]:
            states = ray.put(dict(before))
            streams = [each.results.options(num_returns="streaming").remote(number, kind, states) for each in actors]
            for stream in streams:
                for result in stream:
                    yield ray.get(result)

        try:
            return opened.inferred(run)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise (cause if isinstance(cause, InputError | BindError) else error) from None
        finally:
            for each in actors:
                ray.kill(each)
