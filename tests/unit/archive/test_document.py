"""One wrong bit in a document: on the way it costs another read, in the store it is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.forge import without_checksum

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.expiry import load_retention, record_retention
from kafkeep.archive.keys import log_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.schemas import SchemaSet, load_schemas, save_schemas
from kafkeep.archive.view import check_log, load_view
from kafkeep.errors import DamagedError, TransientError
from kafkeep.store.memory import MemoryStore

PID = PartitionId("orders", 1, 0)
NEWEST = log_key("backup", 1)


def flips(body: bytes) -> Iterator[bytes]:
    """Every body that differs from ``body`` by one bit."""
    for at in range(len(body)):
        for bit in range(8):
            yield body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]


class WrongAnswers(MemoryStore):
    """Its next answers for a key are other bytes than it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[str, list[bytes]] = {}

    def get(self, key: str) -> bytes:
        wrong = self.wrong.get(key)
        return wrong.pop(0) if wrong else super().get(key)


def open_log(store: MemoryStore, writer: str) -> CommitLog:
    return CommitLog.open(store, "backup", writer=writer, now_ms=lambda: 1000)


def filled() -> WrongAnswers:
    """A log of two commits."""
    store = WrongAnswers()
    open_log(store, "a").append(Changes(positions={PID: 100}, note="x"))
    return store


def lie(store: MemoryStore, key: str, body: bytes) -> None:
    store.delete(key)
    store.put_new(key, body)


def test_a_commit_with_any_bit_flipped_on_the_way_is_read_again() -> None:
    body = filled().get(NEWEST)
    for wrong in flips(body):
        store = filled()
        store.wrong[NEWEST] = [wrong]
        log = open_log(store, "b")
        assert log.state.positions == {PID: 100}
        log.append(Changes(positions={PID: 200}))
        assert load_view(store, "backup").state == log.state


def test_a_commit_with_any_bit_flipped_in_the_store_is_refused_by_readers_and_writers() -> None:
    body = filled().get(NEWEST)
    for wrong in flips(body):
        store = filled()
        lie(store, NEWEST, wrong)
        with pytest.raises(DamagedError, match=NEWEST) as caught:
            load_view(store, "backup")
        assert caught.type is DamagedError  # and not of a newer kafkeep
        with pytest.raises(DamagedError, match=NEWEST):
            open_log(store, "b")
        assert len(list(store.list("_kafkeep/backup/log/"))) == 2
    assert [finding.key for finding in check_log(store, "backup")] == [NEWEST]


def test_a_commit_that_comes_otherwise_each_time_is_not_called_damaged() -> None:
    store = filled()
    store.wrong[NEWEST] = list(flips(store.get(NEWEST)))
    with pytest.raises(TransientError, match="its bytes change in transit") as caught:
        open_log(store, "b")
    assert caught.value.exit_code == 1
    assert caught.value.hint


def test_a_commit_without_a_checksum_counts_once_it_came_twice_the_same() -> None:
    old = without_checksum(filled().get(NEWEST))
    for wrong in flips(old):
        store = filled()
        lie(store, NEWEST, old)
        store.wrong[NEWEST] = [wrong]
        log = open_log(store, "b")
        assert log.state.positions == {PID: 100}
        assert load_view(store, "backup").state == log.state


def test_a_flipped_answer_to_who_holds_the_number_fences_nobody() -> None:
    class Lost(WrongAnswers):
        def put_new(self, key, body, metadata=None):
            super().put_new(key, body, metadata)
            if key == log_key("backup", 1) and not self.wrong:
                self.wrong[key] = [body.replace(b'"epoch":1', b'"epoch":3')]
                super().put_new(key, body, metadata)

    store = Lost()
    log = open_log(store, "a")
    assert log.append(Changes(positions={PID: 100})).number == 1


def test_rules_and_schemas_flipped_on_the_way_are_read_again_and_in_the_store_refused() -> None:
    store = WrongAnswers()
    record_retention(store, "backup", ["orders"], 7, 1000)
    digest = save_schemas(store, "backup", SchemaSet(compatibility="FULL"))
    rules = load_retention(store, "backup")
    for load, part in (
        (lambda: load_retention(store, "backup") == rules, "retention"),
        (lambda: load_schemas(store, "backup", digest).compatibility == "FULL", "schemas"),
    ):
        key = next(iter(store.list(f"_kafkeep/backup/{part}/"))).key
        body = store.get(key)
        for wrong in flips(body):
            store.wrong[key] = [wrong]
            assert load()
        lie(store, key, body[:-3] + bytes([body[-3] ^ 1]) + body[-2:])
        with pytest.raises(DamagedError, match=key):
            load()
