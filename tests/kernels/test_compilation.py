"""Progress of compilation: reported once per block, when kernels are compiled for long."""

from __future__ import annotations

import pytest
from numba import njit

from tests.support.inside.kernels import COMPILING, kernel, reporting_compilation


@kernel
def _twice(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize(("patience", "reports"), [(0.0, [(COMPILING, None)]), (60.0, [])])
def test_long_compilation_is_reported_once(
    patience: float, reports: list[tuple[str, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snapdb.kernels.compilation._PATIENCE", patience)
    received: list[tuple[str, float | None]] = []
    with reporting_compilation(lambda what, share: received.append((what, share))):
        plain = njit(lambda number: _twice(number) + 1)  # numba has nowhere to cache it
        assert (plain(3), plain(4.0)) == (7, 9.0)
    assert received == reports
    njit(lambda number: _twice(number) + 2)(1)
    assert received == reports


def test_one_variant_serves_all_integers_that_kernels_pass() -> None:
    both = njit(lambda number: _twice(number) + _twice(3) + _twice(4))
    assert both(2) == 18
    assert both.py_func(2) == 18
