"""Where the parts of JSON texts are: columns of spans, taken apart level by level.

The texts are valid: ``check_texts`` has seen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.data import json_members as members
from kafkeep.data.json_arrow import gather, view_binary
from kafkeep.kernel import Bytes, Int64s, view_bytes


class FieldKind(IntEnum):
    """What stands in a span."""

    MISSING = members.MISSING
    NULL = members.NULL
    FALSE = members.FALSE
    TRUE = members.TRUE
    NUMBER = members.NUMBER
    STRING = members.STRING
    OBJECT = members.OBJECT
    ARRAY = members.ARRAY


@dataclass(frozen=True, slots=True)
class FieldSpans:
    """One JSON value for each row: bytes ``[start, end)`` of ``data``, and a ``FieldKind``.

    Strings have their quotes. What is missing has an empty span; a null row is missing.
    """

    data: Bytes
    starts: Int64s
    ends: Int64s
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.starts)

    def texts(self) -> pa.Array:
        """Return the raw texts as binary; null where missing."""
        return gather(self.data, self.starts, self.ends, self.kinds != members.MISSING)

    def where(self, rows: NDArray[np.bool_] | Int64s | slice) -> FieldSpans:
        """Return some of the rows."""
        return FieldSpans(self.data, self.starts[rows], self.ends[rows], self.kinds[rows])


def _empty(data: Bytes, rows: int) -> FieldSpans:
    starts, ends = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    return FieldSpans(data, starts, ends, np.zeros(rows, dtype=np.uint8))


def find_documents(texts: pa.Array) -> FieldSpans:
    """Return the documents themselves, without the white space around them."""
    view = view_binary(texts)
    spans = _empty(view.data, len(view))
    members.find_documents(
        view.data, view.offsets, view.valid, view.first, spans.starts, spans.ends, spans.kinds
    )
    return spans


def find_fields(texts: pa.Array, path: Sequence[str]) -> FieldSpans:
    """Return the values at a path of object keys, one in another.

    Keys are compared as text, not as it is escaped; of equal keys the last one counts.
    """
    spans = find_documents(texts)
    for name in path:
        spans = split_objects(spans, [name])[0]
    return spans


def field_texts(texts: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return the raw JSON texts at a path as binary, null where there is none."""
    return find_fields(texts, path).texts()


def split_objects(spans: FieldSpans, names: Sequence[str]) -> list[FieldSpans]:
    """Return the values under each of the names; missing too where the row is no object."""
    keys = [name.encode("utf-8", "surrogatepass") for name in names]
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum([len(key) for key in keys], out=offsets[1:])
    shape = (len(keys), len(spans))
    starts, ends = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    kinds = np.zeros(shape, dtype=np.uint8)
    members.split_objects(
        spans.data, spans.starts, spans.ends, spans.kinds,
        view_bytes(b"".join(keys)), offsets, starts, ends, kinds,
    )  # fmt: skip
    return [FieldSpans(spans.data, starts[i], ends[i], kinds[i]) for i in range(len(keys))]


def find_changes(spans: FieldSpans) -> NDArray[np.bool_]:
    """Mark each text that differs from the one before, missing ones left out of account."""
    changed = np.zeros(len(spans), dtype=np.bool_)
    members.mark_changes(spans.data, spans.starts, spans.ends, spans.kinds, changed)
    return changed


def count_members(spans: FieldSpans) -> Int64s:
    """Return how many members each object or array has (equal keys counted each), else 0."""
    counts = np.zeros(len(spans), dtype=np.int64)
    members.count_members(spans.data, spans.starts, spans.ends, spans.kinds, counts)
    return counts


def split_members(spans: FieldSpans) -> tuple[Int64s, FieldSpans, FieldSpans]:
    """Return offsets as of an Arrow list, keys and values of all members of arrays and objects.

    Keys of an array's members are missing.
    """
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(count_members(spans), out=offsets[1:])
    keys = _empty(spans.data, int(offsets[-1]))
    values = _empty(spans.data, int(offsets[-1]))
    members.split_members(
        spans.data, spans.starts, spans.ends, spans.kinds, offsets,
        keys.starts, keys.ends, keys.kinds, values.starts, values.ends, values.kinds,
    )  # fmt: skip
    return offsets, keys, values
