"""Types of numpy arrays by their dtype; the functions that take them say which shapes."""

from typing import Any

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInt64s = npt.NDArray[np.uint64]
"""Numbers without a sign, or bitmaps of 64 bits a word."""
UInt8s = npt.NDArray[np.uint8]
Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]
"""Of any dtype."""
