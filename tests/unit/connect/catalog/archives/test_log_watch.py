"""The thread that looks at the logs that pages show."""

from __future__ import annotations

import threading

import pytest
from tests.support.waiting import until

from kafkeep.connect.catalog.archives import archives
from kafkeep.connect.catalog.archives.archives import LogId, LogWatch
from kafkeep.errors import TransientError

ORDERS, USERS = ("archive", "orders"), ("archive", "users")


class Looks:
    """Remembers what was looked at; the first look of ``fails`` finds a silent store."""

    def __init__(self, fails: LogId | None = None) -> None:
        self.fails = fails
        self.seen: list[LogId] = []
        self.changed = threading.Condition()

    def look(self, id: LogId) -> None:
        with self.changed:
            self.seen.append(id)
            self.changed.notify_all()
            if id == self.fails and self.seen.count(id) == 1:
                raise TransientError("the store does not answer")

    def wait_for(self, id: LogId, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.seen.count(id) >= times, 30)


def test_a_log_in_use_is_looked_at_again_and_again() -> None:
    looks = Looks()
    watch = LogWatch(looks.look, every_s=0.01)
    assert not watch.is_running
    watch.use(ORDERS)
    watch.use(USERS)
    assert watch.is_running
    assert looks.wait_for(ORDERS, 3) and looks.wait_for(USERS, 3)
    watch.close()


def test_a_log_that_cannot_be_read_does_not_end_the_watch() -> None:
    looks = Looks(fails=ORDERS)
    watch = LogWatch(looks.look, every_s=0.01)
    watch.use(ORDERS)
    assert looks.wait_for(ORDERS, 2)
    watch.close()


def test_the_thread_ends_when_no_log_is_in_use_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archives, "UNTIL_S", 0.05)
    looks = Looks()
    watch = LogWatch(looks.look, every_s=0.01)
    watch.use(ORDERS)
    until(lambda: not watch.is_running, "the watch ends")
    watch.use(USERS)
    assert looks.wait_for(USERS, 1)
    watch.close()
