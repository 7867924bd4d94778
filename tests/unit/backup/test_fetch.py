from __future__ import annotations

import math

import pytest

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.fetch import MAX_EMPTY_ANSWERS, RangeFetch, iter_chunks
from kafkeep.errors import AccessDeniedError, DamagedError, KafkeepError, TransientError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import FetchError, FetchErrorKind, FetchPosition, FetchResult
from kafkeep.pace import Pace


def reader(start: int, end: int, *, begins: bool = True) -> RangeFetch:
    planned = PlannedRange(
        partition_id=PartitionId("t", 1, 0), topic_id="id", range=OffsetRange(start, end)
    )
    return RangeFetch(planned, begins, 1, False)


def batch(first: int, last: int, epoch: int = -1) -> bytes:
    records = [Record(i, 0, None, b"v") for i in range(first, last + 1)]
    return build_batch(records, leader_epoch=epoch)


def answer(*batches: bytes, stable: int = 100) -> FetchResult:
    return FetchResult("t", 0, records=b"".join(batches), last_stable=stable)


def failed(kind: FetchErrorKind, code: int, log_start: int = -1) -> FetchResult:
    return FetchResult("t", 0, FetchError(kind, code, "t-0 at offset 5"), log_start=log_start)


def kept(chunk: object) -> list[tuple[int, int]]:
    batches = chunk.batches  # type: ignore[attr-defined]
    if batches is None:
        return []
    return list(zip(batches.base_offsets.tolist(), batches.last_offsets.tolist(), strict=True))


def test_a_stretch_that_begins_inside_a_batch_owns_it() -> None:
    one = reader(5, 10)
    assert kept(one.accept(answer(batch(0, 9)), conclusive=True)) == [(0, 9)]
    assert one.finished and (one.first, one.position) == (5, 10)


def test_a_later_range_leaves_the_straddling_batch_to_its_neighbour() -> None:
    one = reader(5, 20, begins=False)
    assert kept(one.accept(answer(batch(0, 9), batch(10, 19)), conclusive=True)) == [(10, 19)]
    assert (one.first, one.position, one.finished) == (10, 20, True)


def test_a_range_inside_one_huge_batch_owns_nothing() -> None:
    one = reader(5, 8, begins=False)
    assert kept(one.accept(answer(batch(0, 19)), conclusive=True)) == []
    assert (one.first, one.position, one.finished) == (20, 20, True)


def test_a_range_keeps_the_batch_that_leads_over_its_end() -> None:
    one = reader(0, 5)
    assert kept(one.accept(answer(batch(0, 2), batch(3, 9)), conclusive=True)) == [(0, 2), (3, 9)]
    assert (one.position, one.finished) == (10, True)


def test_a_hole_at_the_end_is_seen_by_the_batch_behind_it() -> None:
    one = reader(0, 8)
    assert kept(one.accept(answer(batch(0, 4), batch(12, 13)), conclusive=True)) == [(0, 4)]
    assert (one.position, one.finished) == (8, True)


def test_records_deleted_meanwhile_are_a_gap_and_reading_continues_inside_a_batch() -> None:
    one = reader(5, 30, begins=False)
    chunk = one.accept(failed(FetchErrorKind.OFFSET_OUT_OF_RANGE, 1, log_start=12), conclusive=True)
    assert chunk is not None and chunk.gap == OffsetRange(5, 12)
    assert kept(one.accept(answer(batch(10, 29)), conclusive=True)) == [(10, 29)]
    assert (one.first, one.position, one.finished) == (5, 30, True)


def test_a_gap_never_leads_over_the_planned_end() -> None:
    one = reader(5, 30)
    chunk = one.accept(failed(FetchErrorKind.OFFSET_OUT_OF_RANGE, 1, log_start=99), conclusive=True)
    assert chunk is not None and chunk.gap == OffsetRange(5, 30) and one.finished


def test_a_log_cut_back_is_an_error_and_no_gap() -> None:
    with pytest.raises(KafkeepError, match="truncated its log to before offset 5"):
        reader(5, 30).accept(failed(FetchErrorKind.OFFSET_OUT_OF_RANGE, 1, 0), conclusive=True)


def test_a_topic_that_is_gone_ends_the_range_unfinished() -> None:
    one = reader(5, 30)
    assert one.accept(failed(FetchErrorKind.TOPIC_GONE, 100), conclusive=True) is None
    assert one.gone and not one.finished and not one.is_open


def test_refused_access_is_raised() -> None:
    with pytest.raises(AccessDeniedError):
        reader(5, 30).accept(failed(FetchErrorKind.ACCESS_DENIED, 29), conclusive=True)


def test_an_empty_answer_says_nothing_while_others_got_records() -> None:
    one = reader(5, 30)
    for _ in range(100):
        assert one.accept(answer(), conclusive=False) is None
    assert one.is_open and one.position == 5


def test_two_empty_answers_at_the_stable_end_are_a_hole() -> None:
    one = reader(5, 30)
    assert one.accept(answer(stable=30), conclusive=True) is None
    chunk = one.accept(answer(stable=30), conclusive=True)
    assert chunk is not None and one.finished and one.position == 30


def test_empty_answers_before_the_stable_end_are_waited_for_then_given_up() -> None:
    one = reader(5, 30)
    for _ in range(MAX_EMPTY_ANSWERS):
        assert one.accept(answer(stable=20), conclusive=True) is None
    with pytest.raises(TransientError, match="returns no records at offset 5"):
        one.accept(answer(stable=20), conclusive=True)


def test_a_damaged_batch_is_never_taken() -> None:
    body = bytearray(batch(5, 9))
    body[-1] ^= 1
    with pytest.raises(DamagedError):
        reader(5, 30).accept(answer(bytes(body)), conclusive=True)


def test_a_batch_that_does_not_fit_is_named() -> None:
    with pytest.raises(KafkeepError, match="larger than the 60 bytes"):
        reader(5, 30).accept(answer(batch(5, 9)[:60]), conclusive=True)


def test_the_epoch_of_a_range_that_ends_in_a_hole_is_that_of_the_batch_behind_it() -> None:
    one = reader(0, 90)
    one.accept(answer(batch(0, 59, 5), batch(95, 99, 6)), conclusive=True)
    assert (one.position, one.finished, one.leader_epoch) == (90, True, 6)


def test_the_epoch_of_a_range_that_is_still_read_is_that_of_its_last_batch() -> None:
    one = reader(0, 90)
    one.accept(answer(batch(0, 29, 4), batch(30, 59, 5)), conclusive=True)
    assert (one.position, one.finished, one.leader_epoch) == (60, False, 5)


def test_the_epoch_is_not_known_behind_what_was_not_read() -> None:
    one = reader(0, 90)
    one.accept(answer(batch(0, 59, 5)), conclusive=True)
    one.accept(answer(), conclusive=True)
    one.accept(answer(), conclusive=True)
    assert (one.position, one.finished, one.leader_epoch) == (90, True, -1)
    two = reader(0, 90)
    two.accept(answer(batch(0, 9, 5)), conclusive=True)
    two.skip_to(60)
    assert two.leader_epoch == -1


class PacedWire:
    """Answers each request with the next batch; notes how much it was asked for."""

    def __init__(self, *batches: bytes) -> None:
        self._batches = list(batches)
        self.asked: list[int] = []

    def fetch(self, wanted: list[FetchPosition], *, max_bytes: int, **_: object) -> PacedWire:
        self.asked += [max_bytes, *(one.max_bytes for one in wanted)]
        return self

    def result(self) -> list[FetchResult]:
        return [answer(self._batches.pop(0))]


def test_every_answer_is_paid_for_before_the_next_request() -> None:
    first, second = batch(0, 9), batch(10, 19)
    wire = PacedWire(first, second)
    paid: list[tuple[int, int]] = []

    class Noted(Pace):
        def __call__(self, size_bytes: int) -> None:
            paid.append((size_bytes, len(wire.asked)))

    chunks = list(iter_chunks(wire, [reader(0, 20)], deadline=math.inf, pace=Noted(8 << 20)))  # type: ignore[arg-type]
    assert [chunk.end for _, chunk in chunks] == [10, 20]
    assert paid == [(len(first), 2), (len(second), 4)], "before the next request is sent"
    assert set(wire.asked) == {2 << 20}, "a quarter of a second"
