"""Writers that crash, lose answers, pause and come back, over one store: nothing may get lost.

The machine plays Kafka (logs that grow, are truncated, are re-created), several writers (live,
crashed, zombie) and a store whose conditional create may fail in every way it can, and whose
answers may come with a wrong bit.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkeep.archive.adoption import END, OwnObject, identify_object, object_metadata, plan_digest
from kafkeep.archive.commit import Changes, Gap, Intent, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key, padded_again
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.archive.offset_runs import OffsetRuns
from kafkeep.archive.state import LogState
from kafkeep.archive.view import ArchiveView, check_log, iter_commits, load_view
from kafkeep.errors import (
    FencedError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.maintenance.move_positions import move_positions

NAME = "backup"
FAULTS = ("ok", "transient", "lost", "late", "ghost", "crash", "crash-after", "crash-late")
fault_lists = st.one_of(
    st.just([]), st.just([]), st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3)
)


Content = tuple[LogState, tuple[Entry, ...], tuple[Gap, ...]]


class Crash(BaseException):
    """The process is gone, here."""


class FaultyStore:
    """Objects in a dict; the next creates fail as told, the next commits come flipped as told."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.first_bodies: dict[str, bytes] = {}
        self.in_flight: list[tuple[str, bytes, dict[str, str]]] = []
        self.faults: list[str] = []
        self.flips: list[int] = []

    def put_new(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        fault = self.faults.pop(0) if self.faults else "ok"
        sent = (key, body, dict(metadata or {}))
        if fault == "crash":
            raise Crash
        if fault == "transient":
            raise TransientError(key)
        if fault == "ghost":
            raise KeyExistsError(key)
        if fault in {"late", "crash-late"}:
            self.in_flight.append(sent)
            raise Crash if fault == "crash-late" else UnknownOutcomeError(key)
        self.land(*sent)
        if fault == "crash-after":
            raise Crash
        if fault == "lost":
            raise UnknownOutcomeError(key)

    def land(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        if key in self.objects:
            raise KeyExistsError(key)
        self.objects[key] = (body, metadata)
        self.first_bodies.setdefault(key, body)

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise KeyMissingError(key)
        body = self.objects[key][0]
        return flipped(body, self.flips) if "/log/" in key else body

    def head(self, key: str) -> ObjectInfo:
        body = self.get(key)
        return ObjectInfo(key, len(body), 0, self.objects[key][1])

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        keys = sorted(self.objects)
        for key in keys[bisect.bisect_right(keys, after) :]:
            if key.startswith(prefix):
                yield ObjectInfo(key, len(self.objects[key][0]), 0)

    def describe(self) -> str:
        return "memory:"


def flipped(body: bytes, flips: list[int]) -> bytes:
    """Return ``body`` with the bit that is next in ``flips``; several threads may ask."""
    try:
        at, bit = divmod(flips.pop() % (8 * len(body)), 8)
    except IndexError:
        return body
    return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]


@dataclass
class Partition:
    """One partition in Kafka: every seventh offset is a hole (a marker, say)."""

    start: int = 0
    end: int = 0

    def records(self, offsets: OffsetRange) -> list[int]:
        return [o for o in range(offsets.start, offsets.end) if o % 7 != 3]


@dataclass
class Writer:
    """One process that backs up; ``reports`` is what its finished tasks told it."""

    log: CommitLog
    store: FaultyStore
    kafka: dict[PartitionId, Partition]
    reports: dict[int, tuple[list[Entry], list[Gap]]] = field(default_factory=dict)

    def plan(self, at_ms: int, cut: int) -> None:
        state, ranges, positions = self.log.state, [], {}
        for pid, partition in sorted(self.kafka.items()):
            start = state.positions.get(pid, partition.start)
            if pid not in state.positions:
                positions[pid] = start
            middle = (start + partition.end) // 2
            for low, high in pairwise(sorted({start, max(start, middle), partition.end})):
                if start <= low < high:
                    offsets = OffsetRange(low, high)
                    topic_id = f"id-{pid.folder}"
                    planned = PlannedRange(partition_id=pid, topic_id=topic_id, range=offsets)
                    ranges.append(state.planned(planned))
        topics = tuple(
            TopicInfo(topic=t, incarnation=i, topic_id=f"id-{t}-{i}", partitions=2,
                      replication_factor=1, configs={})
            for t, i in {(p.topic, p.incarnation) for p in self.kafka} - set(state.topics)
        )  # fmt: skip
        if ranges:
            intent = Intent(ranges=tuple(ranges), options={"cut": cut}, at_ms=at_ms)
            self.log.append(Changes(intent=intent, positions=positions, topics=topics))

    def run_task(self, number: int) -> None:
        intent = self.log.state.intent
        assert intent is not None
        planned, cut = intent.ranges[number], intent.options["cut"]
        position, end = planned.range.start, planned.range.end
        kept_from = min(max(self.kafka[planned.partition_id].start, position), end)
        gaps = []
        if kept_from > position:
            lost = OffsetRange(position, kept_from)
            gaps.append(Gap(planned.partition_id, lost, "retention", intent.at_ms))
            position = kept_from
        entries = []
        while position < end:
            entries.append(self.write_object(planned, intent, position, min(position + cut, end)))
            position = entries[-1].range.end
        self.reports[number] = ([e for e in entries if e.records], gaps)

    def write_object(self, planned: PlannedRange, intent: Intent, start: int, end: int) -> Entry:
        pid = planned.partition_id
        records = self.kafka[pid].records(OffsetRange(start, end))
        body = json.dumps(records).encode()
        plan = plan_digest(NAME, planned, intent.options)
        mine = object_metadata(writer=NAME, planned=planned, start=start, plan=plan, end=end)
        key = data_key(planned.folder_id, start, ".json")
        while records:
            try:
                self.store.put_new(key, body, mine)
                break
            except KeyExistsError:
                try:
                    found = self.store.head(key)
                except KeyMissingError:
                    continue
                decision = identify_object(found.metadata, mine)
                if isinstance(decision, OwnObject):
                    assert decision.end is not None
                    end, body = decision.end, self.store.get(key)
                    break
                key = padded_again(key)
            except TransientError:
                continue
        return Entry(
            key=key, partition_id=pid, topic_id=planned.topic_id, range=OffsetRange(start, end),
            records=len(json.loads(body)), min_timestamp=0, max_timestamp=0, size_bytes=len(body),
            raw_bytes=len(body), format="json", codec="none",
            sha256=hashlib.sha256(body).hexdigest(), runs=_runs(json.loads(body)),
        )  # fmt: skip

    def commit(self) -> None:
        intent = self.log.state.intent
        assert intent is not None
        positions: dict[PartitionId, int] = {}
        for planned in intent.ranges:
            reached = max(positions.get(planned.partition_id, 0), planned.range.end)
            positions[planned.partition_id] = reached
        entries = tuple(e for found, _ in self.reports.values() for e in found)
        gaps = tuple(g for _, found in self.reports.values() for g in found)
        self.log.append(
            Changes(entries=entries, gaps=gaps, positions=positions, closes_intent=True)
        )
        self.reports.clear()


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = FaultyStore()
        self.kafka = {PartitionId(t, 1, p): Partition() for t in ("a", "b.c") for p in (0, 1)}
        self.begins: dict[PartitionId, int] = {}
        self.writers: list[Writer] = []
        self.opened = 0
        self.clock_ms = 1_700_000_000_000
        self.seen: dict[int, Content] = {}

    def now_ms(self) -> int:
        return self.clock_ms

    def try_step(self, writer: Writer | None, step, faults: list[str]) -> None:
        """Run one step; a crash, a fence or a log that must be opened again ends the writer."""
        self.store.faults = list(faults)
        try:
            step()
        except (Crash, FencedError, UnknownOutcomeError):
            if writer is not None:
                self.writers.remove(writer)
        except TransientError:
            pass
        finally:
            self.store.faults = []

    def view(self) -> ArchiveView | None:
        try:
            return load_view(self.store, NAME)
        except NoSuchArchiveError:
            return None

    # Kafka, the clock and strangers

    @rule(counts=st.lists(st.integers(0, 25), min_size=4), jump=st.integers(-5000, 5000))
    def produce(self, counts: list[int], jump: int) -> None:
        for pid, count in zip(sorted(self.kafka, reverse=True), counts, strict=False):
            self.kafka[pid].end += count
        self.clock_ms += jump

    @rule(data=st.data(), share=st.floats(0, 1))
    def truncate(self, data: st.DataObject, share: float) -> None:
        found = self.kafka[data.draw(st.sampled_from(sorted(self.kafka)))]
        found.start += int((found.end - found.start) * share)

    @rule(topic=st.sampled_from(["a", "b.c"]))
    def recreate_topic(self, topic: str) -> None:
        """The old partitions lose all they held; new ones begin under the same name."""
        last = max(pid.incarnation for pid in self.kafka if pid.topic == topic)
        for partition in (0, 1) if last < 3 else ():
            gone = self.kafka[PartitionId(topic, last, partition)]
            gone.start = gone.end
            self.kafka[PartitionId(topic, last + 1, partition)] = Partition()

    @rule(data=st.data())
    def stranger_takes_the_next_name(self, data: st.DataObject) -> None:
        view = self.view()
        pid = data.draw(st.sampled_from(sorted(self.kafka)))
        position = view.positions.get(pid, 0) if view else 0
        metadata = data.draw(st.sampled_from([{}, {"kafkeep-writer": "other"}]))
        folder = data.draw(st.sampled_from([pid, pid._replace(incarnation=pid.incarnation + 1)]))
        key = data_key(folder, position + data.draw(st.sampled_from([0, 5])), ".json")
        if key not in self.store.objects:
            self.store.land(key, b"[]", metadata)

    @rule()
    def late_requests_arrive(self) -> None:
        while self.store.in_flight:
            sent = self.store.in_flight.pop(0)
            if sent[0] not in self.store.objects:
                self.store.land(*sent)

    # Writers

    @rule(faults=fault_lists)
    def open_writer(self, faults: list[str]) -> None:
        self.opened += 1

        def step() -> None:
            log = CommitLog.open(
                self.store, NAME, writer=f"w{self.opened}", now_ms=self.now_ms,
                sleep=lambda _: None, checkpoint_every=3,
            )  # fmt: skip
            self.writers.append(Writer(log, self.store, self.kafka))

        if len(self.writers) < 3:
            self.try_step(None, step, faults)

    @rule(
        data=st.data(),
        quiet_steps=st.integers(0, 12),
        faults=fault_lists,
        cut=st.sampled_from([4, 10, 100]),
    )
    def writer_goes_on(
        self, data: st.DataObject, quiet_steps: int, faults: list[str], cut: int
    ) -> None:
        """Do the next things a writer has to do; the faults come with the last of them."""
        if not self.writers:
            self.open_writer([])
        writer = data.draw(st.sampled_from(self.writers))
        for number in range(quiet_steps + 1):
            if writer in self.writers:
                self.go_on(writer, data, faults if number == quiet_steps else [], cut)

    def go_on(self, writer: Writer, data: st.DataObject, faults: list[str], cut: int) -> None:
        """Plan, run one of the tasks, or commit: whichever is next."""
        intent, before = writer.log.state.intent, writer.log.state.commit

        def step() -> None:
            left = set(range(len(intent.ranges))) - set(writer.reports) if intent else set()
            if intent is None:
                self.kafka[data.draw(st.sampled_from(sorted(self.kafka)))].end += 5
                writer.plan(self.clock_ms, cut)
            elif left:
                writer.run_task(data.draw(st.sampled_from(sorted(left))))
            else:
                writer.commit()

        self.try_step(writer, step, faults)
        if writer in self.writers and writer.log.state.commit > before:
            # An old epoch never commits after a newer one opened.
            assert load_view(self.store, NAME).state == writer.log.state
            self.nothing_is_lost_or_twice()
            writer.log.checkpoint_if_due()

    @rule(data=st.data(), faults=fault_lists, count=st.integers(1, 3))
    def positions_are_moved(self, data: st.DataObject, faults: list[str], count: int) -> None:
        """Back, past what is there, or to none at all; writers at work are fenced by it."""
        moves = {}
        view = self.view()
        places = sorted({(pid.topic, pid.partition) for pid in self.kafka})
        for topic, partition in data.draw(st.permutations(places))[:count]:
            latest = view.state.latest_incarnation(topic) if view else None
            end = self.kafka[PartitionId(topic, latest.incarnation if latest else 1, partition)].end
            moves[topic, partition] = data.draw(st.none() | st.integers(0, end))
        self.opened += 1
        writer = f"w{self.opened}"

        def step() -> None:
            move_positions(
                self.store, NAME, moves, writer=writer, now_ms=self.now_ms, sleep=lambda _: None
            )
            event("moved")

        self.try_step(None, step, faults)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        if self.writers:
            self.writers.remove(data.draw(st.sampled_from(self.writers)))

    @rule(data=st.data(), faults=fault_lists, force=st.booleans())
    def checkpoint(self, data: st.DataObject, faults: list[str], force: bool) -> None:
        if not self.writers:
            return
        writer = data.draw(st.sampled_from(self.writers))
        step = writer.log.checkpoint if force else writer.log.checkpoint_if_due
        self.try_step(writer, step, faults)

    @rule(first=st.integers(0, 2**20), times=st.integers(1, 2))
    def answers_come_flipped(self, first: int, times: int) -> None:
        """On the way: what is stored is right, and the next one to ask again gets it."""
        self.store.flips = [first + n for n in range(times)]  # what comes twice the same lies so

    @rule(data=st.data(), how=st.sampled_from(["lost", "cut", "flipped", "swapped"]))
    def damage_a_checkpoint(self, data: st.DataObject, how: str) -> None:
        keys = sorted(k for k in self.store.objects if "/checkpoint/" in k or "/table/" in k)
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        body, metadata = self.store.objects.pop(key)
        if how == "cut":
            self.store.objects[key] = (body[: len(body) // 2], metadata)
        elif how == "flipped":
            self.store.objects[key] = (body[:-1] + bytes([body[-1] ^ 1]), metadata)
        elif how == "swapped" and len(keys) > 1:
            other = data.draw(st.sampled_from([k for k in keys if k != key]))
            self.store.objects[key] = self.store.objects[other]

    # What must hold

    @rule(data=st.data())
    def an_earlier_view_stays_the_same(self, data: st.DataObject) -> None:
        if self.seen:
            number = data.draw(st.sampled_from(sorted(self.seen)))
            assert _content(load_view(self.store, NAME, commit=number)) == self.seen[number]

    @invariant()
    def nothing_is_lost_or_twice(self) -> None:
        view = self.view()
        if view is None or view.commit in self.seen:
            return
        content = self.seen[view.commit] = _content(view)
        # Seen first with the intent that names it, before anything of it is archived.
        self.begins = {
            pid: min(position, self.begins.get(pid, position))
            for pid, position in view.positions.items()
        }
        assert {e.partition_id for e in content[1]} <= set(view.positions)
        for pid, position in view.positions.items():
            pieces = [(e.range, e) for e in content[1] if e.partition_id == pid]
            pieces += [(g.range, None) for g in content[2] if g.partition_id == pid]
            self.check_partition(pid, position, sorted(pieces, key=lambda piece: piece[0]))

    def check_partition(self, pid, position, pieces) -> None:
        reached = self.begins[pid]
        for offsets, entry in pieces:
            assert reached <= offsets.start, "twice"
            between = OffsetRange(reached, offsets.start)
            assert not self.kafka[pid].records(between), "lost"
            reached = offsets.end
            if entry is not None:
                body = self.store.get(entry.key)
                assert hashlib.sha256(body).hexdigest() == entry.sha256
                assert json.loads(body) == self.kafka[pid].records(entry.stored.range)
                assert entry.records == len(self.kafka[pid].records(offsets))
        assert not self.kafka[pid].records(OffsetRange(reached, position)), "lost"

    @invariant()
    def no_object_is_replaced(self) -> None:
        for key, first in self.store.first_bodies.items():
            if "/checkpoint/" not in key and "/table/" not in key:
                assert self.store.objects[key][0] == first

    @invariant()
    def no_object_is_written_twice(self) -> None:
        """What a dead attempt left is adopted, not written again beside it."""
        ours = [
            (key.split("/")[1], *(metadata[name] for name in sorted(metadata) if name != END))
            for key, (_, metadata) in self.store.objects.items()
            if metadata.get("kafkeep-writer") == NAME
        ]
        assert len(set(ours)) == len(ours)

    def teardown(self) -> None:
        """A fresh writer finishes the open intent, then everything; then all is accounted for."""
        log = CommitLog.open(
            self.store, NAME, writer="last", now_ms=self.now_ms, sleep=lambda _: None
        )
        writer = Writer(log, self.store, self.kafka)
        for _ in range(2):
            if log.state.intent is None:
                writer.plan(self.clock_ms, 10)
                self.nothing_is_lost_or_twice()
            if log.state.intent is not None:
                for number in range(len(log.state.intent.ranges)):
                    writer.run_task(number)
                writer.commit()
        view = load_view(self.store, NAME)
        assert view.intent is None
        for pid, partition in self.kafka.items():
            assert view.positions.get(pid, partition.end) == partition.end
        self.nothing_is_lost_or_twice()
        self.check_history()
        event(f"commits: {view.commits // 10 * 10}+")
        event(f"entries: {len(view.entries()) // 10 * 10}+")
        assert not any(finding.fatal for finding in check_log(self.store, NAME))
        for zombie in self.writers:
            with pytest.raises(FencedError):
                zombie.log.append(Changes(note="still here"))

    def check_history(self) -> None:
        """A position moves back only where it is retired; no name serves two generations."""
        before: Mapping[PartitionId, int] = {}
        owners: dict[str, int] = {}
        for found in iter_commits(self.store, NAME):
            assert found.finding is None
            assert found.commit is not None
            assert found.state is not None
            for pid, position in before.items():
                if found.state.positions.get(pid, -1) < position:
                    assert pid in found.commit.changes.retired
            before = found.state.positions
            for entry in found.commit.changes.entries:
                if not entry.is_cut:
                    assert owners.setdefault(entry.key, entry.generation) == entry.generation


def _runs(offsets: list[int]) -> OffsetRuns:
    edges = [0, *(i for i, (a, b) in enumerate(pairwise(offsets), 1) if b != a + 1), len(offsets)]
    return OffsetRuns.of([(offsets[i], offsets[j - 1] + 1) for i, j in pairwise(edges) if i < j])


def _content(view: ArchiveView) -> Content:
    return (view.state, tuple(view.entries()), view.gaps)


_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=50, stateful_step_count=50, deadline=None, suppress_health_check=_QUIET
)


@pytest.mark.slow
class TestLogMachineForLong(LogMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=1500, stateful_step_count=100, deadline=None, suppress_health_check=_QUIET
    )
