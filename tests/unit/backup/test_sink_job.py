"""A sink's driver over a fake Kafka and a hand-set clock: what it reads, waits for and commits."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest
from tests.support.fake_kafka import FakeFetchWire, FakeLog

from kafkeep.archive.commit import LogSpan
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import iter_commits, load_view
from kafkeep.backup import job as job_module
from kafkeep.backup import task
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, PartitionSnapshot, TopicSnapshot
from kafkeep.backup.follow import DENIED_MS
from kafkeep.backup.job import BackupJob
from kafkeep.backup.task import BackupBundle
from kafkeep.errors import AccessDeniedError, RecordError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.sink.sink import SinkSpec
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import TaskRow
from kafkeep.store.memory import MemoryStore

NOON = 1_733_227_200_000
JSON = {"format.class": "json"}


class Clock(threading.Event):
    """Time passes only while the driver waits; ``then`` is called after each pause."""

    def __init__(self, pauses: int, then: Callable[[int], None]) -> None:
        super().__init__()
        self.now, self.pauses, self._left, self._then = NOON, 0, pauses, then

    def wait(self, timeout: float | None = None) -> bool:
        self.now += int((timeout or 0) * 1000)
        self.pauses += 1
        self._then(self.pauses)
        if self.pauses >= self._left:
            self.set()
        return self.is_set()


@dataclass
class Scene:
    """One topic of one partition, an archive, and drivers one after the other."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(uuid.uuid4().hex))
    log: FakeLog = field(default_factory=FakeLog)
    size_bytes: int | None = None
    most_commits: int = 100
    looks: int = 0
    topic_id: str = "id"
    groups: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    meanwhile: Callable[[], None] = lambda: None
    """Done while Kafka is asked for its ends."""
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.wire = FakeFetchWire({("t", 0): self.log}, 1)

    def produce(self, *values: bytes, time: int = NOON) -> None:
        """Append a batch of its own for each value."""
        for value in values:
            at = self.log.end
            self.log.batches.append((at, at, build_batch([Record(at, time, None, value)])))
            self.log.end = at + 1

    def hole(self, offsets: int = 1) -> None:
        """End with offsets that hold nothing, as markers of transactions do."""
        self.log.end += offsets

    def run(
        self,
        options: dict[str, str],
        *,
        pauses: int = 0,
        then: Callable[[int], None] = lambda _: None,
        first: ClusterSnapshot | None = None,
        **more: Any,
    ) -> BackupJob:
        """Run a driver; with ``pauses`` it follows, keeps tails and ends after so many."""
        clock = self.clock = Clock(pauses, then)
        follow = {"follow": True, "keeps_tail": True, "interval_ms": 1000} if pauses else {}
        backup: Any = {"topics": ("t",), "format": "json", "name": "sink", **follow, **more}
        made = BackupJob(
            options=BackupOptions(sink=SinkSpec({**JSON, **options}), **backup),
            locations=Locations(
                kafka=KafkaOptions("nowhere:1"), archive="memory:", storage=StorageOptions()
            ),
            admin=mock.Mock(
                topics=mock.Mock(return_value={}),
                offsets_for_times=mock.Mock(return_value={}),
            ),
            open_log=lambda: CommitLog.open(
                self.store, "sink", writer=uuid.uuid4().hex, now_ms=lambda: clock.now
            ),
            run_tasks=self.run_tasks,
            slots=lambda: 2,
            now_ms=lambda: clock.now,
            stop=clock,
            first=first,
            on_commit=self.count,
        )
        self.commits = 0
        with self.services():
            made.run()
        return made

    def count(self, *_: object) -> None:
        self.commits += 1
        assert self.commits < self.most_commits, "it commits without a pause"

    @contextmanager
    def services(self) -> Iterator[None]:
        with (
            mock.patch.object(task, "wire_for", lambda _: self.wire),
            mock.patch.object(task, "open_store", lambda *_: self.store),
            mock.patch.object(job_module, "take_snapshot", self.snapshot),
            mock.patch.object(job_module, "is_unchanged", self.is_unchanged),
        ):
            yield

    def is_unchanged(self, _admin: object, before: ClusterSnapshot) -> bool:
        return before.stables == {("t", 0): self.log.end}

    def snapshot(
        self, _admin: object, _options: object, *, now_ms: int, **_: object
    ) -> ClusterSnapshot:
        self.looks += 1
        self.meanwhile()
        end = self.log.end
        partition = PartitionSnapshot(LogSpan(self.log.start, end), end, 1, self.size_bytes)
        return ClusterSnapshot(
            now_ms, {"t": TopicSnapshot("t", self.topic_id, 1, {}, (partition,))}, self.groups
        )

    def run_tasks(
        self, bundles: Sequence[BackupBundle], run: Callable[[BackupBundle], Any], **_: object
    ) -> list[TaskRow]:
        return [
            TaskRow(number, kind, body)
            for number, bundle in enumerate(bundles)
            for kind, body in run(bundle)
        ]

    def archived(self) -> list[list[Any]]:
        """Return what committed objects hold, in order."""
        entries = list(load_view(self.store, "sink").entries())
        return [[json.loads(x) for x in self.store.get(e.key).splitlines()] for e in entries]

    def reasons(self) -> list[str]:
        return [entry.closed_by for entry in load_view(self.store, "sink").entries()]

    def position(self) -> int:
        return next(iter(load_view(self.store, "sink").positions.values()))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, end)]


def test_a_slow_topic_is_written_at_the_tick_though_no_record_comes(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))
    options = {"flush.size": "100", "rotate.schedule.interval.ms": "5000"}
    scene.run(options, pauses=4)
    assert scene.archived() == []
    scene.run(options, pauses=6)
    assert scene.archived() == [[0, 1, 2]]
    assert scene.reasons() == ["rotate.schedule.interval.ms is due"]


def test_an_idle_file_is_written_after_the_interval_by_the_clock(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))
    scene.run({"flush.size": "5", "rotate.interval.ms": "6000"}, pauses=9)
    assert scene.archived() == [[0, 1, 2]]
    assert scene.reasons() == ["rotate.interval.ms passed and no record came"]


def test_records_after_a_stop_are_left_to_the_next_run(scene: Scene) -> None:
    """The next may have other options: what Kafka tells meanwhile is not acted upon."""
    scene.produce(*numbers(0, 3))

    def stop() -> None:
        if scene.looks == 2:
            scene.clock.set()
            scene.produce(*numbers(3, 6))

    scene.meanwhile = stop
    scene.run({"flush.size": "3"}, pauses=9)
    assert scene.looks == 2
    assert scene.archived() == [[0, 1, 2]]
    scene.run({"flush.size": "1"}, pauses=2)
    assert scene.archived() == [[0, 1, 2], [3], [4], [5]]


def test_while_a_file_waits_to_fill_nothing_is_read_again(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))

    def more(pause: int) -> None:
        if pause == 20:
            scene.produce(*numbers(3, 5))

    scene.run({"flush.size": "5"}, pauses=30, then=more)
    assert scene.archived() == [[0, 1, 2, 3, 4]]
    assert scene.wire.asked <= 5 + 1


def test_a_tail_before_a_later_record_is_read_at_most_about_twice(scene: Scene) -> None:
    """Only reading can tell whether records are late: not at every look."""
    options = {"flush.size": "1000", "rotate.interval.ms": "3600000"}
    scene.run(options, pauses=64, then=lambda n: scene.produce(b"%d" % n))
    assert scene.archived() == []
    assert scene.wire.asked <= 3 * 64


@pytest.mark.parametrize("extra", [{}, {"rotate.interval.ms": "3600000"}])
def test_what_lies_behind_the_last_record_is_passed_once(
    scene: Scene, extra: dict[str, str]
) -> None:
    """Markers of transactions hold nothing to wait for."""
    scene.produce(*numbers(0, 5))
    scene.hole(2)
    scene.run({"flush.size": "5", **extra}, pauses=20)
    assert scene.archived() == [[0, 1, 2, 3, 4]]
    assert scene.commits < 10


def test_a_one_shot_backup_that_runs_out_of_time_continues_with_the_rest(scene: Scene) -> None:
    """Several ranges of a partition, each cut short after its first object."""
    scene.produce(*numbers(0, 60))
    scene.size_bytes = 1 << 30
    scene.run({"flush.bytes": "7"}, cycle_ms=0)
    found = scene.archived()
    assert [n for body in found for n in body] == list(range(60))
    assert scene.position() == 60
    data = {info.key for info in scene.store.list("topics/")}
    assert data == {entry.key for entry in load_view(scene.store, "sink").entries()}


def test_a_bad_record_stops_until_the_configuration_allows_it(scene: Scene) -> None:
    scene.produce(*numbers(0, 2), b"{", *numbers(3, 5))
    with pytest.raises(RecordError, match="t-0 offset 2"):
        scene.run({"flush.size": "1"})
    assert scene.archived() == []
    scene.run({"flush.size": "1", "errors.tolerance": "all"})
    assert scene.archived() == [[0], [1], [3], [4]]
    assert scene.position() == 5


def test_the_first_cycle_uses_the_snapshot_that_was_taken_before_the_log(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))
    first = scene.snapshot(None, None, now_ms=NOON)
    scene.produce(b"3")
    scene.run({"flush.size": "1"}, first=first)
    assert scene.looks == 1
    assert scene.archived() == [[0], [1], [2]]


def test_only_bad_records_do_not_hold_the_position(scene: Scene) -> None:
    scene.produce(b"{", b"[", b"")
    job = scene.run({"flush.size": "100", "errors.tolerance": "all"}, pauses=3)
    assert scene.position() == 0
    job = scene.run({"flush.size": "3", "errors.tolerance": "all"}, pauses=3)
    assert (scene.position(), job.summary.bad) == (3, 3)


def test_frequent_cycles_only_check_for_growth_while_nothing_happens(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))

    def more(pause: int) -> None:
        if pause == 17:
            scene.produce(*numbers(3, 5))

    scene.run({"flush.size": "5"}, pauses=20, then=more, details_ms=30_000)
    assert scene.archived() == [[0, 1, 2, 3, 4]]
    assert scene.looks <= 20 // 5 + 3


def test_a_following_job_that_stops_commits_the_group_offsets_that_wait(scene: Scene) -> None:
    scene.produce(*numbers(0, 20))

    def more(pause: int) -> None:
        scene.groups = {"g": {("t", 0): pause}}

    with mock.patch("kafkeep.backup.log_writer.FEW_OFFSETS", 0):
        scene.run({"flush.size": "1"}, pauses=10, then=more, details_ms=0)
    commits = [found.commit for found in iter_commits(scene.store, "sink")]
    groups = [commit.changes.groups for commit in commits if commit and commit.changes.groups]
    offsets = [at for moved in groups for at in moved["g"].values()]
    assert offsets == [1, 2, 9], "a new group, its first move, and what the last cycle saw"


def test_a_clock_closes_waiting_files_also_between_two_snapshots(scene: Scene) -> None:
    scene.produce(*numbers(0, 3))
    options = {"flush.size": "100", "rotate.schedule.interval.ms": "3000"}
    scene.run(options, pauses=4, details_ms=30_000)
    assert scene.archived() == [[0, 1, 2]]
    assert scene.looks <= 3


class DenyingScene(Scene):
    """Its store's credentials are refused while ``denied`` is set."""

    denied = False

    def run_tasks(self, *rest: Any, **more: Any) -> list[TaskRow]:
        if self.denied:
            raise AccessDeniedError("the store refuses")
        return super().run_tasks(*rest, **more)


def test_credentials_that_are_renewed_in_time_end_no_run_and_nothing_is_skipped() -> None:
    scene = DenyingScene()
    scene.produce(b"1")

    def then(pause: int) -> None:
        scene.denied = 2 <= pause < 6
        if pause == 3:
            scene.produce(b"2")

    scene.run({"flush.size": "1"}, pauses=12, then=then)
    assert scene.archived() == [[1], [2]]


def test_credentials_that_stay_refused_end_the_run_and_ones_never_good_at_once() -> None:
    scene = DenyingScene()
    scene.produce(b"1")
    scene.denied = True
    with pytest.raises(AccessDeniedError):
        scene.run({"flush.size": "1"}, pauses=1000)
    assert scene.clock.pauses == 0
    scene.denied = False

    def then(pause: int) -> None:
        scene.denied = pause >= 2
        scene.produce(b"2")

    with pytest.raises(AccessDeniedError):
        scene.run({"flush.size": "1"}, pauses=1000, then=then)
    assert DENIED_MS < scene.clock.now - NOON < DENIED_MS + 30_000


def test_a_finished_run_reports_how_many_offsets_still_wait(scene: Scene) -> None:
    scene.produce(b"1", b"2", b"3")
    summary = scene.run({"flush.size": "2"}, pauses=2).summary
    assert (summary.records, summary.waiting, summary.exit_code) == (2, 1, 0)
    assert summary.to_json()["waiting"] == 1
    summary = scene.run({"flush.size": "2"}).summary
    assert (summary.records, summary.waiting) == (1, 0)


def test_a_recreated_topic_is_reported_once_with_its_incarnation(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.produce(b"1", b"2")
    scene.run({"flush.size": "2"})
    assert not caplog.messages
    scene.topic_id = "another"
    for _ in range(2):
        scene.run({"flush.size": "2"})
    assert caplog.messages == ["sink: topic t was re-created: it is archived as incarnation 2"]
