from __future__ import annotations

from tests.support.archive_builder import Built, build_archive, partition
from tests.support.invoke import Cli

from kafkeep.store.memory import MemoryStore


def test_du_adds_up_to_what_the_store_holds(
    cli: Cli, address: str, store: MemoryStore, built: Built
) -> None:
    store.put_new("topics/orders/partition=0/left.log.zst", b"12345")
    usage = cli.document("du", "--archive", address)
    assert usage["total_bytes"] == sum(info.size_bytes for info in store.list(""))
    assert (usage["orphans"], usage["orphan_bytes"]) == (1, 5)
    assert [t["topic"] for t in usage["topics"]] == ["events", "orders", "orders~2"]
    assert abs(sum(t["share"] for t in usage["topics"]) - 1) < 0.001


def test_du_of_one_log_does_not_call_the_others_orphans(
    cli: Cli, address: str, store: MemoryStore, built: Built
) -> None:
    build_archive(store, {"logs": [partition(0, 10)]}, name="other")
    usage = cli.document("du", "--archive", address, "--name", "other")
    assert [t["topic"] for t in usage["topics"]] == ["logs"]
    assert usage["orphans"] == 0
    assert cli.run("du", "--archive", address) == 0
    assert b"left-overs" in cli.out
