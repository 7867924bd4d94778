"""A rate is kept on average, and nothing waits longer than it must: with a clock set by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkeep.restore import task
from kafkeep.restore.task import pace_for


class Clock:
    """Goes on by what is slept, and by what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 100.0, 0.0
        monkeypatch.setattr(
            task, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def test_a_rate_is_kept_and_no_time_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    wait = pace_for(4.0)
    for _ in range(8):
        wait(1)
    assert clock.slept == pytest.approx(2.0)


def test_what_requests_take_themselves_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    wait = pace_for(4.0)
    for _ in range(8):
        wait(1)
        clock.now += 0.2
    assert clock.now == pytest.approx(100 + 2.0 + 0.2)
    clock.now += 10  # a pause of others
    wait(1)
    assert clock.now == pytest.approx(112.2), "what is late does not wait"


def test_without_a_rate_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace_for(None)(1 << 40)
    assert clock.slept == 0
