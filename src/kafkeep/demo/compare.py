"""Read whole topics back and compare them record by record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from kafkeep.errors import TransientError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.decode import RECORD_SCHEMA, decode
from kafkeep.kafka.batch.format import check_crcs, scan_batches
from kafkeep.kafka.client.wire import FetchWanted, Wire

_FETCH_BYTES = 8 * 1024 * 1024

Dump = Mapping[int, pa.Table]
"""Partition → its records in order, in ``RECORD_SCHEMA``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one topic; ``difference`` is None when every record is as it was."""

    topic: str
    records: int
    restored: int
    difference: str | None = None

    @property
    def same(self) -> bool:
        """Whether nothing was lost, added, reordered or changed."""
        return self.difference is None


def dump_topics(wire: Wire, topics: Collection[str]) -> dict[str, Dump]:
    """Read every record of small topics into memory, straight from Kafka."""
    admin = Admin(wire)
    found = admin.topics(topics)
    partitions = [(name, p) for name in topics for p in range(len(found[name].partitions))]
    begin = admin.offsets(partitions, OffsetSpec.EARLIEST)
    end = admin.offsets(partitions, OffsetSpec.LATEST)
    dumps: dict[str, dict[int, pa.Table]] = {name: {} for name in topics}
    for name, p in partitions:
        dumps[name][p] = _dump_partition(wire, name, p, begin[name, p], end[name, p])
    return dict(dumps)


def _dump_partition(wire: Wire, topic: str, partition: int, offset: int, end: int) -> pa.Table:
    pieces: list[pa.RecordBatch] = []
    while offset < end:
        wanted = FetchWanted(topic, "", partition, offset, _FETCH_BYTES)
        answer = wire.fetch([wanted], max_bytes=_FETCH_BYTES).result()[0]
        if answer.error is not None:
            raise answer.error.exception()
        batches = scan_batches(answer.records)
        if not len(batches):
            raise TransientError(f"{wanted}: Kafka gave no records at offset {offset} of {end}")
        check_crcs(batches)
        pieces.append(decode(batches))
        offset = int(batches.last_offsets[-1]) + 1
    return pa.Table.from_batches(pieces, schema=RECORD_SCHEMA)


def compare_topics(before: Mapping[str, Dump], after: Mapping[str, Dump]) -> list[Comparison]:
    """Compare partition by partition: order, time, key, value, headers."""
    return [_compare(topic, before[topic], after[topic]) for topic in before]


def _compare(topic: str, before: Dump, after: Dump) -> Comparison:
    counts = [sum(len(table) for table in dump.values()) for dump in (before, after)]
    difference = None
    if before.keys() != after.keys():
        difference = f"{len(before)} partitions became {len(after)}"
    else:
        found = (_first_difference(f"{topic}-{p}", before[p], after[p]) for p in sorted(before))
        difference = next((text for text in found if text), None)
    return Comparison(topic, counts[0], counts[1], difference)


def _first_difference(partition: str, before: pa.Table, after: pa.Table) -> str | None:
    """Name the first record and field that differ; offsets may, when the log did not begin at 0."""
    fields = [name for name in RECORD_SCHEMA.names if name != "offset"]
    if before.select(fields).equals(after.select(fields)):
        return None
    if len(before) != len(after):
        return f"{partition}: {len(before)} records became {len(after)}"
    for row, (was, now) in enumerate(zip(before.to_pylist(), after.to_pylist(), strict=True)):
        for name in fields:
            if was[name] != now[name]:
                return f"{partition}: record {row}: {name} was {was[name]!r}, now {now[name]!r}"
    return f"{partition}: the records differ"
