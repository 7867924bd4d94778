from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.unit.test_retry import Clock, policy

from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import KeyExistsError, TransientError, UnknownOutcomeError
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore


class Flaky(MemoryStore):
    """Fails the first calls: before doing what was asked, or after."""

    def __init__(self, *, before: int = 0, after: int = 0) -> None:
        super().__init__("flaky")
        self.before = before
        self.after = after

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        if self.before:
            self.before -= 1
            raise TransientError("not now")
        super().put_new(key, body, metadata, tags=tags)
        if self.after:
            self.after -= 1
            raise UnknownOutcomeError("no answer")

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        for number, row in enumerate(super().list(prefix, after=after)):
            if number == 2 and self.before:
                self.before -= 1
                raise TransientError("page lost")
            yield row


def test_a_create_whose_answer_was_lost_is_known_as_our_own() -> None:
    store = RetryingStore(Flaky(after=1), policy(Clock()))
    store.put_new("a", b"mine")
    assert store.get("a") == b"mine"


def test_a_create_after_a_refused_one_is_made() -> None:
    store = RetryingStore(Flaky(before=3), policy(Clock()))
    store.put_new("a", b"mine")
    assert store.get("a") == b"mine"


def test_anothers_object_after_a_lost_answer_is_refused() -> None:
    inner = Flaky()
    inner.put_new("a", b"theirs")
    inner.before = 1
    with pytest.raises(KeyExistsError):
        RetryingStore(inner, policy(Clock())).put_new("a", b"mine")


def test_equal_bytes_at_the_first_attempt_are_still_taken() -> None:
    store = RetryingStore(Flaky(), policy(Clock()))
    store.put_new("a", b"same")
    with pytest.raises(KeyExistsError):
        store.put_new("a", b"same")


def test_a_listing_continues_where_it_broke() -> None:
    inner = Flaky()
    for number in range(7):
        inner.put_new(f"k{number}", b"")
    inner.before = 2
    rows = RetryingStore(inner, policy(Clock())).list("k")
    assert [row.key for row in rows] == [f"k{number}" for number in range(7)]
