"""A large log without a backup: its tables and checkpoint, and the objects that it names.

The objects are not stored. ``CountingStore`` answers for them, and counts the requests to a bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from kafkeep.archive.checkpoint import Checkpoint, encode_root
from kafkeep.archive.codec import encode_commit
from kafkeep.archive.commit import Changes, Commit, LogSpan, TopicInfo
from kafkeep.archive.document import digest_of
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.entry_tables import TableInfo, TableRows, write_table
from kafkeep.archive.expiry import PAGE_OBJECTS
from kafkeep.archive.keys import checkpoint_key, data_key, log_key
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.archive.state import LogState

TOPIC_PARTITIONS = 100
ROWS_PER_TABLE = 30_000
"""So many entries make a table of 16 MiB, at which tables are no longer merged."""
LOG, GROUP = "bench", "readers"
SIZE_BYTES = 100_000
RECORDS = 1000


@dataclass(slots=True)
class CountingStore:
    """Counts the requests to a store, with the pages of listings, and the bytes of bodies."""

    inner: Any
    objects: int = 0
    """The objects of each partition before any commit is measured; they have no bytes."""
    requests: int = 0
    moved: int = field(default=0)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """List a topic's objects, or what is stored; each page is a request."""
        rows = self._objects(prefix) if prefix.startswith("topics/") else None
        self.requests += 1
        for number, row in enumerate(rows or self.inner.list(prefix, after=after), 1):
            yield row
            self.requests += number % PAGE_OBJECTS == 0

    def head(self, key: str) -> ObjectInfo:
        """Return what a bucket says of an object."""
        self.requests += 1
        return ObjectInfo(key, SIZE_BYTES, 0) if key.startswith("topics/") else self.inner.head(key)

    def _objects(self, prefix: str) -> Iterator[ObjectInfo]:
        topic = prefix.split("/")[1]
        for partition in range(TOPIC_PARTITIONS):
            pid = PartitionId(topic, 1, partition)
            for number in range(self.objects + 1):
                yield ObjectInfo(data_key(pid, number * RECORDS, ".log.zst"), SIZE_BYTES, 0)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.requests += 1
            found = method(*args, **kwargs)
            bodies = [one for one in (*args, found) if isinstance(one, bytes)]
            self.moved += sum(map(len, bodies))
            return found

        return counted if callable(method) else method


def topic_name(number: int) -> str:
    """Return the name of a topic of the log."""
    return f"topic-{number:05d}"


def simulated_entry(pid: PartitionId, number: int) -> Entry:
    """Return the entry of an object of a partition, with a digest of its own."""
    key, first_ms = data_key(pid, number * RECORDS, ".log.zst"), 1_700_000_000_000 + number
    return Entry(
        key=key,
        partition_id=pid,
        topic_id="nHwKGNVUQjCSmcLkWAH-jw",
        range=OffsetRange(number * RECORDS, number * RECORDS + RECORDS),
        records=RECORDS,
        min_timestamp=first_ms,
        max_timestamp=first_ms + 1000,
        size_bytes=SIZE_BYTES,
        raw_bytes=300_000,
        format="segment",
        codec="zstd",
        sha256=sha256(key.encode()).hexdigest(),
        index=(IndexPoint(number * RECORDS, 0, 0, first_ms, first_ms + 1000),),
    )


def fill_log(store: ObjectStore, partitions: int, entries: int) -> None:
    """Write the tables and the checkpoint of a log with one commit for each table."""
    ids = [
        PartitionId(topic_name(number), 1, partition)
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
        positions=dict.fromkeys(ids, entries // partitions * RECORDS),
        spans=dict.fromkeys(ids, LogSpan(0, entries // partitions * RECORDS)),
        groups={GROUP: dict.fromkeys(ids, 1)},
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
        template = simulated_entry(ids[0], number).to_json()
        for pid in ids:
            rows.append(
                {
                    **template,
                    "topic": pid.topic,
                    "partition": pid.partition,
                    "key": (key := data_key(pid, number * RECORDS, ".log.zst")),
                    "sha256": sha256(key.encode()).hexdigest(),
                }
            )
            if len(rows) == ROWS_PER_TABLE:
                yield TableRows(rows)
                rows = []
    if rows:
        yield TableRows(rows)
