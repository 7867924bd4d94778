"""Find the committed batches in the answer to a read-committed Fetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.layout import HEADER_BYTES
from kafkeep.kafka.batch.scan import Batches
from kafkeep.numba_setup import (
    BAD_LENGTH,
    OK,
    Bytes,
    Int64s,
    damaged,
    kernel,
    read_i16,
    read_varint,
    read_varlong,
)

_CONTROL = 1
_TRANSACTIONAL = 2
_ABORT, _COMMIT = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class TransactionOutcome:
    """The outcome of each batch: ``keep`` is committed data, ``aborted`` is aborted data.

    Control batches are in neither. ``stretches`` are the offset ranges of aborted batches, without
    any committed batch inside.
    """

    keep: NDArray[np.bool_]
    aborted: NDArray[np.bool_]
    stretches: tuple[OffsetRange, ...]


@kernel
def _marker(buffer: Bytes, start: int, end: int) -> int:
    """Return the type of the control record at ``start``: 0 abort, 1 commit, or -1."""
    length, at = read_varint(buffer, start, end)
    if at < 0 or length < 0 or at + length > end:
        return -1
    end = at + length
    _, at = read_varlong(buffer, at + 1, end)
    if at < 0:
        return -1
    _, at = read_varint(buffer, at, end)
    if at < 0:
        return -1
    key_length, at = read_varint(buffer, at, end)
    if at < 0 or key_length < 4 or at + key_length > end:
        return -1
    return read_i16(buffer, at + 2)


@kernel
def _mark_aborted(  # noqa: PLR0917
    buffer: Bytes,
    positions: Int64s,
    sizes: Int64s,
    last_offsets: Int64s,
    counts: Int64s,
    kinds: Int64s,
    producers: Int64s,
    first_offsets: Int64s,
    aborting: Int64s,
    state: Int64s,
    out: Int64s,
) -> tuple[int, int]:
    """Process in order as a consumer does; ``producers`` and ``aborting`` index into ``state``."""
    upcoming = 0
    for i in range(len(positions)):
        while upcoming < len(first_offsets) and first_offsets[upcoming] <= last_offsets[i]:
            state[aborting[upcoming]] = 1
            upcoming += 1
        if kinds[i] & _CONTROL:
            if counts[i] > 0 and producers[i] >= 0:
                start = positions[i] + HEADER_BYTES
                marker = _marker(buffer, start, positions[i] + sizes[i])
                if marker < 0:
                    return BAD_LENGTH, i
                if marker in (_ABORT, _COMMIT):
                    state[producers[i]] = 0
        elif kinds[i] & _TRANSACTIONAL and producers[i] >= 0:
            out[i] = state[producers[i]]
    return OK, 0


def drop_aborted(batches: Batches, aborted: Sequence[tuple[int, int]]) -> TransactionOutcome:
    """Classify the batches of one Fetch answer by its list of (producer id, first offset).

    The list is valid only for its own answer. So pass all batches of that answer, in order and with
    control batches: an aborted transaction of a producer ends at its marker.
    """
    control = batches.is_control
    if not aborted or not (transactional := batches.is_transactional).any():
        return TransactionOutcome(~control, np.zeros(len(batches), dtype=np.bool_), ())
    pairs = np.array(sorted(aborted, key=lambda pair: pair[1]), dtype=np.int64)
    known = np.unique(pairs[:, 0])
    places = np.minimum(np.searchsorted(known, batches.producer_ids), len(known) - 1)
    producers = np.where(known[places] == batches.producer_ids, places, -1)
    out = np.zeros(len(batches), dtype=np.int64)
    code, i = _mark_aborted(
        batches.buffer,
        batches.positions,
        batches.sizes,
        batches.last_offsets,
        batches.record_counts,
        control * _CONTROL + transactional * _TRANSACTIONAL,
        producers,
        np.ascontiguousarray(pairs[:, 1]),
        np.searchsorted(known, pairs[:, 0]),
        np.zeros(len(known), dtype=np.int64),
        out,
    )
    if code != OK:
        raise damaged(code, int(batches.positions[i]), int(batches.base_offsets[i]))
    rolled_back = out.astype(np.bool_)
    keep = ~control & ~rolled_back
    return TransactionOutcome(keep, rolled_back, _find_stretches(batches, keep, rolled_back))


def _find_stretches(
    batches: Batches, keep: NDArray[np.bool_], aborted: NDArray[np.bool_]
) -> tuple[OffsetRange, ...]:
    chosen = np.flatnonzero(aborted)
    if len(chosen) == 0:
        return ()
    kept_before = np.cumsum(keep)[chosen]
    cuts = np.flatnonzero(kept_before[1:] != kept_before[:-1]) + 1
    firsts = chosen[np.concatenate(([0], cuts))]
    lasts = chosen[np.concatenate((cuts - 1, [len(chosen) - 1]))]
    return tuple(
        OffsetRange(start, last + 1)
        for start, last in zip(
            batches.base_offsets[firsts].tolist(), batches.last_offsets[lasts].tolist(), strict=True
        )
    )
