from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.archive_builder import records
from tests.support.waiting import PATIENCE_S

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.errors import TransientError
from kafkeep.kafka.batch.layout import build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import SMALL_AT_ONCE, Chunk, Uploads
from kafkeep.objects.segment.writer import SegmentIntent, SegmentWriter
from kafkeep.store.memory import MemoryStore


class FullStore(MemoryStore):
    """Takes no byte; counts the uploads that were begun and not ended."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0

    def create(self, key: str, metadata: Mapping[str, str] | None = None, **_: Any) -> Any:
        self.begun += 1
        return _Upload(self)


class _Upload:
    def __init__(self, store: FullStore) -> None:
        self._store = store

    def write(self, data: bytes) -> None:
        raise TransientError("no room")

    def abort(self) -> None:
        self._store.begun -= 1


def test_an_upload_that_fails_at_its_last_bytes_is_dropped() -> None:
    store = FullStore()
    planned = PlannedRange(
        partition_id=PartitionId("t", 1, 0), topic_id="id", range=OffsetRange(0, 10)
    )
    options = SegmentIntent(segment_bytes=1 << 20, keeps_aborted=False)
    with Uploads() as uploads:
        writer = SegmentWriter(store, "backup", planned, options, uploads, checks_names=False)
        chunk = Chunk(scan_batches(build_batch(records(0, 10))), 10)
        with pytest.raises(TransientError):
            writer.add(chunk, 0)
            writer.end(10, finished=True)
        writer.abort()
    assert store.begun == 0


class MeetingStore(MemoryStore):
    """Ends no upload before as many are under way as small objects may be."""

    def __init__(self) -> None:
        super().__init__()
        self.together = threading.Barrier(SMALL_AT_ONCE, timeout=PATIENCE_S)

    def create(self, key: str, metadata: Mapping[str, str] | None = None, **_: Any) -> Any:
        writer = super().create(key, metadata)
        finish = writer.finish

        def met(*given: Any, **more: Any) -> None:
            self.together.wait()
            finish(*given, **more)

        writer.finish = met  # type: ignore[method-assign]
        return writer


def test_small_segments_are_stored_side_by_side() -> None:
    store = MeetingStore()
    options = SegmentIntent(segment_bytes=1 << 20, keeps_aborted=False)
    with Uploads() as uploads:
        for partition in range(SMALL_AT_ONCE):
            planned = PlannedRange(
                partition_id=PartitionId("t", 1, partition),
                topic_id="id",
                range=OffsetRange(0, 10),
            )
            writer = SegmentWriter(store, "backup", planned, options, uploads, checks_names=False)
            writer.add(Chunk(scan_batches(build_batch(records(0, 10))), 10), 0)
            writer.end(10, finished=True)
        uploads.wait()
    assert len(list(store.list(""))) == SMALL_AT_ONCE
