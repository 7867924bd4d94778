"""The scripts for shells complete commands, flags and values; bash runs its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def with_kafkeep(tmp_path: Path) -> dict[str, str]:
    """Variables with which a shell finds ``kafkeep``."""
    program = tmp_path / "kafkeep"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkeep "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


COMPLETE = """
eval "$(_KAFKEEP_COMPLETE=source_bash kafkeep)"
complete -p kafkeep >/dev/null || exit 9
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_kafkeep_completion kafkeep
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("kafkeep", "com"), ["commits"]),
        (("kafkeep", "groups", "ro"), ["rollback"]),
        (("kafkeep", "cat", "--form"), ["--format"]),
        (("kafkeep", "info", "--output", ""), ["table", "json"]),
    ],
)
def test_bash_completes_what_was_typed(
    with_kafkeep: dict[str, str], typed: tuple[str, ...], offered: list[str]
) -> None:
    ran = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", *typed],
        env=with_kafkeep,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == offered


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "compdef _kafkeep_completion kafkeep"), ("fish", "complete")]
)
def test_other_shells_have_a_script(with_kafkeep: dict[str, str], shell: str, line: str) -> None:
    ran = subprocess.run(
        ["kafkeep"],
        env={**with_kafkeep, "_KAFKEEP_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert line in ran.stdout and f"complete_{shell}" in ran.stdout
