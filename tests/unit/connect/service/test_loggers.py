"""Levels of loggers: of one worker, and of all of them."""

from __future__ import annotations

import logging
import uuid

import pytest

from kafkeep.connect.model import RestError
from kafkeep.connect.service.journal import dump_state_document
from kafkeep.connect.service.lease import Heartbeat, load_heartbeat
from kafkeep.connect.service.loggers import Loggers
from kafkeep.store.memory import MemoryStore


def test_levels_for_all_workers_are_followed_in_order_and_kept_for_the_next_leader() -> None:
    above = uuid.uuid4().hex
    below = f"{above}.below"
    leader, follower, late = (Loggers(lambda: 1) for _ in range(3))
    leader.set_everywhere(below, "ERROR")
    leader.set_everywhere(above, "DEBUG")  # which sets the one below it as well
    leader.set_everywhere(below, "trace")
    beat = Heartbeat(number=7, epoch=1, worker_id="w", url="u", at_ms=1, levels=leader.everywhere())
    assert [one.logger for one in beat.levels] == [above, below]
    store = MemoryStore()
    store.put_new("lease/000000000007.json", dump_state_document(beat.to_json()))
    told = load_heartbeat(store, 7).levels
    logging.getLogger(above).setLevel(logging.CRITICAL)
    logging.getLogger(below).setLevel(logging.CRITICAL)
    follower.follow(told)
    assert levels(follower, above, below) == ["DEBUG", "TRACE"]
    follower.set(below, "WARN")  # of that worker alone, and not undone by the next beat
    follower.follow(told)
    assert levels(follower, above, below) == ["DEBUG", "WARN"]
    follower.set_everywhere(above, "INFO")  # it leads now, and goes on counting
    late.follow(follower.everywhere())
    assert levels(late, above, below) == ["INFO", "INFO"]
    with pytest.raises(RestError, match="invalid log level"):
        follower.set_everywhere(above, "LOUD")
    assert [one.level for one in follower.everywhere()] == ["INFO"]


def levels(loggers: Loggers, *names: str) -> list[str]:
    return [loggers.one(name)["level"] for name in names]


def test_levels_of_a_leader_that_heard_of_none_are_newer_than_those_before_it() -> None:
    name = uuid.uuid4().hex
    before, follower, leader = (
        Loggers(lambda: 1_000),
        Loggers(lambda: 1_000),
        Loggers(lambda: 2_000),
    )
    for level in ("ERROR", "WARN", "DEBUG"):
        before.set_everywhere(name, level)
    follower.follow(before.everywhere())
    leader.set_everywhere(name, "INFO")
    logging.getLogger(name).setLevel(logging.DEBUG)
    follower.follow(leader.everywhere())
    assert levels(follower, name) == ["INFO"]


def test_loggers_are_listed_and_set_while_others_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    there = logging.Logger.manager.loggerDict

    class Busy(logging.Logger):
        """Whoever looks at its level finds that there is another logger since."""

        @property
        def level(self) -> int:
            logging.getLogger(uuid.uuid4().hex)
            return logging.ERROR

        @level.setter
        def level(self, value: int) -> None:
            logging.getLogger(uuid.uuid4().hex)

    name = uuid.uuid4().hex
    monkeypatch.setattr(logging.Logger.manager, "loggerDict", {name: Busy(name), **there})
    assert Loggers(lambda: 1).all()[name]["level"] == "ERROR"
    assert Loggers(lambda: 1).set(name, "ERROR") == [name]
