"""What planning, committing, opening and restoring cost at 100,000 partitions, 10,000,000 objects.

Nothing runs but the driver's part: the planner, the commit log and its tables, and the plan of a
restore, on a local folder. ``python -m bench.scale`` prints the table without starting services,
``python -m bench.scale 10000000`` that of one number of entries.
Seconds are of CPU: all of it runs in one thread, and other processes do not change them.
"""

from __future__ import annotations

import gc
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from bench.beside import Numbers
from bench.simulated_backup import SimulatedBackup, SimulatedTopics, plan_gained
from bench.simulated_log import (
    GROUP,
    LOG,
    RECORDS,
    TOPIC_PARTITIONS,
    CountingStore,
    fill_log,
    simulated_entry,
    topic_name,
)
from kafkeep.archive.commit import Changes, LogSpan
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.expiry import Expiry
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import load_view
from kafkeep.clock import now_ms
from kafkeep.options.backup import MIB, BackupOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.options.storage import StorageOptions
from kafkeep.restore.plan import RestorePlan, plan_restore
from kafkeep.restore.source import find_missing, load_contents
from kafkeep.store.open import open_store

T = TypeVar("T")
SIZES = ((1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000), (100_000, 10_000_000))
"""Partitions and entries."""
GROWN = 64
"""The partitions with new records in a cycle of a backup that is caught up."""
FOLLOWED = 8
"""The partitions with a new object in a cycle of a following restore."""


def scale(*_: object) -> Numbers:
    """Return the numbers of all sizes."""
    return planning() | logs(SIZES)


def planning() -> Numbers:
    """Return the numbers of a backup's planner."""
    numbers: Numbers = {}
    for partitions in sorted({size for size, _ in SIZES}):
        numbers |= _planning(partitions)
    return numbers | _catching_up()


def logs(sizes: Iterable[tuple[int, int]]) -> Numbers:
    """Return the numbers of logs of these sizes."""
    numbers: Numbers = {}
    for partitions, entries in sizes:
        with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            store = CountingStore(
                open_store(folder, StorageOptions(), create=True), entries // partitions
            )
            began = time.process_time()
            fill_log(store, partitions, entries)
            print(f"  {entries:,} entries written in {time.process_time() - began:.0f} s")
            numbers |= _log_costs(store, partitions, entries)
    return numbers


def _planning(partitions: int) -> Numbers:
    """One cycle of 2 slots while everything is behind, and one with few new records."""
    topics = SimulatedTopics(
        topics=partitions // TOPIC_PARTITIONS,
        partitions=TOPIC_PARTITIONS,
        partition_bytes=1 << 30,
    )
    backup = SimulatedBackup(topics, BackupOptions(topics_regex=".*"), slots=2, most_cycles=1)
    cost = _measured(backup.run)
    grown = min(GROWN, partitions // TOPIC_PARTITIONS)
    gained = plan_gained(topics, BackupOptions(topics_regex=".*"), grown=grown)
    return {
        f"plan a cycle of {grown} new records, {partitions:,} partitions: CPU seconds": gained,
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


def _log_costs(store: CountingStore, partitions: int, entries: int) -> Numbers:
    size = f"{partitions:,} partitions, {entries:,} entries"
    numbers: Numbers = {}

    def note(what: str, cost: _Cost) -> None:
        numbers[f"{what}, {size}: CPU seconds"] = cost.seconds
        numbers[f"{what}, {size}: requests"] = cost.requests
        numbers[f"{what}, {size}: KB"] = cost.moved_bytes / 1000
        numbers[f"{what}, {size}: MB of memory"] = cost.peak_mb
        print(f"  {what}, {size}: {cost.seconds:.3f} s, {cost.peak_mb:.0f} MB", flush=True)

    opened = _measured(lambda: CommitLog.open(store, LOG, writer="w", now_ms=now_ms), store)
    note("open the log", opened)
    log, step = opened.value, entries // partitions
    cycle = [
        simulated_entry(PartitionId(topic_name(n), 1, 0), step)
        for n in range(min(64, partitions // 100))
    ]
    for what, changes in {
        "commit one object": _archived(cycle[:1]),
        "commit a cycle of catching up": _archived(cycle[1:]),
        "commit the ends of all partitions": Changes(
            closes_intent=False, spans={pid: LogSpan(0, 10**6) for pid in log.state.positions}
        ),
        "commit a group of all partitions": Changes(
            closes_intent=False, groups={GROUP: dict.fromkeys(log.state.positions, 2)}
        ),
    }.items():
        note(what, _measured(partial(log.append, changes), store))
    note("write a checkpoint", _measured(log.checkpoint, store))
    one = _measured(lambda: _plan(store, (topic_name(0),)), store)
    note("plan a restore of one topic", one)
    check = partial(_check, Expiry(store, load_view(store, LOG), now_ms()), store)
    note("check its objects", _measured(partial(check, one.value), store))
    newest = tuple(
        OffsetPick(topic_name(0), number, OffsetRange((step - 1) * RECORDS, step * RECORDS))
        for number in range(FOLLOWED)
    )
    gained = _plan(store, (topic_name(0),), newest)
    note(f"check {FOLLOWED} new objects of it", _measured(partial(check, gained), store))
    every = _measured(lambda: _plan(store), store)
    note("plan a restore of all", every)
    note("check all objects", _measured(partial(check, every.value), store))
    numbers[f"entries of the tasks of all, {size}: MB"] = _pickled_mb(every.value)
    return numbers


def _pickled_mb(plan: RestorePlan) -> float:
    """Return the size of the entries that the tasks of a restore are sent, one topic at a time."""
    sizes = (len(pickle.dumps([p.entries for p in topic.partitions])) for topic in plan.topics)
    return sum(sizes) / 1e6


def _plan(
    store: ObjectStore, names: tuple[str, ...] = (), picks: tuple[OffsetPick, ...] = ()
) -> RestorePlan:
    options = RestoreOptions(topics=tuple((name, name) for name in names), offsets=picks)
    return plan_restore(load_contents(load_view(store, LOG), options), options, id="bench")


def _check(expiry: Expiry, store: ObjectStore, plan: RestorePlan) -> None:
    """Compare the planned objects with those in the store, as the preflight of a restore does."""
    lost, expired = find_missing(store, plan, expiry)
    assert not lost, "the simulated store holds every object"
    assert not expired, "the simulated log has no retention rule"


def _archived(entries: list[Entry]) -> Changes:
    return Changes(entries=tuple(entries), positions={e.partition_id: e.range.end for e in entries})


@dataclass(slots=True)
class _Cost:
    value: Any
    seconds: float
    peak_mb: float
    requests: int
    moved_bytes: int


def _measured(run: Callable[[], T], store: CountingStore | None = None) -> _Cost:
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
    gc.set_threshold(20_000)  # as the commands do
    chosen = [size for size in SIZES if f"{size[1]}" in sys.argv[1:]]
    for key, value in (logs(chosen) if chosen else scale()).items():
        print(f"  {key:<75} {value:>14,.3f}")
