"""Records that no file can hold go the way of other bad records, and harm no others."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.errors import RecordError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.range_writer import Chunk, Uploads
from kafkeep.objects.sink.naming import ObjectOrigin
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.objects.sink.writer import SinkWriter
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.store.memory import MemoryStore

COUNT = 40
TOLERANT = {"errors.tolerance": "all"}
DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "5"},
}
ENUM = {
    "type": "string",
    "parameters": {"io.confluent.connect.avro.Enum": "E", "io.confluent.connect.avro.Enum.a": "a"},
}


def number(value: int) -> str:
    """A decimal as JsonConverter has it: its unscaled value as bytes, in base64."""
    return base64.b64encode(value.to_bytes(8, "big", signed=True)).decode()


def record(n: int, kind: dict[str, Any], price: Any, key: str = "k") -> Record:
    fields = [
        {"type": "int32", "field": "n"},
        {"type": "string", "field": "f"},
        {**kind, "field": "price"},
    ]
    schema = {"type": "struct", "name": "Order", "fields": fields}
    payload = {"n": n, "f": "ab"[n % 2], "price": price}
    value = json.dumps({"schema": schema, "payload": payload}).encode()
    return Record(n, 0, key.encode(), value)


class Written:
    """What a sink made of records, in batches of seven."""

    def __init__(self, records: Sequence[Record], options: dict[str, str]) -> None:
        defaults = {"value.converter": "JsonConverter", "key.converter": "StringConverter"}
        sink = SinkOptions.parse({**defaults, **options})
        end = records[-1].offset + 1
        planned = PlannedRange(
            partition_id=PartitionId("t", 1, 0), topic_id="id", range=OffsetRange(0, end)
        )
        origin = ObjectOrigin(
            log_name="sink", planned=planned, plan="plan", naming=sink.naming, tags=sink.tags
        )
        self.store = MemoryStore()
        with Uploads() as uploads:
            writer = SinkWriter(self.store, origin, sink, uploads, at_ms=0, closes=RotateReason.END)
            for at in range(0, len(records), 7):
                part = records[at : at + 7]
                batch = build_batch(part)
                writer.add(Chunk(scan_batches(batch), part[-1].offset + 1), 0)
            writer.end(end, finished=True)
            uploads.wait()
            self.entries: list[Entry] = writer.finish()
        self.dead_letters = writer.dead_letters
        self.position = writer.position

    @property
    def bad(self) -> list[int]:
        return [letter.record.offset for letter in self.dead_letters.first]

    def rows(self, entry: Entry) -> list[dict[str, Any]]:
        body = io.BytesIO(self.store.get(entry.key))
        if entry.key.endswith(".avro"):
            return list(fastavro.reader(body))  # type: ignore[arg-type]
        if entry.key.endswith(".parquet"):
            found: list[dict[str, Any]] = pq.read_table(body).to_pylist()
            return found
        return [json.loads(line) for line in body.getvalue().splitlines()]

    def numbers(self, view: str = "value") -> list[int]:
        return [row["n"] for e in self.entries if e.view == view for row in self.rows(e)]


def check(written: Written, bad: list[int], count: int = COUNT) -> None:
    good = [n for n in range(count) if n not in bad]
    assert written.bad == bad and len(written.dead_letters) == len(bad)
    assert sorted(written.numbers()) == good
    assert sum(e.records for e in written.entries if e.view == "value") == len(good)
    assert written.position == count


@pytest.mark.parametrize("bad", [[0], [6, 7, 20], [39], list(range(5, 30))])
@pytest.mark.parametrize("places", ["default", "field"])
def test_a_decimal_of_too_many_digits_is_left_out_of_parquet(bad: list[int], places: str) -> None:
    records = [record(n, DECIMAL, number(10**7 if n in bad else n)) for n in range(COUNT)]
    options = {"format.class": "parquet", "partitioner.class": places, "flush.size": "12"}
    field = {"partition.field.name": "f"} if places == "field" else {}
    written = Written(records, {**options, **field, **TOLERANT})
    check(written, bad)
    assert "more digits than decimal128(5, 2)" in written.dead_letters.first[0].error.message
    windows = sorted({(e.range.start, e.range.end): 0 for e in written.entries})
    full = [
        sum(e.records for e in written.entries if (e.range.start, e.range.end) == window)
        for window in windows
    ]
    assert set(full[:-1]) == {12}, "bad records do not count for flush.size"


def test_a_decimal_in_a_list_harms_no_neighbour() -> None:
    bad = [3, 11, 12]
    kind = {"type": "array", "items": DECIMAL}
    rows = [[number(n), number(10**7 if n in bad else 1)] for n in range(COUNT)]
    records = [record(n, kind, row) for n, row in enumerate(rows)]
    check(Written(records, {"format.class": "parquet", "flush.size": "5", **TOLERANT}), bad)


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_a_text_that_is_no_symbol_is_left_out(form: str) -> None:
    bad = [2, 9, 33]
    records = [record(n, ENUM, "z" if n in bad else "a") for n in range(COUNT)]
    options = {"format.class": form, "enhanced.avro.schema.support": "true", "flush.size": "100"}
    check(Written(records, {**options, **TOLERANT}), bad)


def test_a_decimal_that_json_has_no_number_for_is_left_out() -> None:
    huge = base64.b64encode(b"\x7f" + b"\xff" * 4000).decode()
    kind = {"type": "bytes", "name": DECIMAL["name"], "parameters": {"scale": "2"}}
    records = [record(n, kind, huge if n == 8 else number(n)) for n in range(COUNT)]
    options = {"format.class": "json", "json.decimal.format": "NUMERIC", "flush.size": "100"}
    check(Written(records, {**options, **TOLERANT}), [8])


def test_the_objects_beside_it_leave_it_out_too() -> None:
    """The value comes first and is refused: its key and headers must not be there either."""
    bad = [0, 4, 20]
    records = [
        record(n, DECIMAL, number(10**7 if n in bad else n), key=f"k{n}") for n in range(COUNT)
    ]
    options = {"format.class": "parquet", "store.kafka.keys": "true", "keys.format.class": "json"}
    more = {"store.kafka.headers": "true", "headers.format.class": "json", "flush.size": "100"}
    written = Written(records, {**options, **more, **TOLERANT})
    check(written, bad)
    [keys] = [e for e in written.entries if e.view == "keys"]
    assert written.rows(keys) == [f"k{n}" for n in written.numbers()]  # type: ignore[comparison-overlap]
    [headers] = [e for e in written.entries if e.view == "headers"]
    assert len(written.rows(headers)) == COUNT - len(bad)


def test_a_key_that_its_file_cannot_hold_takes_its_value_along() -> None:
    """Keys of two schemas in one file of keys: the value was fine, and must not be written."""
    small = {"type": "int32"}
    records = []
    for n in range(COUNT):
        kind, payload = ({"type": "string"}, "x") if n in (7, 30) else (small, n)
        key = json.dumps({"schema": kind, "payload": payload})
        records.append(record(n, DECIMAL, number(n), key=key))
    options = {
        "format.class": "parquet",
        "store.kafka.keys": "true",
        "keys.format.class": "avro",
        "key.converter": "JsonConverter",
        "flush.size": "100",
    }
    written = Written(records, {**options, **TOLERANT})
    check(written, [7, 30])
    [keys] = [e for e in written.entries if e.view == "keys"]
    assert written.rows(keys) == written.numbers()  # type: ignore[comparison-overlap]


def test_a_schema_that_cannot_be_judged_is_refused_until_the_window_ends() -> None:
    """Under BACKWARD, schemas without versions cannot share a window; the next one is free."""
    wide = {"type": "string"}
    records = [
        record(n, wide if n >= 5 else DECIMAL, "x" if n >= 5 else number(n)) for n in range(20)
    ]
    back = [record(n, DECIMAL, number(n)) for n in range(20, 30)]
    options = {"format.class": "json", "schema.compatibility": "BACKWARD", "flush.size": "10"}
    written = Written(records + back, {**options, **TOLERANT})
    check(written, list(range(5, 20)), 30)


def test_values_that_no_object_of_the_format_holds_are_all_left_out() -> None:
    records = [record(n, DECIMAL, number(n)) for n in range(COUNT)]
    written = Written(records, {"format.class": "bytes", "flush.size": "100", **TOLERANT})
    check(written, list(range(COUNT)))
    assert written.entries == []


def test_without_tolerance_it_stops_and_is_named() -> None:
    records = [record(n, DECIMAL, number(10**7 if n == 23 else n)) for n in range(COUNT)]
    with pytest.raises(RecordError, match="t-0 offset 23: a decimal has more digits"):
        Written(records, {"format.class": "parquet", "flush.size": "100"})
