"""The process of the resident session: ``python -m kafkeep.spark.resident.server``.

It is Spark's driver with a Spark Connect server in it, and reads its settings from stdin. It ends
when nobody has used it for the idle timeout, at SIGTERM, and when its JVM dies.

Only the process that claimed the session may run jobs. What is running while nobody has the claim
was left behind by a command that died: it is cancelled.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kafkeep.clock import now_ms
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.jvm import Jvm, launch_jvm
from kafkeep.spark.resident.claim import clear_mark, has_mark, take_lock
from kafkeep.spark.resident.record import (
    PROOF_KEY,
    Runtime,
    SessionRecord,
    digest_setting,
    make_private_folder,
    remove_record,
    start_time,
    write_record,
)
from kafkeep.spark.session import context_of, owned_jvm, start_session, stop_session

_LOOK_SECONDS = 0.5
_FIRST_THAT_MAKES_SESSIONS = (4, 2)
"""Before, a Spark Connect server refuses its clients while the driver has no session."""
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(settings: dict[str, Any]) -> None:
    """Start the session, write its record, and wait until it is to end."""
    os.umask(0o077)
    os.chdir(make_private_folder())
    ended = threading.Event()
    for number in _HANDLED:
        signal.signal(number, lambda _signal, _frame: ended.set())
    given = SparkOptions(
        master=settings["master"], conf=settings["conf"], preload=tuple(settings["preload"])
    )
    port, token, proof = _free_port(), secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    options = _options(given, port=port, token=token, proof=proof)
    runtime = Runtime.current()  # before anything is imported from files that may change
    jvm = launch_jvm(options)
    session = start_session(options, jvm=jvm)
    context = context_of(session)
    if context is None or owned_jvm() is not jvm:
        raise EnvironmentFault("the resident session has no driver or JVM of its own")
    if tuple(map(int, runtime.spark.split(".")[:2])) < _FIRST_THAT_MAKES_SESSIONS:
        SparkSession(context)
    record = SessionRecord(
        host=socket.gethostname(),
        pid=os.getpid(),
        pid_started=start_time(os.getpid()),
        port=port,
        token=token,
        proof=proof,
        runtime=runtime,
        master=given.master,
        settings={key: digest_setting(proof, value) for key, value in given.conf.items()},
        started_ms=now_ms(),
        idle_timeout_ms=settings["idle_timeout_ms"],
    )
    write_record(record)
    try:
        _wait(context, jvm, ended, record)
    finally:
        remove_record(record.pid)
        stop_session(session)


def _options(given: SparkOptions, *, port: int, token: str, proof: str) -> SparkOptions:
    """Return the options of the session: those given, and what makes it a Spark Connect server."""
    conf = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": token,
        PROOF_KEY: digest_setting(proof, PROOF_KEY),
        # Each task gets a worker of its own, forked from a daemon that has imported everything.
        # No credentials, clients or settings of one command are there for the next.
        "spark.python.worker.reuse": "false",
        # With it, each Spark Connect session would start a daemon of its own.
        "spark.sql.artifact.isolation.enabled": "false",
        **given.conf,
    }
    return replace(given, app_name="kafkeep-resident", conf=conf)


def _wait(context: SparkContext, jvm: Jvm, ended: threading.Event, record: SessionRecord) -> None:
    """Return when the session is to end; an idle one cannot be claimed from then on."""
    was_quiet = False
    while not ended.wait(_LOOK_SECONDS) and jvm.process.poll() is None:
        lock = take_lock()
        if lock is None:  # in use
            was_quiet = False
            continue
        with lock:
            is_quiet = not context.statusTracker().getActiveJobsIds()
            if not is_quiet:
                context.cancelAllJobs()
            elif was_quiet and has_mark(lock):
                clear_mark(lock)
            elif now_ms() - _last_used_ms(lock, record) >= record.idle_timeout_ms:
                remove_record(record.pid)
                return
            was_quiet = is_quiet


def _last_used_ms(lock: BinaryIO, record: SessionRecord) -> int:
    return max(record.started_ms, os.fstat(lock.fileno()).st_mtime_ns // 1_000_000)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Run with the settings on stdin; what goes wrong is the last line of the log."""
    settings = json.load(sys.stdin)
    sys.stdin.close()
    try:
        run(settings)
    except EnvironmentFault as error:
        print(error.message, file=sys.stderr)
        with suppress(OSError):
            remove_record(os.getpid())
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
