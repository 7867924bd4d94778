"""However a stretch is cut, killed and read again: every record is archived once, in order."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_kafka import FakeFetchWire, FakeLog, fake_logs
from tests.support.faults.dying_store import Died, MortalStore

from kafkeep.archive.commit import Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup import task
from kafkeep.backup.fetch import RangeFetch, iter_chunks
from kafkeep.backup.reconcile_reports import reconcile
from kafkeep.backup.task import BackupBundle, BundledRange, Deadlines, RangeReport, archive_bundle
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.read import iter_ready
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)
QUICK = settings(max_examples=60, deadline=None)


def planned(start: int, end: int) -> PlannedRange:
    return PlannedRange(partition_id=PID, topic_id="id", range=OffsetRange(start, end))


def cut(data: st.DataObject, start: int, end: int) -> list[PlannedRange]:
    """Cut a stretch at any offsets."""
    inner = data.draw(st.sets(st.integers(start, max(start, end - 1)), max_size=6))
    edges = sorted({start, end, *inner})
    return [planned(a, b) for a, b in pairwise(edges)] or [planned(start, end)]


@QUICK
@given(log=fake_logs(), data=st.data(), limit=st.sampled_from([1, 150, 400, 10_000]))
def test_any_cut_of_a_stretch_tiles_and_owns_each_record_once(
    log: FakeLog, data: st.DataObject, limit: int
) -> None:
    start = data.draw(st.integers(log.start, log.end))
    end = data.draw(st.integers(start, log.end))
    readers = [
        RangeFetch(one, begins_stretch=n == 0, est_bytes=1, keeps_aborted=False)
        for n, one in enumerate(cut(data, start, end))
    ]
    wire: Any = FakeFetchWire({("t", 0): log}, limit)
    owned: dict[int, list[int]] = {id(reader): [] for reader in readers}
    for reader, chunk in iter_chunks(wire, readers, deadline=float("inf")):
        if chunk.batches is not None:
            inside = OffsetRange(start, 2**62)
            owned[id(reader)] += decode(chunk.batches, range=inside).column("offset").to_pylist()
    position = start
    for reader in readers:
        assert reader.finished and reader.first == position
        position = reader.position
    assert position >= end
    read = [offset for reader in readers for offset in owned[id(reader)]]
    assert read == [r.offset for r in log.visible if start <= r.offset < position]


OVER, FILLING, NEVER = Deadlines(-2, -1), Deadlines(-1, 2**60), Deadlines(2**60, 2**60)
"""The time of a cycle is over; is over, but open segments are filled; is never over."""


@contextmanager
def services(
    wire: FakeFetchWire, store: MemoryStore, deadlines: Deadlines = NEVER
) -> Iterator[None]:
    with (
        mock.patch.object(Deadlines, "after", lambda _: deadlines),
        mock.patch.object(task, "wire_for", lambda _: wire),
        mock.patch.object(task, "open_store", lambda *_: store),
    ):
        yield


def bundles(intent: Intent, options: SegmentIntent) -> list[BackupBundle]:
    return [
        BackupBundle(
            ranges=(BundledRange(number, one, number == 0, 1),),
            kafka=KafkaOptions("nowhere:1"),
            archive="memory:",
            storage=StorageOptions(),
            log_name="backup",
            connector="backup",
            write=options,
            seconds=1000.0,
        )
        for number, one in enumerate(intent.ranges)
    ]


def run_intent(
    intent: Intent,
    options: SegmentIntent,
    store: MortalStore,
    kills: list[int | None],
) -> tuple[dict[int, list[Entry]], dict[int, RangeReport]] | None:
    """Run every bundle; one whose ``kills`` has a number dies after so many uploads."""
    entries: dict[int, list[Entry]] = {}
    reports: dict[int, RangeReport] = {}
    died = False
    for bundle, store.lives in zip(bundles(intent, options), kills, strict=True):
        try:
            rows = list(archive_bundle(bundle))
        except Died:
            died = True
            continue
        for kind, body in rows:
            if kind == "object":
                entries.setdefault(body["number"], []).append(Entry.from_json(body["entry"]))
            else:
                reports[body["number"]] = RangeReport.from_json(body)
    return None if died else (entries, reports)


@QUICK
@given(
    log=fake_logs(),
    data=st.data(),
    limit=st.sampled_from([1, 300, 10_000]),
    segment_bytes=st.sampled_from([1, 200, 500, 10**9]),
    deadlines=st.sampled_from([OVER, FILLING, NEVER]),
)
def test_killed_and_read_again_nothing_is_lost_or_doubled(
    log: FakeLog, data: st.DataObject, limit: int, segment_bytes: int, deadlines: Deadlines
) -> None:
    store = MortalStore(uuid.uuid4().hex)
    store.stores_first = data.draw(st.booleans())
    options = SegmentIntent(segment_bytes=segment_bytes, keeps_aborted=False)
    archived: list[Entry] = []
    position = log.start
    left: tuple[PlannedRange, ...] = ()
    with services(FakeFetchWire({("t", 0): log}, limit), store, deadlines):
        while position < log.end:
            if not left:
                end = data.draw(st.integers(position + 1, log.end))
                left = tuple(cut(data, position, end))
            intent = Intent(ranges=left, options=options.to_json(), at_ms=0)
            kills = data.draw(
                st.lists(
                    st.one_of(st.none(), st.none(), st.integers(0, 3)),
                    min_size=len(left),
                    max_size=len(left),
                )
            )
            before = store.everything()
            done = run_intent(intent, options, store, kills)
            after = store.everything()
            assert {key: after.get(key) for key in before} == before, "an object was replaced"
            if done is None:
                continue
            settled = reconcile(intent, *done, at_ms=0)
            archived += settled.entries
            assert settled.positions[PID] >= position
            position = settled.positions[PID]
            left = settled.left_over
    for before, after in pairwise(archived):
        assert before.range.end <= after.range.start
    assert archived_records(store, archived) == plain(log.visible)
    assert sum(entry.records for entry in archived) == len(log.visible)


@QUICK
@given(log=fake_logs(), data=st.data())
def test_a_restore_continues_after_any_number_of_records(log: FakeLog, data: st.DataObject) -> None:
    store = MortalStore(uuid.uuid4().hex)
    options = SegmentIntent(segment_bytes=300, keeps_aborted=False)
    intent = Intent(ranges=(planned(log.start, log.end),), options=options.to_json(), at_ms=0)
    with services(FakeFetchWire({("t", 0): log}, 400), store):
        done = run_intent(intent, options, store, [None])
    assert done is not None
    entries = reconcile(intent, *done, at_ms=0).entries
    skip = data.draw(st.integers(0, len(log.visible)))
    assert archived_records(store, list(entries), skip) == plain(log.visible)[skip:]


def archived_records(store: MemoryStore, entries: list[Entry], skip: int = 0) -> list[object]:
    found: list[object] = []
    for ready in iter_ready(store, entries, skip_records=skip):
        rows = decode(scan_batches(bytes(ready.body))).to_pylist()
        found += [(row["key"], row["value"], row["timestamp"]) for row in rows]
    return found


def plain(records: list[Record]) -> list[object]:
    return [(record.key, record.value, record.timestamp) for record in records]
