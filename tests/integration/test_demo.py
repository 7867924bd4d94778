"""The demo ends well, by itself, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


def _demo(temporary: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kafkeep", "demo", *flags],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _left_over(temporary: Path) -> list[str]:
    return [one.name for one in temporary.glob("kafkeep-demo-*")]


def test_the_demo_ends_by_itself_with_every_record_as_it_was(tmp_path: Path) -> None:
    demo = _demo(tmp_path, "--output", "json")
    stdout, stderr = demo.communicate(timeout=400)
    assert demo.returncode == 0, stderr[-3000:]
    result = json.loads(stdout)
    assert result["same"] and result["counts_agree"]
    assert {one["topic"] for one in result["topics"]} == {"orders", "events"}
    assert all(one["records"] == one["restored"] > 1000 for one in result["topics"])
    assert "kafkeep restore --bootstrap-servers" in stderr
    assert _left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("sign", "step"),
    [(signal.SIGINT, "2."), (signal.SIGTERM, "  $ kafkeep dev up --folder")],
    ids=["once the services run", "while the services start"],
)
def test_the_demo_cleans_up_when_it_is_interrupted(
    tmp_path: Path, sign: signal.Signals, step: str
) -> None:
    demo = _demo(tmp_path)
    folder = None
    assert demo.stdout is not None
    for line in demo.stdout:
        if "dev up --folder" in line:
            folder = Path(line.split()[-1])
        if line.startswith(step):
            break
    demo.send_signal(sign)
    _, stderr = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130, stderr[-3000:]
    assert "Traceback" not in stderr
    assert folder is not None and not folder.exists()
    assert _left_over(tmp_path) == []


def test_a_folder_with_an_environment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    demo = _demo(tmp_path, "--folder", str(tmp_path))
    _, stderr = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 2, stderr
    assert (tmp_path / "state.json").read_text() == "{}"
