"""Two processes that train one model together read each batch once, equally many, and end with the same weights."""

from __future__ import annotations

import pytest

from tests.support.examples import example
from tests.support.thoroughness import SOAK


@pytest.mark.parametrize("uneven", ["pad", "drop_last"] if SOAK else ["pad"])
def test_ranks_that_train_together_share_each_batch_and_end_with_the_same_weights(uneven: str) -> None:
    figures = example("ddp")(["--uneven", uneven, "--epochs", "3"])
    assert figures["same weights"]
    assert figures["accuracy"] >= 0.8
    assert len({len(seen) for seen in figures["seen"]}) == 1
    once = [(epoch, number) for seen in figures["seen"] for epoch, number, padding in seen if not padding]
    left_out = 0 if uneven == "pad" else figures["batches"] % 2
    assert sorted(once) == [(epoch, number) for epoch in range(3) for number in range(figures["batches"] - left_out)]
    assert sum(padding for seen in figures["seen"] for _, _, padding in seen) == (3 if uneven == "pad" else 0)
