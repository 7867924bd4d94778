from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest

from kafkeep.errors import AccessDeniedError, TransientError, UnknownOutcomeError
from kafkeep.retry import COMMIT, KAFKA, STORE, RetryPolicy


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def policy(clock: Clock, chance: Callable[[], float] = lambda: 1.0) -> RetryPolicy:
    return dataclasses.replace(STORE, sleep=clock.sleep, clock=lambda: clock.now, chance=chance)


def _always(error: Exception) -> Callable[[int], None]:
    def attempt(_number: int) -> None:
        raise error

    return attempt


def test_waits_begin_anew_after_so_many_retries() -> None:
    clock = Clock()
    limited = dataclasses.replace(
        policy(clock), round_retries=2, first_wait_s=0.2, round_wait_s=3.0
    )
    with pytest.raises(TransientError):
        limited.call("x", _always(TransientError("down")))
    assert clock.waits[:7] == pytest.approx([0.2, 0.4, 3.0, 0.2, 0.4, 3.0, 0.2])


def test_no_retries_leave_the_long_waits_alone() -> None:
    clock = Clock()
    limited = dataclasses.replace(policy(clock), round_retries=0, round_wait_s=20.0)
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
        clock.now += STORE.answer_s
        if number < lost_answers:
            raise TransientError("no answer")
        return "there"

    lost_answers = 1
    assert policy(clock).call("x", lost) == "there" and asked == [0, 1]
    lost_answers = 2
    with pytest.raises(TransientError, match="x failed after 2 attempts: no answer"):
        policy(clock).call("x", lost)
    hurried = dataclasses.replace(policy(clock), deadline_s=STORE.answer_s / 2)
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


def test_a_policy_ends_after_its_attempts() -> None:
    retries = dataclasses.replace(COMMIT, attempts=4).begin()
    assert [retries.next_wait_s() for _ in range(4)] == pytest.approx([0.1, 0.2, 0.4, None])


def test_a_policy_ends_at_the_deadline_of_its_call() -> None:
    clock = Clock()
    retries = dataclasses.replace(KAFKA, clock=lambda: clock.now).begin(1.0)
    assert retries.next_wait_s() == pytest.approx(0.05)
    clock.now = 0.95
    assert retries.next_wait_s() is None
