"""A task whose time is over: every range gets one answer, and none keeps its object open for it."""

from __future__ import annotations

import uuid

from tests.support.fake_kafka import FakeLog
from tests.support.offline_task import archive_all

from kafkeep.archive.entry import Entry
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.store.memory import MemoryStore

RANGES = 12


class CountingStore(MemoryStore):
    """Knows how many objects were open at once."""

    open_now = open_most = 0

    def create(self, key, metadata=None):  # type: ignore[no-untyped-def]
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        writer = super().create(key, metadata)
        finish = writer.finish

        def finish_and_count(*rest: object, **more: object) -> None:
            finish(*rest, **more)
            self.open_now -= 1

        writer.finish = finish_and_count
        return writer


def logs() -> list[FakeLog]:
    """Partitions of two batches."""
    batches = [
        (first, first + 1, build_batch([Record(n, 0, None, b"v") for n in (first, first + 1)]))
        for first in (0, 2)
    ]
    return [FakeLog(batches=list(batches), end=4) for _ in range(RANGES)]


def run(seconds: float) -> tuple[CountingStore, list[Entry]]:
    store = CountingStore(uuid.uuid4().hex)
    write = SegmentIntent(segment_bytes=1 << 20, keeps_aborted=False)
    alone = {
        "limit": 1,
        "est_bytes": 20 << 20,
    }  # a request for each range, an answer for each batch
    return store, archive_all(logs(), store, write, seconds=seconds, **alone)


def test_ranges_that_get_no_further_answer_close_their_objects_one_by_one() -> None:
    store, entries = run(seconds=-1.0)
    assert [(e.range.start, e.range.end) for e in entries] == [(0, 2)] * RANGES
    assert store.open_most <= 4  # the one at hand, and those on their way


def test_in_time_a_range_is_one_object() -> None:
    _store, entries = run(seconds=1000.0)
    assert [(e.range.start, e.range.end) for e in entries] == [(0, 4)] * RANGES
