from __future__ import annotations

import pyarrow as pa
import pytest

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import RECORD_SCHEMA, decode, iter_decode
from kafkeep.kafka.batch.layout import (
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Record,
    TimestampType,
    build_batch,
)
from kafkeep.kafka.batch.scan import scan_batches

RECORDS = [
    Record(10, 0, None, None),
    Record(11, -1, b"", b""),
    Record(12, -5, b"key", None, [(b"h", None), (b"h", b""), (b"\xff", b"x")]),
    Record(13, 2**63 - 1, None, b"v" * 300, [(b"", b"y")]),
    Record(14, -(2**63), b"k" * 100, b"\0"),
]


def to_records(table: pa.RecordBatch) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for row in table.to_pylist()
    ]


def plain(records: list[Record]) -> list[Record]:
    return [record._replace(headers=list(record.headers)) for record in records]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_field_comes_back_null_or_empty_as_it_was(codec: Codec) -> None:
    table = decode(scan_batches(build_batch(RECORDS, codec=codec)))
    table.validate(full=True)
    assert table.schema == RECORD_SCHEMA
    assert to_records(table) == plain(RECORDS)
    assert table["timestamp_type"].to_pylist() == [0] * 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_an_independent_reader_sees_the_same(codec: Codec) -> None:
    from kafka.record import MemoryRecords

    records = [record._replace(headers=[]) for record in RECORDS[:4]]
    data = build_batch(records, codec=codec)
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    seen = [Record(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    # The oracle does not wrap times around; the last one would differ.
    assert seen == to_records(decode(scan_batches(data)))


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND, max_timestamp=99)
    table = decode(scan_batches(data))
    assert set(table["timestamp"].to_pylist()) == {99}
    assert set(table["timestamp_type"].to_pylist()) == {1}


def test_a_delete_horizon_is_only_another_base_for_times() -> None:
    data = build_batch(RECORDS, base_timestamp=1_700_000_000_000, attributes=DELETE_HORIZON)
    assert to_records(decode(scan_batches(data))) == plain(RECORDS)


def test_range_holes_and_control_batches_leave_only_what_is_asked() -> None:
    data = (
        build_batch([RECORDS[0], RECORDS[2], RECORDS[4]])
        + build_batch([Record(15, 0, b"\0\0\0\1", b"")], attributes=CONTROL | TRANSACTIONAL)
        + build_batch([], base_offset=16, last_offset=19)
        + build_batch([Record(i, i, None, b"") for i in range(20, 30)])
    )
    table = decode(scan_batches(data), range=OffsetRange(11, 22))
    assert table["offset"].to_pylist() == [12, 14, 20, 21]
    assert table["headers"].to_pylist()[0][0] == {"key": b"h", "value": None}


def test_an_empty_range_holds_nothing() -> None:
    assert decode(scan_batches(build_batch(RECORDS)), range=OffsetRange(12, 12)).num_rows == 0


def test_nothing_decodes_to_an_empty_table() -> None:
    assert decode(scan_batches(b"")).num_rows == 0
    assert decode(scan_batches(b"")).schema == RECORD_SCHEMA


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_pieces_are_bounded_and_in_order(codec: Codec) -> None:
    data = b"".join(build_batch([Record(i, 0, None, bytes(1000))], codec=codec) for i in range(100))
    pieces = list(iter_decode(scan_batches(data), max_bytes=10_000))
    assert len(pieces) >= 10
    assert [o for piece in pieces for o in piece["offset"].to_pylist()] == list(range(100))


def test_mixed_codecs_keep_their_order() -> None:
    codecs = [Codec.NONE, Codec.ZSTD, Codec.ZSTD, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.SNAPPY]
    data = b"".join(
        build_batch([Record(i, i, b"k", b"v")], codec=codec) for i, codec in enumerate(codecs)
    )
    assert decode(scan_batches(data))["offset"].to_pylist() == list(range(7))


@pytest.mark.parametrize(
    ("position", "value"),
    [(61, 0x7E), (61, 0xFF), (64, 0x7F), (65, 0x7F), (66, 0x7F), (-1, 0x7F), (64, 0x01)],
)
def test_a_length_that_lies_is_damage_with_its_place(position: int, value: int) -> None:
    data = bytearray(build_batch([Record(5, 1, None, None)]))
    data[position] = value
    with pytest.raises(DamagedError, match="offset 5 is damaged at byte"):
        decode(scan_batches(data))


def test_bytes_behind_the_last_record_are_damage() -> None:
    data = bytearray(build_batch([Record(5, 1, None, None), Record(6, 1, None, None)]))
    data[57:61] = (1).to_bytes(4, "big")
    with pytest.raises(DamagedError, match="number of records"):
        decode(scan_batches(data))
