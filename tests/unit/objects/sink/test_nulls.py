"""Records without a value: ignored and reported, or written where they are wanted."""

from __future__ import annotations

import io
import json
from itertools import product
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from tests.support.stored_sinks import JSON, write_sink

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.names import KeyLimits
from kafkeep.errors import RecordError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.naming import NameCheck, ObjectOrigin
from kafkeep.objects.sink.pipeline import BadRecord, Pipeline
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.objects.sink.writer import SinkWriter
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.store.memory import MemoryStore

HOUR_MS = 3_600_000
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
    monkeypatch.setattr("tests.support.stored_sinks.BATCH", batch)
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


EMPTY = [Record(0, 1, b"k", b'"a"'), Record(1, 1, b"k", b""), Record(2, 1, b"k", b'"b"')]
TIGHT_KEYS = {"store.kafka.keys": "true", "keys.format.class": "json"}


def test_a_value_of_zero_bytes_is_decided_by_behavior_on_null_values() -> None:
    """The real sink takes it for null; here the task failed with "there is no document"."""
    with pytest.raises(RecordError, match="offset 1: a record of t has no value") as caught:
        write_sink(EMPTY, JSON)
    assert "behavior.on.null.values" in (caught.value.hint or "")
    ignored = write_sink(EMPTY, {**JSON, "behavior.on.null.values": "ignore"})
    assert [ignored.store.get(e.key) for e in ignored.entries] == [b'"a"\n"b"\n']
    written = write_sink(EMPTY, {**JSON, "behavior.on.null.values": "write"})
    assert [written.store.get(e.key) for e in written.entries] == [b'"a"\nnull\n"b"\n']
    apart = write_sink(EMPTY, {**JSON, **TIGHT_KEYS, **FOLDER})
    folders = {e.key: apart.store.get(e.key) for e in apart.entries if "/gone/" in e.key}
    assert folders == {"topics/t/gone/t+0+0000000001.keys.json": b'"k"\n'}


def test_a_key_of_zero_bytes_is_a_null_key_of_the_json_converter() -> None:
    keys = [Record(0, 1, b'{"id":1}', b"1"), Record(1, 1, b"", b"2")]
    json_keys = {"key.converter": JSON["value.converter"], "key.converter.schemas.enable": "false"}
    stored = write_sink(keys, {**JSON, **json_keys, **TIGHT_KEYS})
    (found,) = [stored.store.get(e.key) for e in stored.entries if e.view == "keys"]
    assert found == b'{"id":1}\nnull\n'


def test_the_predicate_for_tombstones_sees_a_value_of_zero_bytes() -> None:
    drop = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "gone",
        "predicates": "gone",
        "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    stored = write_sink(EMPTY, {**JSON, **drop})
    assert [stored.store.get(e.key) for e in stored.entries] == [b'"a"\n"b"\n']


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
    sink = SinkOptions.parse({**JSON, **options})
    pipeline = Pipeline(sink, NameCheck(sink.naming, KeyLimits(), ".json"))
    kept = pipeline.run(raw, PartitionId("t", 1, 0), at_ms=0, on_bad=bad.append)
    assert [offset for ready in kept for offset in ready.rows.offsets.tolist()] == [0, 2]
    assert [one.offset for one in bad] == ([1] if reported else [])


def keyed(offset: int, key: str) -> Record:
    """A record whose key has a required schema, or is null."""
    if key == "-":
        return Record(offset, 0, None, b"%d" % offset)
    part = {"type": "array", "items": {"type": "string"}, "field": "part"}
    fields = [{"type": "string", "field": "id"}, part]
    schema = {"type": "struct", "name": "Key", "fields": fields}
    body = {"schema": schema, "payload": {"id": f"k{offset}", "part": ["a"]}}
    return Record(offset, 0, json.dumps(body).encode(), b"%d" % offset)


def versioned(offset: int, version: str) -> Record:
    """A record of a schema's version 1 or 2, or a tombstone."""
    if version == "-":
        return Record(offset, 0, b"k", None)
    names = ["n", "more"][: int(version)]
    fields = [{"type": "int64", "optional": name != "n", "field": name} for name in names]
    schema = {"type": "struct", "name": "Order", "version": int(version), "fields": fields}
    value = {"schema": schema, "payload": dict.fromkeys(names, offset)}
    return Record(offset, 0, b"k", json.dumps(value).encode())


def written(records: list[Record], size: int, options: dict[str, str]) -> dict[str, list[Any]]:
    """The rows of each object when ``size`` records come at a time."""
    sink = SinkOptions.parse({"value.converter": "JsonConverter", **options})
    pid, end = PartitionId("t", 1, 0), len(records)
    planned = PlannedRange(partition_id=pid, topic_id="id", range=OffsetRange(0, end))
    origin = ObjectOrigin(
        log_name="sink", planned=planned, plan="plan", naming=sink.naming, tags=sink.tags
    )
    store = MemoryStore()
    with Uploads() as uploads:
        writer = SinkWriter(store, origin, sink, uploads, at_ms=0, closes=RotateReason.END)
        for at in range(0, end, size):
            some = records[at : at + size]
            writer.add(Chunk(scan_batches(build_batch(some)), some[-1].offset + 1), 0)
        writer.end(end, finished=True)
        uploads.wait()
    return {info.key: read(info.key, store.get(info.key)) for info in store.list("")}


def read(key: str, body: bytes) -> list[Any]:
    if key.endswith(".avro"):
        return list(fastavro.reader(io.BytesIO(body)))
    if key.endswith(".parquet"):
        return [row["key"] for row in pq.read_table(io.BytesIO(body)).to_pylist()]
    if key.endswith(".bin"):
        return body.decode().splitlines()
    return [json.loads(line) for line in body.splitlines()]


@pytest.mark.parametrize(
    "options",
    [
        {"format.class": "json", "schema.compatibility": "NONE"},
        {"format.class": "json", "schema.compatibility": "NONE", "flush.size": "2"},
        {"format.class": "json", "schema.compatibility": "BACKWARD"},
        {"format.class": "avro", "schema.compatibility": "NONE"},
        {"format.class": "avro", "schema.compatibility": "FULL"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_tombstones_in_line_stand_in_the_same_file_however_records_come(
    options: dict[str, str],
) -> None:
    options = {**options, "behavior.on.null.values": "write"}
    for versions in map("".join, product("12-", repeat=4)):
        records = [versioned(n, version) for n, version in enumerate(versions)]
        whole = written(records, len(records), options)
        assert sum(map(len, whole.values())) == len(records)
        for size in (1, 3):
            assert written(records, size, options) == whole, (versions, size)


@pytest.mark.parametrize("form", ["json", "avro", "parquet"])
@pytest.mark.parametrize("keys", ["-k", "k-k", "--k", "kk", "kk--k"])
def test_null_keys_stand_among_keys_of_a_required_schema(keys: str, form: str) -> None:
    options = {
        "format.class": "json",
        "value.converter.schemas.enable": "false",
        "key.converter": "JsonConverter",
        "store.kafka.keys": "true",
        "keys.format.class": form,
    }
    records = [keyed(n, key) for n, key in enumerate(keys)]
    wanted = [None if k == "-" else {"id": f"k{n}", "part": ["a"]} for n, k in enumerate(keys)]
    for size in (1, 2, 5):
        found = written(records, size, options)
        stored = [found[key] for key in sorted(found) if ".keys." in key]
        assert [one for part in stored for one in part] == wanted
        # Where no key is null the schema stays required; where one is, at most one file more.
        assert len(stored) == (2 if form != "json" and keys[0] == "k" and "-" in keys else 1)


@pytest.mark.parametrize("keys", ["-", "--", "-k", "k-k", "kk--k"])
def test_a_null_key_is_an_empty_value_in_the_bytes_format_however_records_come(keys: str) -> None:
    options = {
        "format.class": "json",
        "value.converter.schemas.enable": "false",
        "key.converter": "JsonConverter",
        "store.kafka.keys": "true",
        "keys.format.class": "bytes",
    }
    key = b'{"schema": {"type": "bytes"}, "payload": "aw=="}'
    records = [Record(n, 0, None if k == "-" else key, b"%d" % n) for n, k in enumerate(keys)]
    for size in (1, 2, 5):
        found = written(records, size, options)
        [stored] = [found[name] for name in found if ".keys." in name]
        assert stored == ["" if k == "-" else "k" for k in keys]
