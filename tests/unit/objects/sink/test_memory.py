"""What the open files of a task hold in memory is bounded over all of its partitions."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.errors import TransientError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.naming import ObjectOrigin
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.objects.sink.window import MemoryBudget
from kafkeep.objects.sink.writer import SinkWriter
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.store.memory import MemoryStore
from kafkeep.store.spill import Spill

LIMIT = 400_000
PARTITIONS = 6
JSON_TEXTS = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
FIELD = {"partitioner.class": "field", "partition.field.name": "f"}


def batch(first: int) -> bytes:
    """A hundred records of a kilobyte for ten directories; their content does not compress."""
    chances = random.Random(first)
    rows = [{"n": first + i, "f": i % 10, "x": chances.randbytes(500).hex()} for i in range(100)]
    return build_batch([Record(row["n"], 0, None, json.dumps(row).encode()) for row in rows])


def open_writer(
    partition: int,
    store: MemoryStore,
    uploads: Uploads,
    memory: MemoryBudget,
    options: dict[str, str],
) -> SinkWriter:
    sink = SinkOptions.parse({**FIELD, **JSON_TEXTS, **options})
    planned = PlannedRange(
        partition_id=PartitionId("t", 1, partition), topic_id="id", range=OffsetRange(0, 1000)
    )
    origin = ObjectOrigin(
        log_name="sink", planned=planned, plan="plan", naming=sink.naming, tags=sink.tags
    )
    return SinkWriter(store, origin, sink, uploads, at_ms=0, closes=RotateReason.END, memory=memory)


@pytest.mark.parametrize(
    "options",
    [
        {"format.class": "json"},
        {"format.class": "json", "s3.compression.type": "gzip"},
        {"format.class": "parquet"},
    ],
    ids=["json", "gzip", "parquet"],
)
def test_partitions_of_a_task_share_one_bound(options: dict[str, str]) -> None:
    store, memory = MemoryStore("bound"), MemoryBudget(LIMIT)
    with Uploads() as uploads:
        writers = [open_writer(n, store, uploads, memory, options) for n in range(PARTITIONS)]
        for first in range(0, 1000, 100):
            body = scan_batches(batch(first))
            for writer in writers:
                writer.add(Chunk(body, first + 100), 0)
                assert memory.held_bytes <= LIMIT
        for writer in writers:
            writer.end(1000, finished=True)
        uploads.wait()
        found = [entry for writer in writers for entry in writer.finish()]
    assert memory.held_bytes == 0
    assert sum(entry.records for entry in found) == PARTITIONS * 1000
    if options["format.class"] == "json" and len(options) == 1:
        for entry in found:
            rows = [json.loads(line) for line in store.get(entry.key).splitlines()]
            assert [row["n"] for row in rows] == list(range(rows[0]["f"], 1000, 10))


class NoStore(MemoryStore):
    def put_new(self, *_: object, **__: object) -> None:
        raise TransientError("no room")


def test_failed_uploads_leave_no_file_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    memory = MemoryBudget(0)
    with pytest.raises(TransientError), Uploads() as uploads:
        writer = open_writer(0, NoStore("none"), uploads, memory, {"format.class": "json"})
        writer.add(Chunk(scan_batches(batch(0)), 100), 0)
        assert len(os.listdir("/proc/self/fd")) == before + 1
        writer.end(100, finished=True)
        uploads.wait()
    writer.abort()
    del writer, memory, uploads
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_spill_gives_back_what_it_was_given_and_leaves_no_name() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    spill = Spill()
    pieces = [random.Random(n).randbytes(n * 1000) for n in range(1, 6)]
    places = [spill.append(piece) for piece in pieces]
    for place, piece in reversed(list(zip(places, pieces, strict=True))):
        assert b"".join(spill.read(place, len(piece))) == piece
    spill.close()
    spill.close()
    assert set(Path("/proc/self/fd").iterdir()) - before == set()
