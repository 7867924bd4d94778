"""The newest commits removed, where no checkpoint tells: objects and traces do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import zstandard
from tests.support.archive_builder import ObjectPlan, records, write_object

from kafkeep.archive.adoption import object_metadata
from kafkeep.archive.commit import Changes, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.log import CommitLog
from kafkeep.kafka.batch.layout import Record
from kafkeep.maintenance.verify import lost_commits
from kafkeep.maintenance.verify.finding import Finding, FindingKind, Severity, VerifyReport
from kafkeep.maintenance.verify.last_verified import load_verified, save_verified, trace_of
from kafkeep.maintenance.verify.lost_commits import check_objects_beyond
from kafkeep.maintenance.verify.verify import verify
from kafkeep.objects.segment.reader import read_end
from kafkeep.retry import RetryPolicy
from kafkeep.store.memory import MemoryStore

ORDERS = PartitionId("orders", 1, 0)
TOPIC = TopicInfo(
    topic="orders", incarnation=1, topic_id="id-orders", partitions=1, replication_factor=1,
    configs={},
)  # fmt: skip
CYCLES, STEP = 10, 20


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = RetryPolicy(first_wait_s=0.001, attempts=3)
    monkeypatch.setattr(lost_commits, "LATE_COMMIT", quick)


class Backup:
    """A backup as the log sees it: an intent, its object, the commit that names it."""

    def __init__(self, store: MemoryStore, *, tells_end: bool = True) -> None:
        self.store = store
        self.tells_end = tells_end
        clock = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))
        self.log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: next(clock))
        self.log.append(Changes(topics=(TOPIC,)))

    @property
    def position(self) -> int:
        return self.log.state.positions.get(ORDERS, 0)

    def intend(self, count: int = STEP) -> PlannedRange:
        offsets = OffsetRange(self.position, self.position + count)
        planned = PlannedRange(partition_id=ORDERS, topic_id="id-orders", range=offsets)
        self.log.append(Changes(intent=Intent(ranges=(planned,), options={}, at_ms=1)))
        return planned

    def write(self, planned: PlannedRange, end: int | None = None) -> Changes:
        offsets = OffsetRange(planned.range.start, end or planned.range.end)
        entry = write_object(
            self.store, ORDERS, ObjectPlan(records=records(offsets.start, offsets.end))
        )
        body = self.store.get(entry.key)
        self.store.delete(entry.key)
        told = object_metadata(
            writer="backup",
            planned=planned,
            start=offsets.start,
            plan="p",
            end=offsets.end if self.tells_end else None,
        )
        self.store.put_new(entry.key, body, told)
        return Changes(entries=(entry,), positions={ORDERS: offsets.end}, closes_intent=True)

    def cycle(self) -> None:
        self.log.append(self.write(self.intend()))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(params=[True, False], ids=["end in metadata", "uploaded in parts"])
def backup(store: MemoryStore, request: pytest.FixtureRequest) -> Backup:
    made = Backup(store, tells_end=request.param)
    for _ in range(CYCLES):
        made.cycle()
    return made


def remove_newest(backup: Backup, count: int) -> int:
    """Remove commits from the end of the log; return the last that is left."""
    last = backup.log.state.commit
    for number in range(last - count + 1, last + 1):
        backup.store.delete(log_key("backup", number))
    return last - count


def lost(report: VerifyReport) -> list[Finding]:
    return [found for found in report.findings if found.kind is FindingKind.LOST_COMMITS]


def test_an_archive_whose_commits_are_all_there_is_intact(backup: Backup) -> None:
    report = verify(backup.store, ["backup"])
    assert (report.findings, report.verdict, report.exit_code) == ((), "intact", 0)


def test_verify_warns_when_the_newest_8_commits_were_removed(backup: Backup) -> None:
    last = remove_newest(backup, 8)
    report = verify(backup.store, ["backup"])
    (found,) = lost(report)
    assert (report.verdict, report.exit_code, report.intact) == ("incomplete", 3, False)
    assert found.severity is Severity.WARNING
    assert (found.partition_id, found.lost) == (ORDERS, OffsetRange(120, 200))
    assert found.message == (
        "4 objects hold offsets 120 to 199, past the position 120, and no commit up to 13 planned "
        "them: commits from 14 on were removed from the log"
    )
    assert last == 13
    assert FindingKind.ORPHAN not in {one.kind for one in report.findings}


def test_verify_warns_when_the_newest_commit_was_removed(backup: Backup) -> None:
    last = remove_newest(backup, 1)
    report = verify(backup.store, ["backup"])
    (found,) = lost(report)
    assert report.exit_code == 3
    assert (
        "1 objects that no commit names hold all that the open intent planned, "
        "offsets 180 to 199 of orders-0" in found.message
    )
    assert f"commit {last + 1} was removed from the log, or a backup died" in found.message


@pytest.mark.parametrize("count", [1, 8])
def test_verify_compares_the_log_with_what_an_earlier_verify_saw(
    backup: Backup, count: int
) -> None:
    store = backup.store
    assert save_verified(store, "backup", 5, {"kind": "archive", **trace_of(backup.log.state)})
    assert save_verified(store, "backup", 6, {"kind": "archive", "deep": False})  # an older one
    last = remove_newest(backup, count)
    for key in [info.key for info in store.list("topics/")][-4:]:
        store.delete(key)  # nothing else tells
    (found,) = [one for one in lost(verify(store, ["backup"])) if "verified" in one.message]
    gone = "commit 21 was" if count == 1 else f"commits {last + 1} to 21 were"
    start = 180 if count == 1 else 120
    assert found.message == (
        f"{gone} removed from the log since it was verified; {200 - start} offsets are lost with "
        f"them: {start} to 199 of orders-0"
    )


def test_verify_notices_that_commits_were_replaced_since_it_was_verified(backup: Backup) -> None:
    store = backup.store
    assert save_verified(store, "backup", 5, {"kind": "archive", **trace_of(backup.log.state)})
    remove_newest(backup, 8)
    again = CommitLog.open(store, "backup", writer="w2", now_ms=lambda: 1_750_000_000_000)
    for number in range(9):
        again.append(Changes(note=f"another {number}"))
    report = verify(store, ["backup"])
    assert "commit 21 is not the one that was verified: commits were replaced" in [
        found.message for found in lost(report)
    ]


def crash_before_commit(backup: Backup) -> None:
    backup.write(backup.intend(), backup.position + STEP // 2)


def crash_before_object(backup: Backup) -> None:
    backup.intend()


def give_up(backup: Backup) -> None:
    backup.write(backup.intend())
    backup.log.append(Changes(closes_intent=True, note="given up"))


def left_over(backup: Backup) -> None:
    planned = PlannedRange(partition_id=ORDERS, topic_id="id-orders", range=OffsetRange(10, 20))
    told = object_metadata(writer="backup", planned=planned, start=10, plan="p", end=20)
    backup.store.put_new("topics/orders/partition=0/orders+0+00000000010.log.zst", b"x", told)


def of_another(backup: Backup) -> None:
    planned = PlannedRange(partition_id=ORDERS, topic_id="id-orders", range=OffsetRange(900, 990))
    told = object_metadata(writer="other", planned=planned, start=900, plan="p", end=990)
    backup.store.put_new("topics/orders/partition=0/orders+0+0000000900.log.zst", b"x", told)
    backup.store.put_new("topics/orders/partition=0/orders+0+0000000901.json", b"{}")


def move_back(backup: Backup) -> None:
    backup.write(backup.intend())
    moved = Changes(retired={ORDERS: 0}, closes_intent=True)
    backup.log.append(moved)


@pytest.mark.parametrize(
    "leave",
    [crash_before_commit, crash_before_object, give_up, left_over, of_another, move_back],
)
def test_what_crashes_and_others_leave_is_no_lost_commit(
    backup: Backup, leave: Callable[[Backup], None]
) -> None:
    leave(backup)
    report = verify(backup.store, ["backup"])
    assert lost(report) == [] and report.exit_code == 0


def test_a_backup_that_runs_beside_verify_loses_no_commit(backup: Backup) -> None:
    changes = backup.write(backup.intend())
    state = backup.log.state
    beyond = check_objects_beyond(
        backup.store,
        ["topics/orders/partition=0/orders+0+0000000200.log.zst"],
        {"backup": state},
        sleep=lambda _: None if backup.log.state != state else backup.log.append(changes) and None,
    )
    assert beyond.findings == ()


def test_only_so_many_objects_are_asked_whose_they_are(
    backup: Backup, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_newest(backup, 8)
    monkeypatch.setattr(lost_commits, "MOST_HEADS", 3)
    for number in range(5):
        backup.store.put_new(f"topics/orders/odd-{number}", b"x")
    report = verify(backup.store, ["backup"])
    assert lost(report)[0].lost == OffsetRange(120, 180)
    assert "6 objects that no log names were not compared with the logs" in [
        found.message for found in report.findings
    ]


def test_a_trace_that_cannot_be_read_is_no_evidence(backup: Backup) -> None:
    prefix = "_kafkeep/backup/verified/"
    for name, body in (("1", b"{"), ("2", b'{"commit":-1}'), ("3", b'{"commit":"99"}')):
        backup.store.put_new(f"{prefix}{name}.json", body)
    assert load_verified(backup.store, "backup") is None
    assert verify(backup.store, ["backup"]).exit_code == 0


def test_the_end_of_an_object_is_read_from_its_last_frame(store: MemoryStore) -> None:
    inner = zstandard.compress(b"a frame of a producer's own " * 9)
    plain = [Record(n, 1, b"k", inner, []) for n in range(30)]
    entry = write_object(store, ORDERS, ObjectPlan(records=plain))
    assert read_end(store, entry.key) == 30
    body = store.get(entry.key)
    for number, other in enumerate((body[:-1], body + b"x", body + inner, b"x", b"")):
        store.put_new(f"topics/orders/{number}", other)
        assert read_end(store, f"topics/orders/{number}") is None
    assert read_end(store, "topics/orders/none") is None
