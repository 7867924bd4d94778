"""What changes connectors, on the worker that leads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep.connect.definitions import Definitions
from kafkeep.connect.loggers import Loggers
from kafkeep.connect.model import RestError, Target
from kafkeep.connect.operations import LocalOperations
from kafkeep.connect.state.journal import Journal
from kafkeep.connect.state.state import Change
from kafkeep.connect.worker.providers import Providers
from kafkeep.store.memory import MemoryStore


def test_a_connector_that_is_slow_to_stop_holds_up_no_other_one() -> None:
    asked, may_go_on = threading.Event(), threading.Event()

    def wait_ended(_name: str, _timeout_s: float) -> bool:
        asked.set()
        may_go_on.wait(10)
        return False

    journal = Journal(MemoryStore())
    for name in ("slow", "other"):
        journal.commit(
            lambda _, name=name: Change(kind="define", name=name, target=Target.STOPPED)  # type: ignore[misc]
        )
    duty: Any = SimpleNamespace(
        journal=journal, commit=journal.commit, supervisor=SimpleNamespace(wait_ended=wait_ended)
    )
    surroundings: Any = None
    local = LocalOperations(
        duty, Definitions(providers=Providers()), surroundings, Loggers(lambda: 1)
    )

    def move() -> None:
        with pytest.raises(RestError, match="haven't stopped completely yet"):
            local.reset_offsets("slow")

    moving = threading.Thread(target=move, daemon=True)
    moving.start()
    assert asked.wait(10)
    resuming = threading.Thread(
        target=local.set_target, args=("other", Target.RUNNING), daemon=True
    )
    resuming.start()
    resuming.join(5)
    assert journal.state.connectors["other"].target is Target.RUNNING
    itself = threading.Thread(target=local.set_target, args=("slow", Target.RUNNING), daemon=True)
    itself.start()
    itself.join(0.2)
    assert journal.state.connectors["slow"].target is Target.STOPPED  # not while it is moved
    may_go_on.set()
    for thread in (moving, itself):
        thread.join(5)
    assert journal.state.connectors["slow"].target is Target.RUNNING
