from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

import pytest

from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import AccessDeniedError, KeyExistsError, TransientError, UnknownOutcomeError
from kafkeep.options.storage import ANSWER_S
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore, RetryPolicy


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def policy(clock: Clock, chance: Callable[[], float] = lambda: 1.0) -> RetryPolicy:
    return RetryPolicy(sleep=clock.sleep, clock=lambda: clock.now, chance=chance)


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


def test_waits_begin_anew_after_so_many_retries() -> None:
    clock = Clock()
    limited = dataclasses.replace(policy(clock), retries=2, first_wait_s=0.2, round_wait_s=3.0)
    with pytest.raises(TransientError):
        limited.call("x", _always(TransientError("down")))
    assert clock.waits[:7] == pytest.approx([0.2, 0.4, 3.0, 0.2, 0.4, 3.0, 0.2])


def test_no_retries_leave_the_long_waits_alone() -> None:
    clock = Clock()
    limited = dataclasses.replace(policy(clock), retries=0, round_wait_s=20.0)
    with pytest.raises(TransientError, match="after 4 attempts"):
        limited.call("x", _always(TransientError("down")))
    assert clock.waits == pytest.approx([20.0] * 3)


def test_waits_grow_and_are_bounded() -> None:
    clock = Clock()
    with pytest.raises(TransientError, match=r"x failed after 12 attempts: down"):
        policy(clock).call("x", _always(TransientError("down")))
    assert clock.waits[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert max(clock.waits) == 10.0
    assert clock.now <= 60


def test_an_answer_that_never_came_is_asked_for_once_more() -> None:
    clock, asked = Clock(), []

    def lost(number: int) -> str:
        asked.append(number)
        clock.now += ANSWER_S
        if number < lost_answers:
            raise TransientError("no answer")
        return "there"

    lost_answers = 1
    assert policy(clock).call("x", lost) == "there" and asked == [0, 1]
    lost_answers = 2
    with pytest.raises(TransientError, match="x failed after 2 attempts: no answer"):
        policy(clock).call("x", lost)
    hurried = dataclasses.replace(policy(clock), deadline_s=ANSWER_S / 2)
    with pytest.raises(TransientError, match="x failed after 1 attempt: no answer"):
        hurried.call("x", lost)


def test_waits_are_jittered() -> None:
    clock, chances = Clock(), itertools.cycle([0.0, 0.5])
    with pytest.raises(TransientError):
        policy(clock, lambda: next(chances)).call("x", _always(TransientError("down")))
    assert clock.waits[:2] == pytest.approx([0.05, 0.15])


def test_the_last_error_keeps_its_class_and_hint() -> None:
    with pytest.raises(UnknownOutcomeError) as caught:
        policy(Clock()).call("x", _always(UnknownOutcomeError("down", hint="Wait.")))
    assert caught.value.hint == "Wait."


def test_what_is_not_transient_is_raised_at_once() -> None:
    clock = Clock()
    with pytest.raises(AccessDeniedError):
        policy(clock).call("x", _always(AccessDeniedError("no")))
    assert clock.waits == []


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


def test_a_listing_goes_on_where_it_broke() -> None:
    inner = Flaky()
    for number in range(7):
        inner.put_new(f"k{number}", b"")
    inner.before = 2
    rows = RetryingStore(inner, policy(Clock())).list("k")
    assert [row.key for row in rows] == [f"k{number}" for number in range(7)]


def _always(error: Exception) -> Callable[[int], None]:
    def attempt(_number: int) -> None:
        raise error

    return attempt
