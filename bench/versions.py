"""The working tree beside an earlier version: the same commands in turn, in the same minutes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import topics
from bench.beside import Numbers
from bench.measure import Cost
from bench.runs import backup, delete, new_archive, new_topic, restore
from kafkeep.dev import DevStatus

TOPIC = "bench-versions"
SINKS = {
    "JSON+gzip": ("--format", "json", "--set", "s3.compression.type=gzip"),
    "Avro": ("--format", "avro"),
}
STARTS = 5


def beside_version(status: DevStatus, records: int, rounds: int, revision: str) -> Numbers:
    """Return medians of both versions, and of the ratios of runs that followed each other."""
    topics.create(status.bootstrap_servers, TOPIC, 3)
    topics.fill(status.bootstrap_servers, TOPIC, records, 3)
    with tempfile.TemporaryDirectory(prefix="kafkeep-before-") as folder:
        _export(revision, Path(folder))
        sources = {"before": Path(folder) / "src", "now": Path("src").resolve()}
        for source in sources.values():  # compiles the kernels, and warms the page cache
            _round(status, source)
        measured: list[dict[str, Numbers]] = []
        for number in range(rounds):
            order = list(sources.items())[:: 1 if number % 2 == 0 else -1]
            measured.append({name: _round(status, source) for name, source in order})
            print(f"round {number + 1} of {rounds}: {measured[-1]}", file=sys.stderr, flush=True)
    delete(status, TOPIC)
    return _figures(measured)


def _export(revision: str, folder: Path) -> None:
    """Write the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision, "src"], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def _round(status: DevStatus, source: Path) -> Numbers:
    """Run each command once with the package in ``source``."""
    environment = {"PYTHONPATH": str(source)}
    archive, target = new_archive(status), new_topic()
    costs = {
        "backup": backup(status, TOPIC, archive, environment=environment),
        "restore": restore(status, TOPIC, target, archive, environment=environment),
    }
    delete(status, target)
    for name, flags in SINKS.items():
        costs[name] = backup(status, TOPIC, new_archive(status), *flags, environment=environment)
    return {"start": _start_seconds(environment)} | {
        key: value for name, cost in costs.items() for key, value in _numbers(name, cost).items()
    }


def _numbers(name: str, cost: Cost) -> Numbers:
    return {name: float(cost.summary["seconds"]), f"{name}, command to prompt": cost.wall}


def _start_seconds(environment: dict[str, str]) -> float:
    """Return how long the command line takes to print its version."""
    began = time.perf_counter()
    for _ in range(STARTS):
        subprocess.run(
            [sys.executable, "-m", "kafkeep", "--version"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
    return (time.perf_counter() - began) / STARTS


def _figures(measured: list[dict[str, Numbers]]) -> Numbers:
    numbers: Numbers = {}
    for name in measured[0]["now"]:
        before = [one["before"][name] for one in measured]
        now = [one["now"][name] for one in measured]
        ratios = [new / old for new, old in zip(now, before, strict=True)]
        numbers[f"{name} seconds before"] = statistics.median(before)
        numbers[f"{name} seconds now"] = statistics.median(now)
        numbers[f"{name} now / before"] = statistics.median(ratios)
    return numbers
