"""Run a command and say what it cost: all of its processes together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """What a command took: ``summary`` is its JSON, ``worker_mb`` its largest Python worker.

    ``idle_mb`` is what that worker had when it was smallest, before it had anything to do.
    """

    summary: dict[str, Any]
    wall: float
    cpu: float
    peak_mb: float
    worker_mb: float
    idle_mb: float


def run_kafkeep(*arguments: str, environment: dict[str, str] | None = None) -> Cost:
    """Run ``kafkeep … --output json`` in a session of its own and watch its processes."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkeep", *arguments, "--output", "json"],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    watch = _Watch(process.pid)
    watch.start()
    out, _ = process.communicate()
    watch.stop()
    if process.returncode not in (0, 3):
        raise SystemExit(f"kafkeep {' '.join(arguments)} exited with {process.returncode}")
    summary = json.loads(out.strip().splitlines()[-1])
    return Cost(
        summary,
        time.monotonic() - began,
        watch.cpu(),
        watch.peak / 1e6,
        watch.worker / 1e6,
        watch.idle / 1e6,
    )


class _Watch(threading.Thread):
    """Samples the processes of one session: CPU so far, memory now."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._ended = threading.Event()
        self._ticks: dict[int, int] = {}
        self._smallest: dict[int, float] = {}
        self.peak = 0.0
        self.worker = 0.0
        self.idle = 0.0

    def run(self) -> None:
        # Looking often would take a core's time from what is measured.
        while not self._ended.wait(0.3):
            self._sample()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def cpu(self) -> float:
        return sum(self._ticks.values()) / TICK

    def _sample(self) -> None:
        total = 0.0
        pythons: dict[int, tuple[int, float]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
                name, fields = (
                    stat[stat.index("(") + 1 : stat.rindex(")")],
                    stat.rsplit(")", 1)[1].split(),
                )
                if int(fields[3]) != self._session:
                    continue
                shared = int((entry / "statm").read_text().split()[2]) * PAGE
            except (OSError, ValueError):
                continue
            self._ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
            resident = int(fields[21]) * PAGE
            total += resident - shared
            if name.startswith("python") and int(entry.name) != self._session:
                pythons[int(entry.name)] = int(fields[1]), resident
        self.peak = max(self.peak, total)
        for pid, (parent, resident) in pythons.items():
            if parent in pythons:  # a worker: what Spark forks it from has Java as its parent
                self._weigh(pid, resident)

    def _weigh(self, pid: int, resident: float) -> None:
        self._smallest[pid] = min(self._smallest.get(pid, resident), resident)
        if resident > self.worker:
            self.worker, self.idle = resident, self._smallest[pid]
