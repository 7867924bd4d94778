"""Runs the command blocks of pages in one shell, on services of their own."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.doc_blocks import Block, Mark, blocks

from kafkeep import kernel_cache
from kafkeep.dev import stop
from kafkeep.options.spark import RESIDENT_VARIABLE
from kafkeep.spark.class_archive import cache_folder

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "deploy").glob("*.md")])
START = [ROOT / "README.md", DOCS / "start.md"]
_NAV = (ROOT / "mkdocs.yml").read_text()
TUTORIALS = sorted(DOCS.glob("tutorials/*.md"), key=lambda page: _NAV.index(page.name))
GUIDES = [*sorted(DOCS.glob("guides/*.md")), *sorted(DOCS.glob("operate/*.md"))]
GROUPS = {
    "start": [*START, *sorted(page for page in DOCS.glob("*.md") if page not in START)],
    "tutorials": TUTORIALS,
    "guides": GUIDES,
}
"""Pages that run in one shell, on one set of services, in this order."""
FOLDERS = (".kafkeep-dev", "kafkeep-services", "old-cluster", "new-cluster")
UNTIL_S = 180


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def place_of(block: Block) -> str:
    return f"{name_of(block.page)}:{block.line}"


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
        yield f"echo {number} > {folder}/at; printf '%s %s\\n' $SECONDS {place_of(block)} >&2"
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


@contextmanager
def _resident_session(cache: Path) -> Iterator[dict[str, str]]:
    """Start a resident session for the commands of one group: none waits for Spark to start.

    Its cache is its own, so that no other test takes the session; what the cache holds is not.
    """
    cache.mkdir()
    for one in cache_folder().iterdir():
        if not one.name.startswith("resident-"):
            (cache / one.name).symlink_to(one)
    kernels = str(kernel_cache._bases()[0].parent)
    more = {"KAFKEEP_CACHE": str(cache), "NUMBA_CACHE_DIR": kernels, RESIDENT_VARIABLE: "on"}
    environment = {**_environment(), **more}
    subprocess.run(["kafkeep", "spark", "start"], env=environment, check=True)
    try:
        yield environment
    finally:
        subprocess.run(["kafkeep", "spark", "stop"], env=environment, check=True)


def run_group(group: str, tmp_path: Path) -> None:
    """Run the pages of a group; fail with the block and its output when a command fails."""
    notes, work = tmp_path / "notes", tmp_path / "work"
    notes.mkdir()
    work.mkdir()
    plan = _plan(GROUPS[group])
    (notes / "all.sh").write_text("\n".join(_script(plan, notes)) + "\n")
    session = _resident_session(tmp_path / "cache")
    with session as environment, (notes / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", str(notes / "all.sh")],
            cwd=work,
            env=environment,
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
        pytest.fail(f"{place_of(plan[number])} failed:\n{plan[number].body}\n{output}")
    left = [folder for folder in FOLDERS if (work / folder).exists()]
    assert not left, "the last block of a page must remove the services"
