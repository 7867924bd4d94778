"""Positions moved on request, over real segments and a sink's files."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from tests.support.archive_builder import (
    ObjectPlan,
    PartitionPlan,
    build_archive,
    partition,
    records,
    write_object,
)

from kafkeep.archive.commit import Changes, Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns
from kafkeep.archive.view import load_view
from kafkeep.errors import FencedError, UsageError
from kafkeep.maintenance.move_positions import BY_REQUEST, move_positions
from kafkeep.maintenance.verify.finding import Severity
from kafkeep.maintenance.verify.verify import verify
from kafkeep.objects.records import iter_records
from kafkeep.restore.read import iter_ready
from kafkeep.store.memory import MemoryStore

PID = PartitionId("orders", 1, 0)
clock = itertools.count(1_800_000_000_000, 1000)


def move(store: MemoryStore, moves, log: str = "backup") -> None:
    move_positions(store, log, moves, writer=f"m{next(clock)}", now_ms=lambda: next(clock))


def offsets_of(store: MemoryStore) -> list[int]:
    entries = load_view(store, "backup").entries("orders")
    return [row for batch in iter_records(store, entries) for row in batch["offset"].to_pylist()]


def go_on(store: MemoryStore, start: int, end: int) -> None:
    """Archive again from where the position stands, as a backup would: by batches of ten."""
    log = CommitLog.open(store, "backup", writer=f"b{next(clock)}", now_ms=lambda: next(clock))
    planned = PlannedRange(partition_id=PID, topic_id="t", range=OffsetRange(start, end))
    # A broker gives the batch that holds ``start`` whole: it begins before it.
    plan = ObjectPlan(records=records(start // 10 * 10, end), range=OffsetRange(start, end))
    entry = write_object(store, log.state.planned(planned).folder_id, plan)
    entry = Entry.from_json({**entry.to_json(), "incarnation": 1})
    log.append(Changes(entries=(entry,), positions={PID: end}))


@pytest.mark.parametrize("offset", [0, 10, 20, 35, 41, 58])
def test_records_are_there_once_after_a_move_back(offset: int) -> None:
    store = MemoryStore()
    holes = [r for r in records(20, 60) if r.offset % 7 != 3]
    plan = PartitionPlan(objects=[ObjectPlan(records=records(0, 20)), ObjectPlan(records=holes)])
    built = build_archive(store, {"orders": [plan]})
    whole = offsets_of(store)
    move(store, {("orders", 0): offset})
    assert load_view(store, "backup").positions == {PID: offset}
    assert offsets_of(store) == [n for n in whole if n < offset]
    go_on(store, offset, 70)
    assert offsets_of(store) == [n for n in whole if n < offset] + list(range(offset, 70))
    entries = load_view(store, "backup").entries()
    ready = list(iter_ready(store, entries))
    assert sum(batch.records for batch in ready) == len(offsets_of(store))
    assert sum(e.records for e in entries) == len(offsets_of(store))
    skipped = list(iter_ready(store, entries, skip_records=30))
    assert sum(batch.records for batch in skipped) == len(offsets_of(store)) - 30
    report = verify(store, ["backup"], deep=True)
    assert {f.severity for f in report.findings} <= {Severity.INFO}
    assert not any(f.kind == "orphan" for f in report.findings)
    old = load_view(store, "backup", commit=built.log.state.commit)
    assert [e.key for e in old.entries()] == [e.key for e in built.entries]


def test_a_cut_object_can_be_cut_again() -> None:
    store = MemoryStore()
    build_archive(store, {"orders": [partition(0, 50)]})
    for offset in (40, 25):
        move(store, {("orders", 0): offset})
    assert offsets_of(store) == list(range(25))
    (entry,) = load_view(store, "backup").entries()
    assert (entry.range, entry.stored.range) == (OffsetRange(0, 25), OffsetRange(0, 50))


def test_what_is_skipped_is_a_gap_by_request_and_can_be_had_after_all() -> None:
    store = MemoryStore()
    build_archive(store, {"orders": [partition(0, 20)]})
    move(store, {("orders", 0): 90})
    view = load_view(store, "backup")
    assert [(g.range, g.reason) for g in view.gaps] == [(OffsetRange(20, 90), BY_REQUEST)]
    move(store, {("orders", 0): 50})
    view = load_view(store, "backup")
    assert [(g.range, g.reason) for g in view.gaps] == [(OffsetRange(20, 50), BY_REQUEST)]
    assert view.positions == {PID: 50}


def test_none_forgets_a_partition_and_leaves_the_others() -> None:
    store = MemoryStore()
    build_archive(store, {"orders": [partition(0, 20), partition(5, 15)]})
    move(store, {("orders", 0): None, ("orders", 7): None})
    view = load_view(store, "backup")
    assert view.positions == {PartitionId("orders", 1, 1): 15}
    assert {e.partition_id.partition for e in view.entries()} == {1}


def test_moves_to_where_things_are_commit_nothing() -> None:
    store = MemoryStore()
    build_archive(store, {"orders": [partition(0, 20)]})
    move(store, {("orders", 0): 20})
    view = load_view(store, "backup")
    assert view.state.retired == {}
    move(store, {("new", 3): 12})
    assert load_view(store, "backup").positions[PartitionId("new", 1, 3)] == 12


def test_an_open_intent_is_given_up_and_its_writer_fenced() -> None:
    store = MemoryStore()
    planned = PlannedRange(partition_id=PID, topic_id="t", range=OffsetRange(20, 30))
    intent = Intent(ranges=(planned,), options={}, at_ms=1)
    built = build_archive(store, {"orders": [partition(0, 20)]}, intent=intent)
    move(store, {("orders", 0): 10})
    assert load_view(store, "backup").intent is None
    with pytest.raises(FencedError):
        built.log.append(Changes(positions={PID: 30}, closes_intent=True))


@pytest.mark.parametrize(
    ("place", "offset", "words"),
    [
        (("orders", 0), -1, "orders-0: -1 is not an offset"),
        (("orders", 0), 1 << 63, "is not an offset"),
        (("orders", 1 << 31), 1, "is not a partition"),
        (("../orders", 0), 1, "is not a valid topic name"),
        (("no topic", 0), None, "is not a valid topic name"),
    ],
)
def test_what_cannot_be_a_topic_partition_or_offset_is_refused_and_nothing_committed(
    place: tuple[str, int], offset: int | None, words: str
) -> None:
    store = MemoryStore()
    build_archive(store, {"orders": [partition(0, 20)]})
    before = load_view(store, "backup").commit
    with pytest.raises(UsageError, match=words):
        move(store, {place: offset})
    assert load_view(store, "backup").commit == before


def build_sink(store: MemoryStore, *, known: bool = True) -> None:
    """One window of two JSON files, even and odd offsets of 0..20, but for 6 and 7."""
    log = CommitLog.open(store, "backup", writer="s", now_ms=lambda: next(clock))
    entries = []
    for parity in (0, 1):
        offsets = [n for n in range(20) if n % 2 == parity and n not in (6, 7)]
        body = b"".join(b'{"n":%d}\n' % n for n in offsets)
        key = f"topics/orders/odd={parity}/orders+0+{offsets[0]:010d}.json"
        store.put_new(key, body)
        runs = OffsetRuns.of([(n, n + 1) for n in offsets]) if known else NO_RUNS
        entries.append(
            Entry(
                key=key, partition_id=PID, topic_id="t", range=OffsetRange(0, 20),
                records=len(offsets), min_timestamp=0, max_timestamp=0, size_bytes=len(body),
                raw_bytes=len(body), format="json", codec="none", runs=runs, parts=2,
                sha256=hashlib.sha256(body).hexdigest(), converter="JsonConverter",
            )
        )  # fmt: skip
    log.append(Changes(entries=tuple(entries), positions={PID: 20}))


@pytest.mark.parametrize("offset", [1, 7, 13])
def test_a_window_of_several_files_is_cut_row_by_row(offset: int) -> None:
    store = MemoryStore()
    build_sink(store)
    move(store, {("orders", 0): offset})
    wanted = [n for n in range(offset) if n not in (6, 7)]
    entries = load_view(store, "backup").entries()
    assert offsets_of(store) == wanted
    assert sum(e.records for e in entries) == len(wanted)
    assert sum(b.records for b in iter_ready(store, entries)) == len(wanted)
    found = {f.severity for f in verify(store, ["backup"], deep=True).findings}
    assert found <= {Severity.INFO}


def test_a_window_whose_rows_have_no_offsets_is_not_cut() -> None:
    store = MemoryStore()
    build_sink(store, known=False)
    with pytest.raises(UsageError, match="offset 7 is inside of topics/orders/odd=0") as caught:
        move(store, {("orders", 0): 7})
    assert caught.value.hint == "Move it to offset 0 or 20."
    assert load_view(store, "backup").positions == {PID: 20}
