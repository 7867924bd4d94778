"""Readings of large groups are shown again for a while, and small ones never."""

from __future__ import annotations

import threading

from tests.support.waiting import until

from kafkeep.connect.catalog.readings import FRESH_S, LARGE, MOST_S, Readings
from kafkeep.errors import TransientError


class Source:
    """Counts how often it is read."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.reads = 0
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_down = False

    def read(self) -> tuple[int, int]:
        self.may_answer.wait(10)
        if self.is_down:
            raise TransientError("no broker answers")
        self.reads += 1
        return self.reads, self.partitions


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_small_reading_is_never_shown_again() -> None:
    readings, source = Readings(), Source(LARGE - 1)
    assert [readings.get("a", source.read).value for _ in range(2)] == [1, 2]


def test_a_small_reading_that_is_kept_is_read_again_at_once_when_it_is_stale() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE - 1)
    assert [readings.get("a", source.read, keeps_small=True).value for _ in range(2)] == [1, 1]
    clock.now = FRESH_S
    assert readings.get("a", source.read, keeps_small=True).value == 2


def test_a_fresh_large_reading_is_shown_again_with_its_age() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE)
    readings.get("a", source.read)
    clock.now = 1.5
    again = readings.get("a", source.read)
    assert (again.value, again.age_s) == (1, 1.5)
    assert source.reads == 1


def test_a_stale_large_reading_is_shown_and_read_once_in_the_background() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE)
    readings.get("a", source.read)
    clock.now = 10.0
    source.may_answer.clear()
    assert [readings.get("a", source.read).value for _ in range(3)] == [1, 1, 1]
    source.may_answer.set()
    until(lambda: readings.get("a", source.read).value == 2)
    assert source.reads == 2


def test_an_old_reading_is_not_shown() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE)
    readings.get("a", source.read)
    clock.now = MOST_S
    assert readings.get("a", source.read).value == 2


def test_a_failed_reading_in_the_background_is_tried_again() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE)
    readings.get("a", source.read)
    clock.now, source.is_down = 10.0, True
    assert readings.get("a", source.read).value == 1
    source.is_down = False
    until(lambda: readings.get("a", source.read).value == 2)


def test_nothing_of_before_a_change_is_shown_after_it() -> None:
    clock = Time()
    readings, source = Readings(clock), Source(LARGE)
    readings.get("a", source.read)
    clock.now = 10.0
    source.may_answer.clear()
    readings.get("a", source.read)  # reads in the background, from before the change
    readings.forget()
    source.may_answer.set()
    until(lambda: source.reads == 2)
    assert readings.get("a", source.read).value == 3
