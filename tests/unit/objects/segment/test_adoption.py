"""Names that are taken: nobody looks before a PUT was refused, then everybody does."""

from __future__ import annotations

import uuid

import pytest
from tests.support.fake_kafka import FakeLog
from tests.support.offline_task import PID, archive

from kafkeep.archive.entry import Entry
from kafkeep.archive.keys import data_key
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import KafkeepError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.range_writer import MAX_NAMES
from kafkeep.objects.segment.format import read_segment
from kafkeep.objects.segment.writer import EXTENSION, SegmentIntent
from kafkeep.store.memory import MemoryStore


class CountingStore(MemoryStore):
    """Counts how often somebody looks at a name."""

    looks = 0

    def head(self, key: str) -> ObjectInfo:
        self.looks += 1
        return super().head(key)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(uuid.uuid4().hex)


def run(store: MemoryStore, batches: int = 5) -> list[Entry]:
    """Archive a log of batches of two records, each batch an object of its own."""
    log = FakeLog(start=0, end=2 * batches)
    for first in range(0, log.end, 2):
        records = [Record(n, n, b"k", b"%d" % n) for n in (first, first + 1)]
        log.batches.append((first, first + 1, build_batch(records)))
    return archive(log, store, SegmentIntent(segment_bytes=1, keeps_aborted=False))


def offsets(store: MemoryStore, entries: list[Entry]) -> list[int]:
    return [
        offset
        for entry in entries
        for batches in read_segment(
            lambda start, end, key=entry.key: store.get_range(key, start, end),
            entry.size_bytes,
            entry.index,
        )
        for offset in decode(batches).column("offset").to_pylist()
    ]


def test_free_names_are_not_requested(store: CountingStore) -> None:
    assert offsets(store, run(store)) == list(range(10))
    assert store.looks == 0


def test_objects_of_a_dead_attempt_are_adopted_and_the_rest_is_written(
    store: CountingStore,
) -> None:
    left = {entry.key: store.get(entry.key) for entry in run(store)}
    for key in list(left)[2:]:
        store.delete(key)
    entries = run(store)
    assert offsets(store, entries) == list(range(10))
    assert [entry.key for entry in entries] == list(left)
    assert {key: store.get(key) for key in left} == left
    assert store.looks == 5


def test_an_object_of_another_writer_is_left_alone_and_written_beside(store: CountingStore) -> None:
    names = [entry.key for entry in run(CountingStore(uuid.uuid4().hex))]
    store.put_new(names[3], b"somebody's")
    entries = run(store)
    assert offsets(store, entries) == list(range(10))
    assert store.get(names[3]) == b"somebody's"
    assert [e.key == name for e, name in zip(entries, names, strict=True)].count(False) == 1
    assert len(list(store.list(""))) == 6


def test_a_task_ends_with_an_error_when_every_name_is_taken(store: CountingStore) -> None:
    for extra in range(MAX_NAMES):
        store.put_new(data_key(PID, 0, EXTENSION, pad=10 + extra), b"somebody's")
    with pytest.raises(KafkeepError, match="32 names for it are taken"):
        run(store)
