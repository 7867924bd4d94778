"""Cycles that run at the same time: a slow task holds up its own partitions only."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
from tests.support.fake_kafka import FakeFetchWire, FakeLog
from tests.support.log_writers import planned_ranges, writer_of

from kafkeep.archive.commit import Intent, LogSpan
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.backup import job as job_module
from kafkeep.backup import running_cycles, task
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.job import BackupJob
from kafkeep.backup.running_cycles import MOST_CYCLES
from kafkeep.backup.task import BackupBundle
from kafkeep.errors import FencedError, NoSuchArchiveError, TransientError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.options.backup import MIB, BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import TaskRow
from kafkeep.store.memory import MemoryStore

TIMEOUT_S = 30.0
SLOW = 0
"""The partition whose task waits until the test lets it go on."""


@dataclass
class Cluster:
    """A topic of several partitions, and an archive. Tasks of partition 0 wait for ``go_on``."""

    partitions: int = 4
    size_bytes: int = 0
    """Of each partition, as Kafka reports it: it decides how many tasks a cycle has."""
    slots: int = 2
    store: MemoryStore = field(default_factory=lambda: MemoryStore(uuid.uuid4().hex))
    go_on: threading.Event = field(default_factory=threading.Event)
    slow: threading.Event = field(default_factory=threading.Event)
    """Set when a slow task runs."""
    stop: threading.Event = field(default_factory=threading.Event)
    commits: threading.Condition = field(default_factory=threading.Condition)
    fails: list[Exception] = field(default_factory=list)
    """Raised by slow tasks, one after the other, when they go on."""
    cycles: list[tuple[int, ...]] = field(default_factory=list)
    """The partitions of each cycle."""

    def __post_init__(self) -> None:
        self.logs = {("t", number): FakeLog() for number in range(self.partitions)}
        self.wire = FakeFetchWire(self.logs, 10**6)

    def produce(self, *partitions: int, records: int = 1) -> None:
        """Append batches of one record each to some partitions."""
        for number in partitions:
            log = self.logs["t", number]
            for at in range(log.end, log.end + records):
                log.batches.append((at, at, build_batch([Record(at, 7, None, b"%d" % at)])))
            log.end += records

    def job(self, **options: Any) -> BackupJob:
        """Return a job that archives the topic."""
        given: Any = {"topics": ("t",), "interval_ms": 1, "segment_age_ms": 0, **options}
        return BackupJob(
            options=BackupOptions(**given),
            locations=Locations(
                kafka=KafkaOptions("nowhere:1"), archive="memory:", storage=StorageOptions()
            ),
            admin=mock.Mock(topics=mock.Mock(return_value={})),
            open_log=lambda: CommitLog.open(
                self.store, "backup", writer=uuid.uuid4().hex, now_ms=lambda: 5
            ),
            run_tasks=self.run_tasks,
            slots=lambda: self.slots,
            now_ms=lambda: 5,
            stop=self.stop,
            on_commit=self._notify,
        )

    @contextmanager
    def services(self) -> Iterator[None]:
        with (
            mock.patch.object(task, "wire_for", lambda _: self.wire),
            mock.patch.object(task, "open_store", lambda *_: self.store),
            mock.patch.object(job_module, "take_snapshot", self._snapshot),
            mock.patch.object(job_module, "check_intent", lambda *_: None),
            mock.patch.object(running_cycles, "OVERLAP_AFTER_S", 0.0),
        ):
            yield

    @contextmanager
    def following(self, **options: Any) -> Iterator[list[BaseException]]:
        """Follow in the background until the end of the block; yield the job's errors."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self.job(follow=True, **options).run()
            except BaseException as error:
                errors.append(error)
            self._notify()

        thread = threading.Thread(target=run)
        with self.services():
            thread.start()
            try:
                yield errors
            finally:
                self.stop.set()
                self.go_on.set()
                thread.join(TIMEOUT_S)
        assert not thread.is_alive()

    def run_tasks(
        self,
        bundles: Sequence[BackupBundle],
        archive: Callable[[BackupBundle], Any],
        *,
        on_progress: Callable[[int, int], None] | None,
        abandoned: threading.Event,
        **_: object,
    ) -> list[TaskRow]:
        """Run bundles with the slow partition last, after their progress was reported."""
        named = [tuple(r.planned.partition_id.partition for r in b.ranges) for b in bundles]
        self.cycles.append(tuple(sorted(number for one in named for number in one)))
        rows, left = [], len(bundles)
        for number, bundle in sorted(enumerate(bundles), key=lambda one: SLOW in named[one[0]]):
            if SLOW in named[number]:
                self._wait(abandoned)
            rows += [TaskRow(number, kind, body) for kind, body in archive(bundle)]
            left -= 1
            if on_progress is not None:
                on_progress(len(bundles) - left, len(bundles))
        return rows

    def _wait(self, abandoned: threading.Event) -> None:
        self.slow.set()
        while not (self.go_on.wait(0.01) or abandoned.is_set()):
            pass
        if abandoned.is_set():
            raise TransientError("the job was cancelled")
        if self.fails:
            raise self.fails.pop()

    def _notify(self, *_: object) -> None:
        with self.commits:
            self.commits.notify_all()

    def await_position(self, partition: int, offset: int) -> None:
        """Wait until the log says that a partition is archived so far."""
        with self.commits:
            reached = self.commits.wait_for(
                lambda: self.positions().get(partition, 0) >= offset, TIMEOUT_S
            )
        assert reached, f"partition {partition} was not archived up to {offset}"

    def positions(self) -> dict[int, int]:
        try:
            view = load_view(self.store, "backup")
        except NoSuchArchiveError:
            return {}
        return {pid.partition: at for pid, at in view.positions.items()}

    def assert_archived_once(self) -> None:
        """Every offset of every partition is in one entry, and nothing is open any more."""
        view = load_view(self.store, "backup")
        assert view.intent is None
        for number in range(self.partitions):
            offsets = [
                offset
                for entry in view.entries()
                if entry.partition_id.partition == number
                for offset in range(entry.range.start, entry.range.end)
            ]
            assert offsets == list(range(self.logs["t", number].end))

    def _snapshot(
        self, _admin: object, _options: object, *, now_ms: int, **_: object
    ) -> ClusterSnapshot:
        partitions = tuple(
            PartitionSnapshot(LogSpan(0, log.end), log.end, 1, self.size_bytes)
            for log in self.logs.values()
        )
        return ClusterSnapshot(now_ms, {"t": TopicSnapshot("t", "id", 1, {}, partitions)}, {})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_slow_task_holds_up_its_own_partition_only(cluster: Cluster) -> None:
    cluster.produce(SLOW)
    with cluster.following():
        assert cluster.slow.wait(TIMEOUT_S)
        for end in range(1, 4):
            cluster.produce(1, 2, SLOW)
            cluster.await_position(1, end)
            cluster.await_position(2, end)
        assert cluster.positions()[SLOW] == 0
        cluster.go_on.set()
        cluster.await_position(SLOW, 1)
    with cluster.services():
        cluster.job().run()
    cluster.assert_archived_once()


def test_a_one_shot_backup_reads_on_while_a_slow_task_of_the_last_cycle_runs() -> None:
    """The sizes that Kafka reports make a cycle of two partitions, with a task for each."""
    cluster = Cluster(partitions=6, size_bytes=10 * MIB)
    cluster.produce(*range(6), records=2)
    thread = threading.Thread(target=cluster.job(cycle_bytes=20 * MIB, segment_bytes=10 * MIB).run)
    with cluster.services():
        thread.start()
        for number in range(2, 6):
            cluster.await_position(number, 2)
        assert cluster.positions()[SLOW] == 0
        cluster.go_on.set()
        thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert cluster.cycles == [(0, 1), (2, 3), (4, 5)]
    cluster.assert_archived_once()


def test_the_open_intent_holds_the_ranges_of_every_running_cycle(cluster: Cluster) -> None:
    """So a writer that takes over finishes all of them; the first one stops at its next commit."""
    cluster.produce(SLOW)
    with cluster.following() as errors:
        assert cluster.slow.wait(TIMEOUT_S)
        cluster.produce(1)
        cluster.await_position(1, 1)
        intent = load_view(cluster.store, "backup").intent
        assert intent is not None
        assert [planned.partition_id.partition for planned in intent.ranges] == [SLOW]
        cluster.go_on.set()
        other = Cluster(store=cluster.store)
        other.logs.update(cluster.logs)
        other.go_on.set()
        with mock.patch.object(task, "wire_for", lambda _: cluster.wire):
            other.job().run()
        cluster.produce(2)
        with cluster.commits:
            cluster.commits.wait_for(lambda: bool(errors), TIMEOUT_S)
        assert [type(error) for error in errors] == [FencedError]


def test_after_a_failed_task_the_open_ranges_of_all_cycles_are_archived_once(
    cluster: Cluster,
) -> None:
    cluster.fails.append(TransientError("a broker was away"))
    cluster.produce(SLOW)
    with cluster.following():
        assert cluster.slow.wait(TIMEOUT_S)
        cluster.produce(1, 2)
        cluster.await_position(2, 1)
        cluster.go_on.set()
        cluster.await_position(SLOW, 1)
        cluster.produce(3)
        cluster.await_position(3, 1)
    assert not cluster.fails
    cluster.assert_archived_once()


def test_a_stopped_job_commits_every_cycle_that_runs(cluster: Cluster) -> None:
    cluster.produce(SLOW)
    with cluster.following():
        assert cluster.slow.wait(TIMEOUT_S)
        cluster.produce(1)
        cluster.await_position(1, 1)
    cluster.assert_archived_once()


def test_an_interrupted_job_cancels_its_tasks_and_the_next_run_finishes_them() -> None:
    cluster = Cluster()
    cluster.produce(SLOW, 1)
    interrupt = mock.patch.object(
        job_module.RunningCycles, "wait", mock.Mock(side_effect=KeyboardInterrupt)
    )
    with cluster.services(), interrupt, pytest.raises(KeyboardInterrupt):
        cluster.job().run()
    assert load_view(cluster.store, "backup").intent is not None
    cluster.go_on.set()
    with cluster.services():
        cluster.job().run()
    cluster.assert_archived_once()


def test_a_cycle_that_ended_is_committed_though_another_failed(cluster: Cluster) -> None:
    """Both have ended before the job looks at them."""
    cluster.fails.append(TransientError("a broker was away"))
    cluster.produce(SLOW)
    take = running_cycles.RunningCycles.take_ended

    def take_both(cycles: running_cycles.RunningCycles) -> list[running_cycles.RunningCycle]:
        if len(cycles) == 2:
            cluster.go_on.set()
            for cycle in cycles._cycles:
                cycle.rows.exception(TIMEOUT_S)
        return take(cycles)

    patch = mock.patch.object(running_cycles.RunningCycles, "take_ended", take_both)
    with patch, cluster.following():
        assert cluster.slow.wait(TIMEOUT_S)
        cluster.produce(1)
        cluster.await_position(SLOW, 1)
        cluster.await_position(1, 1)
    assert cluster.cycles == [(SLOW,), (1,), (SLOW,)]
    cluster.assert_archived_once()


class WouldBlockError(Exception):
    """Raised where a job would wait."""


def running(cluster: Cluster, most: int) -> running_cycles.RunningCycles:
    """Return cycles of which one runs, with one task of two that waits for the cluster."""
    released = threading.Event()
    cluster.go_on = released

    def run_tasks(
        *_: object, on_progress: Callable[[int, int], None], **__: object
    ) -> list[TaskRow]:
        on_progress(1, 2)
        cluster.slow.set()
        released.wait(TIMEOUT_S)
        return []

    cycles = running_cycles.RunningCycles(run_tasks, None, most)
    intent = Intent(ranges=(), options={}, at_ms=5)
    cycles.start(intent, None, [mock.Mock(), mock.Mock()], "")
    assert cluster.slow.wait(TIMEOUT_S)
    cycles._changed = mock.MagicMock(wait=mock.Mock(side_effect=WouldBlockError))
    return cycles


@pytest.mark.parametrize(
    ("most", "slots", "after_s", "begins"),
    [(4, 2, 0.0, True), (4, 1, 0.0, False), (1, 2, 0.0, False), (4, 2, 1000.0, False)],
    ids=["a slot is free", "no slot is free", "one cycle at a time", "the cycle may be quick"],
)
def test_the_next_cycle_begins_when(
    cluster: Cluster, most: int, slots: int, after_s: float, begins: bool
) -> None:
    with mock.patch.object(running_cycles, "OVERLAP_AFTER_S", after_s):
        cycles = running(cluster, most)
        try:
            if begins:
                cycles.wait(slots=slots)
            else:
                with pytest.raises(WouldBlockError):
                    cycles.wait(slots=slots)
        finally:
            cluster.go_on.set()


HOURLY = {"partitioner.class": "hourly", "flush.size": "3", "format.class": "json"}


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, MOST_CYCLES),
        ({"rate_bytes": 10**6}, 1),
        ({"sink": HOURLY, "follow": True}, 1),
        ({"sink": {**HOURLY, "timestamp.extractor": "Record"}, "follow": True}, MOST_CYCLES),
        ({"sink": {"flush.size": "3", "format.class": "json"}}, 1),
    ],
    ids=["segments", "a rate", "paths by the clock", "paths by the record", "a one-shot sink"],
)
def test_cycles_overlap_where_they_can_share_an_intent(
    cluster: Cluster, options: dict[str, Any], most: int
) -> None:
    if "sink" in options:
        options = {**options, "sink": SinkSpec(options["sink"]), "format": "json"}
    assert cluster.job(**options)._most_cycles() == most


def test_tasks_max_limits_the_tasks_of_all_running_cycles(cluster: Cluster) -> None:
    log = CommitLog.open(cluster.store, "backup", writer="w", now_ms=lambda: 0)
    writer = writer_of(log, BackupOptions(topics=("t",), tasks_max=3), slots=8)
    ranges = planned_ranges()
    written_as = SegmentIntent(segment_bytes=1, keeps_aborted=False).to_json()
    intent = Intent(ranges=ranges, options=written_as, at_ms=0)
    assert writer.max_parallel_tasks() == 3
    assert [len(writer.bundles(intent, tasks_left=left)) for left in (0, 1, 2)] == [3, 2, 1]
