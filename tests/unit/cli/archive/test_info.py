from __future__ import annotations

from tests.support.archive_builder import FIRST_MS, Built
from tests.support.invoke import Cli


def test_info_reports_topics_partitions_and_groups(cli: Cli, address: str, built: Built) -> None:
    (log,) = cli.document("info", "--archive", address)["logs"]
    assert (log["log"], log["commits"], log["commit"]) == ("backup", 5, 4)
    topics = {(t["topic"], t["incarnation"]): t for t in log["topics"]}
    assert set(topics) == {("events", 1), ("orders", 1), ("orders", 2)}
    orders = topics["orders", 1]
    assert (orders["records"], orders["objects"], orders["gap_offsets"]) == (300, 3, 5)
    first, second = orders["partitions"]
    assert (first["start"], first["end"], first["first_ms"]) == (0, 250, FIRST_MS)
    assert (second["start"], second["end"], second["records"]) == (5, 60, 50)
    assert second["holes"] == 0
    (gap,) = second["gaps"]
    assert (gap["start"], gap["end"], gap["reason"]) == (5, 10, "retention")
    assert log["groups"] == {
        "billing": [{"topic": "orders", "incarnation": 1, "partition": 0, "offset": 42}]
    }


def test_info_reads_well(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("info", "--archive", address, "--topic", "orders") == 0
    shown = cli.out.decode()
    assert "log backup: 5 commits" in shown
    assert "orders~2" in shown
    assert "events" not in shown
    assert "gap in orders-1: offsets 5 to 9: retention" in shown


def test_info_exits_10_for_an_unknown_log_or_topic(cli: Cli, address: str, built: Built) -> None:
    assert cli.run("info", "--archive", address, "--name", "other") == 10
    assert "There is: backup." in cli.err
    assert cli.run("info", "--archive", address, "--topic", "nothing") == 10
