"""Schema ids in the first five bytes of keys and values: other ids, and not a byte more.

What came out is read by kafka-python's record parser, which checks lengths and checksums itself.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange
from kafkeep.compare.task import ids_of, mapped, with_ids
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import TRANSACTIONAL, Record, build_batch
from kafkeep.kafka.batch.rewrite import ReadyBatch, regroup, stamp
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.schema_ids import IdMap, IdRewriter
from kafkeep.kafka.batch.unpack import iter_unpacked, walk_records

IDS = {3: 70_000, 70_000: 3, 2**31 - 1: 4}
TIME = 1_733_220_000_000
CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]
"""The parser has no snappy; that one is read by kafkeep itself."""


def framed(id: int, data: bytes = b"data") -> bytes:
    return struct.pack(">bI", 0, id) + data


RECORDS = [
    Record(10, TIME, framed(3), framed(70_000), [(b"h", framed(3)), (b"h", None)]),
    Record(11, TIME + 5, None, framed(2**31 - 1, b"")),
    Record(12, TIME - 9, framed(5), None),
    Record(13, TIME, b"\x00\x00\x00\x03", b"\x01\x00\x00\x00\x03x"),
    Record(14, -1, b"", framed(9, b"x" * 300)),
]
EXPECTED = [
    (framed(70_000), framed(3)),
    (None, framed(4, b"")),
    (framed(5), None),
    (b"\x00\x00\x00\x03", b"\x01\x00\x00\x00\x03x"),
    (b"", framed(9, b"x" * 300)),
]


def ready(records: list[Record], **more: Any) -> list[ReadyBatch]:
    chunk = scan_batches(build_batch(records, **more))
    found = OffsetRange(0, 1 << 40)
    return list(regroup([chunk], range=found, max_batch_bytes=4 << 20))


def parsed(batch: ReadyBatch) -> list[Any]:
    from kafka.record import MemoryRecords

    stamp(batch.body, 77, 0, 0)
    records = MemoryRecords(bytes(batch.body))
    found = []
    while records.has_next():
        one = records.next_batch()
        assert one is not None and one.validate_crc()
        found.extend(one)
    assert len(found) == batch.records
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_known_ids_are_replaced_and_nothing_else_is_touched(codec: Codec) -> None:
    batches = ready(RECORDS, codec=codec, attributes=TRANSACTIONAL)
    before = [record for batch in ready(RECORDS, codec=codec) for record in parsed(batch)]
    rewriter = IdRewriter(IdMap(IDS))

    after = list(rewriter.batches(iter(batches), "t-0"))
    records = [record for batch in after for record in parsed(batch)]

    assert [(r.key, r.value) for r in records] == EXPECTED
    for one, other in zip(before, records, strict=True):
        assert (one.offset, one.timestamp, one.headers) == (
            other.offset,
            other.timestamp,
            other.headers,
        )
    [batch] = after
    assert struct.unpack_from(">h", batch.body, 21)[0] == codec
    assert (batch.first_offset, batch.last_offset) == (10, 14)
    assert rewriter.to_json() == {
        "rewritten": 3,
        "unknown_keys": 1,
        "unknown_values": 1,
        "plain": 3,
    }


def test_snappy_too() -> None:
    [batch] = IdRewriter(IdMap(IDS)).batches(iter(ready(RECORDS, codec=Codec.SNAPPY)), "t-0")
    table = decode(scan_batches(batch.body))
    assert list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == EXPECTED


def test_only_the_side_that_was_asked_for_is_changed() -> None:
    for keys, values in ((True, False), (False, True)):
        [batch] = IdRewriter(IdMap(IDS, keys, values)).batches(iter(ready(RECORDS)), 0)
        first = parsed(batch)[0]
        assert first.key == (framed(70_000) if keys else framed(3))
        assert first.value == (framed(3) if values else framed(70_000))


def test_a_batch_without_known_ids_is_passed_on_as_it_is() -> None:
    [batch] = ready(RECORDS, codec=Codec.ZSTD)
    [after] = IdRewriter(IdMap({1: 2})).batches(iter([batch]), 0)
    assert after is batch


def test_records_that_are_read_again_are_counted_once() -> None:
    rewriter = IdRewriter(IdMap(IDS))
    for records in (RECORDS[:3], RECORDS[1:], RECORDS):
        list(rewriter.batches(iter(ready(records)), "t-0"))
    assert sum(rewriter.counts) == 8
    list(rewriter.batches(iter(ready(RECORDS)), "t-1"))
    assert sum(rewriter.counts) == 16


def test_rows_that_are_dealt_out_have_the_new_ids_and_are_left_in_place() -> None:
    source = build_batch(RECORDS)
    [part] = iter_unpacked(scan_batches(source))
    rows = walk_records(part).select(np.array([4, 0]))
    rewriter = IdRewriter(IdMap(IDS))

    [(after, codec)] = rewriter.rows(iter([(rows, 3)]), None)

    assert codec == 3 and sum(rewriter.counts) == 0
    texts = [bytes(after.buffer[after.fields[i] : after.ends[i]]) for i in range(2)]
    assert framed(70_000) in texts[1] and framed(9, b"x") in texts[0]
    assert after.offsets.tolist() == [14, 10]
    assert bytes(part.buffer) == source, "others read the same bytes"


@given(
    values=st.lists(st.none() | st.binary(max_size=8), max_size=20),
    start=st.integers(0, 3),
)
def test_a_comparison_expects_the_same_ids(values: list[bytes | None], start: int) -> None:
    ids = {0: 1, 1: 0, 256: 1 << 24}
    column = pa.array(values, pa.binary()).slice(start)
    expected = [None if value is None else _mapped(value, ids) for value in values[start:]]
    assert mapped(column, ids).to_pylist() == expected


def test_only_what_the_restore_changed_is_expected_to_differ() -> None:
    batch = pa.record_batch({"key": [framed(3), None], "value": [framed(3), b"x"]})
    told = {"schemas": {"mode": "map", "ids": {"3": 7}}, "asked": {"ids_in": "values"}}
    ids = ids_of(told)
    assert ids is not None
    [found] = with_ids([batch], ids)
    assert found.to_pydict() == {"key": [framed(3), None], "value": [framed(7), b"x"]}
    assert ids_of({"schemas": {"mode": "ids", "ids": {}}}) is None
    assert ids_of({}) is None


def _mapped(value: bytes, ids: dict[int, int]) -> bytes:
    if len(value) < 5 or value[0] != 0:
        return value
    id = int.from_bytes(value[1:5])
    return b"\x00" + ids.get(id, id).to_bytes(4) + value[5:]


@given(
    values=st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=20),
    codec=st.sampled_from(CODECS),
)
def test_any_bytes_keep_all_but_a_known_id(values: list[bytes | None], codec: Codec) -> None:
    ids = {0: 1, 1: 0, 256: 1 << 24}
    records = [Record(i, TIME, value, value) for i, value in enumerate(values)]
    [batch] = IdRewriter(IdMap(ids)).batches(iter(ready(records, codec=codec)), 0)
    for value, record in zip(values, parsed(batch), strict=True):
        expected = None if value is None else _mapped(value, ids)
        assert (record.key, record.value) == (expected, expected)
