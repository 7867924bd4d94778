"""An archive in memory and a command line to look at it with."""

from __future__ import annotations

import uuid

import pytest
from tests.support.archive_builder import Built, build_archive, partition
from tests.support.invoke import Cli

from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.store.memory import MemoryStore


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in ("KAFKEEP_ARCHIVE", "KAFKEEP_BOOTSTRAP_SERVERS", "KAFKEEP_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return Cli(capsysbinary)


@pytest.fixture
def address() -> str:
    return f"memory:{uuid.uuid4().hex}"


@pytest.fixture
def store(address: str) -> MemoryStore:
    return MemoryStore.shared(address.removeprefix("memory:"))


@pytest.fixture
def built(store: MemoryStore) -> Built:
    """Two topics, one of them re-created, a gap and a group."""
    return build_archive(
        store,
        {
            "orders": [partition(0, 100, 250), partition(10, 60, gaps=[OffsetRange(5, 10)])],
            "orders~2": [partition(0, 20)],
            "events": [partition(0, 30)],
        },
        groups={"billing": {PartitionId("orders", 1, 0): 42}},
    )
