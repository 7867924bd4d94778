"""Facts about connectors, read in the background."""

from __future__ import annotations

from dataclasses import replace

from tests.support.waiting import until

from kafkeep.connect.model import Connector, TargetState
from kafkeep.connect.service.background_facts import BackgroundFacts
from kafkeep.errors import TransientError

SOME = {name: Connector(name=name, config={}) for name in ("a", "b")}


def test_each_fact_is_read_once_until_it_is_old() -> None:
    now, asked = [0], []

    def read(connector: Connector) -> int | None:
        asked.append(connector.name)
        return 7 if connector.name == "a" else None

    facts = BackgroundFacts(read, lambda: now[0], every_ms=100)
    assert facts.of(SOME) == {}
    until(lambda: len(asked) == 2 and facts.of(SOME) == {"a": 7})
    assert asked == ["a", "b"] and facts.of({"b": SOME["b"]}) == {}
    now[0] = 100
    until(lambda: facts.of(SOME) == {"a": 7} and len(asked) == 4)
    facts.expire()
    until(lambda: facts.of(SOME) == {"a": 7} and len(asked) == 6)


def test_a_connector_that_was_stopped_or_changed_is_read_again_at_once() -> None:
    values = iter([1, 2, 3])
    facts = BackgroundFacts(lambda _: next(values), lambda: 0, every_ms=100)
    one = SOME["a"]
    for expected, known in enumerate(
        (one, replace(one, target=TargetState.STOPPED), replace(one, generation=2)), 1
    ):
        until(lambda known=known, expected=expected: facts.of({"a": known}) == {"a": expected})


def test_a_store_that_is_silent_leaves_what_was_known() -> None:
    now, asked = [0], []

    def read(connector: Connector) -> int:
        asked.append(connector.name)
        if len(asked) > 1:
            raise TransientError("no answer")
        return 7

    facts = BackgroundFacts(read, lambda: now[0], every_ms=100)
    until(lambda: facts.of({"a": SOME["a"]}) == {"a": 7})
    now[0] = 100
    until(lambda: facts.of({"a": SOME["a"]}) == {"a": 7} and len(asked) == 2)
