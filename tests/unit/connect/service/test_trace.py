"""Why a connector failed, in words its user knows."""

from __future__ import annotations

import pytest

from kafkeep.connect.service.trace import format_trace, in_keys
from kafkeep.errors import PreflightError


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("append with --into-non-empty.", "append with restore.into.non.empty."),
        ("(--topics a:new-a), or delete it", "(topics a:new-a), or delete it"),
        ("--partitions and --groups", "restore.partitions and restore.groups"),
        ("--port, --no-such-flag", "--port, --no-such-flag"),
        ("kafkeep restore --schemas map", "kafkeep restore --schemas map"),
        ("a-b--c, key=--", "a-b--c, key=--"),
    ],
)
def test_flags_of_a_restore_are_named_as_a_connectors_keys(said: str, shown: str) -> None:
    assert in_keys(said) == shown


def test_a_trace_tells_message_hint_and_causes_in_keys() -> None:
    try:
        try:
            raise ValueError("--allow-missing is data here")
        except ValueError as cause:
            raise PreflightError("back is not empty", hint="Append: --into-non-empty.") from cause
    except PreflightError as error:
        lines = format_trace(error).splitlines()
    assert lines[0] == "kafkeep.errors.PreflightError: back is not empty"
    assert lines[1] == "Append: restore.into.non.empty."
    assert "Caused by: builtins.ValueError: --allow-missing is data here" in lines
