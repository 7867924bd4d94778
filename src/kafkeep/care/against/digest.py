"""Records as numbers that are equal when they are: what is kept of streams that have parted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkeep.data.arrow_parts import view_numbers, view_offsets
from kafkeep.kernel import Int64s

FIELDS = ("timestamp", "key", "value", "headers")
"""What is compared of a record, and the columns of ``Rows.parts``."""
KEY, VALUE = FIELDS.index("key"), FIELDS.index("value")
NOTHING = 0
"""The part of a key or value that is null, and of a field that is left out."""

Digests = NDArray[np.uint64]
_SECRET = os.urandom(16)
"""Nobody can make two records that are taken for one: it is new in each process."""
_WEIGHTS: Digests = np.frombuffer(os.urandom(8 * len(FIELDS)), dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records of one stream: a digest of each, of each of its fields, and its offset."""

    digests: Digests
    parts: Digests
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.digests)

    def pick(self, which: Any) -> Rows:
        """Return the rows that a slice, a mask or numbers pick."""
        return Rows(self.digests[which], self.parts[which], self.offsets[which])


NO_ROWS = Rows(np.empty(0, np.uint64), np.empty((0, len(FIELDS)), np.uint64), np.empty(0, np.int64))


def join_rows(several: Iterable[Rows]) -> Rows:
    """Put rows behind one another."""
    found = [rows for rows in several if len(rows)]
    if len(found) < 2:
        return found[0] if found else NO_ROWS
    return Rows(
        np.concatenate([rows.digests for rows in found]),
        np.concatenate([rows.parts for rows in found]),
        np.concatenate([rows.offsets for rows in found]),
    )


def digest_rows(batch: pa.RecordBatch, fields: Collection[str]) -> Rows:
    """Return the rows of records in ``kafka.records.RECORD_SCHEMA``, by these fields alone."""
    parts = np.zeros((batch.num_rows, len(FIELDS)), dtype=np.uint64)
    for place, field in enumerate(FIELDS):
        if field in fields:
            parts[:, place] = _digest(field, batch.column(field))
    offsets = view_numbers(batch.column("offset"), np.int64).copy()
    return Rows((parts * _WEIGHTS).sum(axis=1, dtype=np.uint64), parts, offsets)


def digest_texts(texts: pa.Array) -> Digests:
    """Return a digest of each value of a binary column; ``NOTHING`` for null."""
    return _joined(texts.to_pylist())


def _digest(field: str, column: pa.Array) -> Digests:
    if field == "timestamp":
        return view_numbers(column, np.int64).astype(np.uint64)
    if field != "headers":
        return digest_texts(column)
    edges = view_offsets(column)
    if edges[0] == edges[-1]:
        return np.zeros(len(column), dtype=np.uint64)
    return _joined(_header_bytes(headers) if headers else None for headers in column.to_pylist())


def _joined(values: Iterable[bytes | None]) -> Digests:
    return np.frombuffer(b"".join(_iter_digests(values)), dtype=np.uint64)


def _iter_digests(values: Iterable[bytes | None]) -> Iterator[bytes]:
    nothing = NOTHING.to_bytes(8, "little")
    for value in values:
        yield nothing if value is None else blake2b(value, digest_size=8, key=_SECRET).digest()


def _header_bytes(headers: list[dict[str, bytes | None]]) -> bytes:
    """Write headers so that different ones are never alike."""
    parts = []
    for header in headers:
        for text in (header["key"], header["value"]):
            parts.append(b"-" if text is None else b"%d:%b" % (len(text), text))
    return b"".join(parts)
