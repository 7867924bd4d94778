"""A pair that takes turns, with crashes and sleepers at every step: one snapshot is always whole.

The real jobs run over the real log on a store in memory; Kafka and the sinks are played. Any
operation on the store may be the last of a process, or be the moment at which others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.archive.view import load_view
from kafkeep.connect.connectors.chtbd import CompactOptions
from kafkeep.connect.jobs.compacted_pair import CompactJob
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.pair_state import BUILD_MS, Pair, PairDocument, SnapshotPhase, pair_id
from kafkeep.errors import FencedError, KeyMissingError, UnknownOutcomeError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.storage import StorageOptions
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)
LENGTH_MS = 1000
OPTIONS = {
    "active": CompactOptions(initial_status="ACTIVATE", length_hours=LENGTH_MS / 3_600_000),
    "passive": CompactOptions(initial_status="PASSIVATE", length_hours=LENGTH_MS / 3_600_000),
}


class Crash(BaseException):
    """The process is gone, here."""


class Door:
    """The store as one process sees it: before operation ``at`` something happens."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.at = -1
        self.happens: Callable[[], None] = lambda: None

    def _pass(self) -> None:
        self.at -= 1
        if self.at == 0:
            self.happens()

    def put_new(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        self._pass()
        self.store.put_new(key, body, metadata)

    def get(self, key: str) -> bytes:
        return self.store.get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        if ".pairs/" in key:  # a log's commits may be read by several threads
            self._pass()
        return self.store.get_range(key, start, end)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self._pass()
        return iter(list(self.store.list(prefix, after=after)))

    def delete(self, key: str) -> None:
        self._pass()
        self.store.delete(key)

    def describe(self) -> str:
        return "memory:"


class PlayedSink:
    """Archives a few records of Kafka at a time, as a sink that holds its log."""

    task_count = 1

    def __init__(self, machine: PairMachine, process: Process) -> None:
        self._machine, self._process = machine, process
        self.error: BaseException | None = None
        self.log = CommitLog.open(
            process.door, process.name, writer=machine.fresh_name(), now_ms=machine.now_ms,
            sleep=lambda _: None, checkpoint_every=4,
        )  # fmt: skip
        self.goal = machine.kafka_end

    def archive(self, count: int) -> None:
        state = self.log.state
        start = state.positions.get(PID, 0)
        end = min(self._machine.kafka_end, start + count)
        if end <= start:
            return
        folder = PID._replace(incarnation=state.generation(PID) or 1)
        key = data_key(folder, start, f".{self._process.name}.{self._machine.fresh_name()}")
        entry = Entry(
            key=key, partition_id=PID, topic_id="t", range=OffsetRange(start, end),
            records=end - start, min_timestamp=0, max_timestamp=0, size_bytes=1, raw_bytes=1,
            format="avro", codec="none", sha256="",
        )  # fmt: skip
        topic = TopicInfo(topic="t", incarnation=1, topic_id="t", partitions=1,
                          replication_factor=1, configs={})  # fmt: skip
        try:
            self._process.door.store.put_new(key, b"x")
            self.log.append(Changes(entries=(entry,), positions={PID: end}, topics=(topic,)))
            self.log.checkpoint_if_due()
        except (FencedError, UnknownOutcomeError) as error:
            self.error = error

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def reached(self) -> bool:
        return self.log.state.positions.get(PID, 0) >= self.goal

    def end(self) -> None:
        self._process.sink = None


class Process:
    """One run of one of the pair."""

    def __init__(self, machine: PairMachine, name: str) -> None:
        self.name = name
        self.door = Door(machine.store)
        self.sink: PlayedSink | None = None

        def start(_job: object) -> PlayedSink:
            self.sink = PlayedSink(machine, self)
            return self.sink

        options = BackupOptions(topics=("t",), name=name, follow=True)
        locations = Locations(
            kafka=KafkaOptions("nowhere:1"), archive="memory:pair", storage=StorageOptions()
        )
        around = JobContext(
            kafka=locations.kafka, run_tasks=lambda: None, slots=lambda: 1, state_address="memory:"
        )
        self.job = CompactJob(
            options, OPTIONS[name], locations, around, clock=machine.now_ms, start=start
        )
        self.document = PairDocument(self.door, pair_id(("t",), None))

    def turn(self) -> None:
        self.job.step(self.door, self.document)
        assert self.job.progress.is_passive is (self.job._work is None)


class PairMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.clock_ms = 1_700_000_000_000
        self.kafka_end = 0
        self.opened = 0
        self.depth = 0
        self.processes: dict[str, list[Process]] = {name: [] for name in OPTIONS}
        self.document = PairDocument(self.store, pair_id(("t",), None))
        self.last = Pair()
        self.promised = -1
        """What some complete snapshot held when another was given up for it."""

    def now_ms(self) -> int:
        return self.clock_ms

    def fresh_name(self) -> str:
        self.opened += 1
        return f"w{self.opened}"

    @rule(count=st.integers(1, 20), passed=st.integers(0, LENGTH_MS))
    def produce(self, count: int, passed: int) -> None:
        self.kafka_end += count
        self.clock_ms += passed

    @rule(passed=st.sampled_from([LENGTH_MS, LENGTH_MS, BUILD_MS]))
    def time_passes(self, passed: int) -> None:
        self.clock_ms += passed

    @rule(name=st.sampled_from(sorted(OPTIONS)), data=st.data(), turns=st.integers(1, 4))
    def turn(self, name: str, data: st.DataObject, turns: int) -> None:
        """The youngest process goes on; at one operation it may die, or be overtaken in it."""
        if not self.processes[name]:
            self.processes[name].append(Process(self, name))
        for _ in range(turns):
            if self.processes[name]:
                self.go_on(self.processes[name][-1], data)

    def go_on(self, process: Process, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(["nothing", "nothing", "crash", "others"]))
        process.door.at = data.draw(st.integers(1, 12)) if what != "nothing" else -1
        process.door.happens = self.crash if what == "crash" else lambda: self.others(data)
        try:
            process.turn()
            self.check()
            if process.sink is not None:
                process.sink.archive(data.draw(st.sampled_from([0, 3, 10, 100])))
        except (Crash, FencedError, UnknownOutcomeError, KeyMissingError):
            self.forget(process)
        finally:
            process.door.at = -1
        self.check()

    def crash(self) -> None:
        raise Crash

    def others(self, data: st.DataObject) -> None:
        """While one sleeps, others go on: the other one, or a new process of the same name."""
        self.depth += 1
        if self.depth <= 2:
            self.clock_ms += data.draw(st.sampled_from([0, LENGTH_MS, BUILD_MS]))
            for name in data.draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=6)):
                busy = [p for p in self.processes[name] if p.door.at == 0]
                if not self.processes[name] or busy:
                    self.processes[name].append(Process(self, name))
                self.go_on(self.processes[name][-1], data)
            event("others went on while one slept")
        self.depth -= 1

    def forget(self, process: Process) -> None:
        if process in self.processes[process.name]:
            self.processes[process.name].remove(process)

    @invariant()
    def check(self) -> None:
        pair = self.document.load()
        if pair.revision > self.last.revision:
            for name, member in pair.members.items():
                if member.phase is SnapshotPhase.RETIRING and member != self.last.members.get(name):
                    self.promised = max(self.promised, self.whole_up_to(name))
            self.last = pair
        complete = [n for n, m in pair.members.items() if m.phase is SnapshotPhase.COMPLETE]
        if self.promised >= 0 or complete:
            assert complete, "no snapshot is complete"
            held = max(self.whole_up_to(name) for name in complete)
            assert held >= self.promised, "what was held by a retired snapshot is held by none"
            self.promised = max(self.promised, 0)

    def whole_up_to(self, name: str) -> int:
        """Return up to where a snapshot can be restored from its beginning, or -1."""
        view = load_view(self.store, name)
        reached = 0
        for entry in view.entries("t"):
            if entry.range.start != reached:
                return -1
            self.store.get(entry.key)  # fails when it was deleted
            reached = entry.range.end
        return reached if view.positions.get(PID, 0) == reached else -1

    def teardown(self) -> None:
        """With nobody dying any more the pair goes on taking turns."""
        self.processes = {name: [Process(self, name)] for name in OPTIONS}
        self.kafka_end += 5
        self.clock_ms += BUILD_MS
        seen = set()
        for _ in range(24):
            self.clock_ms += LENGTH_MS // 2
            for name in OPTIONS:
                try:
                    self.processes[name][0].turn()
                except (FencedError, UnknownOutcomeError):
                    self.processes[name] = [Process(self, name)]
                sink = self.processes[name][0].sink
                if sink is not None:
                    sink.archive(100)
                self.check()
            seen.add(self.document.load().newest_complete())
        assert seen >= {"active", "passive"}
        event("took turns")


def go(machine: PairMachine, process: Process, phase: SnapshotPhase) -> None:
    """Let a process go on until its snapshot is in a phase."""
    for _ in range(10):
        if machine.document.load().phase(process.name) is phase:
            return
        process.turn()
        if process.sink is not None:
            process.sink.archive(100)
    raise AssertionError(f"{process.name} is not {phase}")


def test_one_that_slept_before_it_cleaned_does_not_retire_the_next_snapshot() -> None:
    """It was overtaken by a process of the same name, whose snapshot is the only one by now."""
    machine = PairMachine()
    machine.kafka_end = 30
    active, passive = Process(machine, "active"), Process(machine, "passive")

    def others() -> None:
        awake = Process(machine, "active")
        go(machine, awake, SnapshotPhase.EMPTY)
        machine.clock_ms += BUILD_MS
        go(machine, awake, SnapshotPhase.COMPLETE)
        go(machine, passive, SnapshotPhase.EMPTY)

    go(machine, active, SnapshotPhase.COMPLETE)
    machine.clock_ms += BUILD_MS
    go(machine, passive, SnapshotPhase.COMPLETE)
    go(machine, active, SnapshotPhase.RETIRING)
    active.door.at, active.door.happens = 3, others  # the document is read by then
    active.turn()
    assert machine.document.load().phase("active") is SnapshotPhase.COMPLETE
    assert machine.whole_up_to("active") == 30


def test_a_snapshot_is_complete_when_it_holds_what_the_old_one_holds_and_no_sooner() -> None:
    machine = PairMachine()
    machine.kafka_end = 30
    active, passive = Process(machine, "active"), Process(machine, "passive")
    go(machine, active, SnapshotPhase.COMPLETE)
    machine.clock_ms += BUILD_MS
    go(machine, passive, SnapshotPhase.BUILDING)
    passive.turn()
    assert passive.sink is not None and active.sink is not None
    passive.sink.archive(30)
    machine.kafka_end = 40
    active.sink.archive(100)
    passive.turn()
    assert machine.document.load().phase("passive") is SnapshotPhase.BUILDING
    passive.sink.archive(100)
    passive.turn()
    assert machine.document.load().phase("passive") is SnapshotPhase.COMPLETE
    machine.kafka_end = 50
    active.sink.archive(100)
    active.turn()
    assert machine.document.load().phase("active") is SnapshotPhase.COMPLETE
    assert active.sink is None, "it rests until the newer one holds as much"
    passive.sink.archive(100)
    go(machine, active, SnapshotPhase.EMPTY)
    assert machine.whole_up_to("passive") == 50
    assert not [k for k in machine.store.list("topics/") if ".active." in k.key]


_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
TestPair = PairMachine.TestCase
TestPair.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=_QUIET
)


@pytest.mark.slow
class TestPairForLong(PairMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=600, stateful_step_count=60, deadline=None, suppress_health_check=_QUIET
    )
