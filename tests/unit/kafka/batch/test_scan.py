from __future__ import annotations

import struct

import numpy as np
import pytest

from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import (
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Record,
    TimestampType,
    build_batch,
)
from kafkeep.kafka.batch.scan import (
    NO_RECORD,
    UnsupportedBatchError,
    check_crcs,
    min_timestamps,
    scan_batches,
)

# One record (timestamp 1000, key "k", value "v") as the Java producer writes it, by hand.
BY_HAND = bytes.fromhex(
    "0000000000000007"  # base offset
    "0000003a00000003" "02"  # length, leader epoch, magic
    "00000000"  # checksum, set below
    "0000" "00000000"  # attributes, last offset delta
    "00000000000003e8" "00000000000003e8"  # base and max timestamp
    "ffffffffffffffff" "ffff" "ffffffff"  # producer id, epoch, sequence
    "00000001"  # records
    "10" "00" "00" "00" "026b" "0276" "00"
)  # fmt: skip


def batch(first: int = 0, times: tuple[int, ...] = (5, 3, 9), **options: object) -> bytes:
    records = [Record(first + i, time, b"k", b"v" * i) for i, time in enumerate(times)]
    return build_batch(records, **options)  # type: ignore[arg-type]


def test_header_is_read_as_laid_out_by_hand() -> None:
    batches = scan_batches(BY_HAND)
    assert batches.base_offsets.tolist() == batches.last_offsets.tolist() == [7]
    assert batches.base_timestamps.tolist() == batches.max_timestamps.tolist() == [1000]
    assert batches.leader_epochs.tolist() == [3]
    assert batches.producer_ids.tolist() == [-1]
    assert batches.record_counts.tolist() == [1]
    assert min_timestamps(batches).tolist() == [1000]


def test_built_batch_equals_the_one_made_by_hand() -> None:
    built = build_batch([Record(7, 1000, b"k", b"v")], leader_epoch=3)
    assert built[:17] + bytes(4) + built[21:] == BY_HAND


def test_scan_drops_a_cut_tail_and_says_where_whole_batches_end() -> None:
    data = batch(0) + batch(3)
    for cut in range(len(batch(3))):
        batches = scan_batches(data + batch(6)[:cut])
        assert (len(batches), batches.consumed) == (2, len(data))


def test_scan_takes_a_cut_tail_for_damage_on_request() -> None:
    with pytest.raises(DamagedError, match="truncated"):
        scan_batches(batch(0) + batch(3)[:-1], partial_tail=False)


def test_scan_of_nothing_is_empty() -> None:
    batches = scan_batches(b"")
    assert len(batches) == 0
    check_crcs(batches)
    assert min_timestamps(batches).tolist() == []


@pytest.mark.parametrize("magic", [0, 1])
def test_scan_refuses_old_message_formats_by_name(magic: int) -> None:
    old = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + bytes(20)
    with pytest.raises(UnsupportedBatchError, match=f"format v{magic}") as caught:
        scan_batches(old)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (8, struct.pack(">i", 10)),
        (8, struct.pack(">i", -1)),
        (16, b"\x03"),
        (21, struct.pack(">h", 5)),
        (23, struct.pack(">i", -1)),
        (57, struct.pack(">i", -1)),
        (57, struct.pack(">i", 4)),
        (0, struct.pack(">q", -1)),
        (0, struct.pack(">q", 2**63 - 2)),
    ],
)
def test_scan_finds_a_header_that_makes_no_sense(position: int, value: bytes) -> None:
    broken = bytearray(batch(40))
    broken[position : position + len(value)] = value
    with pytest.raises(DamagedError, match="at byte"):
        scan_batches(broken)


def test_scan_finds_offsets_that_go_back() -> None:
    with pytest.raises(DamagedError, match=r"offset 2 .*below"):
        scan_batches(batch(0) + batch(2))


@pytest.mark.parametrize("size", [1, 4000])
def test_check_crcs_names_the_batch_that_was_changed(size: int) -> None:
    good = [build_batch([Record(i, 0, None, b"x" * size)]) for i in range(5)]
    check_crcs(scan_batches(b"".join(good)))
    bad = bytearray(good[3])
    bad[-2] ^= 1
    with pytest.raises(DamagedError, match=r"offset 3 .*checksum"):
        check_crcs(scan_batches(b"".join([*good[:3], bytes(bad), good[4]])))


@pytest.mark.parametrize("codec", list(Codec))
def test_min_timestamps_are_the_true_smallest(codec: Codec) -> None:
    low, high = -(2**63), 2**63 - 1
    data = batch(0, codec=codec) + batch(3, (0, -5, -1), codec=codec)
    data += batch(6, (high, low, 0), codec=codec)
    assert min_timestamps(scan_batches(data)).tolist() == [3, -5, low]


def test_min_timestamps_follow_the_time_type_and_skip_what_has_no_records() -> None:
    data = (
        batch(0, timestamp_type=TimestampType.LOG_APPEND, max_timestamp=77)
        + build_batch([Record(3, 1, b"\0\0\0\1", b"")], attributes=CONTROL | TRANSACTIONAL)
        + build_batch([], base_offset=4, last_offset=9)
        + batch(10, base_timestamp=10**12, attributes=DELETE_HORIZON)
    )
    assert min_timestamps(scan_batches(data)).tolist() == [77, NO_RECORD, NO_RECORD, 3]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_min_timestamps_refuse_a_bomb(codec: Codec) -> None:
    data = build_batch([Record(8, 1, None, bytes(1_000_000))], codec=codec)
    with pytest.raises(DamagedError, match=r"offset 8.*more than 100000 bytes"):
        min_timestamps(scan_batches(data), limit_bytes=100_000)


def test_select_keeps_columns_together_and_packed_joins_what_is_left() -> None:
    parts = [batch(0), batch(3), batch(6)]
    batches = scan_batches(b"".join(parts))
    left = batches.select(np.array([True, False, True]))
    assert left.base_offsets.tolist() == [0, 6]
    assert bytes(left.packed()) == parts[0] + parts[2]
    assert bytes(batches.packed()) == b"".join(parts)
    assert bytes(batches.slice_bytes(1, 3)) == parts[1] + parts[2]
    with pytest.raises(ValueError, match="not adjacent"):
        left.slice_bytes(0, 2)


def test_flags_are_read_from_attributes() -> None:
    data = batch(0, attributes=TRANSACTIONAL, producer_id=4) + batch(
        3, codec=Codec.LZ4, timestamp_type=TimestampType.LOG_APPEND
    )
    data += build_batch([Record(6, 1, b"k", b"v")], last_offset=8)
    batches = scan_batches(data)
    assert batches.is_transactional.tolist() == [True, False, False]
    assert batches.is_control.tolist() == [False] * 3
    assert batches.codec.tolist() == [0, Codec.LZ4, 0]
    assert batches.timestamp_type.tolist() == [0, 1, 0]
    assert batches.is_dense.tolist() == [True, True, False]
