"""What gc removes, and what it never does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    Built,
    ObjectPlan,
    PartitionPlan,
    build_archive,
    partition,
    records,
    write_object,
)

from kafkeep.archive.adoption import object_metadata
from kafkeep.archive.commit import Changes, Intent, PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import AccessDeniedError, DamagedError, NoSuchArchiveError
from kafkeep.maintenance.gc import GcPlan, OrphanAction, plan_gc, remove
from kafkeep.maintenance.inspect.inventory import load_usage
from kafkeep.maintenance.verify.verify import verify
from kafkeep.options.maintenance import DAY_MS
from kafkeep.store.memory import MemoryStore

ORDERS = PartitionId("orders", 1, 0)
LEFT = "topics/orders/partition=0/orders+0+00000000010.log.zst"


class Clock:
    """The store's clock, set by hand."""

    def __init__(self) -> None:
        self.ms = FIRST_MS

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ms=clock)


def claim(
    start: int, end: int | None, pid: PartitionId = ORDERS, log: str = "backup"
) -> dict[str, str]:
    planned = PlannedRange(
        partition_id=pid, topic_id=f"id-{pid.folder}", range=OffsetRange(start, (end or start) + 1)
    )
    return object_metadata(writer=log, planned=planned, start=start, plan="p", end=end)


def build(store: MemoryStore, **more: object) -> Built:
    return build_archive(store, {"orders": [partition(0, 10, 20)]}, **more)


def look(store: MemoryStore, clock: Clock, age_ms: int = DAY_MS) -> GcPlan:
    clock.ms += age_ms
    return plan_gc(store)


def gone(store: MemoryStore, plan: GcPlan) -> list[str]:
    """Remove what is planned; return the keys that are no longer there."""
    before = {info.key for info in store.list("")}
    remove(store, plan)
    return sorted(before - {info.key for info in store.list("")})


@pytest.mark.parametrize("metadata", [claim(10, 20), claim(10, None), claim(5, 15), claim(19, 20)])
def test_what_other_objects_hold_is_removed(
    store: MemoryStore, clock: Clock, metadata: dict[str, str]
) -> None:
    build(store)
    store.put_new(LEFT, b"12345", metadata)
    plan = look(store, clock)
    assert [(one.name, one.log, one.fate) for one in plan.left_overs] == [
        (LEFT, "backup", OrphanAction.REMOVE)
    ]
    done = remove(store, plan)
    assert [one.fate for one in done.left_overs] == [OrphanAction.REMOVED]
    assert done.size_bytes(OrphanAction.REMOVED) == 5
    assert verify(store, ["backup"]).findings == ()
    assert load_usage(store, ["backup"]).orphans == 0
    assert plan_gc(store).left_overs == ()


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (claim(20, 30), "has not passed offset 20"),
        (claim(25, 30), "has not passed offset 25"),
        (claim(15, 25), "no object of the log holds offset 20"),
        (claim(10, 20, PartitionId("orders", 2, 0)), "has not passed"),
        (claim(10, 20, PartitionId("orders", 1, 1)), "has not passed"),
        (claim(10, 20, log="other"), "its log other is not in this archive"),
        (
            {"kafkeep-writer": "backup", "kafkeep-topic-id": "", "kafkeep-start": "1"},
            "which offset",
        ),
    ],
)
def test_what_may_still_be_named_or_is_needed_is_kept(
    store: MemoryStore, clock: Clock, metadata: dict[str, str], why: str
) -> None:
    build(store)
    store.put_new(LEFT, b"12345", metadata)
    plan = look(store, clock, 365 * DAY_MS)
    assert gone(store, plan) == []
    [one] = plan.left_overs
    assert one.fate is OrphanAction.KEEP and why in one.reason


def test_what_kafkeep_did_not_write_is_counted_and_left_alone(
    store: MemoryStore, clock: Clock
) -> None:
    build(store)
    store.put_new(LEFT, b"12345", {"writer": "connect"})
    plan = look(store, clock)
    assert (plan.left_overs, plan.foreign, gone(store, plan)) == ((), 1, [])


def test_what_is_young_by_the_stores_clock_is_kept(store: MemoryStore, clock: Clock) -> None:
    build(store)
    store.put_new(LEFT, b"12345", claim(10, 20))
    assert gone(store, look(store, clock, DAY_MS - 1)) == []
    assert gone(store, look(store, clock, 1)) == [LEFT]


def test_what_an_open_intent_plans_is_kept(store: MemoryStore, clock: Clock) -> None:
    planned = PlannedRange(partition_id=ORDERS, topic_id="id-orders", range=OffsetRange(20, 40))
    log = build(store, intent=Intent(ranges=(planned,), options={}, at_ms=FIRST_MS)).log
    store.put_new(LEFT, b"12345", claim(30, 35))
    plan = look(store, clock)
    assert gone(store, plan) == []
    assert "an open intent" in plan.left_overs[0].reason
    entry = write_object(store, ORDERS, ObjectPlan(records=records(20, 40)))
    log.append(Changes(entries=(entry,), positions={ORDERS: 40}, closes_intent=True))
    assert gone(store, look(store, clock)) == [LEFT]


def test_the_only_copy_of_an_offset_is_kept(store: MemoryStore, clock: Clock) -> None:
    """Kafka deleted 10 to 20 before the log had them; the object of a dead run has them."""
    lost = [OffsetRange(10, 20)]
    built = build_archive(store, {"orders": [partition(20, 30, gaps=lost), partition(0, 10)]})
    store.put_new(LEFT, b"12345", claim(10, 20))
    beside = "topics/orders/partition=1/left"
    store.put_new(beside, b"123", claim(0, 10, PartitionId("orders", 1, 1)))
    assert gone(store, look(store, clock)) == [beside]
    store.put_new(beside, b"123", claim(0, 10, PartitionId("orders", 1, 1)))
    store.delete(built.entries[1].key)  # damage: what is left over may mend it
    assert gone(store, look(store, clock)) == []


def test_of_a_shared_range_all_objects_must_be_there(store: MemoryStore, clock: Clock) -> None:
    built = build_archive(store, {"orders": [PartitionPlan(objects=[], position=0)]})
    parts = []
    for hour in (1, 2):
        key = f"topics/orders/hour={hour}/orders+0+0.json"
        made = write_object(MemoryStore(), ORDERS, ObjectPlan(records=records(0, 10)))
        store.put_new(key, b"x")
        parts.append(replace(made, key=key, parts=2, records=5, index=()))
    built.log.append(Changes(entries=tuple(parts), positions={ORDERS: 10}))
    store.put_new(LEFT, b"x", claim(3, 10))
    store.delete(parts[1].key)
    assert gone(store, look(store, clock)) == []
    store.put_new(parts[1].key, b"x")
    assert gone(store, look(store, clock)) == [LEFT]


def test_other_archives_inside_or_above_the_data_are_left_alone(
    store: MemoryStore, clock: Clock
) -> None:
    built = build(store)
    moved = replace(built.entries[0], key="lake/deep/orders/a", range=OffsetRange(20, 30))
    store.put_new(moved.key, b"x")
    built.log.append(Changes(entries=(moved,), positions={ORDERS: 30}))
    theirs = ["topics/orders/inner/topics/x", "lake/deep/orders/x"]
    for key in theirs:
        store.put_new(key, b"x", claim(0, 10))
    assert {one.name for one in look(store, clock).left_overs} == set(theirs)
    store.put_new("topics/orders/inner/" + log_key("backup", 0), b"{}")
    store.put_new("lake/" + log_key("backup", 0), b"{}")
    assert look(store, clock).left_overs == ()


def test_a_log_that_was_moved_back_keeps_what_it_has_not_come_past_again(
    store: MemoryStore, clock: Clock
) -> None:
    log = build(store).log
    store.put_new(LEFT, b"12345", claim(10, 20))
    log.append(Changes(retired={ORDERS: 0}))
    assert gone(store, look(store, clock)) == []


def test_an_object_that_was_replaced_since_the_plan_is_kept(
    store: MemoryStore, clock: Clock
) -> None:
    build(store)
    store.put_new(LEFT, b"12345", claim(10, 20))
    plan = look(store, clock)
    store.delete(LEFT)
    store.put_new(LEFT, b"54321", claim(10, 20, log="other"))
    assert gone(store, plan) == []


def test_what_is_committed_while_gc_lists_is_kept(store: MemoryStore, clock: Clock) -> None:
    log = build(store).log

    class Racing(MemoryStore):
        """A backup commits what was written when the listing is done."""

        def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
            yield from MemoryStore.list(self, prefix, after=after)
            if prefix == "topics/" and log.state.positions[ORDERS] == 20:
                log.append(Changes(entries=(entry,), positions={ORDERS: 30}))

    entry = write_object(store, ORDERS, ObjectPlan(records=records(20, 30)))
    store.__class__ = Racing
    plan = look(store, clock)
    assert log.state.positions[ORDERS] == 30
    assert plan.left_overs == () and plan.foreign == 0


def test_uploads_that_nobody_finished_are_ended(store: MemoryStore, clock: Clock) -> None:
    build(store)
    ours = ["topics/orders/partition=0/a", "topics/orders~2/day=1/b"]
    for key in (*ours, "topics/others/partition=0/c", "backup.tar"):
        store.create(key).write(b"x")
    assert {one.fate for one in look(store, clock, 1).left_overs} == {OrphanAction.KEEP}
    plan = look(store, clock)
    assert sorted(one.name for one in plan.left_overs) == ours
    assert {(one.kind, one.fate) for one in plan.left_overs} == {("upload", OrphanAction.REMOVE)}
    remove(store, plan)
    assert {upload.key for upload in store.uploads()}.isdisjoint(ours)
    assert len(store.uploads()) == 2
    assert look(store, clock).left_overs == ()


def test_a_denied_delete_is_reported_for_each_object(store: MemoryStore, clock: Clock) -> None:
    class Locked(MemoryStore):
        def delete(self, key: str) -> None:
            raise AccessDeniedError("no")

    build(store)
    store.put_new(LEFT, b"12345", claim(10, 20))
    store.__class__ = Locked
    done = remove(store, look(store, clock))
    assert [(one.fate, one.reason) for one in done.left_overs] == [(OrphanAction.REFUSED, "no")]


def test_without_a_log_or_with_a_damaged_one_nothing_is_removed(
    store: MemoryStore, clock: Clock
) -> None:
    store.put_new(LEFT, b"12345", claim(10, 20))
    with pytest.raises(NoSuchArchiveError):
        plan_gc(store)
    build(store)
    build_archive(store, {"events": [partition(0, 5)]}, name="other")
    store.delete(log_key("other", 0))
    store.put_new(log_key("other", 0), b"{")
    with pytest.raises(DamagedError):
        look(store, clock)
