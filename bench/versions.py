"""The working tree beside an earlier version: the same commands in turn, in the same minutes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.beside import Numbers
from bench.runs import backup, new_archive
from bench.whole_runs import filled_topics, one_round, store_reads
from kafkeep.dev import DevStatus

SINKS = {
    "JSON+gzip": ("--format", "json", "--set", "s3.compression.type=gzip"),
    "Avro": ("--format", "avro"),
}


def beside_version(
    status: DevStatus, records: int, rounds: int, revision: str, *, with_sinks: bool = True
) -> Numbers:
    """Return medians of both versions, and of the ratios of runs that followed each other."""
    with tempfile.TemporaryDirectory(prefix="kafkeep-before-") as folder:
        _export(revision, Path(folder))
        sources = {"before": Path(folder) / "src", "now": Path("src").resolve()}
        with filled_topics(status, records) as names:
            run = partial(_round, status, names, with_sinks=with_sinks)
            for source in sources.values():  # compiles the kernels, and warms the page cache
                run(source)
            measured: list[dict[str, Numbers]] = []
            for number in range(rounds):
                order = list(sources.items())[:: 1 if number % 2 == 0 else -1]
                measured.append({name: run(source) for name, source in order})
                done = f"round {number + 1} of {rounds}: {measured[-1]}"
                print(done, file=sys.stderr, flush=True)
    return _figures(measured)


def _export(revision: str, folder: Path) -> None:
    """Write the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision, "src"], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def _round(
    status: DevStatus, names: Mapping[int, str], source: Path, *, with_sinks: bool
) -> Numbers:
    """Run each command once with the package in ``source``."""
    environment = {"PYTHONPATH": str(source)}
    numbers = one_round(status, names, environment) | store_reads(status, names, environment)
    for name, flags in SINKS.items() if with_sinks else ():
        topic = names[max(names)]
        cost = backup(status, topic, new_archive(status), *flags, environment=environment)
        numbers |= {name: float(cost.summary["seconds"]), f"{name}, wall": cost.wall}
    return numbers


def _figures(measured: list[dict[str, Numbers]]) -> Numbers:
    numbers: Numbers = {}
    for name in measured[0]["now"]:
        now = [one["now"][name] for one in measured]
        if name not in measured[0]["before"]:
            numbers[f"{name} seconds now"] = statistics.median(now)
            continue
        before = [one["before"][name] for one in measured]
        ratios = [new / old for new, old in zip(now, before, strict=True)]
        numbers[f"{name} seconds before"] = statistics.median(before)
        numbers[f"{name} seconds now"] = statistics.median(now)
        numbers[f"{name} now / before"] = statistics.median(ratios)
    return numbers
