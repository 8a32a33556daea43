"""What rows cost in variance: draws from one row have neighbours in common, so that they tell less than fresh ones."""

import numpy as np

from snapdb.arrays import Float64s, Int64s

_Numbers = int | float | Int64s | Float64s


def _draw_correlation(degree: _Numbers, size: int, fanout: int, kept: int | None = None) -> Float64s:
    """The correlation of the means of two draws from one row of a node of so many edges.

    A draw of `fanout` takes `kept` edges from the row's `size` and the others from outside of these; None: all of them
    from the row. A node without more edges than the fanout is drawn whole, without any variance: its correlation is 0.

    >>> [_draw_correlation(40, size, 10).item() for size in (20, 40)], _draw_correlation(40, 20, 10, 0).item()
    ([0.3333333333333333, 0.0], 0.0)
    """
    degrees = np.atleast_1d(np.asarray(degree, np.float64))
    kept, drawn = fanout if kept is None else kept, degrees > fanout
    many = np.where(drawn, degrees, fanout + 1.0)
    row = np.minimum(size, many)
    towards = kept / fanout * (many - fanout) / (many - kept)
    found: Float64s = np.where(drawn, towards**2 * (1 / row - 1 / many) / (1 / fanout - 1 / many), 0.0)
    return found


def variance_factor(degree: _Numbers, size: int, fanout: int, draws: _Numbers, kept: int | None = None) -> Float64s:
    """How many times the variance of the mean over so many draws of one row is that of as many draws by FBL.

    The mean of draws x₁ … xₙ of variance V and correlation r has the variance V / n · (1 + (n-1) r); FBL's are
    independent.

    >>> round(variance_factor(40, 20, 10, 20).item(), 2)
    7.33
    """
    pairs = np.maximum(np.asarray(draws, np.float64) - 1, 0)
    found: Float64s = 1 + pairs * _draw_correlation(degree, size, fanout, kept)
    return found
