"""What tests that kill have in common: an archive, drivers that die, what must hold after it."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.run_kafkeep import Driver, Outcome, kafkeep, python_workers

from kafkeep.archive.object_store import ObjectStore
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

Sizes = Mapping[str, tuple[int, int]]


def chances_of_run() -> random.Random:
    """Return what decides when to kill; the seed is printed, and KAFKEEP_SEED repeats a run."""
    seed = int(os.environ.get("KAFKEEP_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KAFKEEP_SEED={seed}")
    return random.Random(seed)


@dataclass
class Trial:
    """One archive that is being written or read by drivers that die."""

    cluster: Cluster
    archive: str
    topic: str
    folder: Path
    chances: random.Random = field(default_factory=chances_of_run)
    seen: Sizes = field(default_factory=dict)
    runs: int = 0

    @cached_property
    def store(self) -> ObjectStore:
        return open_store(self.archive, StorageOptions.from_env())

    def start(
        self, verb: object, *arguments: object, failpoint: str = "", bootstrap: str = ""
    ) -> Driver:
        """Run a command on the archive, armed with ``failpoint``."""
        self.runs += 1
        for left in (self._trace, self._gate):
            left.unlink(missing_ok=True)
        return Driver(
            self.folder / f"run-{self.runs}",
            *self._command(verb, arguments, bootstrap or self.cluster.bootstrap),
            env={
                "KAFKEEP_FAILPOINT": failpoint,
                "KAFKEEP_FAILPOINT_TRACE": str(self._trace),
                "KAFKEEP_FAILPOINT_GATE": str(self._gate),
                "KAFKEEP_SEED": str(self.chances.randrange(10**6)),
            },
        )

    def run(self, verb: object, *arguments: object) -> Outcome:
        """Run a command in this process, which has a Spark session: nobody kills it."""
        return kafkeep(*self._command(verb, arguments, self.cluster.bootstrap))

    def _command(
        self, verb: object, arguments: tuple[object, ...], bootstrap: str
    ) -> tuple[object, ...]:
        where = ("--bootstrap-servers", bootstrap, "--archive", self.archive, "--output", "json")
        return (*str(verb).split(), *where, *arguments)

    @property
    def _trace(self) -> Path:
        return self.folder / "failpoints"

    @property
    def _gate(self) -> Path:
        return self.folder / "gate"

    def open_gate(self) -> None:
        """Let go on what a failpoint holds."""
        self._gate.touch()

    def passed(self, failpoint: str) -> bool:
        """Whether the place was reached, and what it was armed with happened."""
        names = re.findall(r"([\w.]+):", failpoint)
        told = self._trace.read_text().split() if self._trace.exists() else []
        return all(name in told for name in names)

    def die(self, driver: Driver, failpoint: str) -> None:
        """Let a driver end by itself at ``failpoint``; one that never came there proves nothing."""
        driver.wait()
        driver.wait_for_group()
        if "@p=" not in failpoint:
            assert self.passed(failpoint), f"{failpoint} was never reached\n{driver.said()}"

    def kill_worker(self, driver: Driver) -> bool:
        """Kill one of a driver's Python workers; whether there was one."""
        workers = python_workers(driver.group)
        if not workers:
            return False
        try:
            os.kill(self.chances.choice(workers), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def pause(self, least: float, most: float) -> None:
        """Wait for a random time."""
        time.sleep(self.chances.uniform(least, most))

    def check_objects(self) -> None:
        """No object that was ever there has changed or gone."""
        now = {info.key: (info.size_bytes, info.modified_ms) for info in self.store.list("")}
        changed = [key for key, what in self.seen.items() if now.get(key) != what]
        assert not changed, f"replaced or removed: {changed}"
        self.seen = now


def die(code: str, *arguments: str, failpoint: str) -> None:
    """Run Python code that ends at ``failpoint``."""
    armed = f"from kafkeep.failpoint import arm\narm({failpoint!r})\n{code}"
    done = subprocess.run([sys.executable, "-c", armed, *arguments], check=False)
    assert done.returncode == 137, f"{failpoint} was never reached"
