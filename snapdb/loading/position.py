"""The positions of a stream's consumer, which are saved and resumed, and the lineage that identifies a batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, TypeGuard

from snapdb.errors import InputError
from snapdb.graph.view import GraphView
from snapdb.loading.source import Share
from snapdb.release import __version__
from snapdb.sampling import Seeds
from snapdb.types import RNG_SCHEME, RandomWalk, Refresh, SampleSpec
from snapdb.types.sampling import ZeroWeight


def stream_lineage(
    view: GraphView, spec: SampleSpec, seeds: str, rules: Mapping[str, Any], epoch: int, zeros: ZeroWeight | None = None
) -> dict[str, Any]:
    """Return the lineage of an epoch's batches as plain JSON values.

    Args:
        view: The snapshot.
        spec: The bound statement.
        seeds: The digest of the seed set.
        rules: The rules against which `audit` checks batches.
        epoch: The epoch number.
        zeros: The sampler's `zero_weight`.
    """
    return {
        **view.lineage,
        "sampler": spec.text,
        "seeds": seeds,
        "rng": RNG_SCHEME,
        "seed": spec.seed,
        "generation": spec.generation,
        # Newer entries are omitted if they have the old default, so that lineages are comparable across releases.
        **({} if zeros is None else {"zero_weight": zeros}),
        **({} if spec.ids == "int64" else {"ids": spec.ids}),
        "epoch": epoch,
        "rules": dict(rules),
        "snapdb": __version__,
    }


_WALKS: Mapping[str, Any] = {"walk": None, "by_walks": None}
"""The entries that only states of walks, or of samples by walks, contain."""
_LATER = {"refresh": None, "generation": 0, "zero_weight": None, **_WALKS}
"""The values of fields that are missing from the states of older releases."""
_PINNED = ("snapshot", "graph", "version", "window", "definition")
"""The entries of a view's lineage that identify its snapshot."""


@dataclass(frozen=True, slots=True)
class Position:
    """A consumer's position: the epoch, and the number of batches taken from it."""

    epoch: int = 0
    """The epoch number."""
    start: int = 0
    """The number of batches that all ranks consumed before the remaining batches were divided among them."""
    taken: int = 0
    """The number of batches that the consumer has taken from its share of the remaining batches."""
    begun: bool = False
    """Whether an iteration of this epoch has begun. If so, the next iteration yields the next epoch."""
    ended: bool = False
    """Whether the iteration of this epoch has ended."""

    @property
    def starts(self) -> bool:
        """Whether this is the start of an epoch."""
        return not self.start and not self.taken

    def following(self) -> Position:
        """Return the position at which the next iteration begins."""
        return Position(self.epoch + 1) if self.begun else self

    def saved(self, share: Share, worker: Mapping[str, int] | None) -> dict[str, Any]:
        """Return the position as plain JSON values.

        Args:
            share: The rank's share of the epoch.
            worker: The DataLoader worker that is the consumer. A worker's position does not determine the positions of
                the other workers.
        """
        consumed = share.consumed(self.taken) if worker is None else self.start
        # The end of an epoch is saved as the start of the next epoch, so that resuming never yields an empty epoch.
        over = self.ended or (worker is None and 0 < consumed == share.stop)
        place = {"epoch": self.epoch + 1, "consumed": 0} if over else {"epoch": self.epoch, "consumed": consumed}
        return place if worker is None else {**place, "worker": {**worker, "taken": 0 if over else self.taken}}


def identity(view: GraphView, seeds: Seeds, spec: SampleSpec, zeros: ZeroWeight | None) -> dict[str, Any]:
    """Return everything that must be equal in two streams for them to yield the same batches, as plain JSON values.

    `zeros` is their samplers' `zero_weight`, which also depends on the snapshot's weights.
    """
    drawing = {name: value for name, value in asdict(spec.drawing).items() if name != "zero_weight"}
    values = {
        "rng": RNG_SCHEME,
        "snapshot": {name: view.lineage.get(name) for name in _PINNED},
        "seeds": seeds.digest(),
        "seed_type": spec.seed_type,
        "fanouts": [[*fanout.edge, fanout.direction, fanout.counts] for fanout in spec.fanouts],
        "batch_size": spec.batch_size,
        "seed": spec.seed,
        "order": spec.order,
        "drawing": drawing,
        "temporal": None if spec.temporal is None else asdict(spec.temporal),
        "link": None if spec.link is None else asdict(spec.link),
        "subset": None if spec.subset is None else str(spec.subset),
        "layout": spec.layout,
        "reuse_hops": spec.reuse_hops,
        "refresh": None if spec.refresh is None else _plain(spec.refresh),
        "generation": 0 if spec.refresh is None else spec.generation,
        "zero_weight": zeros,
        # States of samples keep the entries that they had before there were walks.
        **({} if spec.walk is None else {"walk": _plain(spec.walk)}),
        **({} if spec.visits is None else {"by_walks": {"walk": _plain(spec.visits.walk), "tops": spec.visits.tops}}),
    }
    # A round trip through JSON converts tuples to lists, so that a new identity equals a saved one.
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _plain(clauses: Refresh | RandomWalk) -> dict[str, Any]:
    """Return the clauses of REFRESH or WALK as plain JSON values, with fractions as text."""
    values = asdict(clauses).items()
    return {name: str(value) if isinstance(value, Fraction) else value for name, value in values}


def loaded(
    state: Mapping[str, Any],
    expected: Mapping[str, Any],
    batches_in: Callable[[int], int],
    worker: Mapping[str, int] | None,
) -> Position:
    """Return the position in a saved state, for a stream with this identity.

    Raises:
        InputError: The state belongs to another stream or another DataLoader worker, or is not a state.
    """
    if not isinstance(state, Mapping):
        raise _refused(f"the state of a stream must be a value that state_dict() returned, found {state!r:.60}")
    said = {**_LATER, **state}
    for name, here in {**_WALKS, **expected}.items():
        if name not in said:
            raise _refused(f"the state of a stream must be a value that state_dict() returned, but it has no {name!r}")
        if said[name] != here:
            raise _refused(
                f"this state is from another stream: its {name} is {said[name]!r}, but {here!r} here; open the "
                f"stream with the same arguments, or start again{_going_on(name, said, here)}"
            )
    # States of older releases have `world_size`, because each rank counted its own batches.
    epoch, consumed, ranks = state.get("epoch"), state.get("consumed"), state.get("world_size", 1)
    if not (_epoch(epoch) and _count(consumed) and _count(ranks)):
        raise _refused(f"this state is damaged: epoch {epoch!r}, {consumed!r} batches consumed")
    start = consumed if ranks == 1 else min(consumed * ranks, batches_in(epoch))
    if start > batches_in(epoch):
        raise _refused(f"this state is damaged: {start} of {batches_in(epoch)} batches consumed")
    return Position(epoch, start, _taken(state.get("worker"), worker))


def _going_on(name: str, said: Mapping[str, Any], here: Any) -> str:
    """Return the remedy if the snapshot was published again, or if edges of weight 0 are no longer drawn."""
    then = said[name]
    if name == "zero_weight" and then is None:
        return (
            "; it was saved by a version that returned edges of weight 0 for nodes with few edges: "
            "set_epoch(n) starts an epoch without them"
        )
    if name != "snapshot" or not isinstance(then, Mapping) or then.get("snapshot") != here["snapshot"]:
        return ""
    if not _epoch(epoch := said.get("epoch")):
        return ""
    if not said.get("consumed"):
        return f"; the snapshot has since been published again: set_epoch({epoch}) starts that epoch on the new version"
    return (
        f"; the snapshot has since been published again, and the rest of epoch {epoch} is lost: set_epoch({epoch + 1}) "
        "starts the next epoch on the new version"
    )


def _taken(of: Any, worker: Mapping[str, int] | None) -> int:
    """Return the number of batches that a DataLoader worker took from its share, according to its own saved state."""
    if of is None:
        return 0
    if not isinstance(of, Mapping) or not _count(of.get("taken")):
        raise _refused(f"this state is damaged: its worker is {of!r}")
    if worker is None or {**worker, "taken": of["taken"]} != of:
        raise _refused(
            f"this state is from {_named(of)}, but this is {_named(worker)}; load it with the same number of workers "
            "and ranks, "
            "or save stream.state_dict(consumed=…) in the loop, which works with any number of them"
        )
    return int(of["taken"])


def _named(worker: Mapping[str, Any] | None) -> str:
    """Return a description of a DataLoader worker for messages."""
    if worker is None:
        return "no DataLoader worker"
    names = ("id", "num_workers", "rank", "world_size")
    return "DataLoader worker {} of {} on rank {} of {}".format(*(worker.get(name) for name in names))


def checked_epoch(epoch: int) -> int:
    """Return the epoch if it is valid.

    Raises:
        ValueError: It is not a valid epoch number.
    """
    if not _epoch(epoch):
        raise ValueError(f"an epoch must be an integer from 0 to 2^31 - 1, found {epoch!r}")
    return epoch


def checked_count(consumed: int, share: Share) -> int:
    """Return the number of batches that a loop took from its rank's share, if it is valid.

    Raises:
        ValueError: It is not a number, or the share has fewer batches.
    """
    most = len(share.places)
    if not _count(consumed) or consumed > most:
        raise ValueError(
            f"consumed, the number of batches that this rank used, must be from 0 to {most}, found {consumed!r}"
        )
    return consumed


def _epoch(value: Any) -> TypeGuard[int]:
    """Return whether a value is a valid epoch number."""
    return _count(value) and value < 2**31


def _count(value: Any) -> TypeGuard[int]:
    """Return whether a value is a non-negative integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _refused(message: str) -> InputError:
    return InputError(message, code="stream-state")
