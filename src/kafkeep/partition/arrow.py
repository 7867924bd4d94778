"""Arrow's results as numpy arrays; Arrow's own way there would import pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkeep.partition.distinct import Int64s


def true_rows(mask: pa.BooleanArray) -> Int64s:
    """Return the rows where a mask is true."""
    return numbers(pc.indices_nonzero(mask), np.int64)


def codes_of(encoded: pa.DictionaryArray) -> Int64s:
    """Return the place of each row in the dictionary."""
    return numbers(encoded.indices, np.int32)


def numbers(array: pa.Array, stored: type[np.integer]) -> Int64s:
    """Return whole numbers, stored in that type, as int64; where null, any number."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.zeros(len(array), np.int64)
    values: NDArray[np.integer] = np.frombuffer(buffer, stored)
    return values[array.offset :][: len(array)].astype(np.int64)


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """Return bytes as Arrow's own value."""
    ends = np.array([0, len(value)], np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]
