"""However a sink is cut, killed and run again: each record in one object, where the rules say."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_kafka import ABORT, Answer, FakeFetchWire, FakeLog
from tests.support.faults.dying_store import Died, MortalStore
from tests.support.stored_sinks import JSON

from kafkeep.archive.commit import Intent, PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.backup import task
from kafkeep.backup.reconcile_reports import reconcile
from kafkeep.backup.task import BackupBundle, BundledRange, RangeReport, archive_bundle
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import CONTROL, TRANSACTIONAL, Record, build_batch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.client.wire import ProduceResult
from kafkeep.objects.sink.spec import RotateReason, SinkIntent
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.sink.sink import SinkOptions, SinkSpec
from kafkeep.options.storage import StorageOptions
from kafkeep.store.memory import MemoryStore

PID = PartitionId("t", 1, 0)
LETTERS = "letters"
MINUTE = 60_000
ROUNDS = 6
QUICK = settings(max_examples=60)
TOLERANT = {
    **JSON,
    "headers.format.class": "json",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": LETTERS,
    "errors.deadletterqueue.context.headers.enable": "true",
    "behavior.on.null.values": "ignore",
}
PLACED = {
    "default": {},
    "field": {"partitioner.class": "field", "partition.field.name": "f"},
    "time": {
        "partitioner.class": "time",
        "path.format": "'minute'=mm",
        "partition.duration.ms": str(MINUTE),
        "timestamp.extractor": "Record",
    },
}


class LetterWire(FakeFetchWire):
    """Takes dead letters too."""

    def produce(self, wanted: Mapping[tuple[str, int], bytes]) -> Answer[Any]:
        for where, body in wanted.items():
            assert where == (LETTERS, 0)
            for row in decode(scan_batches(body)).to_pylist():
                headers = {h["key"]: h["value"] for h in row["headers"]}
                self.letters.append(int(headers[b"__connect.errors.offset"]))
        return Answer({where: ProduceResult(0, 0) for where in wanted})

    def __init__(self, logs: Mapping[tuple[str, int], FakeLog], limit: int) -> None:
        super().__init__(logs, limit)
        self.letters: list[int] = []


# --- logs


def values(offset: int) -> st.SearchStrategy[bytes | None]:
    good = st.sampled_from(["a", "a", "b", "c"]).map(
        lambda f: b'{"n":%d,"f":"%s"}' % (offset, f.encode())
    )
    return st.one_of(
        good, good, good, good, good, st.sampled_from([None, b'{"n":', b'{"n":%d}' % offset])
    )


@st.composite
def logs(draw: st.DrawFn) -> FakeLog:
    """Many small batches with holes, aborted transactions, bad records and none at all."""
    log, offset, now = FakeLog(), draw(st.integers(0, 3)), 10 * MINUTE
    log.start = offset
    for number in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 4]))
        count = draw(st.integers(1, 6))
        kept = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1)))
        records = []
        for place in kept:
            now += draw(st.sampled_from([0, 0, 1000, 20_000, MINUTE, -MINUTE]))
            time = draw(st.sampled_from([now, now, now, now, now, -1]))
            at = offset + place
            key = draw(st.sampled_from([b"k%d" % at, None]))
            headers = [(b"h", b"%d" % at)] * draw(st.integers(0, 2))
            records.append(Record(at, time, key, draw(values(at)), headers))
        last = offset + count - 1
        aborted = draw(st.sampled_from([False, False, False, True]))
        more = {"attributes": TRANSACTIONAL, "producer_id": 100 + number} if aborted else {}
        body = build_batch(records, base_offset=offset, last_offset=last, **more)
        log.batches.append((offset, last, body))
        offset = last + 1
        if aborted:
            log.aborted.append((100 + number, last - count + 1, offset))
            log.batches.append((offset, offset, marker(offset, 100 + number)))
            offset += 1
        else:
            log.visible += records
    log.end = offset
    return log


def marker(offset: int, producer: int) -> bytes:
    record = [Record(offset, 0, ABORT, b"\0\0\0\0\0\0")]
    return build_batch(record, attributes=TRANSACTIONAL | CONTROL, producer_id=producer)


@st.composite
def sinks(draw: st.DrawFn) -> dict[str, str]:
    chosen = {
        "flush.size": draw(st.sampled_from([None, "1", "2", "3", "7", "1000"])),
        "flush.bytes": draw(st.sampled_from([None, None, "1", "60", "200"])),
        "rotate.interval.ms": draw(st.sampled_from([None, "1", "20000", "60000", "600000"])),
        "rotate.file.on.partition.change": draw(st.sampled_from([None, "false"])),
        "store.kafka.keys": draw(st.sampled_from([None, "true"])),
        "store.kafka.headers": draw(st.sampled_from([None, "true"])),
    }
    placed = PLACED[draw(st.sampled_from(sorted(PLACED)))]
    return {**TOLERANT, **placed, **{k: text for k, text in chosen.items() if text is not None}}


# --- what should come of them, one record at a time


class Closed(NamedTuple):
    """A window as it should be: why it closed, and the offsets of each directory."""

    reason: str
    files: dict[str, list[int]]


def place(record: Record, sink: SinkOptions) -> str | None:
    """Return the directory of a record, or None when it is bad or has no value."""
    try:
        fields = json.loads(record.value or b"")
    except ValueError:
        return None
    if sink.partition.is_field:
        return f"f={fields['f']}" if "f" in fields else None
    if sink.partition.is_time_based:
        if record.timestamp < 0:
            return None
        return f"minute={record.timestamp // MINUTE % 60:02d}"
    return "partition=0"


def weigh(record: Record) -> int:
    parts = [record.key, record.value, *(part for header in record.headers for part in header)]
    return sum(len(part or b"") for part in parts)


def plain_windows(
    records: Sequence[Record], sink: SinkOptions, ends: Mapping[int, tuple[int, str]]
) -> list[Closed]:
    """Apply the rules as Connect's documents tell them.

    ``ends`` are offsets that the clock closed at: what was open there, from which offset on, why.
    """
    rotate, due = sink.rotate, sorted(ends)
    done: list[Closed] = []
    by_path = rotate.rotate_file_on_partition_change and sink.partition.is_time_based
    window: list[tuple[Record, str]] = []

    def close(reason: str) -> None:
        files: dict[str, list[int]] = {}
        for record, folder in window:
            files.setdefault(folder, []).append(record.offset)
        if window:
            done.append(Closed(reason, files))
        window.clear()

    def close_at(end: int) -> None:
        start, reason = ends[end]
        if window and window[0][0].offset >= start:
            close(reason)

    for record in records:
        while due and due[0] <= record.offset:
            close_at(due.pop(0))
        folder = place(record, sink)
        if folder is None:
            continue
        interval = rotate.rotate_interval_ms
        base = next((r.timestamp for r, _ in window if r.timestamp >= 0), None)
        if interval and window:
            if base is not None and record.timestamp >= 0 and record.timestamp - base >= interval:
                close(RotateReason.INTERVAL)
            elif by_path and folder != window[-1][1]:
                close(RotateReason.PATH)
        window.append((record, folder))
        if rotate.flush_size and len(window) >= rotate.flush_size:
            close(RotateReason.COUNT)
        elif sum(weigh(r) for r, _ in window) >= rotate.flush_bytes:
            close(RotateReason.BYTES)
    for end in due:
        close_at(end)
    return done


# --- a driver that plans, dies and goes on


@dataclass
class Driver:
    """Runs intents to their end, through any number of deaths."""

    log: FakeLog
    options: dict[str, str]
    wire: LetterWire
    seconds: float
    data: st.DataObject
    store: MortalStore = field(default_factory=lambda: MortalStore(uuid.uuid4().hex))
    entries: list[Entry] = field(default_factory=list)
    ends: dict[int, tuple[int, str]] = field(default_factory=dict)
    deaths: int = 0

    def __post_init__(self) -> None:
        self.sink = SinkOptions.parse(self.options)
        self.position = self.log.start

    def run(self) -> None:
        for number in range(ROUNDS + 1):
            if self.position >= self.log.end:
                return
            last = number == ROUNDS
            end = self.log.end
            if not last:
                end = self.data.draw(st.integers(self.position + 1, self.log.end), "planned end")
            closes = last or self.data.draw(st.booleans(), "the clock closes")
            self.finish(self.plan(end, closes, at_ms=number))

    def plan(self, end: int, closes: bool, *, at_ms: int) -> Intent:
        edges = {self.position, end}
        if closes and self.sink.can_split:
            edges |= self.data.draw(st.sets(st.integers(self.position, end), max_size=3), "cuts")
        sink = SinkIntent(
            sink=SinkSpec(self.options),
            closes={str(PID): str(RotateReason.SCHEDULE)} if closes else {},
        )
        ranges = tuple(
            PlannedRange(partition_id=PID, topic_id="id", range=OffsetRange(a, b))
            for a, b in pairwise(sorted(edges))
        )
        return Intent(ranges=ranges, options=sink.to_json(), at_ms=at_ms)

    def finish(self, intent: Intent) -> None:
        """Run an intent until nothing of it is left."""
        while intent.ranges:
            before = self.store.everything()
            done = self.attempt(intent)
            after = self.store.everything()
            assert {key: after.get(key) for key in before} == before, "an object was replaced"
            if done is None:
                self.deaths += 1
                continue
            settled = reconcile(intent, *done, at_ms=intent.at_ms)
            self.check_position(intent, done[1], settled.positions[PID], settled.entries)
            self.entries += settled.entries
            self.position = settled.positions[PID]
            intent = Intent(ranges=settled.left_over, options=intent.options, at_ms=intent.at_ms)

    def attempt(
        self, intent: Intent
    ) -> tuple[dict[int, list[Entry]], dict[int, RangeReport]] | None:
        deaths = (
            st.one_of(st.none(), st.none(), st.integers(0, 3)) if self.deaths < 8 else st.none()
        )
        self.store.lives = self.data.draw(deaths, "dies at upload")
        self.store.stores_first = self.data.draw(st.booleans())
        dies_after = self.data.draw(deaths, "dies after rows")
        entries: dict[int, list[Entry]] = {}
        reports: dict[int, RangeReport] = {}
        rows = archive_bundle(self.bundle(intent))
        try:
            for number, (kind, body) in enumerate(rows):
                if number == dies_after:
                    rows.close()  # type: ignore[attr-defined]
                    return None
                if kind == "object":
                    entries.setdefault(body["number"], []).append(Entry.from_json(body["entry"]))
                else:
                    reports[body["number"]] = RangeReport.from_json(body)
        except Died:
            return None
        finally:
            self.store.lives = None
        return entries, reports

    def bundle(self, intent: Intent) -> BackupBundle:
        return BackupBundle(
            ranges=tuple(BundledRange(n, r, n == 0, 1) for n, r in enumerate(intent.ranges)),
            kafka=KafkaOptions("nowhere:1"),
            archive="memory:",
            storage=StorageOptions(),
            log_name="sink",
            connector="sink",
            write=SinkIntent.from_json(intent.options),
            seconds=self.seconds,
            at_ms=intent.at_ms,
        )

    def check_position(
        self,
        intent: Intent,
        reports: Mapping[int, RangeReport],
        position: int,
        entries: Sequence[Entry],
    ) -> None:
        """It stands behind the last object, or where reading ended with nothing left."""
        closes = SinkIntent.from_json(intent.options).closes_tail(PID)
        read = [reports[n] for n in sorted(reports)]
        for report in read:
            if report.finished and closes is not None:
                self.ends.setdefault(report.next, (report.first, str(closes)))
        assert position >= self.position
        written = max((e.range.end for e in entries), default=self.position)
        done = all(report.finished for report in read) and len(read) == len(intent.ranges)
        if done and closes is not None:
            assert position >= intent.ranges[-1].range.end
        elif position != written:
            waiting = [r for r in self.log.visible if written <= r.offset < position]
            assert all(place(r, self.sink) is None for r in waiting), "skipped a good record"


@contextmanager
def services(driver: Driver) -> Iterator[None]:
    with (
        mock.patch.object(task, "wire_for", lambda _: driver.wire),
        mock.patch.object(task, "open_store", lambda *_: driver.store),
    ):
        yield


# --- what is there in the end

NAME = re.compile(
    r"topics/t/(?P<folder>.*)/t\+0\+(?P<first>\d{10})(?P<view>\.keys|\.headers|)\.json"
)


def found_windows(entries: Sequence[Entry], store: MemoryStore) -> list[Closed]:
    """Read the objects of each window, values first; keys and headers must fit them."""
    windows: dict[OffsetRange, list[Entry]] = {}
    for entry in entries:
        windows.setdefault(entry.range, []).append(entry)
    for before, after in pairwise(windows):
        assert before.end <= after.start
    done = []
    for window, members in windows.items():
        assert {e.parts for e in members} == {len(members)}
        assert len({e.closed_by for e in members}) == 1
        files = {}
        for entry in (e for e in members if e.view == "value"):
            name = NAME.fullmatch(entry.key)
            assert name is not None and not name["view"], entry.key
            offsets = [json.loads(line)["n"] for line in lines(store, entry)]
            assert offsets and int(name["first"]) == offsets[0]
            assert window.start <= offsets[0] and offsets[-1] < window.end
            runs = [o for start, end in entry.runs for o in range(start, end)]
            assert (runs or list(range(window.start, window.end))) == offsets
            assert entry.records == len(offsets)
            files[name["folder"]] = offsets
        check_beside(store, members, files)
        done.append(Closed(members[0].closed_by, files))
    return done


def check_beside(store: MemoryStore, members: list[Entry], files: dict[str, list[int]]) -> None:
    for entry in (e for e in members if e.view != "value"):
        name = NAME.fullmatch(entry.key)
        assert name is not None and name["view"] == f".{entry.view}", entry.key
        rows = [json.loads(line) for line in lines(store, entry)]
        offsets = files[name["folder"]]
        assert len(rows) == len(offsets) and int(name["first"]) == offsets[0]
        for offset, row in zip(offsets, rows, strict=True):
            if entry.view == "keys":
                assert row in (None, f"k{offset}")
            else:
                assert all(h == {"key": "h", "value": str(offset)} for h in row["headers"])


def lines(store: MemoryStore, entry: Entry) -> list[bytes]:
    body = store.get(entry.key)
    assert len(body) == entry.size_bytes and body.endswith(b"\n")
    return body.splitlines()


@QUICK
@given(
    log=logs(),
    options=sinks(),
    limit=st.sampled_from([1, 300, 10_000]),
    seconds=st.sampled_from([-1.0, 1000.0]),
    data=st.data(),
)
def test_killed_cut_and_read_again_each_record_is_in_the_object_the_rules_say(
    log: FakeLog, options: dict[str, str], limit: int, seconds: float, data: st.DataObject
) -> None:
    driver = Driver(log, options, LetterWire({("t", 0): log}, limit), seconds, data)
    with services(driver):
        driver.run()
    assert driver.position >= log.end
    wanted = plain_windows(log.visible, driver.sink, driver.ends)
    found = found_windows(driver.entries, driver.store)
    assert found == wanted, f"found {found}\nwanted {wanted}"
    assert {e.key for e in driver.entries} == set(driver.store.everything()), "an orphan"
    check_letters(driver)


def check_letters(driver: Driver) -> None:
    """Every record that is in no object was reported; once, if nobody died."""
    bad = [r.offset for r in driver.log.visible if place(r, driver.sink) is None]
    assert set(driver.wire.letters) == set(bad)
    if not driver.deaths:
        assert sorted(driver.wire.letters) == bad
