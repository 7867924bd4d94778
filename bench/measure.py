"""Run a kafkeep command and say what it cost: all of its processes together."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import PAGE, processes_of, run_command


@dataclass(frozen=True)
class Cost:
    """What a command took: ``summary`` is its JSON, ``worker_mb`` its largest Python worker.

    ``idle_mb`` is what that worker had when it was smallest, before it had anything to do.
    ``driver_mb`` is of the command's own process.
    """

    summary: dict[str, Any]
    wall: float
    cpu: float
    peak_mb: float
    worker_mb: float
    idle_mb: float
    driver_mb: float


def run_kafkeep(*arguments: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Run ``kafkeep … --output json`` in a session of its own and watch its processes."""
    watch = _Watch()
    try:
        done = run_command(
            [sys.executable, "-m", "kafkeep", *arguments, "--output", "json"],
            environment,
            on_start=watch.begin,
            accepted=(0, 3),
        )
    finally:
        watch.stop()
    summary = json.loads(done.output.decode().strip().splitlines()[-1])
    return Cost(
        summary,
        done.wall,
        done.cpu,
        watch.peak / 1e6,
        watch.worker / 1e6,
        watch.idle / 1e6,
        watch.driver / 1e6,
    )


class _Watch(threading.Thread):
    """Samples the memory of the processes of one session."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._session = 0
        self._ended = threading.Event()
        self._smallest: dict[int, float] = {}
        self.peak = 0.0
        self.worker = 0.0
        self.idle = 0.0
        self.driver = 0.0

    def begin(self, session: int) -> None:
        self._session = session
        self.start()

    def run(self) -> None:
        # Looking often would take a core's time from what is measured.
        while not self._ended.wait(0.3):
            self._sample()

    def stop(self) -> None:
        self._ended.set()
        if self._session:
            self.join()

    def _sample(self) -> None:
        total = 0.0
        pythons: dict[int, tuple[int, float]] = {}
        for one in processes_of(self._session):
            try:
                shared = int(Path(f"/proc/{one.pid}/statm").read_text().split()[2]) * PAGE
            except OSError:
                continue
            total += one.resident - shared
            if one.pid == self._session:
                self.driver = max(self.driver, one.resident)
            elif one.name.startswith("python"):
                pythons[one.pid] = one.parent, one.resident
        self.peak = max(self.peak, total)
        for pid, (parent, resident) in pythons.items():
            if parent in pythons:  # a worker: what Spark forks it from has Java as its parent
                self._weigh(pid, resident)

    def _weigh(self, pid: int, resident: float) -> None:
        self._smallest[pid] = min(self._smallest.get(pid, resident), resident)
        if resident > self.worker:
            self.worker, self.idle = resident, self._smallest[pid]
