"""A restore on a terminal shows how fast it is and how long it will take; elsewhere nothing."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.run_kafkeep import kafkeep
from tests.support.waiting import PATIENCE_S

from kafkeep.kafka.batch.layout import Record, build_batch

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
TERMINAL = {"TERM": "xterm", "COLUMNS": "120", "LINES": "24"}
RATE = re.compile(r"\d[\d,]*/s")
TIME_LEFT = re.compile(r"\d:\d\d:\d\d")
DONE_OF_ALL = re.compile(r"(\d+)/(\d+)")


def on_terminal(*arguments: object) -> tuple[int, str]:
    """Run a command whose messages go to a terminal; return its exit code and what that showed."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkeep", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=its,
        env={**os.environ, **TERMINAL},
    )
    os.close(its)
    shown = bytearray()

    def read() -> None:
        while chunk := _read(ours):
            shown.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
        reader.join(PATIENCE_S)
        os.close(ours)
    return code, shown.decode(errors="replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer is gone
        return b""


def test_a_restore_on_a_terminal_shows_rate_and_time_left_and_elsewhere_nothing(
    cluster: Cluster, topic_name: str, local_archive: Path
) -> None:
    cluster.create(topic_name)
    now = time.time_ns() // 1_000_000
    rows = [Record(i, now, b"k", bytes(1000)) for i in range(500)]
    cluster.raw(topic_name, [build_batch(rows)] * 10)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", local_archive)
    kafkeep("backup", *where, "--topics", topic_name).expect(0)
    shown_as, silent_as = (f"{topic_name}:{topic_name}-{name}" for name in ("shown", "silent"))
    code, shown = on_terminal("restore", *where, "--rate", "2MiB", "--topics", shown_as)
    assert code == 0, shown
    assert "restoring" in shown and RATE.search(shown) and TIME_LEFT.search(shown), shown
    assert {total for _, total in DONE_OF_ALL.findall(shown)} == {"5000"}, shown
    silent = kafkeep("restore", *where, "--topics", silent_as).expect(0)
    assert silent.stderr == ""
