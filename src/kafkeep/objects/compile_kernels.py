"""Compile the numba kernels ahead of time: ``python -m kafkeep.objects.compile_kernels``.

The first use of a kernel on a machine compiles it. That takes 3 seconds of processor time for those
of a backup, 7 with those of a restore, and 20 for all, of which JSON has 7. Later uses load the
compiled code from the cache that ``kernel_cache.py`` chooses, all in half a second. Spark's worker
daemon calls these functions before it forks, so that its workers share the loaded code.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.kafka.batch.layout import TRANSACTIONAL, Record, build_batch
from kafkeep.kafka.batch.scan import Batches, check_crcs, min_timestamps, scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted
from kafkeep.kernel_cache import NotCompiledError, cached_kernels_only
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.spec import RotateReason, SinkIntent
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.store.memory import MemoryStore


def compile_backup_kernels() -> Batches:
    """Run a small batch through every kernel that backups of segments use, and return it."""
    records = [Record(i, 0, b"key", b"value", [(b"header", b"value")]) for i in range(3)]
    parts = [build_batch([one], producer_id=1, attributes=TRANSACTIONAL) for one in records]
    batches = scan_batches(b"".join(parts))
    check_crcs(batches)
    min_timestamps(batches)
    drop_aborted(batches, [(1, 0)])
    batches.select(batches.base_offsets != 1).packed()
    return batches


def compile_kernels() -> None:
    """Do the same with every kernel that backups and restores of segments use."""
    from kafkeep.kafka.batch.decode import decode  # noqa: PLC0415 - a backup loads none of it
    from kafkeep.kafka.batch.filter import matching  # noqa: PLC0415
    from kafkeep.kafka.batch.partitioner import deal  # noqa: PLC0415
    from kafkeep.kafka.batch.rewrite import regroup  # noqa: PLC0415
    from kafkeep.kafka.batch.unpack import iter_unpacked, walk_records  # noqa: PLC0415
    from kafkeep.options.restore import parse_filter  # noqa: PLC0415

    batches = compile_backup_kernels()
    decode(batches)
    list(regroup([batches], range=OffsetRange(0, 3), max_batch_bytes=1 << 20))
    for part in iter_unpacked(batches):
        rows = walk_records(part)
        deal(rows, 2, 0)
        matching(rows, parse_filter("key=key,header:header^=value"))


_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TYPED = b"""{"schema":{"type":"struct","fields":[{"field":"a","type":"int64","optional":true},
{"field":"b","type":"string","optional":true},{"field":"c","type":"double","optional":true}]},
"payload":{"a":1,"b":"x","c":1.5}}"""
_PLAIN = b'{"a": 1, "b": "x",\n "c": [1.5, null]}'
_TEXT = {"format.class": "json", "s3.compression.type": "gzip", "store.kafka.headers": "true"}
_FIELD = {"partitioner.class": "field", "partition.field.name": "a"}
_SINKS: Mapping[str, Sequence[tuple[bytes, Mapping[str, str]]]] = {
    "json": ((_PLAIN, _TEXT), (_PLAIN, {"format.class": "json", **_FIELD})),
    "parquet": ((_PLAIN, {"format.class": "parquet"}),),
    "avro": ((_PLAIN, {"format.class": "avro", "store.envelope": "true"}),),
    "typed": (
        (_TYPED, {"format.class": "json", "value.converter": _JSON}),
        (_TYPED, {"format.class": "avro", "value.converter": _JSON}),
    ),
}
"""Values and options that use the kernels of each format, and of values with a schema."""


def compile_sink_kernels() -> None:
    """Run a small batch through the kernels that common sink configurations use."""
    for kind in _SINKS:
        _write_samples(kind)


def load_sink_kernels() -> None:
    """Do the same with kernels that are in the cache; a job that needs others compiles them."""
    for kind in _SINKS:
        with suppress(NotCompiledError), cached_kernels_only():
            _write_samples(kind)


def compile_json_kernels() -> None:
    """Run a small batch through the kernels that JSON files of plain values use."""
    _write_samples("json")


def compile_parquet_kernels() -> None:
    """Run a small batch through the kernels that Parquet files use."""
    _write_samples("parquet")


def compile_avro_kernels() -> None:
    """Run a small batch through the kernels that Avro files use."""
    _write_samples("avro")


def compile_typed_kernels() -> None:
    """Run a small batch through the kernels that JSON values with a schema use."""
    _write_samples("typed")


def _write_samples(kind: str) -> None:
    from kafkeep.objects.sink.writer import SinkWriters  # noqa: PLC0415 - for sinks alone

    source = PartitionId("warm", 1, 0)
    planned = PlannedRange(partition_id=source, topic_id="", range=OffsetRange(0, 3))
    for value, options in _SINKS[kind]:
        records = [Record(i, i, b"key", value, [(b"header", b"value")]) for i in range(3)]
        given = {"headers.format.class": "json", **options}
        intent = SinkIntent(sink=SinkSpec(given), closes={str(source): RotateReason.END})
        with Uploads() as uploads:
            store = MemoryStore(uuid.uuid4().hex)
            writers = SinkWriters(store, intent, uploads, at_ms=0, name="warm")
            writer = writers.open(planned)
            writer.add(Chunk(scan_batches(build_batch(records)), 3), 0)
            writer.end(3, finished=True)
            uploads.wait()


if __name__ == "__main__":
    compile_kernels()
    compile_sink_kernels()
