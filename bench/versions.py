"""The working tree beside an earlier version: the same commands in turn, in the same minutes."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.beside import Numbers
from bench.in_turn import in_turn
from bench.runs import backup, new_archive
from bench.whole_runs import SESSIONS, filled_topics, one_round, read_round, small_archive
from kafkeep.dev import DevStatus

FORMATS = {
    "JSON+gzip": ("--format", "json", "--set", "s3.compression.type=gzip"),
    "Avro": ("--format", "avro"),
    "Parquet": ("--format", "parquet"),
}


@dataclass(frozen=True)
class Comparison:
    """What both versions run: whole runs of each size and session, and the largest as a sink."""

    revision: str
    sizes: Sequence[int]
    sessions: Sequence[str] = tuple(SESSIONS)
    formats: Sequence[str] = tuple(FORMATS)


@dataclass(frozen=True)
class _Version:
    """A version of the package, and a small archive that it has made."""

    environment: Mapping[str, str]
    archive: str

    @classmethod
    def of(cls, status: DevStatus, source: Path) -> _Version:
        environment = {"PYTHONPATH": str(source)}
        return cls(environment, small_archive(status, environment))


def beside_version(status: DevStatus, rounds: int, comparison: Comparison) -> Numbers:
    """Return medians of both versions, and of the ratios of runs that followed each other."""
    with tempfile.TemporaryDirectory(prefix="kafkeep-before-") as folder:
        _export(comparison.revision, Path(folder))
        versions = [
            _Version.of(status, source) for source in (Path(folder) / "src", Path("src").resolve())
        ]
        with filled_topics(status, comparison.sizes) as names:
            ways = {
                name: partial(_round, status, names, one, comparison)
                for name, one in zip(("before", "now"), versions, strict=True)
            }
            in_turn(ways, 1)  # compiles the kernels, and warms the page cache
            measured = in_turn(ways, rounds)
    return _figures(measured)


def _export(revision: str, folder: Path) -> None:
    """Write the files of a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision, "src"], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


def _round(
    status: DevStatus, names: Mapping[int, str], version: _Version, comparison: Comparison
) -> Numbers:
    """Run each command once."""
    environment = version.environment
    numbers = one_round(status, names, environment, sessions=comparison.sessions)
    numbers |= read_round(version.archive, environment)
    for name in comparison.formats:
        topic, flags = names[max(names)], FORMATS[name]
        cost = backup(status, topic, new_archive(status), *flags, environment=environment)
        numbers |= {name: float(cost.summary["seconds"]), f"{name}, wall": cost.wall}
    return numbers


def _figures(measured: Sequence[Mapping[str, Numbers]]) -> Numbers:
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
