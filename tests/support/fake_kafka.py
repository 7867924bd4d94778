"""A partition in memory that answers Fetch and Produce as a broker does."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hypothesis import strategies as st

from kafkeep.kafka.batch.layout import CONTROL, TRANSACTIONAL, Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.client.wire import (
    FetchError,
    FetchErrorKind,
    FetchPosition,
    FetchResult,
    ProduceResult,
)

T = TypeVar("T")
ABORT = struct.pack(">hh", 0, 0)


class Answer(Generic[T]):
    """An answer that is there already, or an error in its place."""

    def __init__(self, value: T | Exception) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> T:
        """Return it, or raise it."""
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@dataclass
class FakeLog:
    """Record batches of one partition, with what consumers see of them."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(base offset, last offset, bytes) in order."""
    visible: list[Record] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of its marker)."""
    start: int = 0
    end: int = 0

    def fetch(self, wanted: FetchPosition, limit: int) -> FetchResult:
        """Answer with whole batches from the one that holds the offset on, the last cut short."""
        if wanted.offset < self.start or wanted.offset > self.end:
            error = FetchError(FetchErrorKind.OFFSET_OUT_OF_RANGE, 1, "out of range")
            return FetchResult(wanted.topic, wanted.partition, error, log_start=self.start)
        found = [b for b in self.batches if b[1] >= wanted.offset]
        data = b"".join(body for _, _, body in found)
        least = len(found[0][2]) if found else 0
        data = data[: max(least, limit)]
        reached = scan_batches(data)
        last = int(reached.last_offsets[-1]) if len(reached) else wanted.offset
        return FetchResult(
            wanted.topic,
            wanted.partition,
            records=data,
            aborted=[(p, f) for p, f, m in self.aborted if m >= wanted.offset and f <= last],
            log_start=self.start,
            last_stable=self.end,
            high_watermark=self.end,
        )


@dataclass
class FakeFetchWire:
    """The part of a Wire that a backup's task uses."""

    logs: Mapping[tuple[str, int], FakeLog]
    limit: int
    asked: int = 0

    def fetch(self, wanted: Sequence[FetchPosition], **_: object) -> Answer[list[FetchResult]]:
        """Share the answer's bytes out in order; later partitions may come back empty."""
        self.asked += 1
        answers, left = [], self.limit
        for one in wanted:
            answer = self.logs[one.topic, one.partition].fetch(one, max(0, left))
            if left <= 0 and answer.error is None:
                answer = FetchResult(
                    one.topic, one.partition, last_stable=answer.last_stable, records=b""
                )
            left -= len(answer.records)
            answers.append(answer)
        return Answer(answers)


@st.composite
def fake_logs(draw: st.DrawFn, *, max_batches: int = 14) -> FakeLog:
    """Logs with holes inside, between and behind batches, aborted transactions and markers."""
    log, offset, producer = FakeLog(), draw(st.integers(0, 5)), 100
    first = offset
    open_aborts: list[tuple[int, int]] = []
    for number in range(draw(st.integers(1, max_batches))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 4]))
        kind = draw(st.sampled_from(["plain", "plain", "plain", "aborted", "marker"]))
        if kind == "marker" and open_aborts:
            pid, begun = open_aborts.pop(draw(st.integers(0, len(open_aborts) - 1)))
            offset = _end_transaction(log, pid, begun, offset)
            continue
        count = draw(st.integers(1, 6))
        kept = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
        records = [Record(offset + i, number, b"%d" % (offset + i), b"v" * 20) for i in kept]
        last = offset + count - 1
        if kind == "aborted":
            producer += 1
            body = _batch(records, offset, last, attributes=TRANSACTIONAL, producer_id=producer)
            open_aborts.append((producer, offset))
        else:
            body = _batch(records, offset, last)
            log.visible.extend(records)
        log.batches.append((offset, last, body))
        offset = last + 1
    for pid, begun in open_aborts:
        offset = _end_transaction(log, pid, begun, offset)
    log.start, log.end = first, offset
    return log


def _batch(records: Sequence[Record], base: int, last: int, **more: int) -> bytes:
    return build_batch(records, base_offset=base, last_offset=last, **more)  # type: ignore[arg-type]


def _end_transaction(log: FakeLog, pid: int, begun: int, offset: int) -> int:
    marker = [Record(offset, 0, ABORT, b"\0\0\0\0\0\0")]
    bits = TRANSACTIONAL | CONTROL
    log.batches.append(
        (offset, offset, _batch(marker, offset, offset, attributes=bits, producer_id=pid))
    )
    log.aborted.append((pid, begun, offset))
    return offset + 1


@dataclass
class FakeTarget:
    """A partition that takes idempotent batches by the broker's rules: the last five, in sequence.

    A producer it does not know may begin with any sequence, as with a real broker (tried).
    """

    records: list[bytes] = field(default_factory=list)
    _last: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def produce(self, body: bytes) -> ProduceResult:
        """Append a batch, or say why not."""
        producer_id, _, sequence = struct.unpack_from(">qhi", body, 43)
        rows = list(scan_batches(bytes(body)).record_counts)
        last = sequence + int(rows[0]) - 1
        known = self._last.setdefault(producer_id, [])
        for first, end, offset in known[-5:]:
            if (first, end) == (sequence, last):
                return ProduceResult(0, offset)
        if known and sequence != known[-1][1] + 1:
            return ProduceResult(46 if last <= known[-1][1] else 45, -1)
        offset = len(self.records)
        known.append((sequence, last, offset))
        self.records.extend(_values(bytes(body)))
        return ProduceResult(0, offset)


def _values(body: bytes) -> list[bytes]:
    from kafkeep.kafka.batch.decode import decode

    values: list[bytes] = decode(scan_batches(body)).column("value").to_pylist()
    return values
