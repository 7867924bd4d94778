"""Servers that a process started are known as long as they run, and no longer."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from kafkeep.dev.process import Server, launch, wait_until
from patience import PATIENCE_S


def test_a_child_is_alive_whatever_its_command_line_says_for_the_moment(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    anew = "import os; os.execv('/bin/sleep', ['sleep', '900'])"
    argv = [sys.executable, "-c", anew, str(mark)]
    server = launch("anew", argv, log=tmp_path / "log", mark=mark, cwd=tmp_path)
    line = Path(f"/proc/{server.pid}/cmdline")
    try:
        assert wait_until(lambda: line.read_bytes() == b"sleep\x00900\x00", timeout_s=PATIENCE_S)
        assert server.alive
        assert not replace(server, mark=str(tmp_path / "other")).alive
    finally:
        assert server.stop(patience_s=PATIENCE_S)
    assert not server.alive


def test_a_pid_of_somebody_else_is_not_ours(tmp_path: Path) -> None:
    stranger = Server("stranger", 1, str(tmp_path / "log"), str(tmp_path / "mark"))
    assert not stranger.alive


def test_a_paused_server_does_nothing_from_then_on(tmp_path: Path) -> None:
    mark, count = tmp_path / "mark", tmp_path / "count"
    busy = "import sys, time\nwhile True: open(sys.argv[2], 'w').write(str(time.time_ns()))"
    argv = [sys.executable, "-c", busy, str(mark), str(count)]
    server = launch("busy", argv, log=tmp_path / "log", mark=mark, cwd=tmp_path)
    try:
        assert wait_until(count.exists, timeout_s=PATIENCE_S)
        for _ in range(20):
            server.pause()
            seen = count.read_text()
            time.sleep(0.01)
            assert count.read_text() == seen
            server.signal(signal.SIGCONT)
    finally:
        assert server.stop(patience_s=PATIENCE_S)
