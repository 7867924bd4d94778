"""Makes the stored archives of this format version; run by hand, once, when a version is released.

What is stored here must be readable for ever, so what is there is never made again::

    python tests/golden/make.py tests/golden/1
    python tests/golden/make.py tests/golden/2
    python tests/golden/make.py tests/golden/checksums
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from kafkeep.archive.commit import Changes, Gap, Intent, LogSpan, PlannedRange, TopicInfo
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key, log_key
from kafkeep.archive.log import CommitLog
from kafkeep.store.memory import MemoryStore

ORDERS = PartitionId("orders", 1, 0)
ORDERS_2 = PartitionId("orders", 2, 0)
EVENTS = PartitionId("events", 1, 1)


def entry(pid: PartitionId, start: int, end: int, records: int) -> Entry:
    return Entry(
        key=data_key(pid, start, ".log.zst"), partition_id=pid, topic_id=f"id-of-{pid.folder}",
        range=OffsetRange(start, end), records=records, min_timestamp=-1,
        max_timestamp=1_733_220_000_000, size_bytes=1234, raw_bytes=5678, format="segment",
        codec="zstd", sha256="5e" * 32,
        index=(
            IndexPoint(start, 0, 0, -1, 0),
            IndexPoint(start + 2, 600, 2, 0, 1_733_220_000_000),
        ),
        aborted=(OffsetRange(start + 1, start + 2),),
    )  # fmt: skip


def topic(name: str, incarnation: int) -> TopicInfo:
    return TopicInfo(
        topic=name, incarnation=incarnation, topic_id=f"id-{incarnation}", partitions=2,
        replication_factor=1, configs={"cleanup.policy": "compact"}, deleted=name == "events",
    )  # fmt: skip


def make() -> MemoryStore:
    store = MemoryStore()
    clock = iter(range(1_733_220_000_000, 2_000_000_000_000, 1000))
    log = CommitLog.open(
        store, "backup", writer="host-1-abc", now_ms=lambda: next(clock), checkpoint_every=4
    )
    for number in range(5):
        start = number * 10
        planned = PlannedRange(
            partition_id=ORDERS, topic_id="id-1", range=OffsetRange(start, start + 10)
        )
        intent = Intent(ranges=(planned,), options={"format": "segment", "level": 3}, at_ms=7)
        topics = (topic("orders", 1), topic("events", 1)) if not number else ()
        log.append(Changes(intent=intent, topics=topics, positions={ORDERS: start}))
        log.append(
            Changes(
                entries=(entry(ORDERS, start + 2, start + 9, 6),),
                gaps=(Gap(ORDERS, OffsetRange(start, start + 2), "retention", 9),),
                positions={ORDERS: start + 10, EVENTS: number},
                spans={ORDERS: LogSpan(start + 2, start + 10)},
                groups={"billing": {ORDERS: start + 5}, "größe": {EVENTS: 1}},
                closes_intent=True,
            )
        )
        log.checkpoint_if_due()
    log = CommitLog.open(store, "backup", writer="host-2-def", now_ms=lambda: next(clock))
    log.append(
        Changes(
            entries=(entry(ORDERS_2, 0, 5, 5),),
            topics=(topic("orders", 2),),
            positions={ORDERS_2: 5},
            groups={"billing": {}},
        )
    )
    return store


def save(store: MemoryStore, folder: Path) -> None:
    for found in store.list(""):
        path = folder / found.key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(store.get(found.key))


def changed(key: str, old: bytes, new: bytes) -> MemoryStore:
    store = make()
    body = store.get(key)
    store.delete(key)
    store.put_new(key, body.replace(old, new))
    return store


def make_moved() -> MemoryStore:
    """Offsets moved back into an object, to the beginning, and on: version 2."""
    store = make()
    clock = iter(range(1_733_230_000_000, 2_000_000_000_000, 1000))
    log = CommitLog.open(
        store, "backup", writer="host-3-ghi", now_ms=lambda: next(clock), checkpoint_every=2
    )
    whole = entry(ORDERS, 32, 39, 6)
    cut = replace(whole, range=OffsetRange(32, 35), records=3, whole_end=39, whole_records=6)
    log.append(Changes(entries=(cut,), positions={ORDERS: 35}, retired={ORDERS: 32}))
    planned = PlannedRange(partition_id=ORDERS, topic_id="id-1", range=OffsetRange(35, 50))
    intent = Intent(ranges=(log.state.planned(planned),), options={}, at_ms=7)
    log.append(Changes(intent=intent))
    log.checkpoint_if_due()
    again = replace(entry(ORDERS, 35, 50, 15), key=data_key(intent.ranges[0].folder_id, 35, ".x"))
    log.append(Changes(entries=(again,), positions={ORDERS: 50}, closes_intent=True))
    log.append(Changes(retired={ORDERS_2: 0}))
    log.append(
        Changes(gaps=(Gap(ORDERS, OffsetRange(50, 60), "by request", 9),), positions={ORDERS: 60})
    )
    log.checkpoint_if_due()
    return store


def main(folder: Path) -> None:
    if folder.name == "checksums":
        save(make_moved(), folder / "whole")
        save(changed(log_key("backup", 12), b'"start":0', b'"start":1'), folder / "flipped")
        return
    if folder.name == "2":
        save(make_moved(), folder / "whole")
        return
    save(make(), folder / "whole")
    last, middle = log_key("backup", 12), log_key("backup", 5)
    save(changed(last, b'"version":1', b'"version":999'), folder / "future")
    save(changed(middle, b'"number":5', b'"number":'), folder / "damaged-commit")
    store = make()
    store.delete(middle)
    save(store, folder / "missing-commit")
    store = make()
    for key in [found.key for found in store.list("_kafkeep/backup/checkpoint/")]:
        body = store.get(key)
        store.delete(key)
        store.put_new(key, body[:-7])
    save(store, folder / "damaged-checkpoint")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
