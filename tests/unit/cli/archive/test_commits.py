from __future__ import annotations

from tests.support.archive_builder import Built
from tests.support.invoke import Cli

from kafkeep.archive.keys import log_key
from kafkeep.store.memory import MemoryStore


def test_commits_lists_the_newest_first_with_what_each_brought(
    cli: Cli, address: str, built: Built
) -> None:
    (log,) = cli.document("commits", "--archive", address)["logs"]
    found = {one["commit"]: one for one in log["commits"]}
    assert list(found) == sorted(found, reverse=True) and log["newest"] == max(found)
    orders = found[1]
    assert (orders["records"], orders["objects"], orders["topics"]) == (300, 3, 1)
    assert (orders["gaps"], orders["gap_offsets"]) == (1, 5)
    assert sum(one["records"] for one in found.values()) == sum(e.records for e in built.entries)
    assert all(one["writer"] == "test-backup" for one in found.values())
    assert cli.run("commits", "--archive", address) == 0
    assert b"orders" in cli.out and b"1 groups moved" in cli.out


def test_commits_lists_a_page(cli: Cli, address: str, built: Built) -> None:
    asked = ("commits", "--archive", address, "-c", "2")
    (log,) = cli.document(*asked)["logs"]
    newest = log["newest"]
    assert [one["commit"] for one in log["commits"]] == [newest, newest - 1]
    (log,) = cli.document(*asked, "--before", "2")["logs"]
    assert [one["commit"] for one in log["commits"]] == [1, 0]


def test_a_damaged_commit_is_named_and_the_others_are_listed(
    cli: Cli, address: str, built: Built, store: MemoryStore
) -> None:
    built.log.checkpoint()
    store.delete(log_key("backup", 1))
    (log,) = cli.document("commits", "--archive", address, code=13)["logs"]
    broken = [one["commit"] for one in log["commits"] if one["problem"]]
    assert broken == [1] and len(log["commits"]) == log["newest"] + 1


def test_an_empty_archive_has_no_commits(cli: Cli, address: str) -> None:
    assert cli.run("commits", "--archive", address) == 10
