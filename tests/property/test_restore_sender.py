"""Exactly once, whatever becomes of requests and answers, and whoever else is still sending."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_kafka import Answer, FakeTarget

from kafkeep.errors import PreflightError, TransientError, UnknownOutcomeError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.rewrite import ReadyBatch
from kafkeep.kafka.client.wire import ProduceResult
from kafkeep.restore import send
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.send import Sender, send_all

PLACE = TargetPartition(base=0, producer_id=7, producer_epoch=0)
KEY = ("t", 0)


def batches(values: list[bytes], sizes: random.Random, skip: int) -> Iterator[ReadyBatch]:
    """Cut the rest of the records into batches; where they are cut differs by attempt."""
    at = skip
    while at < len(values):
        count = sizes.randint(1, 4)
        chosen = values[at : at + count]
        body = bytearray(build_batch([Record(i, 0, None, v) for i, v in enumerate(chosen)]))
        yield ReadyBatch(body, len(chosen), at, at + len(chosen) - 1)
        at += len(chosen)


class FaultyWire:
    """Delivers, loses the request, loses the answer, delays the request, or refuses it."""

    def __init__(self, target: FakeTarget, chances: random.Random, faults: float) -> None:
        self.target, self.chances, self.faults = target, chances, faults
        self.late: list[bytes] = []
        self.most_in_flight = 0

    def produce(self, bodies: dict[tuple[str, int], bytearray], **_: object) -> Answer[Any]:
        body = bytes(bodies[KEY])
        if self.late and self.chances.random() < 0.3:
            self.deliver_late()
        fate = self.chances.random()
        if fate >= self.faults:
            return Answer({KEY: self.target.produce(body)})
        match self.chances.choice(["lost", "unanswered", "late", "refused"]):
            case "lost":
                return Answer(TransientError("the connection was refused"))
            case "unanswered":
                self.target.produce(body)
                return Answer(UnknownOutcomeError("the connection broke"))
            case "late":
                self.late.append(body)
                return Answer(UnknownOutcomeError("the connection broke"))
            case _:
                return Answer({KEY: ProduceResult(6, -1)})  # not the leader

    def deliver_late(self) -> None:
        self.target.produce(self.late.pop(self.chances.randrange(len(self.late))))


def attempt(wire: Any, target: FakeTarget, values: list[bytes], chances: random.Random) -> None:
    sizes = random.Random(chances.random())
    sender = Sender(*KEY, PLACE, lambda skip: batches(values, sizes, skip))
    sender.begin(len(target.records))
    send_all(
        wire,
        [sender],
        end_offsets=lambda _: {KEY: len(target.records)},
        topic_ids={},
        pace=lambda _: None,
    )
    assert sender.done and sender.written == len(values)


@settings(max_examples=100, deadline=None)
@given(
    count=st.integers(0, 60), seed=st.integers(0, 10**9), faults=st.sampled_from([0.0, 0.2, 0.6])
)
def test_every_record_is_there_once_and_in_order(count: int, seed: int, faults: float) -> None:
    chances, target = random.Random(seed), FakeTarget()
    values = [b"%d" % i for i in range(count)]
    wire = FaultyWire(target, chances, faults)
    with mock.patch.object(send, "time", mock.Mock(wraps=time, sleep=lambda _: None)):
        attempt(wire, target, values, chances)
    while wire.late:  # what a broken connection had swallowed arrives after the end
        wire.deliver_late()
    assert target.records == values


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_dead_attempts_late_requests_and_a_live_one_exclude_each_other(seed: int) -> None:
    chances, target = random.Random(seed), FakeTarget()
    values = [b"%d" % i for i in range(50)]
    dead = FaultyWire(target, chances, 0.3)

    def die(_: int) -> None:
        if chances.random() < 0.2:
            raise KeyboardInterrupt

    sizes = random.Random(seed)
    sender = Sender(*KEY, PLACE, lambda skip: batches(values, sizes, skip))
    sender.begin(0)
    with mock.patch.object(send, "time", mock.Mock(wraps=time, sleep=lambda _: None)):
        with suppress(KeyboardInterrupt):
            send_all(
                dead,  # type: ignore[arg-type]
                [sender],
                end_offsets=lambda _: {KEY: len(target.records)},
                topic_ids={},
                pace=die,
            )
        live = FaultyWire(target, chances, 0.2)
        live.late = dead.late
        attempt(live, target, values, chances)
    while live.late:
        live.deliver_late()
    assert target.records == values


def test_a_record_of_another_producer_in_the_target_stops_the_restore() -> None:
    target = FakeTarget()
    sender = Sender(*KEY, PLACE, lambda skip: batches([b"a", b"b"], random.Random(1), skip))
    sender.begin(0)
    target.records.append(b"foreign")
    with pytest.raises(PreflightError, match="another producer writes to this topic"):
        send_all(
            FaultyWire(target, random.Random(1), 0.0),  # type: ignore[arg-type]
            [sender],
            end_offsets=lambda _: {KEY: len(target.records)},
            topic_ids={},
            pace=lambda _: None,
        )


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    sender = Sender(*KEY, PLACE, lambda skip: batches([b"x"] * 30, random.Random(1), skip))
    sender.begin(0)
    body, offset, records = sender.take()
    assert not sender.can_send()
    sender.acknowledge(ProduceResult(0, 0), offset, records, len(body))
    assert sender.can_send()


class Refusing:
    """Refuses some requests, by their numbers; has a clock that is set by hand."""

    def __init__(self, target: FakeTarget, refused: range) -> None:
        self.target, self.refused = target, refused
        self.requests, self.now = 0, 0.0

    def produce(self, bodies: dict[tuple[str, int], bytearray], **_: object) -> Answer[Any]:
        self.requests += 1
        if self.requests in self.refused:
            return Answer({KEY: ProduceResult(6, -1)})
        return Answer({KEY: self.target.produce(bytes(bodies[KEY]))})

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def send(self, values: list[bytes], pace: Callable[[int], None]) -> None:
        # Only this module's clock: threads of other tests sleep by the real one.
        clock = mock.Mock(sleep=self.pass_time, monotonic=lambda: self.now)
        with mock.patch.object(send, "time", clock):
            sender = Sender(*KEY, PLACE, lambda skip: batches(values, random.Random(1), skip))
            sender.begin(0)
            send_all(
                self,  # type: ignore[arg-type]
                [sender],
                end_offsets=lambda _: {KEY: len(self.target.records)},
                topic_ids={},
                pace=pace,
            )


def test_a_fault_after_a_long_wait_for_the_pace_is_waited_out() -> None:
    target, values = FakeTarget(), [b"%d" % i for i in range(30)]
    wire = Refusing(target, refused=range(2, 4))
    wire.send(values, lambda _: wire.pass_time(2 * send.STUCK_SECONDS / 3))
    assert target.records == values
    wire = Refusing(FakeTarget(), refused=range(2, 3))
    wire.send(values, lambda _: wire.pass_time(2 * send.STUCK_SECONDS))
    assert wire.target.records == values


def test_lasting_faults_are_reported_after_the_timeout() -> None:
    wire = Refusing(FakeTarget(), refused=range(2, 10**6))
    with pytest.raises(TransientError, match="t-0: Kafka answers"):
        wire.send([b"a"] * 30, lambda _: None)
    assert send.STUCK_SECONDS < wire.now < 2 * send.STUCK_SECONDS
