"""A daemon of Spark's workers that is forked from the command itself, while its JVM starts.

Spark starts the daemon (``worker_daemon.py``) with the first task, and then waits until it has
loaded everything that tasks need. Most of that the command has loaded by then. So the command forks
the daemon as soon as it has, and the daemon loads the rest meanwhile. What Spark starts with the
first task is ``daemon_handover.py`` then: it hands its pipes and its environment to this daemon.

A command that has threads is not forked, and Linux alone is known to tolerate it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kafkeep import failpoint
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.daemon_handover import ACCEPTED

HANDOVER_MODULE = "kafkeep.spark.daemon_handover"
_OWN_WORKERS = ("spark.python.", "spark.pyspark.", "spark.executorEnv.")
"""Settings that say what workers run, and in which environment."""
_STANDARD_FDS = (0, 1, 2)
_COLLECTOR = (700, 10, 10)
"""When Python collects garbage, if nobody sets it: a worker must not keep buffers for long."""


@dataclass(slots=True)
class ForkedDaemon:
    """A daemon that was forked from this process. It ends with this process, or with Spark."""

    pid: int
    lifeline: int
    """The end of a pipe. When it is closed, a daemon that Spark has not asked for yet ends."""

    def stop(self) -> None:
        """End the daemon and its workers; safe to call twice."""
        if self.lifeline < 0:
            return
        os.close(self.lifeline)
        self.lifeline = -1
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def reap(self) -> None:
        """Forget the daemon if it has ended, without waiting."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def socket_of(folder: Path) -> Path:
    """Return where a daemon waits to be asked for by the JVM with this folder."""
    return folder / "workers"


def can_fork(options: SparkOptions) -> bool:
    """Whether a daemon may be forked from this process, and is one that Spark would have started.

    ``options`` are those of a JVM that is started here.
    """
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    return (
        sys.platform == "linux"
        and options.is_local
        and threading.active_count() == 1
        and python == sys.executable
        and not any(key.startswith(_OWN_WORKERS) for key in options.conf)
    )


def fork_daemon(folder: Path, names: Sequence[str], memory: Mapping[str, str]) -> ForkedDaemon:
    """Fork a daemon that loads ``names``, and then waits in ``folder`` until Spark asks for it.

    ``memory`` has the variables of glibc that a process reads once, when it starts.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_of(folder)))
    listener.listen(1)
    watched, lifeline = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_child(listener, watched, names, memory)
    listener.close()
    os.close(watched)
    return ForkedDaemon(pid, lifeline)


def _run_child(
    listener: socket.socket, watched: int, names: Sequence[str], memory: Mapping[str, str]
) -> NoReturn:
    """Run as the daemon; nothing that the command registered for its end runs here."""
    status = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the command
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _let_go_of_files({listener.fileno(), watched})
        _limit_memory(memory)
        gc.set_threshold(*_COLLECTOR)
        failpoint.arm("")  # the environment arms them once everything is loaded
        from kafkeep.spark.worker_daemon import load, serve  # noqa: PLC0415 - it loads a lot

        load(names)
        _take_over(listener, watched)
        serve()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()  # into Spark's log
    finally:
        os._exit(status)


def _let_go_of_files(kept: set[int]) -> None:
    """Replace the files and connections of the command, so that the command alone holds them.

    The JVM ends when its input does. Numbers stay in use: an object here may close one much later.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {*kept, nothing}:
            with suppress(OSError):  # the folder itself is in its listing
                os.fstat(int(name))
                os.dup2(nothing, int(name))


_MALLOPT = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_ARENA_MAX": -8}


def _limit_memory(memory: Mapping[str, str]) -> None:
    """Set what glibc would read from the environment if this process had been started with it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for name, parameter in _MALLOPT.items():
        if mallopt is not None and name in memory:
            mallopt(parameter, int(os.environ.get(name) or memory[name]))


def _take_over(listener: socket.socket, watched: int) -> None:
    """Become what Spark started: with its pipes, environment and arguments. End if nobody asks."""
    ready, _, _ = select.select([listener.fileno(), watched], [], [])
    if listener.fileno() not in ready:
        os._exit(0)
    channel, _ = listener.accept()
    os.unlink(listener.getsockname())
    listener.close()
    os.close(watched)
    _, pipes, _, _ = socket.recv_fds(channel, 1, len(_STANDARD_FDS))
    with channel.makefile("rb") as stream:
        given = json.loads(stream.read())
    for standard, pipe in zip(_STANDARD_FDS, pipes, strict=True):
        os.dup2(pipe, standard)
        os.close(pipe)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(standard, mode, buffering=1, closefd=False)
        for standard, mode in zip(_STANDARD_FDS, ("r", "w", "w"), strict=True)
    )
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[:] = given["arguments"]
    channel.sendall(ACCEPTED)
    channel.detach()  # it is open as long as this process or a worker runs
