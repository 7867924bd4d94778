"""``kafkeep dev`` prints what it knows as the other commands do."""

from __future__ import annotations

import json

import pytest
from tests.support.invoke import Cli

from kafkeep import dev
from kafkeep.dev import DevStatus, tools
from kafkeep.dev.state import BrokerStatus, S3Status, ServerState

S3 = S3Status(
    "seaweedfs", "http://h:1", "key", "word", "r", "b", None, False, "s3.log", ServerState.DOWN
)
KAFKA = BrokerStatus(1, "k:1", 7, True, "k.log", ServerState.STARTING)
STATUS = DevStatus("f", "3.9.1", "k:1", (KAFKA,), S3, None, ())


def test_the_status_is_one_document_on_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "status", lambda _folder: STATUS)
    assert cli.run("dev", "status", "--output", "json") == 1
    assert cli.out.count(b"\n") == 1
    assert json.loads(cli.out) == json.loads(json.dumps(STATUS.to_json()))


def test_a_server_that_is_starting_is_not_shown_as_up_or_down(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "status", lambda _folder: STATUS)
    assert cli.run("dev", "status") == 1
    rows = [line.split() for line in cli.out.decode().splitlines()]
    assert ["kafka", "1", "(3.9.1)", "k:1", "7", "starting"] in rows
    assert ["s3", "(seaweedfs)", "http://h:1", "-", "down"] in rows


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Keep the commands that would replace this process, by their names and arguments."""
    found: list[list[str]] = []
    monkeypatch.setattr(dev, "status", lambda _folder: STATUS)
    monkeypatch.setattr(tools, "kafka_tool", lambda *words, kafka: [kafka, *words])
    monkeypatch.setattr("os.execv", lambda _path, argv: found.append(argv[1:]))
    return found


def test_a_tool_of_kafka_gets_its_arguments_and_the_address(
    cli: Cli, executed: list[list[str]]
) -> None:
    assert cli.run("dev", "tool", "kafka-topics", "--describe", "--topic", "a b") == 0
    assert cli.run("dev", "tool", "kafka-topics.sh", "--bootstrap-server", "k:2", "--list") == 0
    assert cli.run("dev", "tool", "kafka-dump-log", "--files", "x", "--help") == 0
    assert executed == [
        ["kafka-topics", "--bootstrap-server", "k:1", "--describe", "--topic", "a b"],
        ["kafka-topics", "--bootstrap-server", "k:2", "--list"],
        ["kafka-dump-log", "--files", "x", "--help"],
    ]


def test_a_tool_that_kafka_does_not_have_is_refused_with_the_names_of_those_it_has(
    cli: Cli, executed: list[list[str]]
) -> None:
    assert cli.run("dev", "tool", "kafka-topic", "--list") == 2
    assert "Kafka has no tool 'kafka-topic'" in cli.err
    assert "kafka-topics" in cli.err
    assert executed == []
