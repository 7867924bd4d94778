"""What lies in the store, wherever the logs' objects are: counted, or told as left over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support.archive_builder import build_archive, partition

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.maintenance.inspect.inventory import load_usage
from kafkeep.maintenance.verify.finding import FindingKind
from kafkeep.maintenance.verify.verify import verify
from kafkeep.store.memory import MemoryStore

ORDERS = PartitionId("orders", 1, 0)
INFO = TopicInfo(
    topic="orders", incarnation=1, topic_id="id", partitions=1, replication_factor=1, configs={}
)


def archive_in(store: MemoryStore, folder: str, delim: str = "/", count: int = 1) -> list[Entry]:
    """Commit objects whose topic's folder lies in another folder than ``topics``."""
    aside = MemoryStore()
    bounds = range(0, 10 * count + 1, 10)
    entries = []
    for made in build_archive(aside, {"orders": [partition(*bounds)]}).entries:
        name = f"orders+0+{made.range.start:010d}.log.zst"
        entries.append(replace(made, key=f"{folder}orders{delim}day=1{delim}{name}"))
        store.put_new(entries[-1].key, aside.get(made.key))
    log = CommitLog.open(store, "sink", writer="w", now_ms=lambda: 1)
    log.append(Changes(entries=tuple(entries), positions={ORDERS: bounds[-1]}, topics=(INFO,)))
    return entries


def orphans(store: MemoryStore) -> list[str]:
    found = verify(store, ["sink"]).findings
    return [finding.key for finding in found if finding.kind is FindingKind.ORPHAN]


@pytest.mark.parametrize("folder", ["", "lake/", "deep/er/lake/"])
def test_orphans_are_found_wherever_the_topics_lie(folder: str) -> None:
    store = MemoryStore()
    [entry] = archive_in(store, folder)
    left = f"{folder}orders/day=1/orders+0+0000000010.log.zst"
    store.put_new(left, b"12345")
    store.put_new("elsewhere/of/others", b"123")
    store.put_new("deep/others", b"123")
    assert orphans(store) == [left]
    usage = load_usage(store, ["sink"])
    assert (usage.orphans, usage.orphan_bytes, usage.gone) == (1, 5, 0)
    assert usage.data_bytes == entry.size_bytes


class Counting(MemoryStore):
    """Counts how often data is listed."""

    lists = 0

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self.lists += not prefix.startswith("_kafkeep/")
        return super().list(prefix, after=after)


@pytest.mark.parametrize("folder", ["", "topics_", "lake_"])
def test_objects_in_no_folder_are_listed_together(folder: str) -> None:
    store = Counting()
    archive_in(store, folder, delim="_", count=30)
    left = f"{folder}orders_day=2_orders+0+0000000300.log.zst"
    store.put_new(left, b"12345")
    store.put_new("others", b"123")
    store.put_new(f"{folder}orders/of/others", b"123")
    assert orphans(store) == [left]
    assert store.lists == 2
    usage = load_usage(store, ["sink"])
    assert (usage.orphans, usage.gone, usage.data_objects) == (1, 0, 30)


def test_what_is_no_longer_there_takes_up_no_room() -> None:
    store = MemoryStore()
    first, second = build_archive(store, {"orders": [partition(0, 10, 30)]}).entries
    store.delete(first.key)
    usage = load_usage(store, ["backup"])
    assert (usage.gone, usage.data_objects, usage.data_bytes) == (1, 1, second.size_bytes)
    assert usage.topics[0].records == 20
    assert usage.total_bytes == sum(info.size_bytes for info in store.list(""))


class BackingUp(MemoryStore):
    """While data is listed, a backup commits one more object."""

    busy = False

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        if prefix == "topics/" and self.busy:
            self.busy = False
            archive_in(self, "topics/")
        return super().list(prefix, after=after)


def test_what_a_running_backup_commits_meanwhile_is_no_orphan() -> None:
    store = BackingUp()
    CommitLog.open(store, "sink", writer="before", now_ms=lambda: 1)
    store.busy = True
    assert orphans(store) == []
    store = BackingUp()
    CommitLog.open(store, "sink", writer="before", now_ms=lambda: 1)
    store.busy = True
    assert load_usage(store, ["sink"]).orphans == 0
