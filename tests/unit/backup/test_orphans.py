"""What an earlier cycle had no time for is shared out like anything else."""

from __future__ import annotations

from dataclasses import replace

from tests.support.log_writers import planned_ranges, writer_of

from kafkeep.archive.commit import Changes, Intent, LogSpan, TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.backup.log_writer import FEW_OFFSETS, METADATA_MS
from kafkeep.backup.plan import CyclePlan
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.options.backup import BackupOptions
from kafkeep.store.memory import MemoryStore

NOTHING_NEW = CyclePlan(
    stretches=(), gaps=(), topics=(), positions={}, spans={}, waiting={}, blocked=()
)

TOPIC = TopicInfo(
    topic="t", incarnation=1, topic_id="id", partitions=5, replication_factor=1, configs={}
)


def test_remaining_ranges_go_to_all_slots() -> None:
    store = MemoryStore()
    options = BackupOptions(topics=("t",))
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: 0)
    writer = writer_of(log, options, slots=4)
    left_over = planned_ranges()
    intent, weights = writer.intend(NOTHING_NEW, left_over)
    bundles = writer.bundles(intent, weights)
    assert [len(bundle.ranges) for bundle in bundles] == [2, 2, 2, 2]


def test_each_cycle_asks_how_many_tasks_run_at_once_unless_the_options_say() -> None:
    slots = iter([2, 4])
    ranges = planned_ranges()
    written_as = SegmentIntent(segment_bytes=1, keeps_aborted=False).to_json()
    intent = Intent(ranges=ranges, options=written_as, at_ms=0)
    log = CommitLog.open(MemoryStore(), "backup", writer="w", now_ms=lambda: 0)
    writer = writer_of(log, BackupOptions(topics=("t",)), slots=0)
    writer.slots = lambda: next(slots)
    made = [len(writer.bundles(intent)) for _cycle in range(2)]
    writer.options = replace(writer.options, tasks=8)
    assert [*made, len(writer.bundles(intent))] == [2, 4, 8]


def test_while_catching_up_a_commit_holds_what_it_read_and_all_metadata_once_a_minute() -> None:
    clock = [1_000_000]
    log = CommitLog.open(MemoryStore(), "backup", writer="w", now_ms=lambda: 0)
    writer = writer_of(log, BackupOptions(topics=("t",)), slots=2)
    writer.now_ms = lambda: clock[0]
    ids = [PartitionId("t", 1, number) for number in range(5)]

    def committed(step: int, *, catches_up: bool = True) -> tuple[int, int]:
        """Commit the end of partition 0; return the ends and the groups of the commit."""
        plan = replace(
            NOTHING_NEW,
            spans=dict.fromkeys(ids, LogSpan(0, step)),
            identified={"t": TOPIC},
            groups={"g": {("t", 0): step}},
            catches_up=catches_up,
        )
        changes = Changes(positions={ids[0]: step})
        positions = {**writer.state.positions, **changes.positions}
        whole = writer._with_metadata(changes, plan, positions)
        writer.commit(whole)
        return len(whole.spans), len(whole.groups)

    assert committed(1) == (5, 1)
    clock[0] += METADATA_MS - 1
    assert committed(2) == (1, 0)
    clock[0] += 1
    assert committed(3) == (5, 1)
    assert committed(4) == (1, 0)
    assert committed(5, catches_up=False) == (5, 1)
    assert set(writer.state.spans.values()) == {LogSpan(0, 5)}


def test_following_commits_a_large_group_once_a_minute_and_at_the_end() -> None:
    clock = [1_000_000]
    log = CommitLog.open(MemoryStore(), "backup", writer="w", now_ms=lambda: 0)
    writer = writer_of(log, BackupOptions(topics=("t",), follow=True), slots=2)
    writer.now_ms = lambda: clock[0]
    ids = [PartitionId("t", 1, number) for number in range(FEW_OFFSETS + 1)]

    def committed(step: int, *, partitions: int = len(ids)) -> set[str]:
        """Commit a cycle after which a large and a small group are at ``step``."""
        large = {("t", number): step for number in range(partitions)}
        groups = {"large": large, "small": {("t", 0): step}}
        plan = replace(NOTHING_NEW, identified={"t": TOPIC}, groups=groups)
        changes = Changes(positions=dict.fromkeys(ids, step))
        whole = writer._with_metadata(changes, plan, changes.positions)
        writer.commit(whole)
        return set(whole.groups)

    both = {"large", "small"}
    assert committed(1, partitions=2) == both, "they are new"
    assert committed(2, partitions=2) == both, "both are small"
    assert committed(3) == both, "it has new partitions"
    assert committed(4) == both, "no large one was committed before"
    clock[0] += METADATA_MS - 1
    assert committed(5) == set()
    clock[0] += 1
    assert committed(6) == both
    assert committed(7) == set()
    writer.record_postponed()
    assert set(writer.state.groups["large"].values()) == {7}
    assert writer.state.groups["small"] == {ids[0]: 7}
    commits = writer.state.commit
    writer.record_postponed()
    assert writer.state.commit == commits, "nothing waits"
