"""Server processes that outlive the command that started them, and free TCP ports for them."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kafkeep.errors import EnvironmentFault
from kafkeep.retry import LOCAL_SERVER

HOST = "127.0.0.1"
# Below the range that systems hand out to outgoing connections (32768 and up on Linux), so that a
# port stays free between the moment it is chosen and the moment a server binds it.
_RANGE = range(20_000, 32_000)
_TRIES = 500


def is_free(port: int) -> bool:
    """Say whether a server could listen on ``port`` now."""
    with socket.socket() as probe:
        # As servers do: connections that linger from an earlier server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


class Ports:
    """Gives out free ports, each only once.

    Those it chooses itself are nobody else's until it is closed, by when their servers listen.
    """

    def __init__(self) -> None:
        self._given: set[int] = set()
        self._claims: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for claim in self._claims:
            claim.close()

    def leave_out(self, ports: Iterable[int]) -> None:
        """Never give out ``ports``."""
        self._given |= set(ports)

    def take(self, wanted: int | None = None, *, previous: int | None = None) -> int:
        """Return ``wanted`` (or fail by name), else ``previous`` if free, else any free port."""
        if wanted is not None:
            if wanted in self._given or not is_free(wanted):
                raise EnvironmentFault(
                    f"port {wanted} is taken", hint="Choose another, or leave it out."
                )
            self._given.add(wanted)
            return wanted
        if previous is not None and previous not in self._given and is_free(previous):
            self._given.add(previous)
            return previous
        return self._any()

    def _any(self) -> int:
        for port in random.sample(_RANGE, _TRIES):
            if port not in self._given and self._claim(port):
                self._given.add(port)
                return port
        raise EnvironmentFault(
            f"no free port between {_RANGE.start} and {_RANGE.stop} on {HOST}",
            hint="Stop servers that are no longer needed.",
        )

    def _claim(self, port: int) -> bool:
        claim = socket.socket()
        try:
            claim.bind((HOST, port))  # fails where another environment has its claim
        except OSError:
            claim.close()
            return False
        # From here on a server can bind it too: servers ask for the same.
        claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._claims.append(claim)
        return True


def answers(port: int) -> bool:
    """Say whether something accepts connections on ``port``."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


_TAIL_LINES = 12
_WAIT_CALL_S = 10.0
# Children of this very process must be reaped here, or a dead one looks alive (a zombie).
_children: dict[int, tuple[subprocess.Popen[bytes], str]] = {}
"""By pid: the child, and its mark."""


@dataclass(frozen=True)
class Server:
    """One started server: what to call it, its pid, where it logs, and a mark in its command line.

    The mark is a path inside the environment's folder: a pid whose command line lacks it belongs
    to somebody else by now, and is never signalled.
    """

    name: str
    pid: int
    log: str
    mark: str

    @property
    def alive(self) -> bool:
        """Whether the process runs and is the one that was started."""
        if self.pid not in _children:
            return self.mark in _command_line(self.pid)
        child, mark = _children[self.pid]
        if child.poll() is not None:
            del _children[self.pid]
            return False
        # A child's command line is not asked: it may be empty for a moment, when Java starts
        # itself anew, and a pid is not given away before the child is reaped.
        return mark == self.mark

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is still the one that was started."""
        if self.alive:
            os.kill(self.pid, number)

    def pause(self) -> None:
        """Make it hang; returns when all its threads do: one that runs may still answer."""
        self.signal(signal.SIGSTOP)
        if not wait_until(lambda: _thread_states(self.pid) <= {"T"}, timeout_s=30):
            raise EnvironmentFault(f"{self.name} (pid {self.pid}) does not pause")

    def terminate(self) -> None:
        """Ask it to end, and return at once."""
        # A paused process takes no SIGTERM before it continues.
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float) -> bool:
        """Ask it to end, and after ``timeout_s`` seconds kill it; returns when it is gone.

        True when it ended by itself.
        """
        self.terminate()
        if wait_until(lambda: not self.alive, timeout_s=timeout_s):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """End it at once, as a crash would; returns when it is gone."""
        self.signal(signal.SIGKILL)
        if not wait_until(lambda: not self.alive, timeout_s=30):
            raise EnvironmentFault(f"{self.name} (pid {self.pid}) does not end")


def launch(
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    mark: Path,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
) -> Server:
    """Start ``argv`` in a session of its own, its output appended to ``log``."""
    with log.open("ab") as output:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentFault(f"{name} cannot be started: {error}") from error
    _children[child.pid] = child, str(mark)
    return Server(name, child.pid, str(log), str(mark))


def wait_ready(
    server: Server,
    ready: Callable[[], bool],
    *,
    timeout_s: float | None = None,
    on_wait: Callable[[float], None] = lambda _: None,
) -> bool:
    """Return True once ``ready`` says so, as long as that takes while the server lives.

    False when ``timeout_s`` seconds are over first. A server that ends raises EnvironmentFault,
    with the last lines of its log. ``on_wait`` is called now and then with the seconds waited.
    """
    began = time.monotonic()
    next_call_s = _WAIT_CALL_S
    while not ready():
        waited_s = time.monotonic() - began
        if not server.alive:
            raise EnvironmentFault(
                f"{server.name} ended while starting", hint=last_lines(Path(server.log))
            )
        if timeout_s is not None and waited_s >= timeout_s:
            return False
        if waited_s >= next_call_s:
            on_wait(waited_s)
            next_call_s += _WAIT_CALL_S
        time.sleep(LOCAL_SERVER.wait_s(1))
    return True


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    """Look every few hundredths of a second; False when time is over first."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOCAL_SERVER.wait_s(1))
    return True


def last_lines(log: Path, count: int = _TAIL_LINES) -> str:
    """Return the end of a log file as a hint."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return f"Its log, {log}, ends:\n" + "\n".join(lines[-count:] or ["(nothing)"])


def _command_line(pid: int) -> str:
    """Return a process's command line; empty for one that is gone or only waits to be reaped."""
    proc = Path("/proc") / str(pid)
    if Path("/proc/self/cmdline").exists():
        try:
            return (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    asked = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout


def _thread_states(pid: int) -> set[str]:
    """Return the states of a process's threads as Linux reports them; empty on other systems."""
    states = set()
    for stat in (Path("/proc") / str(pid) / "task").glob("*/stat"):
        with suppress(OSError):  # a thread that has ended
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states
