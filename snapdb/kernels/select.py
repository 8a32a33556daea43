"""The edges of a row with the smallest scores, found by one pass over them with a heap of the best so far."""

from snapdb.arrays import Int64s, UInt64s
from snapdb.kernels.compiled import kernel


@kernel
def comes_first(scores: UInt64s, ties: Int64s, one: int, other: int) -> bool:
    """Whether edge `one` of a row comes before edge `other`: by score, tie and rank."""
    if scores[one] != scores[other]:
        return bool(scores[one] < scores[other])
    if ties[one] != ties[other]:
        return bool(ties[one] < ties[other])
    return one < other


@kernel
def nth_smallest(scores: UInt64s, ties: Int64s, count: int, n: int, heap: Int64s) -> int:
    """The rank of the edge that comes n-th of `count` ≥ n ≥ 1; `heap` has room for n."""
    for i in range(n):
        heap[i] = i
    for root in range(n // 2 - 1, -1, -1):
        _sink(scores, ties, heap, root, n)
    for i in range(n, count):
        if comes_first(scores, ties, i, heap[0]):
            heap[0] = i
            _sink(scores, ties, heap, 0, n)
    return int(heap[0])


@kernel
def _sink(scores: UInt64s, ties: Int64s, heap: Int64s, place: int, size: int) -> None:
    """Restores a heap whose last comes first, where only heap[place] may be out of place."""
    edge = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and comes_first(scores, ties, heap[child], heap[child + 1]):
            child += 1
        if not comes_first(scores, ties, edge, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = edge
