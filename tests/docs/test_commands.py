"""Every command block of the pages says whether it runs, and is valid.

What a comment above a block means is in ``tests/support/doc_blocks.py``. Blocks that run do so in
files of their own, so that test processes share the work: ``test_start_commands.py``,
``test_tutorial_commands.py`` and ``test_guide_commands.py``. The pages of a group share a shell,
its variables, the services and the Connect service, so a step that all of them need costs its time
once. Commands that cannot run here are parsed by kafkeep's own parser.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml
from tests.support.doc_blocks import Mark, blocks, kafkeep_commands
from tests.support.doc_shell import PAGES, name_of, place_of
from typer.exceptions import TyperException

from kafkeep.cli.main import app

ABRIDGED = "…"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_shell_block_says_whether_it_runs(page: Path) -> None:
    silent = [block.line for block in blocks(page) if block.is_shell and block.mark is None]
    assert silent == [], f"{name_of(page)}: mark the blocks at these lines"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_does_not_run_says_why_and_is_valid_shell(page: Path) -> None:
    for block in blocks(page):
        if block.mark is Mark.NOT:
            assert len(block.text.split()) >= 3, f"{place_of(block)}: give the reason in words"
            done = subprocess.run(
                ["bash", "-n"], input=block.body, text=True, capture_output=True, check=False
            )
            assert done.returncode == 0, f"{place_of(block)}: {done.stderr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of
)
def test_every_kafkeep_command_has_options_that_exist(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_ARCHIVE", "s3://bucket/archive")
    monkeypatch.setenv("KAFKEEP_BOOTSTRAP_SERVERS", "broker:9092")
    for block in blocks(page):
        for arguments in kafkeep_commands(block):
            complaint = _complaint(arguments)
            assert complaint is None, f"{place_of(block)}: kafkeep {arguments}: {complaint}"


def _complaint(arguments: list[str]) -> str | None:
    """Return what kafkeep's parser has against a command; one with `…` may lack something."""
    command, rest = typer.main.get_command(app), list(arguments)
    while rest and rest[0] == "--debug":
        rest.pop(0)
    while children := getattr(command, "commands", None):
        if not rest:
            return None  # shows the help
        verb = rest.pop(0)
        if verb not in children:
            return f"there is no command {verb!r}" if verb not in ("--help", "--version") else None
        command = children[verb]
    # `…` is left out where it stands for more options, and kept where it is a value.
    for words in ([word for word in rest if word != ABRIDGED], rest):
        try:
            command.make_context(command.name, list(words))
        except TyperException as error:
            complaint = str(error)
        else:
            return None
    return complaint


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_json_and_yaml_blocks_parse(page: Path) -> None:
    for block in blocks(page):
        if ABRIDGED in block.body:
            continue
        if block.language == "json":
            for document in re.split(r"\n(?=\{)", block.body.strip()):
                json.loads(document)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.body))
