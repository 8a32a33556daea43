"""Dense ids and edge ids beyond 2^31: by construction, for no machine has the memory to fill them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from snapdb.storage.arrays.patches import write_patch
from tests.support.inside.graph import rows_adjacency
from tests.support.inside.kernels import select_edges
from tests.support.inside.storage import EdgeArrays, build_patch, build_rows, read_patch, read_rows, write_merged

pytestmark = pytest.mark.slow

WIDE = 2**31 + 1000
FAR = 2**31 + np.array([7, 3, 900, 3], np.int64)
IDS = 2**33 + np.arange(4, dtype=np.int64)


def test_rows_patches_and_merges_keep_ids_past_two_billion(tmp_path: Path) -> None:
    near, time = np.array([2, 0, 2, 1]), np.array([5, 6, 6, 7])
    batch = {"source": FAR, "destination": near, "e_id": IDS, "time": time}
    facts = build_rows([pa.RecordBatch.from_pydict(batch)], 3, WIDE, 4, 2**34, tmp_path)
    root = read_rows(tmp_path)
    assert (facts["edges"], root.indices.dtype, root.edge_id.dtype) == (4, np.int64, np.int64)
    assert root.indices.tolist() == FAR[[1, 3, 0, 2]].tolist()
    assert root.edge_id.tolist() == IDS[[1, 3, 0, 2]].tolist()

    late = np.array([2**31 + 999])
    one = np.array([2])
    added = EdgeArrays(late, one, IDS[-1:] + 1, np.array([5]), None)
    gone = EdgeArrays(FAR[1:2], near[1:2], IDS[1:2], time[1:2], None)
    patch = build_patch(root, None, gone, added, 3, WIDE)
    (tmp_path / "patch").mkdir()
    write_patch(patch, tmp_path / "patch")
    patched = rows_adjacency(root, read_patch(tmp_path / "patch", root))
    flat = patched.flat()
    assert flat.indices.tolist() == [FAR[3], FAR[0], late[0], FAR[2]]
    assert flat.edge_id.tolist() == [IDS[3], IDS[0], IDS[3] + 1, IDS[2]]

    kept = select_edges(patched.rows, time=patched.time, start=5, stop=6)
    assert (kept.degrees.tolist(), kept.edges, kept.prefix) == ([0, 0, 2], 2, True)

    (tmp_path / "merged").mkdir()
    write_merged(root, patch, 3, tmp_path / "merged")
    assert read_rows(tmp_path / "merged").indices.tolist() == flat.indices.tolist()
