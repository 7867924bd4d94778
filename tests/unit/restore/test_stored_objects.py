"""The check that the objects of a plan exist, and the requests that it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.expiry import PAGE_OBJECTS, Expiry
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.archive.view import load_view
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.restore.plan import RestorePlan, plan_restore
from kafkeep.restore.source import find_missing, load_contents
from kafkeep.store.memory import MemoryStore

PID = PartitionId("orders", 1, 0)
INFO = TopicInfo(
    topic="orders", incarnation=1, topic_id="A" * 22, partitions=1, replication_factor=1, configs={}
)
OBJECTS = 2 * PAGE_OBJECTS + 1
"""A listing of them takes three pages."""


class CountingStore(MemoryStore):
    """Counts the requests that check objects."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: Counter[str] = Counter()

    def head(self, key: str) -> ObjectInfo:
        self.requests["head"] += key.startswith("topics/")
        return super().head(key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self.requests["list"] += prefix.startswith("topics/")
        return super().list(prefix, after=after)


def entry_at(offset: int) -> Entry:
    return Entry(
        key=data_key(PID, offset, ".log.zst"),
        partition_id=PID,
        topic_id="yk2Z1ZTXQaqS0Vh4BzGN4g",
        range=OffsetRange(offset, offset + 1),
        records=1,
        min_timestamp=0,
        max_timestamp=0,
        size_bytes=3,
        raw_bytes=3,
        format="segment",
        codec="zstd",
        sha256="ab" * 32,
    )


@pytest.fixture
def store() -> CountingStore:
    store = CountingStore()
    entries = tuple(map(entry_at, range(OBJECTS)))
    for entry in entries:
        store.put_new(entry.key, b"abc")
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: 1)
    log.append(Changes(entries=entries, positions={PID: OBJECTS}, topics=(INFO,)))
    return store


def plan_of(store: CountingStore, objects: int) -> RestorePlan:
    """Plan the newest objects."""
    pick = OffsetPick("orders", 0, OffsetRange(OBJECTS - objects, OBJECTS))
    options = RestoreOptions(topics=(("orders", "orders"),), offsets=(pick,))
    return plan_restore(load_contents(load_view(store, "backup"), options), options, id="x")


def lost_of(store: CountingStore, plan: RestorePlan) -> frozenset[str]:
    store.requests.clear()
    return find_missing(store, plan, Expiry(store, load_view(store, "backup"), 2))[0]


@pytest.mark.parametrize(("objects", "requests"), [(3, {"head": 3}), (4, {"list": 1})])
def test_a_check_sends_as_few_requests_as_possible(
    store: CountingStore, objects: int, requests: dict[str, int]
) -> None:
    assert not lost_of(store, plan_of(store, objects))
    assert +store.requests == requests


@pytest.mark.parametrize("objects", [3, 4])
def test_a_missing_and_a_truncated_object_are_found_either_way(
    store: CountingStore, objects: int
) -> None:
    missing, truncated = (entry_at(OBJECTS - n).key for n in (1, 2))
    for key in (missing, truncated):
        store.delete(key)
    store.put_new(truncated, b"ab")
    assert lost_of(store, plan_of(store, objects)) == {missing, truncated}
