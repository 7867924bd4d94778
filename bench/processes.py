"""Run a command; return its wall time, and the CPU time of every process that it started."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Finished:
    """A command that has ended; ``wall`` is the time until then."""

    output: bytes
    wall: float
    cpu: float


@dataclass(frozen=True)
class ProcessStat:
    """What the kernel tells of one process; ``ticks`` includes its children that ended."""

    pid: int
    name: str
    parent: int
    session: int
    ticks: int
    resident: int


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    on_start: Callable[[int], None] = lambda _pid: None,
    accepted: Sequence[int] = (0,),
) -> Finished:
    """Run a command in a session of its own, and wait for all processes of that session."""
    began = time.monotonic()
    with _adopting():
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        on_start(process.pid)
        assert process.stdout is not None
        with process.stdout as pipe:
            output = pipe.read()
        cpu, process.returncode = _reap(process.pid)
        wall = time.monotonic() - began
        cpu += _reap_orphans(process.pid)
    if process.returncode not in accepted:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return Finished(output, wall, cpu)


def session_cpu(session: int) -> float:
    """Return the CPU seconds of a session so far."""
    return sum(one.ticks for one in processes_of(session)) / TICK


def processes_of(session: int) -> Iterator[ProcessStat]:
    """Yield the processes of a session."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            before, _, after = (entry / "stat").read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        fields = after.split()
        if int(fields[3]) == session:
            yield ProcessStat(
                pid=int(entry.name),
                name=before.partition("(")[2],
                parent=int(fields[1]),
                session=session,
                ticks=sum(map(int, fields[11:15])),
                resident=int(fields[21]) * PAGE,
            )


def _reap(pid: int) -> tuple[float, int]:
    _, status, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status)


def _reap_orphans(session: int) -> float:
    """Wait for what a session's first process left behind, and return its CPU seconds."""
    cpu = 0.0
    while orphans := [one.pid for one in processes_of(session) if one.parent == os.getpid()]:
        cpu += sum(_reap(pid)[0] for pid in orphans)
    return cpu


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of processes whose own ended: only a parent is told what they took."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
