from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
import pytest

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import (
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    Record,
    TimestampType,
    build_batch,
)
from kafkeep.kafka.batch.rewrite import ReadyBatch, regroup, stamp
from kafkeep.kafka.batch.scan import check_crcs, scan_batches

ALL = OffsetRange(0, 2**62)
MAX = 1 << 20
EXTREMES = (0, -1, -5, 2**63 - 1, -(2**63), 1)


def run(*parts: bytes, **options: object) -> list[ReadyBatch]:
    settings = {"range": ALL, "max_batch_bytes": MAX, **options}
    ready = list(regroup([scan_batches(part) for part in parts], **settings))  # type: ignore[arg-type]
    for batch in ready:
        stamp(batch.body, 9, 0, 5)
        check_crcs(scan_batches(batch.body, partial_tail=False))
    return ready


def rows(ready: Iterable[ReadyBatch]) -> list[tuple[object, ...]]:
    out = []
    for batch in ready:
        table = decode(scan_batches(batch.body))
        assert table["offset"].to_pylist() == list(range(batch.records))
        assert set(table["timestamp_type"].to_pylist()) == {0}
        for row in table.to_pylist():
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            out.append((row["timestamp"], row["key"], row["value"], headers))
    return out


def expected(records: Iterable[Record]) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value, list(r.headers)) for r in records]


def some(first: int, count: int, size: int = 10) -> list[Record]:
    return [Record(first + i, first + i, b"k", bytes(size), [(b"h", None)]) for i in range(count)]


def header(body: bytearray) -> dict[str, int]:
    names = "base length epoch magic crc bits delta first_ms max_ms producer pepoch seq count"
    return dict(zip(names.split(), struct.unpack_from(">qiibIhiqqqhii", body), strict=True))


def test_a_large_dense_batch_passes_with_its_records_untouched() -> None:
    source = build_batch(some(70, 100), attributes=TRANSACTIONAL, producer_id=3, leader_epoch=4)
    (ready,) = run(source, target_bytes=1000)
    assert ready.body[61:] == source[61:]
    assert (ready.records, ready.first_offset, ready.last_offset) == (100, 70, 169)
    assert ready.dense
    fields = header(ready.body)
    assert (fields["base"], fields["epoch"], fields["bits"]) == (0, -1, 0)
    assert (fields["producer"], fields["pepoch"], fields["seq"]) == (9, 0, 5)


@pytest.mark.parametrize("codec", list(Codec))
def test_small_batches_are_merged_and_keep_their_codec(codec: Codec) -> None:
    records = some(5, 30)
    parts = [build_batch(records[i : i + 3], codec=codec) for i in range(0, 30, 3)]
    (ready,) = run(b"".join(parts[:4]), b"".join(parts[4:]))
    assert rows([ready]) == expected(records)
    assert header(ready.body)["bits"] == codec
    assert (ready.first_offset, ready.last_offset, ready.dense) == (5, 34, True)


def test_a_codec_change_ends_the_merge() -> None:
    codecs = [Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.NONE]
    source = b"".join(build_batch(some(i, 1), codec=codec) for i, codec in enumerate(codecs))
    ready = run(source)
    assert [header(batch.body)["bits"] for batch in ready] == [0, Codec.ZSTD, 0]
    assert rows(ready) == expected(some(0, 4))


def test_holes_close_and_the_source_offsets_are_kept() -> None:
    records = [some(offset, 1)[0] for offset in (3, 4, 9, 20)]
    (ready,) = run(build_batch(records, base_offset=0, last_offset=30))
    assert rows([ready]) == expected(records)
    assert ready.offsets is not None
    assert ready.offsets.tolist() == [3, 4, 9, 20]
    assert header(ready.body)["delta"] == 3


@pytest.mark.parametrize("codec", list(Codec))
def test_times_are_exact_for_any_int64(codec: Codec) -> None:
    for start in range(len(EXTREMES)):
        times = EXTREMES[start:] + EXTREMES[:start]
        records = [Record(i, time, None, b"") for i, time in enumerate(times)]
        (ready,) = run(build_batch(records, codec=codec))
        assert rows([ready]) == expected(records)
        fields = header(ready.body)
        assert (fields["first_ms"], fields["max_ms"]) == (times[0], 2**63 - 1)


def test_all_negative_times_have_a_negative_maximum() -> None:
    (ready,) = run(build_batch([Record(0, -5, None, None), Record(1, -9, None, None)]))
    assert header(ready.body)["max_ms"] == -5


def test_log_append_time_becomes_the_create_time_of_each_record() -> None:
    source = build_batch(some(0, 5), timestamp_type=TimestampType.LOG_APPEND, max_timestamp=777)
    ready = run(source, target_bytes=100)
    assert [row[0] for row in rows(ready)] == [777] * 5


def test_a_delete_horizon_is_taken_out() -> None:
    records = some(0, 50)
    source = build_batch(records, base_timestamp=1_700_000_000_000, attributes=DELETE_HORIZON)
    ready = run(source, target_bytes=500)
    assert rows(ready) == expected(records)
    assert {header(batch.body)["bits"] for batch in ready} == {0}
    assert header(ready[0].body)["first_ms"] == 0


def test_control_and_empty_batches_are_dropped() -> None:
    source = (
        build_batch(some(0, 2), attributes=TRANSACTIONAL, producer_id=1)
        + build_batch([Record(2, 0, b"\0\0\0\1", b"")], attributes=CONTROL | TRANSACTIONAL)
        + build_batch([], base_offset=3, last_offset=8)
        + build_batch(some(9, 1))
    )
    (ready,) = run(source)
    assert rows([ready]) == expected(some(0, 2) + some(9, 1))
    assert ready.offsets is not None
    assert ready.offsets.tolist() == [0, 1, 9]


@pytest.mark.parametrize("size", [5, 2000])
def test_range_and_skip_cut_inside_of_batches(size: int) -> None:
    records = some(0, 60, size)
    source = b"".join(build_batch(records[i : i + 10]) for i in range(0, 60, 10))
    for start, end, skip in [
        (0, 60, 0),
        (3, 57, 0),
        (3, 57, 4),
        (3, 57, 7),
        (3, 57, 30),
        (5, 6, 0),
    ]:
        ready = run(source, range=OffsetRange(start, end), skip_records=skip, target_bytes=4000)
        assert rows(ready) == expected(records[start:end][skip:])
        offsets = [o for b in ready for o in range(b.first_offset, b.last_offset + 1)]
        assert offsets == list(range(start, end))[skip:]


def test_skipping_more_than_there_is_yields_nothing() -> None:
    assert run(build_batch(some(0, 5)), build_batch(some(5, 5)), skip_records=11) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_stay_within_the_limit_but_for_one_large_record(codec: Codec) -> None:
    noise = np.random.default_rng(1).bytes(6000)
    sizes = [10, 6000, 10, 900, 900, 900, 3000, 10]
    records = [Record(i, i, None, noise[:size]) for i, size in enumerate(sizes)]
    ready = run(build_batch(records, codec=codec), max_batch_bytes=2000, target_bytes=1 << 20)
    assert rows(ready) == expected(records)
    for batch in ready:
        assert len(batch.body) <= 2000 or batch.records == 1


def test_a_million_small_batches_are_merged_in_seconds() -> None:
    one = build_batch(some(0, 1))
    rows = np.frombuffer(one * 1_000_000, dtype=np.uint8).reshape(-1, len(one)).copy()
    rows[:, :8] = np.arange(1_000_000, dtype=">i8").view(np.uint8).reshape(-1, 8)
    source = scan_batches(rows.reshape(-1))
    total = sum(batch.records for batch in regroup([source], range=ALL, max_batch_bytes=MAX))
    assert total == 1_000_000


def test_stamping_again_replaces_the_first_stamp() -> None:
    (ready,) = run(build_batch(some(0, 3)))
    first = bytes(ready.body)
    stamp(ready.body, 10, 1, 2)
    check_crcs(scan_batches(ready.body))
    stamp(ready.body, 9, 0, 5)
    assert ready.body == first
