from __future__ import annotations

from tests.support.archive_builder import Built
from tests.support.invoke import Cli


def test_ls_lists_objects_by_topic_partition_and_offset(
    cli: Cli, address: str, built: Built
) -> None:
    listed = cli.document("ls", "--archive", address)["objects"]
    places = [(o["topic"], o["incarnation"], o["partition"], o["start"]) for o in listed]
    assert places == sorted(places)
    assert {o["key"] for o in listed} == {entry.key for entry in built.entries}
    assert "index" not in listed[0]


def test_ls_picks_topics_and_partitions(cli: Cli, address: str, built: Built) -> None:
    args = ("ls", "--archive", address, "--topic", "orders", "--partition", "1")
    (only,) = cli.document(*args)["objects"]
    assert (only["start"], only["end"], only["records"]) == (10, 60, 50)
    assert cli.run(*args, "--long") == 0
    assert only["sha256"][:12].encode() in cli.out


def test_ls_names_a_partition_that_no_topic_has(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("ls", "--archive", address, "--partition", "1") == 0
    assert cli.run("ls", "--archive", address, "--topic", "events", "--partition", "1") == 10
    assert "there are 1 of events.\n" in cli.err
