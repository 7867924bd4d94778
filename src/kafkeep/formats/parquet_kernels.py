"""Loops for decimals: Connect's big-endian numbers of any length, Arrow's of 16 or 32 bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkeep.kernel import Bytes, kernel


@kernel
def widen_decimals(offsets: NDArray[np.int32], data: Bytes, out: Bytes) -> int:
    """Write each number as 16 bytes, little end first; return the first row that does not fit.

    -1 when all do. No bytes at all are the number 0.
    """
    for row in range(len(offsets) - 1):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        sign = np.uint8(0xFF) if end > start and data[start] >= 0x80 else np.uint8(0)
        for i in range(16):
            out[16 * row + i] = data[end - 1 - i] if end - i > start else sign
        for i in range(start, end - 16):
            if data[i] != sign:
                return row
        if end - start > 16 and (data[end - 16] >= 0x80) != (sign != 0):
            return row
    return -1


@kernel
def narrow_decimals(wide: Bytes, width: int, offsets: NDArray[np.int32], out: Bytes) -> None:
    """Write each number of ``width`` bytes, little end first, in as few as Connect does."""
    at = np.int64(0)
    for row in range(len(offsets) - 1):
        offsets[row] = at
        size = width
        sign = np.uint8(0xFF) if wide[width * row + width - 1] >= 0x80 else np.uint8(0)
        while (
            size > 1
            and wide[width * row + size - 1] == sign
            and (wide[width * row + size - 2] >= 0x80) == (sign != 0)
        ):
            size -= 1
        for i in range(size):
            out[at + i] = wide[width * row + size - 1 - i]
        at += size
    offsets[len(offsets) - 1] = at
