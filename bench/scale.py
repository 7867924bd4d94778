"""What planning, committing, opening and restoring cost at 100,000 partitions, 10,000,000 objects.

Nothing runs but the driver's part: the planner, the commit log and its tables, and the plan of a
restore, on a local folder. ``python -m bench.scale`` prints the table without starting services.
Seconds are of CPU: all of it runs in one thread, and other processes do not change them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from bench.beside import Numbers
from bench.simulated_backup import SimulatedBackup, SimulatedTopics
from kafkeep.archive.checkpoint import Checkpoint, encode_root
from kafkeep.archive.codec import encode_commit
from kafkeep.archive.commit import Changes, Commit, LogSpan, TopicInfo
from kafkeep.archive.document import digest_of
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.entry_tables import TableInfo, TableRows, write_table
from kafkeep.archive.keys import checkpoint_key, data_key, log_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.archive.view import load_view
from kafkeep.clock import now_ms
from kafkeep.options.backup import MIB, BackupOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.source import load_contents
from kafkeep.store.open import open_store

T = TypeVar("T")
TOPIC_PARTITIONS = 100
SIZES = ((1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000), (100_000, 10_000_000))
"""Partitions and entries."""
LARGEST_WHOLE_RESTORE = 1_000_000
"""A plan holds every entry in memory, about 1 KB of each."""
ROWS_PER_TABLE = 30_000
"""So many entries make a table of 16 MiB, at which tables are no longer merged."""
LOG = "bench"


def scale(*_: object) -> Numbers:
    """Return the numbers of all sizes."""
    numbers: Numbers = {}
    for partitions in sorted({size for size, _ in SIZES}):
        numbers |= _planning(partitions)
    numbers |= _catching_up()
    for partitions, entries in SIZES:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            store = _Counting(open_store(folder, StorageOptions(), create=True))
            began = time.process_time()
            _fill(store, partitions, entries)
            print(f"  {entries:,} entries written in {time.process_time() - began:.0f} s")
            numbers |= _log_costs(store, partitions, entries)
    return numbers


def _planning(partitions: int) -> Numbers:
    """One cycle of 2 slots while everything is behind."""
    topics = SimulatedTopics(
        topics=partitions // TOPIC_PARTITIONS,
        partitions=TOPIC_PARTITIONS,
        partition_bytes=1 << 30,
    )
    backup = SimulatedBackup(topics, BackupOptions(topics_regex=".*"), slots=2, most_cycles=1)
    cost = _measured(backup.run)
    return {
        f"plan a cycle, {partitions:,} partitions: CPU seconds": backup.planning_seconds,
        f"plan a cycle, {partitions:,} partitions: MB": cost.peak_mb,
    }


def _catching_up() -> Numbers:
    """10 TiB in 10,000 partitions, read by 256 slots."""
    topics = SimulatedTopics(
        topics=100, partitions=TOPIC_PARTITIONS, partition_bytes=10 * 2**40 // 10_000
    )
    backup = SimulatedBackup(topics, BackupOptions(topics_regex=".*"), slots=256)
    backup.run()
    what = "10 TiB in 10,000 partitions"
    return {
        f"{what}: objects": backup.objects,
        f"{what}: mean MiB": 10 * 2**40 / backup.objects / MIB,
        f"{what}: cycles": backup.cycles,
        f"{what}: CPU seconds of planning": backup.planning_seconds,
    }


def _log_costs(store: _Counting, partitions: int, entries: int) -> Numbers:
    size = f"{partitions:,} partitions, {entries:,} entries"
    numbers: Numbers = {}

    def note(what: str, cost: _Cost) -> None:
        numbers[f"{what}, {size}: CPU seconds"] = cost.seconds
        numbers[f"{what}, {size}: requests"] = cost.requests
        numbers[f"{what}, {size}: KB"] = cost.moved_bytes / 1000
        numbers[f"{what}, {size}: MB of memory"] = cost.peak_mb

    opened = _measured(lambda: CommitLog.open(store, LOG, writer="w", now_ms=now_ms), store)
    note("open the log", opened)
    log, step = opened.value, entries // partitions
    cycle = [_entry(PartitionId(_topic(n), 1, 0), step) for n in range(min(64, partitions // 100))]
    for what, changes in {
        "commit one object": _archived(cycle[:1]),
        "commit a cycle of catching up": _archived(cycle[1:]),
        "commit the ends of all partitions": Changes(
            closes_intent=False, spans={pid: LogSpan(0, 10**6) for pid in log.state.positions}
        ),
    }.items():
        note(what, _measured(partial(log.append, changes), store))
    note("write a checkpoint", _measured(log.checkpoint, store))
    note("plan a restore of one topic", _measured(lambda: _plan(store, _topic(0)), store))
    if entries <= LARGEST_WHOLE_RESTORE:
        note("plan a restore of all", _measured(lambda: _plan(store), store))
    return numbers


def _plan(store: ObjectStore, *names: str) -> int:
    options = RestoreOptions(topics=tuple((name, name) for name in names))
    plan = plan_restore(load_contents(load_view(store, LOG), options), options, id="bench")
    return sum(len(list(topic.entries)) for topic in plan.topics)


def _archived(entries: list[Entry]) -> Changes:
    return Changes(entries=tuple(entries), positions={e.partition_id: e.range.end for e in entries})


def _topic(number: int) -> str:
    return f"topic-{number:05d}"


def _entry(pid: PartitionId, number: int) -> Entry:
    return Entry(
        key=data_key(pid, number * 1000, ".log.zst"),
        partition_id=pid,
        topic_id="nHwKGNVUQjCSmcLkWAH-jw",
        range=OffsetRange(number * 1000, number * 1000 + 1000),
        records=1000,
        min_timestamp=1_700_000_000_000 + number,
        max_timestamp=1_700_000_001_000 + number,
        size_bytes=100_000,
        raw_bytes=300_000,
        format="segment",
        codec="zstd",
        sha256="0123456789abcdef" * 4,
    )


def _fill(store: ObjectStore, partitions: int, entries: int) -> None:
    """Write the tables and the checkpoint of a log with one commit for each table."""
    ids = [
        PartitionId(_topic(number), 1, partition)
        for number in range(partitions // TOPIC_PARTITIONS)
        for partition in range(TOPIC_PARTITIONS)
    ]
    tables: list[TableInfo] = []
    for rows in _iter_rows(ids, entries):
        number = len(tables)
        tables.append(write_table(store, LOG, rows, first=number, last=number, level=3))
    state = LogState(
        name=LOG,
        commit=len(tables) - 1,
        epoch=1,
        writer="fill",
        at_ms=1,
        positions=dict.fromkeys(ids, entries // partitions * 1000),
        spans=dict.fromkeys(ids, LogSpan(0, entries // partitions * 1000)),
        topics={(pid.topic, 1): _info(pid.topic) for pid in ids[::TOPIC_PARTITIONS]},
    )
    last = Commit(
        log=LOG,
        number=state.commit,
        previous="0" * 64,
        epoch=1,
        writer="fill",
        at_ms=1,
        changes=Changes(note="fill"),
    )
    body = encode_commit(last)
    store.put_new(log_key(LOG, state.commit), body)
    # dataclasses.replace would copy what is large.
    checkpoint = Checkpoint(_with_digest(state, digest_of(body)), tuple(tables))
    store.put_new(checkpoint_key(LOG, state.commit), encode_root(checkpoint))


def _with_digest(state: LogState, digest: str) -> LogState:
    object.__setattr__(state, "digest", digest)
    return state


def _info(topic: str) -> TopicInfo:
    return TopicInfo(
        topic=topic,
        incarnation=1,
        topic_id="nHwKGNVUQjCSmcLkWAH-jw",
        partitions=TOPIC_PARTITIONS,
        replication_factor=3,
        configs={"retention.ms": "604800000"},
    )


def _iter_rows(ids: list[PartitionId], entries: int) -> Iterator[TableRows]:
    """Yield the rows of each table: every partition in turn, as cycles archive them."""
    rows: list[Mapping[str, Any]] = []
    for number in range(entries // len(ids)):
        template = _entry(ids[0], number).to_json()
        for pid in ids:
            rows.append(
                {
                    **template,
                    "topic": pid.topic,
                    "partition": pid.partition,
                    "key": data_key(pid, number * 1000, ".log.zst"),
                }
            )
            if len(rows) == ROWS_PER_TABLE:
                yield TableRows(rows)
                rows = []
    if rows:
        yield TableRows(rows)


@dataclass(slots=True)
class _Cost:
    value: Any
    seconds: float
    peak_mb: float
    requests: int
    moved_bytes: int


@dataclass(slots=True)
class _Counting:
    """Counts the requests to a store and their bytes."""

    inner: Any
    requests: int = 0
    moved: int = field(default=0)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            found = method(*args, **kwargs)
            bodies = [one for one in (*args, found) if isinstance(one, bytes)]
            self.moved += sum(map(len, bodies))
            return found

        return counted if callable(method) else method


def _measured(run: Callable[[], T], store: _Counting | None = None) -> _Cost:
    """Run it, and return what it took; ``peak_mb`` is how far the memory of this process rose."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    requests, moved = (store.requests, store.moved) if store else (0, 0)
    began = time.process_time()
    value = run()
    seconds = time.process_time() - began
    peak = _memory("VmHWM") - before
    if store:
        requests, moved = store.requests - requests, store.moved - moved
    return _Cost(value, seconds, max(0.0, peak), requests, moved)


def _memory(name: str) -> float:
    """Return a figure of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1000
    raise KeyError(name)


if __name__ == "__main__":
    for key, value in scale().items():
        print(f"  {key:<75} {value:>14,.3f}")
