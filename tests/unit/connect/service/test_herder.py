"""What a worker that does not lead knows of what the leader did."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep.connect.metrics.totals import Totals
from kafkeep.connect.model import Connector, ConnectorStatus, RunState, TargetState, TaskStatus
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.documents import RunDocuments
from kafkeep.connect.service.herder import Herder
from kafkeep.connect.service.lease import Heartbeat
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.state import ServiceState
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.keys import TrackingOptions
from kafkeep.errors import TransientError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.store.memory import MemoryStore

TOLD = ConnectorStatus(
    name="one",
    type="sink",
    version="1",
    state=RunState.RUNNING,
    worker_id="other:1",
    tasks=(TaskStatus(id=0, state=RunState.RUNNING, worker_id="other:1"),),
    generation=3,
)


class Journal:
    """Counts how often it is read, and does something meanwhile."""

    state = ServiceState()
    reads = 0

    def refresh(self) -> ServiceState:
        self.reads += 1
        self.meanwhile()
        return self.state

    def meanwhile(self) -> None:
        """Do nothing."""


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def follower(journal: Journal) -> Herder:
    beat = Heartbeat(
        number=1, epoch=1, worker_id="other:1", url="http://other:1", at_ms=1, statuses=(TOLD,)
    )
    lease = SimpleNamespace(refresh=lambda: None, leader=lambda: beat, holds=lambda: False)
    supervisor = SimpleNamespace(status=lambda _: replace(TOLD, state=RunState.UNASSIGNED))
    loop: Any = SimpleNamespace(
        leads=lambda: False,
        journal=journal,
        lease=lease,
        supervisor=supervisor,
        runs=RunBoard(RunDocuments(MemoryStore()), (), worker_id="me:1"),
    )
    unused: Any = None
    return Herder(
        loop=loop,
        definitions=Definitions(providers=Providers()),
        context_for=unused,
        restores=unused,
        tracking=TrackingOptions(),
        totals=Totals(),
        loggers=Loggers(lambda: 1),
        token="t",
        cluster_id=lambda: None,
        kafka=KafkaOptions("localhost:1"),
        now_ms=lambda: 1,
    )


def test_the_state_is_not_read_for_every_call(follower: Herder, journal: Journal) -> None:
    follower.names()
    follower.names()
    assert journal.reads == 1
    follower.expire_state()
    follower.names()
    assert journal.reads == 2


def test_leader_changes_during_a_state_read_are_read_again(
    follower: Herder, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "meanwhile", follower.expire_state)
    follower.names()
    monkeypatch.undo()
    follower.names()
    assert journal.reads == 2


def test_a_state_that_could_not_be_read_is_read_again_by_the_next_call(
    follower: Herder, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise TransientError("no answer")

    monkeypatch.setattr(journal, "meanwhile", fail)
    for _ in range(2):
        with pytest.raises(TransientError):
            follower.names()
    monkeypatch.undo()
    follower.names()
    assert journal.reads == 3


def test_a_probe_does_not_wait_for_the_store(follower: Herder, journal: Journal) -> None:
    assert follower.is_ready()
    assert journal.reads == 0


def test_a_recreated_paused_connector_is_not_shown_with_the_status_of_the_deleted_one(
    follower: Herder, journal: Journal
) -> None:
    paused = Connector(name="one", config={}, target=TargetState.PAUSED, generation=3)
    journal.state = ServiceState(connectors={"one": paused})
    assert follower.status("one").state is RunState.RUNNING  # until its work has ended
    journal.state = ServiceState(connectors={"one": replace(paused, generation=5)})
    follower.expire_state()
    found = follower.status("one")
    assert [found.state, *(task.state for task in found.tasks)] == [RunState.PAUSED] * 2
