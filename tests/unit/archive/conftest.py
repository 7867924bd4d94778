from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.store.memory import MemoryStore

EntryMaker = Callable[..., Entry]
LogOpener = Callable[..., CommitLog]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def make_entry() -> EntryMaker:
    def make(start: int, end: int, *, topic: str = "orders", partition: int = 0) -> Entry:
        pid = PartitionId(topic, 1, partition)
        return Entry(
            key=data_key(pid, start, ".log.zst"),
            partition_id=pid,
            topic_id="yk2Z1ZTXQaqS0Vh4BzGN4g",
            range=OffsetRange(start, end),
            records=end - start,
            min_timestamp=-1,
            max_timestamp=1_700_000_000_000_000_000,
            size_bytes=100,
            raw_bytes=300,
            format="segment",
            codec="zstd",
            sha256="ab" * 32,
            index=(IndexPoint(start, 0, 0, -1, 5),),
        )

    return make


@pytest.fixture
def open_log(store: MemoryStore) -> LogOpener:
    clock = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))

    def open_log(writer: str = "w1", **options: object) -> CommitLog:
        options = {"sleep": lambda _: None, **options}
        return CommitLog.open(
            options.pop("store", store), "backup", writer=writer, now_ms=lambda: next(clock),
            **options,
        )  # fmt: skip

    return open_log
