"""Record batches unpacked: where the records of each lie once compression is undone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kafkeep.errors import DamagedError
from kafkeep.kafka.compression import DEFAULT_LIMIT_BYTES, decompress
from kafkeep.kafka.layout import CODEC_MASK, HEADER_BYTES, MIN_RECORD_BYTES
from kafkeep.kernel import BAD_COUNT, Bytes, Int64s, damaged, view_bytes

if TYPE_CHECKING:  # batch.py itself unpacks, to find the smallest timestamps
    from kafkeep.kafka.batch import Batches

AREA_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Unpacked:
    """Some batches in a row, and where their records lie, uncompressed, in ``buffer``.

    Row i of ``batches`` has ``counts[i]`` records at ``buffer[starts[i] : ends[i]]``; control
    batches count as having none. ``first`` is the first batch's index in what was unpacked.
    """

    first: int
    batches: Batches
    buffer: Bytes
    starts: Int64s
    ends: Int64s
    counts: Int64s


def iter_unpacked(
    batches: Batches,
    *,
    max_bytes: int = AREA_BYTES,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
) -> Iterator[Unpacked]:
    """Unpack batches in order, at most ``max_bytes`` of records at a time or one batch.

    A batch that unpacks to more than ``limit_bytes`` is damage. Runs of uncompressed batches are
    served out of their own buffer.
    """
    counts = np.where(batches.is_control, 0, batches.record_counts)
    packed = (batches.codec != 0) & (counts > 0)
    edges = np.flatnonzero(packed[1:] != packed[:-1]) + 1
    bounds = [0, *edges.tolist(), len(batches)]
    for i, j in pairwise(bounds):
        if i == j:
            continue
        if packed[i]:
            yield from _iter_packed(batches, counts, i, j, max_bytes, limit_bytes)
        else:
            yield from _iter_plain(batches, counts, i, j, max_bytes)


def _iter_plain(
    batches: Batches, counts: Int64s, first: int, last: int, max_bytes: int
) -> Iterator[Unpacked]:
    filled = np.cumsum(batches.sizes[first:last])
    done = 0
    i = first
    while i < last:
        j = first + int(np.searchsorted(filled, done + max_bytes, side="right"))
        j = min(max(j, i + 1), last)
        part = batches.select(slice(i, j))
        starts = part.positions + HEADER_BYTES
        ends = part.positions + part.sizes
        yield Unpacked(i, part, batches.buffer, starts, ends, counts[i:j])
        done = int(filled[j - first - 1])
        i = j


def _iter_packed(  # noqa: PLR0917
    batches: Batches, counts: Int64s, first: int, last: int, max_bytes: int, limit_bytes: int
) -> Iterator[Unpacked]:
    parts: list[Bytes] = []
    filled = 0
    start = first
    for i in range(first, last):
        part = _unpack_one(batches, i, int(counts[i]), limit_bytes)
        if parts and filled + len(part) > max_bytes:
            yield _join(batches, counts, start, parts)
            parts, filled, start = [], 0, i
        parts.append(part)
        filled += len(part)
    yield _join(batches, counts, start, parts)


def _unpack_one(batches: Batches, i: int, count: int, limit_bytes: int) -> Bytes:
    position, offset = int(batches.positions[i]), int(batches.base_offsets[i])
    body = batches.buffer[position + HEADER_BYTES : position + int(batches.sizes[i])]
    try:
        part = view_bytes(
            decompress(int(batches.attributes[i]) & CODEC_MASK, body, limit_bytes=limit_bytes)
        )
    except DamagedError as error:
        raise DamagedError(
            f"record batch at offset {offset}, byte {position}: {error.message}"
        ) from error
    if count * MIN_RECORD_BYTES > len(part):
        raise damaged(BAD_COUNT, position, offset)
    return part


def _join(batches: Batches, counts: Int64s, first: int, parts: list[Bytes]) -> Unpacked:
    last = first + len(parts)
    ends = np.cumsum(np.array([len(part) for part in parts], dtype=np.int64))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    buffer = parts[0] if len(parts) == 1 else view_bytes(np.concatenate(parts))
    return Unpacked(
        first, batches.select(slice(first, last)), buffer, starts, ends, counts[first:last]
    )
