"""A rate is kept on average, and nothing waits longer than it must: with a clock set by hand."""

from __future__ import annotations

import pytest

from kafkeep.pace import Pace, share_of_rate


class Clock:
    """Goes on by what is slept, and by what a test says."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0

    def pace(self, rate_bytes: float | None) -> Pace:
        return Pace(rate_bytes, clock=lambda: self.now, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_rate_is_kept_and_no_time_is_lost(clock: Clock) -> None:
    wait = clock.pace(4.0)
    for done in range(1, 9):
        wait(1)
        assert done / (clock.now - 100) <= 4.0
    assert clock.slept == pytest.approx(2.0)


def test_what_requests_take_themselves_is_not_waited_for_again(clock: Clock) -> None:
    wait = clock.pace(4.0)
    for _ in range(8):
        wait(1)
        clock.now += 0.2
    assert clock.now == pytest.approx(100 + 2.0 + 0.2)


def test_a_pause_is_made_up_for_by_one_second_at_most(clock: Clock) -> None:
    wait = clock.pace(4.0)
    clock.now += 10
    for _ in range(4):
        wait(1)
    assert clock.slept == 0
    for _ in range(8):
        wait(1)
    assert clock.slept == pytest.approx(2.0), "ten seconds of silence are no licence for a burst"


def test_without_a_rate_nothing_waits(clock: Clock) -> None:
    clock.pace(None)(1 << 40)
    assert clock.slept == 0


@pytest.mark.parametrize(("slots", "tasks", "share"), [(4, 2, 50), (2, 6, 50), (0, 0, 100)])
def test_tasks_that_run_at_once_share_the_rate(slots: int, tasks: int, share: float) -> None:
    assert share_of_rate(100, slots=slots, tasks=tasks) == share
    assert share_of_rate(None, slots=slots, tasks=tasks) is None


def test_requests_get_smaller_with_the_rate_but_not_too_small(clock: Clock) -> None:
    assert clock.pace(None).request_bytes(1000, least=10) == 1000
    assert clock.pace(400).request_bytes(1000, least=10) == 100
    assert clock.pace(4).request_bytes(1000, least=10) == 10
    assert clock.pace(1e9).request_bytes(1000, least=10) == 1000
