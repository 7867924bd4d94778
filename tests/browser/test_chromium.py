"""``make browser`` installs Chromium, or says in a sentence that it cannot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = shutil.which("make")
SENTENCE = "Chromium cannot be installed here. Install it so that PATH has the command chromium:"

pytestmark = pytest.mark.skipif(MAKE is None, reason="there is no make")


def make_browser(commands: Path, **scripts: str) -> subprocess.CompletedProcess[str]:
    """Run the target with no other commands on PATH than these."""
    commands.mkdir()
    for name, script in scripts.items():
        file = commands / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    return subprocess.run(
        [str(MAKE), "browser"],
        cwd=ROOT,
        env={"PATH": str(commands)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "scripts",
    [
        {"id": "echo 1000"},
        {"id": "echo 0"},
        {"id": "echo 0", "apt_get": "echo 'E: Unable to locate package chromium' >&2; exit 100"},
    ],
    ids=["another user", "no apt-get", "apt-get fails"],
)
def test_make_says_in_a_sentence_that_chromium_cannot_be_installed(
    scripts: dict[str, str], tmp_path: Path
) -> None:
    named = {name.replace("_", "-"): script for name, script in scripts.items()}
    done = make_browser(tmp_path / "bin", **named)
    assert done.returncode != 0
    assert SENTENCE in done.stdout


def test_make_installs_nothing_when_chromium_is_there(tmp_path: Path) -> None:
    done = make_browser(tmp_path / "bin", chromium="exit 0", id="exit 9")
    assert done.returncode == 0, done.stderr
