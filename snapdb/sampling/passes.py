"""A relation for someone who goes through it once, from the first node to the last."""

from dataclasses import replace

from snapdb.sampling.walks import Walk
from snapdb.storage.array_files import in_order


def for_one_pass(walk: Walk) -> Walk:
    """The same relation, whose large files are read ahead: batches read them at random places."""
    arrays, rows = walk.arrays, walk.arrays.rows
    rows = rows._replace(indptr=in_order(rows.indptr), indices=in_order(rows.indices))
    arrays = arrays._replace(rows=rows, id_root=in_order(arrays.id_root), weight_root=in_order(arrays.weight_root))
    return replace(walk, arrays=arrays)
