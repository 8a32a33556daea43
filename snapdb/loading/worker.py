"""Which DataLoader worker this process is."""

from torch.utils.data import get_worker_info

from snapdb.loading.shares import Sharing


def place_among_workers() -> tuple[int, int]:
    """(number, how many) of the processes that share a rank's batches; (0, 1) outside DataLoader workers."""
    worker = get_worker_info()
    return (0, 1) if worker is None else (worker.id, worker.num_workers)


def worker_of(sharing: Sharing) -> dict[str, int] | None:
    """The worker among those of all ranks, as a stream's state says it; None outside DataLoader workers."""
    worker = get_worker_info()
    if worker is None:
        return None
    ranks = {"rank": sharing.rank, "world_size": sharing.world_size}
    return {"id": worker.id, "num_workers": worker.num_workers, **ranks}
