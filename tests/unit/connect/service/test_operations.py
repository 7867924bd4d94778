"""What changes connectors, on the worker that leads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.connect.model import RestError, TargetState
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.service import operations
from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.leader import Leader
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.state import StateChange
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.store.memory import MemoryStore

CONFIG = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "2",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "store.url": "http://good.example.org",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "not-to-show",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}


def leader_of(journal: Journal, **supervisor: Any) -> Leader:
    loop: Any = SimpleNamespace(
        journal=journal, commit=journal.commit, supervisor=SimpleNamespace(**supervisor)
    )
    unused: Any = None
    return Leader(loop, Definitions(providers=Providers()), unused, Loggers(lambda: 1))


def test_a_connector_that_is_slow_to_stop_holds_up_no_other_one() -> None:
    asked, may_go_on = threading.Event(), threading.Event()

    def wait_ended(_name: str, _timeout_s: float) -> bool:
        asked.set()
        may_go_on.wait(2 * PATIENCE_S)
        return False

    journal = Journal(MemoryStore())
    for name in ("slow", "other"):
        journal.commit(
            lambda _, name=name: StateChange(kind="define", name=name, target=TargetState.STOPPED)  # type: ignore[misc]
        )
    leader = leader_of(journal, wait_ended=wait_ended)

    def move() -> None:
        with pytest.raises(RestError, match="haven't stopped completely yet"):
            operations.reset_offsets.run(leader, "slow")

    moving = threading.Thread(target=move, daemon=True)
    moving.start()
    assert asked.wait(PATIENCE_S)
    resuming = threading.Thread(
        target=operations.set_target.run, args=(leader, "other", TargetState.RUNNING), daemon=True
    )
    resuming.start()
    resuming.join(PATIENCE_S)
    assert journal.state.connectors["other"].target is TargetState.RUNNING
    itself = threading.Thread(
        target=operations.set_target.run, args=(leader, "slow", TargetState.RUNNING), daemon=True
    )
    itself.start()
    itself.join(0.2)
    assert journal.state.connectors["slow"].target is TargetState.STOPPED  # not while it is moved
    may_go_on.set()
    for thread in (moving, itself):
        thread.join(PATIENCE_S)
    assert journal.state.connectors["slow"].target is TargetState.RUNNING


def test_a_patch_keeps_secrets_but_sends_none_of_them_to_a_new_address() -> None:
    journal = Journal(MemoryStore())
    leader = leader_of(journal)
    operations.create.run(leader, "one", CONFIG, TargetState.RUNNING)
    changed = operations.patch_config.run(
        leader, "one", {"flush.size": "7", "tasks.max": None}
    ).config
    kept = {**CONFIG, "name": "one", "flush.size": "7"}
    del kept["tasks.max"]
    assert changed == kept
    assert journal.state.connectors["one"].config == kept
    with pytest.raises(RestError, match=r"aws\.secret\.access\.key: must be written out again"):
        operations.patch_config.run(leader, "one", {"store.url": "http://evil.example.org"})
    assert journal.state.connectors["one"].config == kept
    moved = {"store.url": "http://new.example.org", "aws.secret.access.key": "of-the-new-one"}
    operations.patch_config.run(leader, "one", {**moved, "aws.access.key.id": "AKIB"})
    assert journal.state.connectors["one"].config == {**kept, **moved, "aws.access.key.id": "AKIB"}
