"""An object of an earlier attempt is taken over only when it holds what this one would write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from tests.support.fake_kafka import FakeLog
from tests.support.offline_task import PID, archive

from kafkeep.archive.entry import Entry
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.sink.spec import RotateReason, SinkIntent
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.store.memory import MemoryStore

JSON = {"format.class": "json", "partitioner.class": "field", "partition.field.name": "f"}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    yield MemoryStore(uuid.uuid4().hex)


def log_of(fields: str, *, without: tuple[int, ...] = ()) -> FakeLog:
    """Return a partition whose records have these fields; some are compacted away."""
    records = [
        Record(n, n, b"k", json.dumps({"n": n, "f": f}).encode())
        for n, f in enumerate(fields)
        if n not in without
    ]
    batch = build_batch(records, base_offset=0, last_offset=len(fields) - 1)
    return FakeLog([(0, len(fields) - 1, batch)], records, start=0, end=len(fields))


def run(log: FakeLog, store: MemoryStore, **options: str) -> list[Entry]:
    shape = SinkIntent(sink=SinkSpec({**JSON, **options}), closes={str(PID): str(RotateReason.END)})
    return archive(log, store, shape)


def told(entry: Entry) -> list[int]:
    """Return the offsets the log says an object holds."""
    runs = list(entry.runs) or [(entry.range.start, entry.range.end)]
    return [n for start, end in runs for n in range(start, end)]


def held(store: MemoryStore, entry: Entry) -> list[int]:
    return [json.loads(line)["n"] for line in store.get(entry.key).splitlines()]


def test_a_second_attempt_takes_every_object_over(store: MemoryStore) -> None:
    first = run(log_of("abab"), store)
    assert run(log_of("abab"), store) == first
    assert {info.key for info in store.list("")} == {entry.key for entry in first}


def test_an_object_from_before_compaction_is_not_taken_for_another(store: MemoryStore) -> None:
    size = {"flush.size": "4"}
    before = run(log_of("aabbab"), store, **size)
    assert told(before[0]) == [0, 1]
    after = run(log_of("aabbab", without=(1,)), store, **size)
    for entry in after:
        assert held(store, entry) == told(entry)
    assert sorted(n for entry in after for n in told(entry)) == [0, 2, 3, 4, 5]


def test_an_object_of_another_writer_is_left_and_the_name_gets_a_zero(store: MemoryStore) -> None:
    taken = "topics/t/f=a/t+0+0000000000.json"
    store.put_new(taken, b"not ours")
    entry = run(log_of("aa"), store)[0]
    assert entry.key == "topics/t/f=a/t+0+00000000000.json"
    assert store.get(taken) == b"not ours"
    assert held(store, entry) == [0, 1]


def test_the_same_bytes_written_under_another_option_are_taken_over(store: MemoryStore) -> None:
    first = run(log_of("abab"), store)
    again = run(log_of("abab"), store, **{"errors.tolerance": "all"})
    assert again == first
    assert {info.key for info in store.list("")} == {entry.key for entry in first}


def test_other_bytes_written_under_another_option_are_left(store: MemoryStore) -> None:
    first = run(log_of("aa"), store)
    other = run(log_of("aa"), store, **{"transforms": "i", **INSERT})
    assert other[0].key != first[0].key
    assert held(store, first[0]) == held(store, other[0]) == [0, 1]


INSERT = {
    "transforms.i.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.i.static.field": "by",
    "transforms.i.static.value": "us",
}
