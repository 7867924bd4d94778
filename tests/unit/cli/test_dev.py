"""``kafkeep dev`` prints what it knows as the other commands do."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.invoke import Cli

from kafkeep import dev
from kafkeep.dev import DevStatus
from kafkeep.dev.state import BrokerStatus, S3Status

S3 = S3Status("seaweedfs", "http://127.0.0.1:1", "key", "word", "r", "b", None, False, "s3.log")
STATUS = DevStatus("f", "k:1", (BrokerStatus(1, "k:1", 7, True, "k.log"),), S3, None, ())


def test_the_status_is_one_document_on_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "status", lambda _folder: STATUS)
    assert cli.run("dev", "status", "--output", "json") == 1
    assert cli.out.count(b"\n") == 1
    assert json.loads(cli.out) == json.loads(json.dumps(STATUS.to_json()))
