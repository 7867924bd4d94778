"""docs/cli.md knows every command and every flag there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer.main

from kafkeep.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cli.md"


def _commands() -> Iterator[tuple[str, click.Command]]:
    def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        children = getattr(command, "commands", None)
        if not children:
            yield name, command
            return
        for child, inner in children.items():
            yield from walk(f"{name} {child}", inner)

    yield from walk("kafkeep", typer.main.get_command(app))


COMMANDS = dict(_commands())


def _flags(command: click.Command) -> set[str]:
    return {flag for p in command.params for flag in p.opts if flag.startswith("--")} - {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_the_command(name: str) -> None:
    assert name in PAGE.read_text(), f"docs/cli.md does not tell of `{name}`"


@pytest.mark.parametrize("verb", sorted({name.split()[1] for name in COMMANDS}))
def test_the_overview_at_the_top_has_the_command(verb: str) -> None:
    overview = PAGE.read_text().split("```")[1]
    assert re.search(rf"kafkeep {verb} ", overview)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_names_every_flag_of_the_command(name: str) -> None:
    text = PAGE.read_text()
    missing = {flag for flag in _flags(COMMANDS[name]) if not re.search(rf"{flag}(?![\w-])", text)}
    assert not missing, f"docs/cli.md lacks flags of {name}: {sorted(missing)}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_says_what_it_does(name: str) -> None:
    assert COMMANDS[name].help


def test_exit_codes_page_names_every_command_that_has_codes_of_its_own() -> None:
    text = (ROOT / "docs" / "exit-codes.md").read_text()
    for name in (
        "backup",
        "restore",
        "verify",
        "info",
        "ls",
        "du",
        "gc",
        "cat",
        "find",
        "commits",
        "diff",
        "doctor",
        "demo",
    ):
        assert f"`{name}`" in text
