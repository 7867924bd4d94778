"""A glance at what waits: bad records are told of, each is read once, and nothing else fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.fake_kafka import Answer, FakeLog

from kafkeep.archive.commit import LogSpan
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.names import KeyLimits
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.cycle_budget import PlannedStretch
from kafkeep.backup.plan import CyclePlan
from kafkeep.backup.preview import Preview
from kafkeep.errors import RecordError, TransientError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import FetchPosition, FetchResult
from kafkeep.objects.range_writer import SinkTail
from kafkeep.options.sink.sink import SinkOptions

SINK = {
    "format.class": "json",
    "flush.size": "100",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
BY_FIELD = {
    **SINK,
    "partitioner.class": "field",
    "partition.field.name": "f",
    "partition.path.encoding": "raw",
}
FIRST, SECOND = (PartitionId("t", 1, number) for number in range(2))


class FakeWire:
    """Answers the first partition whole, and cuts the others to what they asked for."""

    def __init__(self, logs: dict[int, FakeLog]) -> None:
        self.logs = logs
        self.asked: list[tuple[int, int]] = []
        self.error: Exception | None = None

    def fetch(self, wanted: Sequence[FetchPosition], **_: Any) -> Answer[list[FetchResult]]:
        if self.error is not None:
            return Answer(self.error)
        self.asked += [(one.partition, one.offset) for one in wanted]
        answers = []
        for number, one in enumerate(wanted):
            found = self.logs[one.partition].fetch(one, 1 << 30)
            cut = found.records if number == 0 else found.records[: one.max_bytes]
            answers.append(FetchResult(**{**_fields(found), "records": cut}))
        return Answer(answers)


def _fields(answer: FetchResult) -> dict[str, Any]:
    return {name: getattr(answer, name) for name in FetchResult.__dataclass_fields__}


def log_of(*values: bytes) -> FakeLog:
    """One record to a batch."""
    batches = [
        (at, at, build_batch([Record(at, 1, None, value)])) for at, value in enumerate(values)
    ]
    return FakeLog(batches=batches, end=len(values))


def check(preview: Preview, wire: FakeWire, *, at: int = 0, tail: int | None = None) -> None:
    pids = {FIRST: 0, SECOND: 1}
    parts = tuple(
        PartitionSnapshot(LogSpan(0, wire.logs[n].end), wire.logs[n].end, 1, None)
        for n in wire.logs
    )
    snapshot = ClusterSnapshot(0, {"t": TopicSnapshot("t", "id", 1, {}, parts)}, {})
    waiting = {pid: 0 for pid, n in pids.items() if n in wire.logs}
    tails = (
        {} if tail is None else {FIRST: SinkTail(records=1, bytes=1, base_time=None, read_to=tail)}
    )
    preview.check(snapshot, plan(waiting), dict.fromkeys(waiting, at), tails)


def plan(waiting: dict[PartitionId, int], *stretches: PlannedStretch) -> CyclePlan:
    return CyclePlan(
        stretches=stretches,
        gaps=(),
        topics=(),
        positions={},
        spans={},
        waiting=waiting,
        blocked=(),
    )


def preview_of(
    wire: FakeWire, options: Mapping[str, str] = SINK, limits: KeyLimits | None = None
) -> Preview:
    sink = SinkOptions.parse(options)
    return Preview(wire, sink, limits or KeyLimits(), lambda: 0)  # type: ignore[arg-type]


def test_each_record_is_read_once_and_the_bad_one_is_named() -> None:
    wire = FakeWire({0: log_of(b"1", b"2")})
    preview = preview_of(wire)
    check(preview, wire)
    check(preview, wire)
    assert wire.asked == [(0, 0)]
    wire.logs[0] = log_of(b"1", b"2", b"3", b"{bad")
    with pytest.raises(RecordError, match="t-0 offset 3: "):
        check(preview, wire)
    assert wire.asked == [(0, 0), (0, 2)]


def test_a_record_whose_object_would_have_no_name_is_reported_too() -> None:
    wire = FakeWire({0: log_of(b'{"f": "a"}', b'{"f": "a/../b"}')})
    with pytest.raises(RecordError, match="t-0 offset 1: no object can lie in"):
        check(preview_of(wire, BY_FIELD), wire)
    wire = FakeWire({0: log_of(b'{"f": "a"}', b'{"f": "%s"}' % (b"a" * 930))})
    check(preview_of(wire, BY_FIELD), wire)
    with pytest.raises(RecordError, match=r"t-0 offset 1: .* but the store takes 1000"):
        check(preview_of(wire, BY_FIELD, KeyLimits(1000)), wire)


def test_records_before_the_position_or_read_by_a_task_are_not_previewed() -> None:
    wire = FakeWire({0: log_of(b"{bad", b"{bad", b"3", b"4")})
    check(preview_of(wire), wire, at=2)
    check(preview_of(wire), wire, at=0, tail=2)
    assert wire.asked == [(0, 2)] * 2


def test_a_truncated_batch_is_previewed_when_it_comes_first() -> None:
    large = b'"%s"' % (b"x" * (1 << 20))
    wire = FakeWire({0: log_of(large), 1: log_of(large, b"{bad")})
    preview = preview_of(wire)
    with pytest.raises(RecordError, match="t-1 offset 1: "):
        for _ in range(3):
            check(preview, wire)


def test_faults_that_pass_are_left_to_the_tasks() -> None:
    wire = FakeWire({0: log_of(b"{bad")})
    wire.error = TransientError("away")
    check(preview_of(wire), wire)


def test_tasks_come_first() -> None:
    wire = FakeWire({0: log_of(b"{bad")})
    stretch = PlannedStretch(
        partition_id=SECOND,
        topic_id="id",
        range=OffsetRange(0, 1),
        leader=1,
        est_bytes=1,
        reason="due",
    )
    snapshot = ClusterSnapshot(0, {}, {})
    preview_of(wire).check(snapshot, plan({FIRST: 0}, stretch), {}, {})
    assert wire.asked == []
