"""Compile every kernel ahead of time: ``python -m kafkeep.kafka.warm``.

The first use of a kernel on a machine compiles it, some seconds in all; later ones load it from
the cache that ``kernel.py`` chose.
"""

from __future__ import annotations

from kafkeep.archive.entry import OffsetRange
from kafkeep.config.shape import parse_filter
from kafkeep.kafka.batch import check_crcs, min_timestamps, scan_batches
from kafkeep.kafka.build import Record, build_batch
from kafkeep.kafka.layout import TRANSACTIONAL
from kafkeep.kafka.match import matching
from kafkeep.kafka.murmur2 import deal
from kafkeep.kafka.records import decode
from kafkeep.kafka.rewrite import regroup
from kafkeep.kafka.transactions import drop_aborted
from kafkeep.kafka.unpack import iter_unpacked
from kafkeep.kafka.walk import walk_records


def compile_kernels() -> None:
    """Put a small batch through everything that is compiled; safe to call at any time."""
    records = [Record(i, 0, b"key", b"value", [(b"header", b"value")]) for i in range(3)]
    parts = [build_batch([one], producer_id=1, attributes=TRANSACTIONAL) for one in records]
    batches = scan_batches(b"".join(parts))
    check_crcs(batches)
    min_timestamps(batches)
    drop_aborted(batches, [(1, 0)])
    decode(batches)
    batches.select(batches.base_offsets != 1).packed()
    list(regroup([batches], range=OffsetRange(0, 3), max_batch_bytes=1 << 20))
    for part in iter_unpacked(batches):
        rows = walk_records(part)
        deal(rows, 2, 0)
        matching(rows, parse_filter("key=key,header:header^=value"))


if __name__ == "__main__":
    compile_kernels()
