"""Verify against archives damaged in every way a store can damage them."""

from __future__ import annotations

import hashlib
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
)
from tests.support.forge import forged

from kafkeep.archive.commit import Changes, Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.errors import NoSuchArchiveError
from kafkeep.kafka.batch.layout import Record
from kafkeep.maintenance.verify.finding import FindingKind, Severity, VerifyReport
from kafkeep.maintenance.verify.verify import verify
from kafkeep.store.memory import MemoryStore

ORDERS = PartitionId("orders", 1, 0)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def built(store: MemoryStore) -> Built:
    return build_archive(store, {"orders": [partition(0, 100, 250), partition(0, 60)]})


def swap(store: MemoryStore, key: str, body: bytes) -> None:
    store.delete(key)
    store.put_new(key, body)


def damages(report: VerifyReport) -> list[tuple[FindingKind, int | None, OffsetRange | None]]:
    return [
        (f.kind, f.partition_id.partition if f.partition_id else None, f.lost)
        for f in report.findings
        if f.severity is Severity.DAMAGE
    ]


def frame_of(entry: Entry, number: int) -> tuple[int, int, OffsetRange]:
    """Return where a frame lies and the offsets it holds."""
    points = entry.index
    last = number + 1 == len(points)
    end = entry.size_bytes if last else points[number + 1].position
    stop = entry.range.end if last else points[number + 1].offset
    return points[number].position, end, OffsetRange(points[number].offset, stop)


@pytest.mark.parametrize("deep", [False, True])
def test_verify_finds_a_whole_archive_intact(store: MemoryStore, built: Built, deep: bool) -> None:
    report = verify(store, ["backup"], deep=deep)
    assert report.intact
    assert report.findings == ()
    assert (report.objects, report.records) == (3, 310)
    assert report.read_bytes == sum(entry.size_bytes for entry in built.entries)


def test_verify_names_the_offsets_of_a_missing_object(store: MemoryStore, built: Built) -> None:
    store.delete(built.entries[1].key)
    report = verify(store, ["backup"])
    assert damages(report) == [(FindingKind.MISSING, 0, OffsetRange(100, 250))]
    assert report.lost_offsets == 150
    assert not report.intact


def test_verify_loses_only_the_frame_with_the_flipped_byte(
    store: MemoryStore, built: Built
) -> None:
    entry = built.entries[1]
    start, end, offsets = frame_of(entry, 2)
    body = bytearray(store.get(entry.key))
    body[(start + end) // 2] ^= 0x01
    swap(store, entry.key, bytes(body))
    assert damages(verify(store, ["backup"])) == [(FindingKind.ALTERED, 0, offsets)]


def test_every_flipped_byte_is_found(store: MemoryStore, built: Built) -> None:
    entry = built.entries[2]
    body = store.get(entry.key)
    for at in range(0, len(body), 7):
        swap(store, entry.key, body[:at] + bytes([body[at] ^ 0x40]) + body[at + 1 :])
        report = verify(store, ["backup"], topics=["orders"])
        assert {kind for kind, _, _ in damages(report)} == {FindingKind.ALTERED}
        assert report.lost_offsets > 0


def test_verify_keeps_what_is_whole_of_a_truncated_object(store: MemoryStore, built: Built) -> None:
    entry = built.entries[0]
    start, _, offsets = frame_of(entry, 1)
    swap(store, entry.key, store.get(entry.key)[: start + 3])
    report = verify(store, ["backup"])
    assert damages(report) == [(FindingKind.TRUNCATED, 0, OffsetRange(offsets.start, 100))]


def test_an_emptied_object_is_lost_whole(store: MemoryStore, built: Built) -> None:
    swap(store, built.entries[0].key, b"")
    assert damages(verify(store, ["backup"])) == [(FindingKind.TRUNCATED, 0, OffsetRange(0, 100))]


def test_verify_distrusts_all_of_an_object_with_bytes_added(
    store: MemoryStore, built: Built
) -> None:
    entry = built.entries[0]
    swap(store, entry.key, store.get(entry.key) + b"more")
    assert damages(verify(store, ["backup"])) == [(FindingKind.ALTERED, 0, OffsetRange(0, 100))]


def relogged(entry: Entry, **changes: object) -> MemoryStore:
    """Return an archive whose log says something else of an object than is true."""
    store = MemoryStore()
    one = build_archive(store, {"other": [partition(0, 5)]})
    changed = replace(entry, **changes)  # type: ignore[arg-type]
    one.log.append(Changes(entries=(changed,), positions={ORDERS: 100}))
    return store


def test_invalid_bytes_that_were_produced_so_are_undecodable(
    store: MemoryStore, built: Built
) -> None:
    body = bytearray(store.get(built.entries[0].key))
    _, end, offsets = frame_of(built.entries[0], 0)
    body[end - 5] ^= 0xFF
    fresh = relogged(built.entries[0], sha256=hashlib.sha256(body).hexdigest())
    fresh.put_new(built.entries[0].key, bytes(body))
    assert damages(verify(fresh, ["backup"])) == [(FindingKind.UNDECODABLE, 0, offsets)]


def test_verify_names_a_wrong_record_count(store: MemoryStore, built: Built) -> None:
    fresh = relogged(built.entries[0], records=99)
    fresh.put_new(built.entries[0].key, store.get(built.entries[0].key))
    (found,) = [f for f in verify(fresh, ["backup"]).findings if f.severity is Severity.DAMAGE]
    assert found.kind is FindingKind.MISCOUNTED
    assert "100 records, the log says 99" in found.message


def test_deep_alone_finds_a_wrong_smallest_time(store: MemoryStore, built: Built) -> None:
    index = list(built.entries[0].index)
    index[1] = index[1]._replace(min_timestamp=5)
    fresh = relogged(built.entries[0], index=tuple(index))
    fresh.put_new(built.entries[0].key, store.get(built.entries[0].key))
    assert verify(fresh, ["backup"]).intact
    assert [kind for kind, _, _ in damages(verify(fresh, ["backup"], deep=True))] == [
        FindingKind.MISCOUNTED
    ]


def test_verify_names_an_index_that_cannot_be_right(store: MemoryStore, built: Built) -> None:
    index = built.entries[0].index
    wrong = (index[0], index[2], index[1], *index[3:])
    fresh = relogged(built.entries[0], index=wrong)
    fresh.put_new(built.entries[0].key, store.get(built.entries[0].key))
    (damaged,) = damages(verify(fresh, ["backup"]))
    assert damaged == (FindingKind.MISCOUNTED, 0, OffsetRange(0, 100))


@pytest.mark.parametrize("covered", [(5, 60), (0, 43), (15, 22), (0, 50)])
def test_what_lies_outside_of_the_range_is_not_counted(
    store: MemoryStore, covered: tuple[int, int]
) -> None:
    plan = ObjectPlan(records=records(0, 50), range=OffsetRange(*covered))
    build_archive(store, {"orders": [PartitionPlan(objects=[plan])]})
    report = verify(store, ["backup"], deep=True)
    assert report.findings == ()
    assert report.records == min(50, covered[1]) - covered[0]


def test_holes_and_odd_times_are_no_damage(store: MemoryStore) -> None:
    odd = [Record(n, [-1, 0, 2**62][n % 3], None, b"", ()) for n in range(0, 90, 3)]
    plan = ObjectPlan(records=odd, range=OffsetRange(0, 100))
    build_archive(store, {"orders": [PartitionPlan(objects=[plan])]})
    assert verify(store, ["backup"], deep=True).findings == ()


def test_a_broken_chain_is_damage_and_the_rest_is_still_checked(
    store: MemoryStore, built: Built
) -> None:
    built.log.append(Changes(note="later"))
    key = log_key("backup", 1)
    swap(store, key, forged(store.get(key), b'"1000"', b'"2000"'))
    store.delete(built.entries[0].key)
    found = [kind for kind, _, _ in damages(verify(store, ["backup"]))]
    assert found == [FindingKind.BROKEN_CHAIN, FindingKind.MISSING]


@pytest.mark.parametrize("number", [0, 1])
def test_a_log_too_broken_to_know_a_topic_is_damage_and_not_another_archive(
    store: MemoryStore, built: Built, number: int
) -> None:
    swap(store, log_key("backup", number), b"{}")
    report = verify(store, ["backup"], topics=["orders"])
    assert [f.kind for f in report.findings] == [FindingKind.BROKEN_CHAIN] and not report.intact


def test_a_newer_format_is_reported_without_naming_its_key_twice(
    store: MemoryStore, built: Built
) -> None:
    swap(store, log_key("backup", 1), b'{"version": 999}')
    found = verify(store, ["backup"]).findings[0]
    assert found.message.startswith("format version 999 needs a newer kafkeep")


def test_a_missing_commit_is_damage(store: MemoryStore, built: Built) -> None:
    built.log.append(Changes(note="later"))
    store.delete(log_key("backup", 1))
    assert FindingKind.BROKEN_CHAIN in [kind for kind, _, _ in damages(verify(store, ["backup"]))]


def test_a_bad_checkpoint_is_a_warning_alone(store: MemoryStore) -> None:
    build_archive(store, {"orders": [partition(0, 10)]}, checkpoint=True)
    (checkpoint,) = [info.key for info in store.list("_kafkeep/backup/checkpoint/")]
    swap(store, checkpoint, b"nonsense")
    report = verify(store, ["backup"])
    assert report.intact
    assert [(f.severity, f.kind) for f in report.findings] == [
        (Severity.WARNING, FindingKind.BAD_CHECKPOINT)
    ]


def test_orphans_gaps_and_open_intents_are_reported_and_no_damage(store: MemoryStore) -> None:
    planned = PlannedRange(partition_id=ORDERS, topic_id="id", range=OffsetRange(30, 40))
    build_archive(
        store,
        {"orders": [PartitionPlan(objects=[ObjectPlan(records=records(20, 30))],
                                  gaps=[OffsetRange(10, 20)], position=35)]},
        intent=Intent(ranges=(planned,), options={}, at_ms=FIRST_MS),
    )  # fmt: skip
    store.put_new("topics/orders/partition=0/orders+0+0000000030.log.zst", b"left")
    report = verify(store, ["backup"])
    assert report.intact
    assert [f.kind for f in report.findings] == [
        FindingKind.GAP,
        FindingKind.NO_OBJECT,
        FindingKind.OPEN_INTENT,
        FindingKind.ORPHAN,
    ]


def test_objects_of_another_log_are_no_orphans(store: MemoryStore, built: Built) -> None:
    build_archive(store, {"events": [partition(0, 10)]}, name="other")
    assert verify(store, ["backup"]).findings == ()
    both = verify(store, ["backup", "other"])
    assert both.findings == ()
    assert both.objects == 4


def test_verify_reads_only_the_topics_asked_for(store: MemoryStore, built: Built) -> None:
    one = build_archive(store, {"events": [partition(0, 10)]}, name="other")
    store.delete(built.entries[0].key)
    report = verify(store, ["backup", "other"], topics=["events"])
    assert report.intact
    assert report.read_bytes == one.entries[0].size_bytes
    with pytest.raises(NoSuchArchiveError, match="no topic nothing"):
        verify(store, ["backup"], topics=["nothing"])


def test_progress_ends_with_all_objects(store: MemoryStore, built: Built) -> None:
    seen: list[tuple[int, int]] = []
    verify(store, ["backup"], workers=2, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)


def test_the_json_form_of_a_finding_is_stable(store: MemoryStore, built: Built) -> None:
    key = built.entries[2].key
    store.delete(key)
    (found,) = verify(store, ["backup"]).to_json()["findings"]
    assert found == {
        "severity": "damage",
        "kind": "missing",
        "log": "backup",
        "key": key,
        "topic": "orders",
        "incarnation": 1,
        "partition": 1,
        "lost_start": 0,
        "lost_end": 60,
        "message": "missing: it held 60 records",
    }


class ShakyStore(MemoryStore):
    """Its first answer for each object comes with a byte changed."""

    def __init__(self, sound: MemoryStore) -> None:
        super().__init__()
        self._objects = sound._objects
        self._met: set[str] = set()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        body = super().get_range(key, start, end)
        if key in self._met:
            return body
        self._met.add(key)
        return body[:-1] + bytes([body[-1] ^ 1])


@pytest.mark.parametrize("deep", [False, True])
def test_an_answer_that_came_damaged_is_no_damage(
    store: MemoryStore, built: Built, deep: bool
) -> None:
    assert verify(ShakyStore(store), ["backup"], deep=deep).findings == ()
