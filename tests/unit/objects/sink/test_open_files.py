"""``partitioner.max.open.files``: a record for one directory too many closes the files."""

from __future__ import annotations

import pytest
from tests.support.stored_sinks import JSON, write_sink

from kafkeep.archive.entry import OffsetRange
from kafkeep.backup.sink_schedule import PartitionBacklog, SinkTiming
from kafkeep.kafka.batch.layout import Record
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.sink.sink import SinkOptions

BY_FIELD = {**JSON, "partitioner.class": "field", "partition.field.name": "n", "flush.size": "10"}


def record(offset: int, place: object) -> Record:
    return Record(offset, 1, b"k", b'{"n":"%s"}' % str(place).encode())


def closed(places: list[object], limit: str | None) -> set[str]:
    """Return the files that the limit closed, by directory and first offset."""
    records = [record(offset, place) for offset, place in enumerate(places)]
    limits = {} if limit is None else {"partitioner.max.open.files": limit}
    stored = write_sink(records, {**BY_FIELD, **limits})
    return {
        f"{e.key.split('/')[2]}@{int(e.key.split('+')[2][:10])}"
        for e in stored.entries
        if e.closed_by == RotateReason.FILES
    }


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_partitioner_max_open_files_is_honoured(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the real sink does it: the record for a sixth directory closes the five files."""
    monkeypatch.setattr("tests.support.stored_sinks.BATCH", batch)
    assert closed([*range(16, 22)], "5") == {f"n={16 + i}@{i}" for i in range(5)}


def test_records_for_directories_that_have_a_file_close_nothing() -> None:
    places = ["a", "b", "a", "b", "c", "a", "c", "b"]
    assert closed(places, "2") == {"n=a@0", "n=b@1", "n=c@4", "n=a@5"}


def test_any_number_of_files_is_open_without_a_limit() -> None:
    assert closed([*range(9)], "-1") == closed([*range(9)], None) == set()


def test_a_limit_is_checked_before_files_are_full() -> None:
    """Only reading tells which directories records go to."""
    options = SinkOptions.parse({**BY_FIELD, "partitioner.max.open.files": "2"})
    timing = SinkTiming(options=options, follow=True, keeps_tail=True, age_ms=60_000)
    waiting = PartitionBacklog(OffsetRange(0, 3), 100, 0, 0, None)
    assert timing.decide(waiting) is not None
    assert not options.can_split
