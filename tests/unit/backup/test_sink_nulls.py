"""Records without a value: ignored and reported, or written where they are wanted."""

from __future__ import annotations

import pytest

from kafkeep.backup.pipeline import BadRecord, Pipeline
from kafkeep.config.sink import SinkOptions
from kafkeep.kafka.batch import scan_batches
from kafkeep.kafka.build import Record, build_batch
from kafkeep.kafka.records import decode
from stored_sinks import write_sink

HOUR_MS = 3_600_000
JSON = {
    "format.class": "json",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "StringConverter",
    "keys.format.class": "json",
}
FOLDER = {
    "behavior.on.null.values": "write",
    "store.kafka.keys": "true",
    "tombstone.encoded.partition": "gone",
}
HOURLY = {
    "partitioner.class": "hourly",
    "timestamp.extractor": "Record",
    "rotate.interval.ms": str(10 * HOUR_MS),
}


def record(offset: int, hour: int, *, value: bool = True) -> Record:
    time = hour * HOUR_MS + offset
    return Record(offset, time, b"k", b"%d" % offset if value else None)


@pytest.mark.parametrize("batch", [1, 5])
def test_tombstones_in_a_folder_of_their_own_do_not_close_files(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stored_sinks.BATCH", batch)
    hours = [0, 0, 0, 0, 1, 1, 1, 2]
    records = [record(n, hour, value=n not in (1, 3, 5)) for n, hour in enumerate(hours)]
    stored = write_sink(records, {**JSON, **FOLDER, **HOURLY})
    found = {
        e.key.removeprefix("topics/t/year=1970/month=01/day=01/"): stored.store.get(e.key)
        for e in stored.entries
        if e.view != "keys"
    }
    assert found == {
        "hour=00/t+0+0000000000.json": b"0\n2\n",
        "topics/t/gone/t+0+0000000001.keys.json": b'"k"\n"k"\n"k"\n',
        "hour=01/t+0+0000000004.json": b"4\n6\n",
        "hour=02/t+0+0000000007.json": b"7\n",
    }


DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({**DEAD_LETTERS, "behavior.on.null.values": "ignore"}, True),
        (
            {
                **DEAD_LETTERS,
                "behavior.on.null.values": "ignore",
                "report.null.values.to.dlq": "false",
            },
            False,
        ),
        ({"errors.tolerance": "all", "behavior.on.null.values": "ignore"}, False),
        ({"errors.tolerance": "all"}, True),
        ({}, True),
    ],
    ids=["ignored", "not reported", "no topic", "fail, tolerant", "fail"],
)
def test_records_without_a_value_are_reported_as_set(
    options: dict[str, str], reported: bool
) -> None:
    bad: list[BadRecord] = []
    raw = decode(scan_batches(build_batch([record(n, 0, value=n != 1) for n in range(3)])))
    pipeline = Pipeline(SinkOptions.parse({**JSON, **options}))
    kept = pipeline.run(raw, "t", 0, at_ms=0, on_bad=bad.append)
    assert [offset for ready in kept for offset in ready.rows.offsets.tolist()] == [0, 2]
    assert [one.offset for one in bad] == ([1] if reported else [])
