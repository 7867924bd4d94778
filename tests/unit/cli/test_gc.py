from __future__ import annotations

import pytest
from tests.support.archive_builder import Built
from tests.support.invoke import Cli

from kafkeep.archive.adoption import object_metadata
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.errors import AccessDeniedError
from kafkeep.options.maintenance import DAY_MS
from kafkeep.store.memory import MemoryStore

LEFT = "topics/orders/partition=0/left.log.zst"


@pytest.fixture
def left(store: MemoryStore, built: Built) -> str:
    """An object that was written twice, a day ago."""
    planned = PlannedRange(
        partition_id=PartitionId("orders", 1, 0), topic_id="id-orders", range=OffsetRange(0, 100)
    )
    metadata = object_metadata(writer="backup", planned=planned, start=0, plan="p", end=100)
    store.put_new(LEFT, b"12345", metadata)
    stamped = store.now_ms
    store.now_ms = lambda: stamped() + DAY_MS  # type: ignore[method-assign]
    return LEFT


def test_gc_shows_with_dry_run_what_it_removes_without(
    cli: Cli, address: str, store: MemoryStore, left: str
) -> None:
    plan = cli.document("gc", "--archive", address, "--dry-run")
    assert (plan["remove"], plan["removed"], plan["removed_bytes"]) == (1, 0, 0)
    assert store.get(left) == b"12345"
    assert cli.run("gc", "--archive", address) == 0
    assert left.encode() in cli.out and b"removed" in cli.out
    after = cli.document("gc", "--archive", address)
    assert (after["left_overs"], after["removed"]) == ([], 0)


def test_gc_takes_an_age_and_refuses_one_that_is_too_young(
    cli: Cli, address: str, left: str
) -> None:
    plan = cli.document("gc", "--archive", address, "--older-than", "25h")
    assert (plan["keep"], plan["removed"]) == (1, 0)
    assert cli.document("gc", "--archive", address, "--older-than", "24h")["removed"] == 1
    assert cli.run("gc", "--archive", address, "--older-than", "59m") == 2
    assert "less than 1h" in cli.err and "hint: " in cli.err


def test_gc_exits_with_12_when_the_store_refuses(
    cli: Cli, address: str, store: MemoryStore, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(key: str) -> None:
        raise AccessDeniedError(f"deleting {key}: AccessDenied")

    monkeypatch.setattr(store, "delete", delete)
    done = cli.document("gc", "--archive", address, code=12)
    assert (done["refused"], done["removed"]) == (1, 0)
    assert "s3:DeleteObject" in cli.err


def test_gc_of_nothing_exits_with_10(cli: Cli, address: str) -> None:
    assert cli.run("gc", "--archive", address) == 10
