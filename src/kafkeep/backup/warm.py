"""Compile the sink's kernels ahead of time: ``python -m kafkeep.backup.warm``.

A first run compiles what it meets, some ten seconds in all; later ones load it from the cache.
"""

from __future__ import annotations

import uuid

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.fetch import Chunk
from kafkeep.backup.rotate import Reason
from kafkeep.backup.shape import SinkShape
from kafkeep.backup.sink_write import SinkWriters
from kafkeep.backup.upload import Uploads
from kafkeep.kafka.batch import scan_batches
from kafkeep.kafka.build import Record, build_batch
from kafkeep.kafka.warm import compile_kernels
from kafkeep.store.memory import MemoryStore

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TYPED = b"""{"schema":{"type":"struct","fields":[{"field":"a","type":"int64","optional":true},
{"field":"b","type":"string","optional":true},{"field":"c","type":"double","optional":true}]},
"payload":{"a":1,"b":"x","c":1.5}}"""
_PLAIN = b'{"a": 1, "b": "x",\n "c": [1.5, null]}'
_SINKS = (
    (
        _PLAIN,
        {"format.class": "json", "s3.compression.type": "gzip", "store.kafka.headers": "true"},
    ),
    (_PLAIN, {"format.class": "json", "partitioner.class": "field", "partition.field.name": "a"}),
    (_PLAIN, {"format.class": "parquet"}),
    (_PLAIN, {"format.class": "avro", "store.envelope": "true"}),
    (_TYPED, {"format.class": "json", "value.converter": _JSON}),
    (_TYPED, {"format.class": "avro", "value.converter": _JSON}),
)


def compile_sink_kernels() -> None:
    """Put a small batch through what the usual sinks run; safe to call at any time."""
    source = PartitionId("warm", 1, 0)
    planned = PlannedRange(partition_id=source, topic_id="", range=OffsetRange(0, 3))
    for value, options in _SINKS:
        records = [Record(i, i, b"key", value, [(b"header", b"value")]) for i in range(3)]
        given = {"headers.format.class": "json", **options}
        shape = SinkShape(options=given, closes={str(source): Reason.END})
        with Uploads() as uploads:
            store = MemoryStore(uuid.uuid4().hex)
            writers = SinkWriters(store, shape, uploads, secrets={}, at_ms=0, name="warm")
            writer = writers.open(planned)
            list(writer.add(Chunk(scan_batches(build_batch(records)), 3), 0))
            list(writer.end(3, finished=True))
            uploads.wait()


if __name__ == "__main__":
    compile_kernels()
    compile_sink_kernels()
