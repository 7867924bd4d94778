"""A log cut below its own checkpoint, in front of every command that reads an archive."""

from __future__ import annotations

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.invoke import Cli

from kafkeep.archive.keys import log_key
from kafkeep.store.memory import MemoryStore


@pytest.fixture
def cut(store: MemoryStore) -> None:
    """Commit 1 has ``orders``, commits 2 and 3 other topics, and were removed."""
    topics = {"orders": [partition(0, 10)], "events": [partition(0, 20)], "logs": [partition(0, 5)]}
    build_archive(store, topics, checkpoint=True)
    store.delete(log_key("backup", 2))
    store.delete(log_key("backup", 3))


@pytest.mark.parametrize(
    "command",
    [
        ("info",),
        ("ls",),
        ("du",),
        ("cat", "--topic", "orders"),
        ("gc",),
        ("retention", "set", "--topics", "orders", "--days", "3"),
        ("groups", "show"),
        ("schemas", "list"),
    ],
)
def test_info_and_every_other_command_exit_13_on_a_log_cut_below_its_own_checkpoint(
    cli: Cli, address: str, cut: None, command: tuple[str, ...]
) -> None:
    assert cli.run(*command, "--archive", address) == 13, cli.err
    assert "backup: commits from 2 on were removed from the log" in cli.err
    assert "25 offsets are lost with them: 0 to 19 of events-0, 0 to 4 of logs-0" in cli.err
    assert "kafkeep restore --name backup --commit 1" in cli.err


def test_verify_names_the_removed_commits_and_checks_what_is_left(
    cli: Cli, address: str, cut: None
) -> None:
    report = cli.document("verify", "--archive", address, code=13)
    (found,) = [f for f in report["findings"] if f["severity"] == "damage"]
    assert found["kind"] == "broken-chain"
    assert found["message"] == (
        "belongs to commit 3, which was removed from the log; 25 offsets are lost with them: "
        "0 to 19 of events-0, 0 to 4 of logs-0"
    )
    assert report["objects"] == 1


def test_a_log_whose_commits_were_all_removed_is_damaged(
    cli: Cli, address: str, store: MemoryStore, cut: None
) -> None:
    for number in range(2):
        store.delete(log_key("backup", number))
    for command in ("info", "verify", "gc"):
        assert cli.run(command, "--archive", address) == 13, cli.err
