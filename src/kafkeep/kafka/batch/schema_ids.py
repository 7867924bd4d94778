"""Replace the schema id in the first five bytes of keys and values.

Confluent's serializers write a zero byte, the id as four bytes, big-endian, then the data. Only
these four bytes change; lengths, headers, times and everything else stay as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kafkeep.kafka.batch.compression import compress
from kafkeep.kafka.batch.layout import CODEC_MASK, HEADER_BYTES
from kafkeep.kafka.batch.rewrite import ReadyBatch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.unpack import RecordFields, iter_unpacked, walk_records
from kafkeep.numba_setup import Bytes, Int64s, kernel, read_varint, view_bytes

REWRITTEN, UNKNOWN, PLAIN = range(3)
"""Locations in the counts, of keys; those of values follow."""
_ALL = 2**63 - 1


@dataclass(frozen=True, slots=True)
class IdMap:
    """The replacements of schema ids, and whether they apply to keys, values or both."""

    ids: Mapping[int, int]
    keys: bool = True
    values: bool = True


@dataclass(slots=True)
class IdRewriter:
    """Replace schema ids in records, and count them. Each task has its own.

    Records may be read more than once. Each record of a source is counted once, by its offset,
    which only increases.
    """

    map: IdMap
    counts: Int64s = field(default_factory=lambda: np.zeros(6, dtype=np.int64))
    _old: Int64s = field(init=False)
    _new: Int64s = field(init=False)
    _seen: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs = sorted(self.map.ids.items())
        self._old = np.array([old for old, _ in pairs], dtype=np.int64)
        self._new = np.array([new for _, new in pairs], dtype=np.int64)

    def batches(self, batches: Iterator[ReadyBatch], source: Hashable) -> Iterator[ReadyBatch]:
        """Yield the batches of one source with new ids; compressed batches are compressed again."""
        for batch in batches:
            yield self._batch(batch, source)

    def rows(
        self, rows: Iterator[tuple[RecordFields, int]], source: Hashable
    ) -> Iterator[tuple[RecordFields, int]]:
        """Yield the records of one source with new ids; None if they are counted elsewhere."""
        for records, codec in rows:
            yield self._records(records, source), codec

    def to_json(self) -> dict[str, int]:
        """Return the counts of keys and values by outcome."""
        keys, values = self.counts[:3].tolist(), self.counts[3:].tolist()
        return {
            "rewritten": keys[REWRITTEN] + values[REWRITTEN],
            "unknown_keys": keys[UNKNOWN],
            "unknown_values": values[UNKNOWN],
            "plain": keys[PLAIN] + values[PLAIN],
        }

    def _records(self, rows: RecordFields, source: Hashable) -> RecordFields:
        if not len(rows):
            return rows
        start, end = int(rows.fields.min()), int(rows.ends.max())
        buffer = rows.buffer[start:end].copy()
        moved = replace(rows, fields=rows.fields - start, ends=rows.ends - start)
        if not self._rewrite(buffer, moved, rows.offsets, source):
            return rows
        return replace(moved, buffer=view_bytes(buffer))

    def _batch(self, batch: ReadyBatch, source: Hashable) -> ReadyBatch:
        [part] = iter_unpacked(scan_batches(batch.body))
        rows = walk_records(part)
        offsets = batch.offsets
        if offsets is None:
            offsets = np.arange(batch.first_offset, batch.last_offset + 1, dtype=np.int64)
        buffer = part.buffer[int(part.starts[0]) : int(part.ends[0])].copy()
        first = int(part.starts[0])
        moved = replace(rows, fields=rows.fields - first, ends=rows.ends - first)
        if not self._rewrite(buffer, moved, offsets, source):
            return batch
        return replace(batch, body=_packed(batch.body, buffer))

    def _rewrite(
        self, buffer: Bytes, rows: RecordFields, offsets: Int64s, source: Hashable
    ) -> bool:
        """Replace ids in ``buffer``, which holds the rows; return whether any changed."""
        seen = _ALL if source is None else self._seen.get(source, -1)
        changed = _put_ids(
            buffer,
            rows.fields,
            rows.ends,
            offsets,
            seen,
            self._old,
            self._new,
            (self.map.keys, self.map.values),
            self.counts,
        )
        if source is not None and len(offsets):
            self._seen[source] = max(seen, int(offsets[-1]))
        return bool(changed)


@kernel
def _put_ids(  # noqa: PLR0917
    buffer: Bytes,
    fields: Int64s,
    ends: Int64s,
    offsets: Int64s,
    seen: int,
    old: Int64s,
    new: Int64s,
    wanted: tuple[bool, bool],
    counts: Int64s,
) -> int:
    """Replace ids; count records after offset ``seen``. The caller has checked the lengths."""
    changed = 0
    for i in range(len(fields)):
        at, end = fields[i], ends[i]
        for side in range(2):
            length, at = read_varint(buffer, at, end)
            if length < 0:
                continue
            if wanted[side]:
                what = 2
                if length >= 5 and buffer[at] == 0:
                    what = 1
                    id = np.int64(0)
                    for k in range(1, 5):
                        id = (id << 8) | np.int64(buffer[at + k])
                    place = np.searchsorted(old, id)
                    if place < len(old) and old[place] == id:
                        what = 0
                        rest = new[place]
                        for k in range(4, 0, -1):
                            buffer[at + k] = rest & 0xFF
                            rest >>= 8
                        changed += 1
                if offsets[i] > seen:
                    counts[side * 3 + what] += 1
            at += length
    return changed


def _packed(body: bytearray, records: Bytes) -> bytearray:
    """Return the batch with other records and the same codec; ``stamp`` sets its checksum."""
    (attributes,) = struct.unpack_from(">h", body, 21)
    packed = memoryview(compress(attributes & CODEC_MASK, records))
    made = bytearray(body[:HEADER_BYTES])
    made += packed
    struct.pack_into(">i", made, 8, len(made) - 12)
    return made
