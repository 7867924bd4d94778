"""The commands of the README and of the guides run, one after the other, in one shell.

Blocks marked ``<!-- run -->`` run. The first block of the README starts services, and its last one
removes them. The blocks of other pages use these services and run before the last.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafkeep.dev import stop

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"<!-- run -->\n```bash\n(.*?)```", re.DOTALL)
SERVICES = "kafkeep-services"
GUIDES = sorted(page for page in (ROOT / "docs").glob("*.md") if "<!-- run -->" in page.read_text())


def _blocks(page: Path) -> list[str]:
    found = _BLOCK.findall(page.read_text())
    assert len(found) == page.read_text().count("<!-- run -->"), page
    return found


def _script() -> str:
    *first, last = _blocks(ROOT / "README.md")
    assert len(first) >= 3
    assert "dev down" in last
    guides = [block for page in GUIDES for block in _blocks(page)]
    return "\n".join(["set -euo pipefail", *first, *guides, last])


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "KAFKEEP_BOOTSTRAP", "KAFKEEP_ARCHIVE", "PYTEST"))
    }
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}


def test_the_guide_to_the_sink_has_commands_that_run() -> None:
    assert ROOT / "docs" / "sink.md" in GUIDES


@pytest.mark.integration
def test_the_commands_of_the_readme_and_the_guides_run(tmp_path: Path) -> None:
    try:
        done = subprocess.run(
            ["bash", "-c", _script()],
            cwd=tmp_path,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        stop(tmp_path / SERVICES, purge=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "✔ orders" in done.stdout
    assert "✘" not in done.stdout
    assert "topics/orders/product=Laptop/orders+0+" in done.stdout
    assert not (tmp_path / SERVICES).exists()
