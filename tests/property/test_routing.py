"""What target partitions get follows from the archive alone, and each record gets there once."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2
from tests.support.fake_kafka import Answer, FakeTarget

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import PreflightError, TransientError, UnknownOutcomeError
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.rewrite import ReadyBatch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.kafka.client.wire import ProduceResult
from kafkeep.objects.segment.format import SegmentEncoder
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import parse_filter
from kafkeep.restore import send
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.read import iter_slices
from kafkeep.restore.routing.distribute import Lane, Router, blocks_of, merge
from kafkeep.restore.routing.routing import Routing
from kafkeep.restore.routing.rows import SourceRows, iter_routed_batches, shift_headers
from kafkeep.restore.routing.task import RoutedSender
from kafkeep.restore.selection import whole_slices
from kafkeep.restore.send import send_all
from kafkeep.store.memory import MemoryStore

Source = list[Record]
KEYS = st.sampled_from([None, b"", b"a", b"b", b"c", b"long key of some kind"])


@st.composite
def partitions(draw: st.DrawFn) -> list[Source]:
    """Draw the records of a few partitions; values are unique and tell where they stood."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        made = draw(st.lists(st.tuples(KEYS, st.integers(-1, 12)), max_size=25))
        found.append(
            [Record(i, at, key, b"%d/%d" % (number, i)) for i, (key, at) in enumerate(made)]
        )
    return found


def write(store: ObjectStore, number: int, records: Source, chances: random.Random) -> list[Entry]:
    """Store records as one segment, cut into batches and frames by chance."""
    if not records:
        return []
    writer, body, at = SegmentEncoder(frame_bytes=chances.choice([1, 200, 5000])), b"", 0
    while at < len(records):
        count = chances.randint(1, 6)
        codec = chances.choice([Codec.NONE, Codec.NONE, Codec.GZIP])
        batches = scan_batches(build_batch(records[at : at + count], codec=codec))
        body += b"".join(writer.add(batches, min_timestamps(batches)))
        at += count
    last, summary = writer.finish()
    body += last
    key = f"topics/t/{number}"
    store.put_new(key, body)
    return [
        Entry(
            key=key, partition_id=PartitionId("t", 1, number), topic_id="",
            range=OffsetRange(0, len(records)), records=summary.records,
            min_timestamp=summary.min_timestamp, max_timestamp=summary.max_timestamp,
            size_bytes=len(body), raw_bytes=summary.raw_bytes, format="segment", codec="zstd",
            sha256=hashlib.sha256(body).hexdigest(), index=summary.index,
        )
    ]  # fmt: skip


class Stored:
    """Partitions in a store, cut as chance has it: each attempt may find other blocks."""

    def __init__(self, sources: list[Source], seed: int) -> None:
        self.store = MemoryStore()
        chances = random.Random(seed)
        self.entries = [write(self.store, n, rows, chances) for n, rows in enumerate(sources)]

    def rows(self, number: int) -> SourceRows:
        return SourceRows(self.store, whole_slices(self.entries[number]))

    def router(self, routing: Routing, lanes: dict[int, Lane]) -> Router:
        blocks = [
            blocks_of(self.rows(n).rows(routing), n, routing) for n in range(len(self.entries))
        ]
        return Router(merge(blocks), lanes)


def expected(sources: list[Source], routing: Routing) -> dict[int, list[tuple[int, bytes]]]:
    """Say it again, one record at a time: times and values of each target partition."""
    ranked = []
    for number, records in enumerate(sources):
        rank, turn = -(2**63), number
        for place, record in enumerate(records):
            if routing.filter and record.key is None:  # the tests filter by having a key
                continue
            at = record.timestamp if record.timestamp == -1 else record.timestamp + routing.shift_ms
            rank = max(rank, at)
            if routing.partition_count is None:
                target = dict(routing.partition_map)[number]
            elif record.key is None:
                target, turn = turn % routing.partition_count, turn + 1
            else:
                target = (murmur2(record.key) & 0x7FFFFFFF) % routing.partition_count
            ranked.append((rank, number, place, target, (at, record.value or b"")))
    found: dict[int, list[tuple[int, bytes]]] = {}
    for _, _, _, target, record in sorted(ranked):
        found.setdefault(target, []).append(record)
    return found


def contents(body: bytes | bytearray) -> list[tuple[int, bytes]]:
    from kafkeep.kafka.batch.decode import decode

    rows = decode(scan_batches(body)).select(["timestamp", "value"]).to_pydict()
    times = [t if isinstance(t, int) else round(t.timestamp() * 1000) for t in rows["timestamp"]]
    return list(zip(times, rows["value"], strict=True))


def read_all(lane: Lane) -> list[tuple[int, bytes]]:
    return [record for batch in lane.queue for record in contents(batch.body)]


TAGGED = ChangeOptions.of(
    {
        "transforms": "tag",
        "transforms.tag.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.tag.header": "from",
        "transforms.tag.value.literal": "archive",
    }
)
SHAPES = st.one_of(
    st.builds(Routing, partition_count=st.integers(1, 5)),
    st.builds(Routing, partition_count=st.integers(1, 3), filter=st.just(parse_filter("key"))),
    st.builds(Routing, partition_count=st.integers(1, 3), shift_ms=st.sampled_from([5, 3_600_000])),
    st.just(Routing(partition_map=((0, 1), (1, 0), (2, 1), (3, 1)))),
    st.just(Routing(partition_count=2, shift_ms=5, changes=TAGGED)),
)


@settings(max_examples=150, deadline=None)
@given(sources=partitions(), routing=SHAPES, seed=st.integers(0, 10**6), data=st.data())
def test_every_resumption_gives_the_rest_of_one_order(
    sources: list[Source], routing: Routing, seed: int, data: st.DataObject
) -> None:
    stored, wanted = Stored(sources, seed), expected(sources, routing)
    targets = range(routing.partition_count or 2)
    there = {n: data.draw(st.integers(0, len(wanted.get(n, [])))) for n in targets}
    edges: dict[int, list[tuple[int, bytes]]] = {}

    def note(number: int, batch: ReadyBatch | None) -> None:
        assert batch is not None
        edges[number] = contents(batch.body)

    lanes = {n: Lane(there[n], batch_bytes=200, on_edge=lambda b, n=n: note(n, b)) for n in targets}
    while stored.router(routing, lanes).pump():
        break
    for n, lane in lanes.items():
        mine = wanted.get(n, [])
        assert read_all(lane) == mine[there[n] :]
        assert edges.get(n, []) == (mine[there[n] - 1 : there[n]] if there[n] else [])


@settings(max_examples=60, deadline=None)
@given(sources=partitions(), seed=st.integers(0, 10**6))
def test_the_order_of_each_key_is_kept(sources: list[Source], seed: int) -> None:
    routing = Routing(partition_count=3)
    lanes = {n: Lane(0) for n in range(3)}
    Stored(sources, seed).router(routing, lanes).pump()
    dealt = [value for lane in lanes.values() for _, value in read_all(lane)]
    for number, records in enumerate(sources):
        for key in {record.key for record in records} - {None}:
            mine = [record.value for record in records if record.key == key]
            assert [value for value in dealt if value in mine] == mine, (number, key)
        free = [record for record in records if record.key is None]
        spread = [
            len([v for _, v in read_all(lane) if v in {r.value for r in free}])
            for lane in lanes.values()
        ]
        assert max(spread) - min(spread) <= 1


@settings(max_examples=60, deadline=None)
@given(sources=partitions(), seed=st.integers(0, 10**6), skip=st.integers(0, 30))
def test_one_partition_filtered_or_shifted(sources: list[Source], seed: int, skip: int) -> None:
    stored, records = Stored(sources, seed), sources[0]
    routing = Routing(filter=parse_filter("key"), shift_ms=7)
    found = [
        r for b in iter_routed_batches(stored.rows(0), routing, skip) for r in contents(b.body)
    ]
    kept = [(r.timestamp + 7 * (r.timestamp >= 0), r.value) for r in records if r.key is not None]
    assert found == kept[skip:]
    if all(record.timestamp >= 0 for record in records):
        slices = whole_slices(stored.entries[0])
        batches = shift_headers(iter_slices(stored.store, slices, skip_records=skip), 1000)
        moved = [r for b in batches for r in contents(b.body)]
        assert moved == [(r.timestamp + 1000, r.value) for r in records][skip:]


class FaultyWire:
    """Several partitions; each request is delivered, lost, late, refused or not answered."""

    def __init__(self, targets: dict[int, FakeTarget], chances: random.Random, faults: float):
        self.targets, self.chances, self.faults = targets, chances, faults
        self.late: list[dict[tuple[str, int], bytes]] = []

    def produce(self, bodies: dict[tuple[str, int], bytearray], **_: object) -> Answer[Any]:
        sent = {key: bytes(body) for key, body in bodies.items()}
        if self.late and self.chances.random() < 0.3:
            self.deliver(self.late.pop(self.chances.randrange(len(self.late))))
        if self.chances.random() >= self.faults:
            return Answer(self.deliver(sent))
        match self.chances.choice(["lost", "unanswered", "late", "refused"]):
            case "lost":
                return Answer(TransientError("the connection was refused"))
            case "unanswered":
                self.deliver(sent)
                return Answer(UnknownOutcomeError("the connection broke"))
            case "late":
                self.late.append(sent)
                return Answer(UnknownOutcomeError("the connection broke"))
            case _:
                return Answer({key: ProduceResult(6, -1) for key in sent})

    def deliver(self, sent: dict[tuple[str, int], bytes]) -> dict[tuple[str, int], ProduceResult]:
        return {key: self.targets[key[1]].produce(body) for key, body in sent.items()}


def attempt(
    wire: FaultyWire, stored: Stored, routing: Routing, chances: random.Random, dies: float
) -> None:
    senders = []
    for number, target in wire.targets.items():
        lane = Lane(len(target.records), batch_bytes=chances.choice([90, 150, 400]))
        place = TargetPartition(base=0, producer_id=7, producer_epoch=0)
        sender = RoutedSender("t", number, place, lane=lane)
        sender.begin(len(target.records))
        senders.append(sender)

    def pace(_: int) -> None:
        if chances.random() < dies:
            raise KeyboardInterrupt

    router = stored.router(routing, {sender.partition: sender.lane for sender in senders})
    send_all(
        wire,  # type: ignore[arg-type]
        list(senders),
        end_offsets=lambda keys: {key: len(wire.targets[key[1]].records) for key in keys},
        topic_ids={},
        pace=pace,
        between=router.pump,
    )
    for sender in senders:
        sender.update_done()
        assert sender.done


@settings(max_examples=80, deadline=None)
@given(
    sources=partitions(),
    routing=SHAPES,
    seed=st.integers(0, 10**9),
    faults=st.sampled_from([0.0, 0.2, 0.5]),
)
def test_every_record_gets_there_once_whatever_becomes_of_requests_and_drivers(
    sources: list[Source], routing: Routing, seed: int, faults: float
) -> None:
    chances, stored = random.Random(seed), Stored(sources, seed)
    targets = {n: FakeTarget() for n in range(routing.partition_count or 2)}
    late: list[dict[tuple[str, int], bytes]] = []
    with mock.patch.object(send, "time", mock.Mock(wraps=time, sleep=lambda _: None)):
        for dies in (0.3, 0.1, 0.0):
            wire = FaultyWire(targets, chances, faults)
            wire.late = late
            with suppress(KeyboardInterrupt):
                attempt(wire, stored, routing, chances, dies)
    while late:
        wire.deliver(late.pop())
    wanted = expected(sources, routing)
    for number, target in targets.items():
        assert target.records == [value for _, value in wanted.get(number, [])]


def test_a_target_that_holds_more_than_it_is_to_get_is_refused() -> None:
    stored = Stored([[Record(0, 0, b"a", b"v")]], 1)
    with pytest.raises(PreflightError, match="holds more records"):
        stored.router(Routing(partition_count=1), {0: Lane(2)}).pump()


def test_memory_does_not_grow_while_a_lane_waits() -> None:
    def rows() -> Iterator[Any]:
        for _ in range(200):
            batch = build_batch([Record(i, 0, b"a", b"x" * 1000) for i in range(1000)])
            from kafkeep.kafka.batch.unpack import iter_unpacked, walk_records

            [part] = iter_unpacked(scan_batches(batch))
            yield walk_records(part), 0

    routing = Routing(partition_count=4)
    lanes = {n: Lane(0) for n in range(4)}
    router = Router(merge([blocks_of(rows(), 0, routing)]), lanes)
    assert router.pump()
    assert 16 << 20 <= sum(lane.queued_bytes for lane in lanes.values()) < 20 << 20
    assert not router.pump()  # nobody took anything
