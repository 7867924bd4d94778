from __future__ import annotations

from tests.support.archive_builder import Built, build_archive, partition
from tests.support.invoke import Cli

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.store.memory import MemoryStore


def test_diff_shows_topics_offsets_objects_gaps_and_groups(
    cli: Cli, address: str, built: Built
) -> None:
    found = cli.document("diff", "--archive", address, "0")
    assert (found["from_commit"], found["to_commit"]) == (0, built.log.state.commit)
    assert [(t["topic"], t["incarnation"], t["change"]) for t in found["topics"]] == [
        ("events", 1, "new"),
        ("orders", 1, "new"),
        ("orders", 2, "new"),
    ]
    assert set(found["objects"]["added"]) == {entry.key for entry in built.entries}
    first = next(p for p in found["partitions"] if p["topic"] == "orders")
    assert (first["before"], first["after"], first["added"]["records"]) == (None, 250, 250)
    assert [(g["start"], g["end"]) for g in found["gaps"]] == [(5, 10)]
    assert found["groups"] == [
        {
            "group": "billing",
            "topic": "orders",
            "incarnation": 1,
            "partition": 0,
            "before": None,
            "after": 42,
        }
    ]


def test_diff_of_two_commits_shows_only_what_is_between(
    cli: Cli, address: str, built: Built
) -> None:
    asked = ("diff", "--archive", address)
    found = cli.document(*asked, "--from-commit", "2", "--to-commit", "3")
    assert found == cli.document(*asked, "2", "3")
    assert [t["topic"] for t in found["topics"]] == ["events"]
    assert len(found["objects"]["added"]) == 1 and not found["gaps"] and not found["groups"]
    assert cli.run(*asked, "2", "3", "--long") == 0
    assert f"+ {found['objects']['added'][0]}".encode() in cli.out


def test_nothing_changed_between_a_commit_and_itself(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("diff", "--archive", address, "2", "2") == 0
    assert b"nothing changed" in cli.out


def test_a_partition_that_was_moved_back_has_retired_objects(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    built = build_archive(store, {"orders": [partition(0, 100, 250)]})
    before = built.log.state.commit
    pid = PartitionId("orders", 1, 0)
    built.log.append(Changes(retired={pid: 100}, positions={pid: 100}))
    found = cli.document("diff", "--archive", address, str(before))
    (only,) = found["partitions"]
    assert (only["before"], only["after"]) == (250, 100)
    assert (only["retired"]["objects"], only["retired"]["records"]) == (1, 150)
    assert found["objects"] == {"added": [], "retired": [built.entries[1].key]}


def test_commits_that_cannot_be_compared_are_refused(cli: Cli, address: str, built: Built) -> None:
    asked = ("diff", "--archive", address)
    assert cli.run(*asked) == 2 and "FROM is missing" in cli.err
    assert cli.run(*asked, "3", "1") == 2 and "Write the earlier one first" in cli.err
    assert cli.run(*asked, "1", "--from-commit", "1") == 2
    assert cli.run(*asked, "1", "99") == 10
