"""Binary arrays made of Python's bytes, without what ``pa.array`` imports when first called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kafkeep.errors import RecordError


def binary_array(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Return the values as one array; RecordError when they are 2 GiB or more."""
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise RecordError(f"{offsets[-1]} bytes do not fit into one column")
    data = b"".join(value for value in values if value is not None)
    present = np.array([value is not None for value in values], dtype=bool)
    valid = np.packbits(present, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (valid, offsets.astype(np.int32), data)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
