from __future__ import annotations

import pytest

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.layout import CONTROL, TRANSACTIONAL, Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted

ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def data(first: int, producer: int, count: int = 2) -> bytes:
    records = [Record(first + i, 0, b"k", b"v") for i in range(count)]
    bits = TRANSACTIONAL if producer >= 0 else 0
    return build_batch(records, producer_id=producer, attributes=bits)


def marker(offset: int, producer: int, kind: bytes) -> bytes:
    bits = TRANSACTIONAL | CONTROL
    record = Record(offset, 0, kind, b"\0\0\0\0\0\0")
    return build_batch([record], producer_id=producer, attributes=bits)


def test_only_control_batches_go_when_nothing_was_aborted() -> None:
    verdict = drop_aborted(scan_batches(data(0, 7) + marker(2, 7, COMMIT) + data(3, -1)), [])
    assert verdict.keep.tolist() == [True, False, True]
    assert not verdict.aborted.any()
    assert verdict.stretches == ()


def test_aborted_state_ends_at_the_abort_marker() -> None:
    answer = data(0, 7) + marker(2, 7, ABORT) + data(3, 7) + marker(5, 7, COMMIT)
    verdict = drop_aborted(scan_batches(answer), [(7, 0)])
    assert verdict.keep.tolist() == [False, False, True, False]
    assert verdict.aborted.tolist() == [True, False, False, False]
    assert verdict.stretches == (OffsetRange(0, 2),)


def test_a_transaction_that_began_before_the_answer_is_dropped() -> None:
    answer = data(100, 7) + marker(102, 7, ABORT)
    assert not drop_aborted(scan_batches(answer), [(7, 20)]).keep.any()


def test_producers_are_judged_apart_and_plain_records_are_kept() -> None:
    answer = data(0, 7) + data(2, 8) + data(4, -1) + data(6, 7)
    answer += marker(8, 8, COMMIT) + marker(9, 7, ABORT) + data(10, 8)
    verdict = drop_aborted(scan_batches(answer), [(7, 0)])
    assert verdict.keep.tolist() == [False, True, True, False, False, False, True]
    assert verdict.stretches == (OffsetRange(0, 2), OffsetRange(6, 8))


def test_a_producer_may_abort_twice_with_a_commit_between() -> None:
    answer = data(0, 7) + marker(2, 7, ABORT) + data(3, 7) + marker(5, 7, COMMIT)
    answer += data(6, 7) + marker(8, 7, ABORT)
    verdict = drop_aborted(scan_batches(answer), [(7, 6), (7, 0)])
    assert verdict.keep.tolist() == [False, False, True, False, False, False]
    assert verdict.stretches == (OffsetRange(0, 2), OffsetRange(6, 8))


def test_stretches_join_over_markers_but_not_over_committed_batches() -> None:
    answer = data(0, 7) + marker(2, 7, ABORT) + data(3, 8) + marker(5, 8, ABORT)
    verdict = drop_aborted(scan_batches(answer), [(7, 0), (8, 3)])
    assert verdict.stretches == (OffsetRange(0, 5),)


def test_markers_that_compaction_emptied_are_passed_over() -> None:
    empty = build_batch([], base_offset=2, attributes=TRANSACTIONAL | CONTROL, producer_id=7)
    verdict = drop_aborted(scan_batches(data(0, 7) + empty + data(3, 8)), [(7, 0)])
    assert verdict.keep.tolist() == [False, False, True]


def test_a_marker_that_cannot_be_read_is_damage() -> None:
    broken = build_batch(
        [Record(2, 0, b"", b"")], producer_id=7, attributes=TRANSACTIONAL | CONTROL
    )
    with pytest.raises(DamagedError, match="offset 2"):
        drop_aborted(scan_batches(data(0, 7) + broken), [(7, 0)])
