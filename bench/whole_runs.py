"""Whole runs: from the command to the prompt, by the wall and by the processor.

A run's CPU time is that of all processes that the command started, and what a resident session
spent meanwhile.
"""

from __future__ import annotations

import json
import statistics
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from bench import topics
from bench.beside import Numbers
from bench.measure import Cost
from bench.processes import run_command, session_cpu
from bench.runs import backup, delete, new_archive, new_topic, restore
from kafkeep.dev import DevStatus
from kafkeep.options.spark import RESIDENT_VARIABLE

Environment = Mapping[str, str]
SessionCpu = Callable[[], float]
"""Returns the CPU seconds so far of processes that commands share."""

SIZES = (1_000, 100_000, 3_000_000)
READS = 5
READ_LIMIT = 3
"""How many times the CPU of creating an S3 client a command may take that reads the store only."""
_S3_CLIENT = "boto3 client"
_CREATE_S3_CLIENT = "import boto3; boto3.client('s3', region_name='us-east-1')"


@contextmanager
def cold(_environment: Environment) -> Iterator[SessionCpu]:
    """Let each command start a Spark of its own."""
    yield lambda: 0.0


@contextmanager
def resident(environment: Environment) -> Iterator[SessionCpu | None]:
    """Let the commands share a session; None for a version that has none."""
    command = [sys.executable, "-m", "kafkeep", "spark"]
    begun = run_command([*command, "start", "--output", "json"], environment, accepted=(0, 2))
    if not begun.output:
        yield None
        return
    session = int(json.loads(begun.output)["pid"])
    try:
        yield lambda: session_cpu(session)
    finally:
        run_command([*command, "stop"], environment)


SESSIONS: dict[str, Callable[[Environment], AbstractContextManager[SessionCpu | None]]] = {
    "cold": cold,
    "resident": resident,
}
"""How commands get Spark; a context may start what the commands then find by themselves."""
LIMITS = {"cold": "", "resident": " (limit 2 s)"}
"""Of what a run takes besides moving data; a cold one is compared with the version before."""


def sizes_up_to(records: int) -> list[int]:
    return [size for size in SIZES if size < records] + [records]


@contextmanager
def filled_topics(status: DevStatus, sizes: Sequence[int]) -> Iterator[dict[int, str]]:
    """Yield a topic of three partitions for each size; delete them afterwards."""
    names = {size: f"bench-whole-{uuid.uuid4().hex}" for size in sizes}
    for size, name in names.items():
        topics.create(status.bootstrap_servers, name, 3)
        topics.fill(status.bootstrap_servers, name, size, 3)
    yield names
    delete(status, *names.values())


def whole_runs(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Back up and restore topics of each size, and run what reads the store only."""
    with filled_topics(status, sizes_up_to(records)) as names:
        one_round(status, names)  # builds the class archive, and warms the page cache
        numbers = _medians([one_round(status, names) for _ in range(repeat)])
    archive = small_archive(status)
    return numbers | _reads([read_round(archive) for _ in range(READS)])


def small_archive(status: DevStatus, environment: Environment | None = None) -> str:
    """Return an archive of the smallest size: a command takes what it takes to start."""
    archive = new_archive(status)
    with filled_topics(status, SIZES[:1]) as names:
        backup(status, names[SIZES[0]], archive, environment=environment)
    return archive


def _medians(rounds: list[Numbers]) -> Numbers:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def _reads(rounds: list[Numbers]) -> Numbers:
    """Return medians; of the ratios too, each to the S3 client of the same round."""
    client = f"{_S3_CLIENT}, CPU"
    ratios = {
        f"{name} / {_S3_CLIENT} (limit {READ_LIMIT})": statistics.median(
            one[name] / one[client] for one in rounds
        )
        for name in rounds[0]
        if name.endswith(", CPU") and name != client
    }
    return _medians(rounds) | ratios


def one_round(
    status: DevStatus,
    names: Mapping[int, str],
    environment: Environment | None = None,
    *,
    sessions: Sequence[str] = tuple(SESSIONS),
) -> Numbers:
    """Back up and restore each topic once for each kind of session."""
    numbers: Numbers = {}
    for kind in sessions:
        given = {**(environment or {}), RESIDENT_VARIABLE: "on" if kind == "resident" else "off"}
        with SESSIONS[kind](given) as shared_cpu:
            if shared_cpu is None:
                continue
            for size, topic in names.items():
                archive, target = new_archive(status), new_topic()
                save = partial(backup, status, topic, archive, environment=given)
                bring_back = partial(restore, status, topic, target, archive, environment=given)
                for verb, run in (("backup", save), ("restore", bring_back)):
                    shared_before = shared_cpu()
                    cost = run()
                    shared = shared_cpu() - shared_before
                    numbers |= _numbers(f"{kind} {verb} of {size:,}", cost, shared, LIMITS[kind])
                delete(status, target)
    return numbers


def _numbers(name: str, cost: Cost, shared_cpu: float, limit: str) -> Numbers:
    moving = float(cost.summary["seconds"])
    return {
        f"{name}, wall": cost.wall,
        f"{name}, CPU": cost.cpu + shared_cpu,
        f"{name}, moving": moving,
        f"{name}, wall without moving{limit}": cost.wall - moving,
    }


def read_round(archive: str, environment: Environment | None = None) -> Numbers:
    """Run each command that needs no Spark once, and create an S3 client."""
    kafkeep = [sys.executable, "-m", "kafkeep"]
    commands = {
        _S3_CLIENT: [sys.executable, "-c", _CREATE_S3_CLIENT],
        **{flag: [*kafkeep, flag] for flag in ("--version", "--help")},
        **{verb: [*kafkeep, verb, "--archive", archive] for verb in ("info", "ls", "du", "cat")},
    }
    numbers: Numbers = {}
    for name, command in commands.items():
        done = run_command(command, environment)
        numbers |= {f"{name}, CPU": done.cpu, f"{name}, wall": done.wall}
    return numbers
