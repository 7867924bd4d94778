"""Pages of messages: every record once, in order, in both directions, within bounded work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.messages.browse import (
    KEPT_BYTES,
    WorkLimits,
    iter_forward,
    read_backward,
    read_forward,
    read_one,
)
from kafkeep.connect.catalog.messages.message import (
    Message,
    MessageChunk,
    Search,
    SearchIn,
    format_cursor,
    parse_cursor,
)
from kafkeep.connect.model import RestError
from kafkeep.kafka.batch.decode import RECORD_SCHEMA

Row = tuple[int, int]
"""Offset and time."""


def arrow(rows: list[Row], value: bytes = b"v") -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": at,
                "timestamp_type": 0,
                "key": b"k%d" % offset,
                "value": value + b"%d" % offset,
                "headers": [{"key": b"h", "value": b"%d" % (offset % 7)}],
            }
            for offset, at in rows
        ],
        schema=RECORD_SCHEMA,
    )


@dataclass
class ListSource:
    """Partitions as lists; a chunk has ``step`` records, and each read is counted."""

    partitions: Mapping[int, list[Row]]
    step: int = 3
    value: bytes = b"v"
    reads: int = 0
    records_read: int = 0
    topic: str = "t"
    ranges: Mapping[int, OffsetRange] = field(init=False)

    def __post_init__(self) -> None:
        self.ranges = {
            p: OffsetRange(rows[0][0] if rows else 0, rows[-1][0] + 1 if rows else 0)
            for p, rows in self.partitions.items()
        }

    def read(self, wanted: Mapping[int, OffsetRange]) -> Iterator[MessageChunk]:
        self.reads += 1
        for number, span in wanted.items():
            assert span.start < span.end
            mine = [r for r in self.partitions[number] if span.start <= r[0] < span.end]
            some = mine[: self.step]
            self.records_read += len(some)
            if not some:
                yield MessageChunk(number, span.end)
                continue
            for half in (some[: len(some) // 2], some[len(some) // 2 :]):
                if half:
                    positions = np.array([r[0] for r in half], dtype=np.int64)
                    yield MessageChunk(number, half[-1][0] + 1, arrow(half, self.value), positions)
            if len(mine) <= self.step:
                yield MessageChunk(number, span.end)

    def at_time(self, time_ms: int) -> Mapping[int, int]:
        raise NotImplementedError


@st.composite
def sources(draw: st.DrawFn) -> ListSource:
    partitions: dict[int, list[Row]] = {}
    for number in range(draw(st.integers(1, 3))):
        offsets = sorted(draw(st.sets(st.integers(0, 60), max_size=25)))
        partitions[number] = [(offset, draw(st.integers(0, 9))) for offset in offsets]
    return ListSource(partitions, step=draw(st.integers(1, 8)))


WORK = st.sampled_from([WorkLimits(), WorkLimits(records=1), WorkLimits(records=7)])


def where(messages: list[Message]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for one in messages:
        found.setdefault(one.line.partition, []).append(one.line.offset)
    return found


def wanted_of(source: ListSource, search: Search) -> dict[int, list[int]]:
    text = search.text
    return {
        p: [o for o, _ in rows if not text or text in b"v%d" % o]
        for p, rows in source.partitions.items()
        if any(not text or text in b"v%d" % o for o, _ in rows)
    }


SEARCHES = st.sampled_from([Search(), Search(b"1", SearchIn.VALUE), Search(b"nothing")])


@given(sources(), st.integers(1, 10), WORK, SEARCHES)
def test_pages_forward_have_every_record_once_and_in_order(
    source: ListSource, limit: int, work: WorkLimits, search: Search
) -> None:
    seen: list[Message] = []
    cursor: Mapping[int, int] = {}
    for _ in range(500):
        page = read_forward(source, cursor, limit=limit, search=search, work=work)
        assert len(page.messages) <= limit
        assert page.is_complete or len(page.messages) < limit
        seen += page.messages
        if page.at_end:
            break
        assert page.after != page.first
        cursor = parse_cursor(format_cursor(page.after))
    else:
        pytest.fail("the pages do not end")
    assert where(seen) == wanted_of(source, search)


@given(sources(), st.integers(1, 10), WORK, SEARCHES)
def test_pages_backward_have_every_record_once_and_in_order(
    source: ListSource, limit: int, work: WorkLimits, search: Search
) -> None:
    seen: list[Message] = []
    cursor: Mapping[int, int] = {}
    for _ in range(500):
        page = read_backward(source, cursor, limit=limit, search=search, work=work)
        assert len(page.messages) <= limit
        seen += page.messages
        if page.at_start:
            break
        assert page.after != page.first
        cursor = parse_cursor(format_cursor(page.first))
    else:
        pytest.fail("the pages do not end")
    assert {p: mine[::-1] for p, mine in where(seen).items()} == wanted_of(source, search)


@given(sources(), st.integers(1, 10))
def test_the_page_before_a_page_ends_where_it_begins(source: ListSource, limit: int) -> None:
    begin = {p: (span.start + span.end) // 2 for p, span in source.ranges.items()}
    ahead = read_forward(source, begin, limit=limit, search=Search(), work=WorkLimits())
    behind = read_backward(source, ahead.first, limit=limit, search=Search(), work=WorkLimits())
    assert behind.after == ahead.first
    assert all(one.position < begin[one.line.partition] for one in behind.messages)


@given(sources(), st.integers(0, 60))
def test_a_record_is_found_by_its_offset_and_a_hole_is_not(source: ListSource, offset: int) -> None:
    found = read_one(source, 0, offset)
    assert (found is not None) == (offset in [o for o, _ in source.partitions[0]])
    assert found is None or found.line.key == b"k%d" % offset
    assert read_one(source, 9, offset) is None


def test_records_of_several_partitions_are_merged_by_time() -> None:
    source = ListSource({0: [(0, 5), (1, 9)], 1: [(0, 1), (1, 7)]}, step=10)
    page = read_forward(source, {}, limit=3, search=Search(), work=WorkLimits())
    assert [one.line.timestamp for one in page.messages] == [1, 5, 7]
    assert page.after == {0: 1, 1: 2}
    back = read_backward(source, {}, limit=3, search=Search(), work=WorkLimits())
    assert [one.line.timestamp for one in back.messages] == [9, 7, 5]
    assert back.first == {0: 0, 1: 1}


def test_a_search_stops_at_its_limits_and_says_so() -> None:
    source = ListSource({0: [(n, n) for n in range(1000)]}, step=10)
    work = WorkLimits(records=50)
    page = read_forward(source, {}, limit=5, search=Search(b"nothing"), work=work)
    assert (page.searched, page.is_complete, page.messages) == (50, False, ())
    assert page.after == {0: 50}
    back = read_backward(source, {}, limit=5, search=Search(b"v0"), work=work)
    assert not back.is_complete
    assert back.searched <= 200
    assert back.first[0] < 1000


def test_large_records_end_a_page_that_would_be_too_large() -> None:
    source = ListSource({0: [(n, n) for n in range(40)]}, step=1, value=b"x" * 1_000_000)
    work = WorkLimits(bytes=3_000_000)
    page = read_backward(source, {}, limit=40, search=Search(), work=work)
    assert 1 <= len(page.messages) <= 8
    assert page.messages[0].line.offset == 39
    assert source.records_read < 20
    one = page.messages[0]
    assert one.value_bytes == 1_000_002
    assert len(one.line.value or b"") == KEPT_BYTES


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (Search(b"k3", SearchIn.KEY), [3, 30]),
        (Search(b"k3", SearchIn.VALUE), []),
        (Search(b"6", SearchIn.HEADER), [6, 13, 20, 27]),
        (Search(b"v3"), [3, 30]),
        (Search(b"h", SearchIn.HEADER), list(range(31))),
    ],
)
def test_a_search_looks_where_it_is_told(search: Search, found: list[int]) -> None:
    source = ListSource({0: [(n, n) for n in range(31)]})
    page = read_forward(source, {}, limit=100, search=search, work=WorkLimits())
    assert [one.line.offset for one in page.messages] == found


def test_a_download_is_bounded_by_number_and_size() -> None:
    source = ListSource({0: [(n, n) for n in range(9)], 1: [(n, n) for n in range(9)]})
    every = Search()
    assert len(list(iter_forward(source, {}, most=100, search=every, most_bytes=10**6))) == 18
    some = list(iter_forward(source, {0: 5}, most=6, search=every, most_bytes=10**6))
    assert [(one.partition, one.offset) for one in some] == [
        *((0, n) for n in range(5, 9)),
        *((1, n) for n in range(2)),
    ]
    assert len(list(iter_forward(source, {}, most=100, search=every, most_bytes=9))) == 3


@pytest.mark.parametrize(
    "text", ["", "x", "1", "1:", ":1", "1:2,", "1:-2", "1:2;3:4", "1:" + "9" * 20]
)
def test_a_damaged_cursor_is_refused(text: str) -> None:
    with pytest.raises(RestError, match="position of the page"):
        parse_cursor(text)
