"""Run ``kafkeep``: in this process (one Spark session for many runs) or as one of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

from kafkeep.cli.main import main
from kafkeep.errors import KafkeepError
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.session import start_session, stop_session
from kafkeep.spark.tasks import TaskRunner

PATIENCE = PATIENCE_S


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The last document on stdout."""
        document: dict[str, Any] = json.loads(self.stdout.strip().splitlines()[-1])
        return document

    def expect(self, *codes: int) -> Outcome:
        """Fail with everything it said unless it ended with one of ``codes``."""
        assert self.code in (codes or (0,)), f"exit {self.code}\n{self.stdout}\n{self.stderr}"
        return self


def kafkeep(*arguments: object) -> Outcome:
    """Run a command in this process and return how it ended; never raises."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    code = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
    out.seek(0)
    return Outcome(code, out.read(), err.getvalue())


def share_spark() -> None:
    """Let every run in this process have one Spark session; it ends with the process.

    A session that a test has broken or stopped is replaced.
    """
    session = start_session(SparkOptions(master="local[2,4]"))
    try:
        TaskRunner(session).run_first_job()
    except KafkeepError:
        stop_session(session)
        TaskRunner(start_session(SparkOptions(master="local[2,4]"))).run_first_job()


class Driver:
    """``kafkeep`` as a process group of its own, to be signalled and killed."""

    def __init__(
        self, folder: Path, *arguments: object, env: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        with self.stdout.open("w") as out, self.stderr.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kafkeep", *map(str, arguments)],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )

    @property
    def group(self) -> int:
        """The process group; every child is in it."""
        return self.process.pid

    def wait(self, seconds: float = PATIENCE) -> Outcome:
        """Wait for the end; kill it all when it does not come."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {seconds} s\n{self.said()}") from None
        return Outcome(code, self.stdout.read_text(), self.stderr.read_text())

    def runs(self) -> bool:
        """Fail with everything it said when it has ended."""
        assert self.process.poll() is None, self.said()
        return True

    def signal(self, number: int) -> None:
        """Signal the driver alone."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End the whole group as the kernel would, and wait until nothing of it is left."""
        signal_group(self.group, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.wait_for_group()

    def wait_for_group(self, seconds: float = PATIENCE) -> None:
        """Wait until no process of the group is left: nothing may leak."""
        deadline = time.monotonic() + seconds
        while members(self.group):
            if time.monotonic() > deadline:
                raise AssertionError(f"left behind: {members(self.group)}")
            time.sleep(0.05)

    def said(self) -> str:
        """Everything it has said so far."""
        return self.stdout.read_text() + self.stderr.read_text()


def signal_group(group: int, number: int) -> None:
    """Signal every process of a group that is still there."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def members(group: int) -> list[int]:
    """Return the living processes whose group or session is ``group``."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        state, own_group, session = fields[0], int(fields[2]), int(fields[3])
        if group in (own_group, session) and state != "Z":
            found.append(int(stat.parent.name))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def python_workers(group: int) -> list[int]:
    """Return the Python workers of a driver: forked from Spark's daemon.

    The driver forks the daemon from itself, or Spark starts it.
    """
    parents = {
        pid: parent_of(pid)
        for pid in members(group)
        if pid != group and Path(command_of(pid).partition("\0")[0]).name.startswith("python")
    }
    return [pid for pid, parent in parents.items() if parent in parents]
