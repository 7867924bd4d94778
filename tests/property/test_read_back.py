"""Whatever a sink wrote comes back: every part of a record that its format holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.stored_sinks import Stored, write_sink

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.choose_log import what_is_missing
from kafkeep.objects.records import iter_records
from kafkeep.restore.read import iter_ready

QUICK = settings(max_examples=60, deadline=None)
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]

JSON_VALUES = st.builds(
    lambda group, text, number: json.dumps(
        {"group": group, "text": text, "n": number}, ensure_ascii=False, separators=(",", ":")
    ).encode(),
    st.sampled_from(["a", "b", "c"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.integers(-(2**53), 2**53),
)
TEXT_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(str.encode)
BYTE_VALUES = st.binary(max_size=12)
LINE_VALUES = st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"."))
HEADERS = st.lists(
    st.tuples(st.text("xyz", max_size=3).map(str.encode), st.none() | st.binary(max_size=6)),
    max_size=3,
)

KINDS: dict[str, tuple[Mapping[str, str], st.SearchStrategy[bytes]]] = {
    "json": ({"format.class": "json"}, JSON_VALUES),
    "json texts": ({"format.class": "json", "value.converter": "StringConverter"}, TEXT_VALUES),
    "json bytes": ({"format.class": "json", "value.converter": "ByteArrayConverter"}, BYTE_VALUES),
    "json whole": (
        {
            "format.class": "json",
            "value.converter": "ByteArrayConverter",
            "store.envelope": "true",
        },
        BYTE_VALUES,
    ),
    "avro texts": ({"format.class": "avro", "value.converter": "StringConverter"}, TEXT_VALUES),
    "avro bytes": ({"format.class": "avro", "avro.codec": "deflate"}, BYTE_VALUES),
    "avro json": (
        {
            "format.class": "avro",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        },
        JSON_VALUES,
    ),
    "avro whole": ({"format.class": "avro", "store.envelope": "true"}, BYTE_VALUES),
    "parquet": ({"format.class": "parquet"}, BYTE_VALUES),
    "parquet texts": (
        {"format.class": "parquet", "value.converter": "StringConverter"},
        TEXT_VALUES,
    ),
    "parquet json": (
        {
            "format.class": "parquet",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
        },
        JSON_VALUES,
    ),
    "bytes": ({"format.class": "bytes"}, LINE_VALUES),
    "bytes alone": (
        {"format.class": "bytes", "format.bytearray.separator": "", "flush.size": "1"},
        BYTE_VALUES,
    ),
}
PLACES: tuple[Mapping[str, str], ...] = (
    {},
    {
        "partitioner.class": "TimeBasedPartitioner",
        "path.format": "'s'=ss",
        "partition.duration.ms": "1000",
        "timestamp.extractor": "Record",
        "locale": "en",
        "timezone": "UTC",
    },
)


@st.composite
def sinks(draw: st.DrawFn) -> tuple[dict[str, str], list[Record]]:
    """Options of a sink, and records that it can write."""
    name = draw(st.sampled_from(sorted(KINDS)))
    base, values = KINDS[name]
    options = dict(base) | draw(st.sampled_from(PLACES))
    if name == "json" and draw(st.booleans()):
        options |= {"partitioner.class": "FieldPartitioner", "partition.field.name": "group"}
    options.setdefault("flush.size", draw(st.sampled_from(["1", "3", "10", "1000"])))
    whole = base.get("store.envelope") == "true" or name == "parquet"
    kinds = ["json", "avro", "parquet"]
    if draw(st.booleans()):
        options |= {"store.kafka.keys": "true", "keys.format.class": draw(st.sampled_from(kinds))}
    if draw(st.booleans()):
        form = draw(st.sampled_from(kinds))
        options |= {"store.kafka.headers": "true", "headers.format.class": form}
    compressed = base["format.class"] in ("json", "bytes")
    if compressed and not {"avro", "parquet"} & set(options.values()):
        options["s3.compression.type"] = draw(st.sampled_from(["none", "gzip", "zstd"]))
    nulls = st.none() if draw(st.booleans()) and options.get("store.kafka.keys") else st.nothing()
    if whole or options.get("store.kafka.keys"):
        options["behavior.on.null.values"] = "write"
        folder = not whole and (base["format.class"] == "bytes" or draw(st.booleans()))
        if folder:
            options["tombstone.encoded.partition"] = "gone"
        if options.get("partitioner.class") != "FieldPartitioner" or folder:
            values = values | nulls
    return options, draw(_records(values))


@st.composite
def _records(draw: st.DrawFn, values: st.SearchStrategy[bytes | None]) -> list[Record]:
    offset, found = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(1, 25))):
        offset += draw(st.sampled_from([1, 1, 1, 1, 3]))
        key = draw(st.none() | st.binary(max_size=5))
        time = draw(st.integers(0, 5000))
        found.append(Record(offset, time, key, draw(values), draw(HEADERS)))
    return found


def expected(stored: Stored, records: list[Record]) -> list[Row]:
    """What must come back: times where all of a file are alike, the parts that are stored."""
    whole = any(entry.converter == "envelope" for entry in stored.entries)
    views = {entry.view for entry in stored.entries}
    times = {
        offset: entry.min_timestamp
        for entry in stored.entries
        if entry.own_records and entry.min_timestamp == entry.max_timestamp
        for start, end in (entry.runs or [(entry.range.start, entry.range.end)])
        for offset in range(start, end)
    }
    return [
        (
            r.offset,
            r.timestamp if whole else times.get(r.offset, -1),
            r.key if whole or "keys" in views or r.value is None else None,
            r.value,
            list(r.headers) if whole or "headers" in views else [],
        )
        for r in records
    ]


def rows(batches: Any) -> list[Row]:
    return [
        (
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


@QUICK
@given(sink=sinks(), data=st.data())
def test_what_a_sink_wrote_comes_back(
    sink: tuple[dict[str, str], list[Record]], data: st.DataObject
) -> None:
    options, records = sink
    stored = write_sink(records, options)
    wanted = expected(stored, records)
    found = rows(iter_records(stored.store, stored.entries, options=stored.options))
    assert found == wanted
    lost = " ".join(what_is_missing(stored.entries, stored.options))
    exact = [row[1] for row in found] == [r.timestamp for r in records]
    assert ("timestamps" in lost) != exact
    assert ("keys were" in lost) or [row[2] for row in found] == [r.key for r in records]
    assert ("headers were" in lost) or [row[4] for row in found] == [r.headers for r in records]
    start = data.draw(st.integers(0, records[-1].offset))
    part = OffsetRange(start, data.draw(st.integers(start, records[-1].offset + 1)))
    some = rows(iter_records(stored.store, stored.entries, part, options=stored.options))
    assert some == [row for row in wanted if part.start <= row[0] < part.end]


@QUICK
@given(sink=sinks(), data=st.data())
def test_a_restore_from_a_sink_continues_after_any_number_of_records(
    sink: tuple[dict[str, str], list[Record]], data: st.DataObject
) -> None:
    options, records = sink
    stored = write_sink(records, options)
    skip = data.draw(st.integers(0, len(records)))
    found: list[Row] = []
    for ready in iter_ready(
        stored.store, stored.entries, skip_records=skip, options=stored.options
    ):
        found += rows([decode(scan_batches(bytes(ready.body)))])
        assert ready.records == len(decode(scan_batches(bytes(ready.body))))
    assert [row[1:] for row in found] == [row[1:] for row in expected(stored, records)[skip:]]
