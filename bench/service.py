"""``kafkeep serve`` in a process of its own, and what can be asked of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from bench.processes import TICK
from kafkeep.dev import DevStatus

PATIENCE_S = 180.0


class ServeProcess:
    """``kafkeep serve`` as a process of its own, asked over HTTP."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.address = urlsplit(url).netloc

    def get(self, path: str) -> str:
        return self._ask("GET", path, None)

    def put(self, path: str, body: object) -> str:
        return self._ask("PUT", path, json.dumps(body))

    def post(self, path: str, body: object) -> str:
        return self._ask("POST", path, json.dumps(body))

    def _ask(self, method: str, path: str, body: str | None) -> str:
        headers = {"Content-Type": "application/json"} if body else {}
        # One for each: the service closes a connection that was quiet for some seconds.
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {text}")
        return text

    def running(self) -> int:
        """How many connectors run, with all their tasks."""
        told = json.loads(self.get("/connectors?expand=status")).values()
        states = [
            [one["status"]["connector"]["state"], *(t["state"] for t in one["status"]["tasks"])]
            for one in told
        ]
        return sum(len(one) > 1 and set(one) == {"RUNNING"} for one in states)

    def metrics(self) -> dict[tuple[str, str], float]:
        """The sum of each metric, by connector."""
        found: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                key = sample.name, sample.labels.get("connector", "")
                found[key] = found.get(key, 0.0) + sample.value
        return found

    def records(self, connectors: list[str]) -> float:
        page = self.metrics()
        return sum(page["kafkeep_records_total", name] for name in connectors)

    def lag(self) -> float:
        """Return the largest lag of any connector."""
        page = self.metrics()
        return max(value for (name, _), value in page.items() if name == "kafkeep_lag_records")

    def resident_mb(self) -> float:
        """Return the memory of the service's own process, without Spark's."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def cpu_over(self, seconds: float) -> float:
        """Return how many cores all its processes together used over a while."""
        before, began = _session_cpu(self._process.pid), time.monotonic()
        time.sleep(seconds)
        return (_session_cpu(self._process.pid) - before) / (time.monotonic() - began)


@contextmanager
def serving(status: DevStatus) -> Iterator[ServeProcess]:
    with tempfile.TemporaryDirectory(prefix="kafkeep-bench-") as folder:
        log = Path(folder) / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "kafkeep", "serve", "--port", "0", "--output", "json"),
                    *("--bootstrap-servers", status.bootstrap_servers),
                    *("--state", f"{folder}/state"),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
                env={**os.environ, **status.s3.environment},
            )
        try:
            said = process.stdout.readline() if process.stdout else ""
            if not said:
                raise SystemExit(f"kafkeep serve did not start: {log.read_text()}")
            yield ServeProcess(process, json.loads(said)["url"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _session_cpu(session: int) -> float:
    """Return the CPU seconds of all processes of a session so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def wait_for(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {PATIENCE_S:.0f} s in vain: {what}")
        time.sleep(0.3)
