"""docs/cli.md names every flag of the commands it describes, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from kafkeep.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
VERBS = ("backup", "restore", "verify", "info", "ls", "du", "cat", "doctor")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def flags(verb: str) -> set[str]:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    found = {name for parameter in command.params for name in parameter.opts}
    return {name for name in found if name.startswith("--")} - {"--help"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


SHARED = set(_FLAG.findall(section("What all commands share")))


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_names_every_flag_of_a_verb(verb: str) -> None:
    assert flags(verb) - SHARED <= set(_FLAG.findall(section(f"kafkeep {verb}")))


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_names_no_flag_that_a_verb_lacks(verb: str) -> None:
    assert set(_FLAG.findall(section(f"kafkeep {verb}"))) <= flags(verb)
