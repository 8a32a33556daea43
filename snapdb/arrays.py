"""Type aliases of numpy arrays by dtype. Functions that use them document the shapes."""

from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInt64s = npt.NDArray[np.uint64]
"""Unsigned integers, or bitmaps with 64 bits per word."""
UInt8s = npt.NDArray[np.uint8]
Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
"""An array of any dtype."""
