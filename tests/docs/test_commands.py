"""The commands of the README, the start page, the tutorials and the guides run.

What a comment above a block means is in ``tests/support/doc_blocks.py``. The pages of a group share
a shell, its variables, the services and the Connect service, so a step that all of them need costs
its time once. Commands that cannot run here are parsed by kafkeep's own parser.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import typer.main
import yaml
from tests.support.doc_blocks import Block, Mark, blocks, kafkeep_commands
from typer.exceptions import TyperException

from kafkeep.cli.main import app
from kafkeep.dev import stop

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "deploy").glob("*.md")])
START = [ROOT / "README.md", DOCS / "start.md"]
_NAV = (ROOT / "mkdocs.yml").read_text()
TUTORIALS = sorted(DOCS.glob("tutorials/*.md"), key=lambda page: _NAV.index(page.name))
GUIDES = [*sorted(DOCS.glob("guides/*.md")), *sorted(DOCS.glob("operate/*.md"))]
STORIES = [*START, *TUTORIALS, *GUIDES]
"""Pages whose shell blocks all say whether they run."""
GROUPS = {
    "start": [*START, *sorted(page for page in DOCS.glob("*.md") if page not in START)],
    "tutorials": TUTORIALS,
    "guides": GUIDES,
}
"""Pages that run in one shell, on one set of services, in this order."""
FOLDERS = (".kafkeep-dev", "kafkeep-services", "old-cluster", "new-cluster")
UNTIL_S = 180
ABRIDGED = "…"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _place(block: Block) -> str:
    return f"{_name(block.page)}:{block.line}"


def _plan(pages: list[Path]) -> list[Block]:
    """Return the blocks that run, in order: each shared one once, the last ones at the end."""
    found = [block for page in pages for block in blocks(page)]
    shared: set[str] = set()
    order, last = [], []
    for block in found:
        if block.mark in (Mark.ONCE, Mark.LAST):
            if block.body in shared:
                continue
            shared.add(block.body)
        if block.mark is Mark.LAST:
            last.append(block)
        elif block.mark not in (None, Mark.NOT):
            order.append(block)
    return [*order, *last]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _script(plan: list[Block], folder: Path) -> Iterator[str]:
    """Yield the lines of a shell that stops at the first block that fails, and says where it is."""
    port = str(_free_port())  # 8083 may be in use on this machine

    def found(block: Block, output: Path) -> str:
        return f"grep -qF -- {shlex.quote(block.text)} {output}"

    yield "set -euo pipefail"
    for number, block in enumerate(plan):
        source, output = folder / f"{number}.sh", folder / f"{number}.out"
        source.write_text(block.body.replace("8083", port))
        yield f"echo {number} > {folder}/at; printf '%s %s\\n' $SECONDS {_place(block)} >&2"
        if block.mark is Mark.UNTIL:
            yield f"deadline=$((SECONDS + {UNTIL_S}))"
            yield f"until {{ . {source} > {output} 2>&1 || true; }}; {found(block, output)}; do"
            yield "test $SECONDS -lt $deadline; sleep 0.5; done"
        else:
            yield f". {source} > {output} 2>&1"
            if block.text:
                yield found(block, output)


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "KAFKEEP_BOOTSTRAP", "KAFKEEP_ARCHIVE", "PYTEST"))
    }
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}


@pytest.mark.integration
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", GROUPS)
def test_the_commands_of_the_pages_run(group: str, tmp_path: Path) -> None:
    notes, work = tmp_path / "notes", tmp_path / "work"
    notes.mkdir()
    work.mkdir()
    plan = _plan(GROUPS[group])
    (notes / "all.sh").write_text("\n".join(_script(plan, notes)) + "\n")
    with (notes / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", str(notes / "all.sh")],
            cwd=work,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = shell.wait(1700)
        finally:
            with suppress(ProcessLookupError):  # what a page left in the background
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            for folder in FOLDERS:
                stop(work / folder, purge=True)
    log_text = (notes / "log").read_text()
    print(log_text)
    if code:
        number = int((notes / "at").read_text())
        output = (notes / f"{number}.out").read_text()[-6000:]
        pytest.fail(f"{_place(plan[number])} failed:\n{plan[number].body}\n{output}")
    left = [folder for folder in FOLDERS if (work / folder).exists()]
    assert not left, "the last block of a page must remove the services"


@pytest.mark.parametrize("page", STORIES, ids=_name)
def test_every_shell_block_says_whether_it_runs(page: Path) -> None:
    silent = [block.line for block in blocks(page) if block.is_shell and block.mark is None]
    assert silent == [], f"{_name(page)}: mark the blocks at these lines"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_block_that_does_not_run_says_why_and_is_valid_shell(page: Path) -> None:
    for block in blocks(page):
        if block.mark is Mark.NOT:
            assert len(block.text.split()) >= 3, f"{_place(block)}: give the reason in words"
            done = subprocess.run(
                ["bash", "-n"], input=block.body, text=True, capture_output=True, check=False
            )
            assert done.returncode == 0, f"{_place(block)}: {done.stderr}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=_name)
def test_every_kafkeep_command_has_options_that_exist(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_ARCHIVE", "s3://bucket/archive")
    monkeypatch.setenv("KAFKEEP_BOOTSTRAP_SERVERS", "broker:9092")
    for block in blocks(page):
        for arguments in kafkeep_commands(block):
            complaint = _complaint(arguments)
            assert complaint is None, f"{_place(block)}: kafkeep {arguments}: {complaint}"


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


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_json_and_yaml_blocks_parse(page: Path) -> None:
    for block in blocks(page):
        if ABRIDGED in block.body:
            continue
        if block.language == "json":
            for document in re.split(r"\n(?=\{)", block.body.strip()):
                json.loads(document)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.body))
