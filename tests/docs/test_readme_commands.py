"""The commands of the README do what they say: run one after the other, in one shell."""

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


def _script() -> str:
    blocks = _BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 4
    return "\n".join(["set -euo pipefail", *blocks])


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "KAFKEEP_BOOTSTRAP", "KAFKEEP_ARCHIVE", "PYTEST"))
    }
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}


@pytest.mark.integration
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    try:
        done = subprocess.run(
            ["bash", "-c", _script()],
            cwd=tmp_path,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    finally:
        stop(tmp_path / SERVICES, purge=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "✔ orders" in done.stdout
    assert "✘" not in done.stdout
    assert not (tmp_path / SERVICES).exists()
