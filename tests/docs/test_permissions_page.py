"""The page of permissions covers every command, and its policies say what its tables say."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer.main
from tests.support import permissions_page as page
from tests.support.permissions_page import BUCKET, StoreRight

from kafkeep.cli.main import app

ARN = "arn:aws:s3:::backups"
NEITHER = {"demo", "dev", "man", "plan-capacity", "register", "spark", "user"}
"""Commands that reach services of this machine, or a running service, or nothing."""


def test_every_command_is_in_the_tables() -> None:
    verbs = set(getattr(typer.main.get_command(app), "commands", {}))
    covered = {name.split()[0] for name in page.commands("kafka", "s3")}
    assert covered == verbs - NEITHER


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_policy_grants_what_its_table_lists(command: str) -> None:
    policy = json.loads(page.json_blocks()[command])
    granted = {
        StoreRight(action, _key(statement["Resource"]))
        for statement in policy["Statement"]
        for action in _list(statement["Action"])
    }
    assert granted == page.store_rights(command)
    assert {statement["Effect"] for statement in policy["Statement"]} == {"Allow"}


def _key(arn: str) -> str:
    return BUCKET if arn == ARN else arn.removeprefix(f"{ARN}/prod/")


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
