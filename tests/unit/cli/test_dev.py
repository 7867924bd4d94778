"""``kafkeep dev`` prints what it knows as the other commands do."""

from __future__ import annotations

import json

import pytest
from tests.support.invoke import Cli

from kafkeep import dev
from kafkeep.dev import DevStatus
from kafkeep.dev.state import BrokerStatus, S3Status, ServerState

S3 = S3Status(
    "seaweedfs", "http://h:1", "key", "word", "r", "b", None, False, "s3.log", ServerState.DOWN
)
KAFKA = BrokerStatus(1, "k:1", 7, True, "k.log", ServerState.STARTING)
STATUS = DevStatus("f", "k:1", (KAFKA,), S3, None, ())


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
    assert ["kafka", "1", "k:1", "7", "starting"] in rows
    assert ["s3", "(seaweedfs)", "http://h:1", "-", "down"] in rows
