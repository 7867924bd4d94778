"""Servers that a process started are known as long as they run, and no longer."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import process
from kafkeep.dev.process import Server, launch, wait_ready, wait_until
from kafkeep.errors import EnvironmentFault


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
        assert server.stop(timeout_s=PATIENCE_S)
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
        assert server.stop(timeout_s=PATIENCE_S)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Server]:
    mark = tmp_path / "mark"
    code = "import time; print('no luck', flush=True); time.sleep(900)"
    argv = [sys.executable, "-c", code, str(mark)]
    server = launch("sleeper", argv, log=tmp_path / "log", mark=mark, cwd=tmp_path)
    yield server
    server.kill()


def _slow_clock(seconds: float) -> SimpleNamespace:
    """Return a clock that jumps at each look, so that a wait of minutes takes no time."""
    now = iter(range(1_000_000))
    return SimpleNamespace(monotonic=lambda: next(now) * seconds, sleep=lambda _: None)


def test_a_start_is_waited_for_as_long_as_the_process_lives(
    sleeper: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, waited = iter([False] * 20 + [True]), []
    monkeypatch.setattr(process, "time", _slow_clock(60))
    assert wait_ready(sleeper, lambda: next(looks), on_wait=waited.append)
    assert max(waited) >= 10 * 60


def test_a_wait_with_a_limit_ends_and_leaves_the_process_alone(
    sleeper: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "time", _slow_clock(60))
    assert not wait_ready(sleeper, lambda: False, timeout_s=200)
    assert sleeper.alive


def test_a_process_that_ends_while_it_starts_is_reported_with_its_log(sleeper: Server) -> None:
    assert wait_until(lambda: "no luck" in Path(sleeper.log).read_text(), timeout_s=PATIENCE_S)
    sleeper.kill()
    with pytest.raises(EnvironmentFault, match="sleeper ended while starting") as caught:
        wait_ready(sleeper, lambda: False)
    assert "no luck" in (caught.value.hint or "")
