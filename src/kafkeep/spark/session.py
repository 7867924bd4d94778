"""A Spark session: lean and quiet when it is ours, taken as it is when it is the caller's."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import SparkOptions, require_java, usable_cores
from kafkeep.spark.failure import KEEP_LOG_HINT, LOG_VARIABLE, SparkLog, find_cause, short_reason
from kafkeep.spark.forked_daemon import HANDOVER_MODULE
from kafkeep.spark.internals import classic
from kafkeep.spark.internals.connect import require_packages
from kafkeep.spark.internals.gateway import named_gateway
from kafkeep.spark.jvm import (
    LOG4J,
    PRELOAD_VARIABLE,
    WORKER_MEMORY,
    Jvm,
    can_launch,
    launch_jvm,
)
from kafkeep.spark.resident.claim import SessionClaim
from kafkeep.spark.resident.connection import open_session

_log = logging.getLogger(__name__)
_SECRETS = "(?i)secret|password|token|access[.]?key|credential|jaas"

_LEAN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.speculation": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.redaction.regex": _SECRETS,
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.adaptive.enabled": "false",
    # Each job describes its plan to listeners; the long form takes some milliseconds of each.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_DAEMON_KEY, _DAEMON = "spark.python.daemon.module", "kafkeep.spark.worker_daemon"
_LEAN_LOCAL = {
    _DAEMON_KEY: _DAEMON,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(usable_cores()),
    # Compiling Java for the few rows that pass through the JVM costs a second and gains nothing.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


Session: TypeAlias = SparkContext | SparkSession
"""Tasks need a context only. To make a session of it takes the JVM half a second."""


class _Owned:
    """What this process started, so that nothing else is ever stopped."""

    session: Session | None = None
    jvm: Jvm | None = None
    remote: str | None = None
    log: SparkLog | None = None
    """Of a cluster's driver, or of a JVM that spark-submit started: that ends with this process."""


def start_session(options: SparkOptions | None = None, *, jvm: Jvm | None = None) -> Session:
    """Return the active session if there is one, else start one as ``options`` say.

    ``jvm`` is one launched earlier, while Python was still importing. Nothing is written to
    stderr, nor to the current folder. Raises EnvironmentFault when Spark cannot start.
    """
    active = active_session()
    if active is not None:
        return active
    options = options or SparkOptions.load()
    # pyspark reads the variable alone; only spark-submit knows the setting.
    python = options.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    # py4j tells the root logger, and so stderr, of connections that end when the JVM does.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        session = _start(options, jvm)
    except (PySparkException, Py4JError, ImportError, OSError) as error:
        _stop_half_started()
        raise _not_started(error, options) from error
    _Owned.session = session
    atexit.register(stop_session, session)
    return session


def join_resident(claim: SessionClaim) -> Session | None:
    """Return a session on the resident session's server; None if it does not answer as it should.

    A session that is returned is stopped by ``stop_session``, which leaves the server running.
    """
    try:
        session = open_session(claim)
    except (PySparkException, ImportError, OSError) as error:
        _log.debug("the resident Spark session is not used: %s", _first_line(error))
        return None
    _Owned.session, _Owned.remote = session, claim.record.address
    atexit.register(stop_session, session)
    return session


def active_session() -> Session | None:
    """Return the session of this process, ours or the caller's, whichever thread asks."""
    ours = _Owned.session
    if ours is not None and context_of(ours) is None:
        return ours  # pyspark does not know one of the resident session as active
    with suppress(PySparkException):
        active = SparkSession.getActiveSession()
        if active is not None:
            return active
    return classic.active_context()  # active sessions are known by thread


def context_of(session: Session) -> SparkContext | None:
    """Return the context of a session whose driver is here; None for one of Spark Connect."""
    if isinstance(session, SparkContext):
        return session
    return session.sparkContext if classic.is_classic(session) else None


def has_stopped(session: Session) -> bool:
    """Whether Spark itself has ended the application: a master did, or lost all its executors."""
    context = context_of(session)
    return context is not None and classic.is_stopped(context)


def why_stopped(session: Session) -> tuple[str, str]:
    """Return why Spark ended the application of a session, and a hint where more is said."""
    if session is _Owned.session and _Owned.log is not None:
        return find_cause(_Owned.log.path), _Owned.log.keep()
    if session is _Owned.session and _Owned.jvm is not None:
        return find_cause(_Owned.jvm.log), KEEP_LOG_HINT
    return "its master ended it", "See the driver's log, and the page of the master."


def owned_jvm() -> Jvm | None:
    """Return the JVM of the session that was started here, unless PySpark launched it."""
    return _Owned.jvm


def stop_session(session: Session) -> None:
    """Stop a session that ``start_session`` started; a caller's own is left alone.

    A JVM of ours is ended as it is: no job runs any more, and its folder is all it leaves.
    """
    if _Owned.session is None or session is not _Owned.session:
        return
    jvm, _Owned.session, _Owned.jvm = _Owned.jvm, None, None
    if jvm is None or not jvm.may_be_killed:
        with suppress(Exception):  # it may have died already, and we are leaving
            if context_of(session) or _Owned.remote is None or answers(_Owned.remote):
                session.stop()  # Spark Connect would ask a server that is gone for ten minutes
    if jvm is None:
        return
    classic.forget_jvm()
    jvm.stop()
    if jvm.archive is not None:
        jvm.archive.build_in_background()


def abandon_session(jvm: Jvm) -> None:
    """Forget whatever was started in a JVM that is being killed, and end that JVM."""
    if _Owned.jvm is jvm:
        _Owned.session = _Owned.jvm = None
        classic.forget_jvm()
    jvm.stop()


def _start(options: SparkOptions, jvm: Jvm | None) -> Session:
    if options.remote is not None:
        return _start_remote(options.remote, options)
    if jvm is None and can_launch(options):
        jvm = launch_jvm(options)
    if jvm is None:
        return _start_by_submit(options)
    _Owned.jvm, _Owned.log = jvm, jvm.kept_log
    try:
        port, secret = jvm.wait_ready()
    except EnvironmentFault as fault:
        return _start_after(fault, options, jvm)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_settings(options, jvm).items()))
    with named_gateway(port, secret):
        context = SparkContext(conf=conf)
    classic.silence_accumulators(context)  # a job whose JVM dies reports it
    return context


def _start_after(fault: EnvironmentFault, options: SparkOptions, jvm: Jvm) -> SparkSession:
    """Let PySpark start its JVM where ours ended by itself; raise ``fault`` if that fails too.

    A release of Spark may need a JVM that is started in another way.
    """
    if (jvm.process.poll() or 0) <= 0:  # it is slow, or somebody ended it
        raise fault
    _log.debug("%s; PySpark starts one by itself", fault.message)
    _Owned.jvm = None
    jvm.stop()
    try:
        return _start_by_submit(options)
    except (PySparkException, Py4JError, OSError) as error:
        _stop_half_started()
        raise fault from error


def _start_remote(remote: str, options: SparkOptions) -> SparkSession:
    """Open a session on a Spark Connect server, which is asked for at once: Spark would not."""
    require_packages()
    if not answers(remote):
        raise ConnectionError("no answer")
    builder = SparkSession.builder.remote(remote)
    for key, value in options.conf.items():
        builder = builder.config(key, value)
    _Owned.remote = remote
    return builder.getOrCreate()


def answers(remote: str) -> bool:
    """Tell whether something listens at the address of a Spark Connect server, or a proxy knows."""
    parts = urlsplit(remote)
    host, port = parts.hostname or "", parts.port or _CONNECT_PORT
    has_proxy = any(os.environ.get(name) for name in ("grpc_proxy", "https_proxy", "http_proxy"))
    if has_proxy and not proxy_bypass(host):
        return True
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


_CONNECT_PORT = 15002
_CONNECT_SECONDS = 20.0


def _stop_half_started() -> None:
    """Stop a context whose session did not start, or it would be taken for an active one."""
    context = classic.active_context()
    if context is not None:
        with suppress(Exception):  # its JVM may be gone
            context.stop()
        classic.forget_context()


def _not_started(error: Exception, options: SparkOptions) -> EnvironmentFault:
    """Say why: a JVM that ended, or that was left by its master, has said it in its log."""
    if isinstance(error, ImportError) and options.remote is not None:
        return EnvironmentFault(
            f"Spark Connect needs packages that are not installed: {_first_line(error)}",
            hint="Install them: pip install 'kafkeep[connect]'.",
        )
    jvm, log = _Owned.jvm, _Owned.log
    if options.remote is not None:
        where = options.remote.partition(";")[0]
        return EnvironmentFault(
            f"cannot start a session on the Spark Connect server {where}: {_first_line(error)}",
            hint="Check the address, and that its Spark is of the same version as pyspark here.",
        )
    if log is not None:
        return EnvironmentFault(
            f"Spark did not start with the master {options.master}: {find_cause(log.path)}",
            hint=log.keep(),
        )
    if jvm is not None and jvm.has_ended():
        return EnvironmentFault(
            f"Spark did not start: {find_cause(jvm.log)}",
            hint="Check that spark.local.dir and TMPDIR can be written to and have room; "
            f"{LOG_VARIABLE} names a file for Spark's log.",
        )
    return EnvironmentFault(f"Spark did not start: {_first_line(error)}")


def _start_by_submit(options: SparkOptions) -> SparkSession:
    """Start through ``spark-submit``, which knows clusters, jars and spark-defaults.conf."""
    require_java()
    settings = _cluster_settings(options)
    java = f"-Dlog4j2.configurationFile={LOG4J} {options.conf.get(_EXTRA_JAVA, '')}"
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list({**settings, _EXTRA_JAVA: java.strip()}.items()))
    log = SparkLog.create()
    if classic.launch_logged_jvm(conf, log.path):
        _Owned.log = log
    _add_missing(conf, _executor_settings(options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SparkSession.builder.config(conf=conf).getOrCreate()


_EXTRA_JAVA = "spark.driver.extraJavaOptions"


def _executor_settings(options: SparkOptions) -> dict[str, str]:
    """Return settings of executors: their workers are forked from a process with all imports.

    Their JVMs only pass on small rows. With the optimising compiler, they took 11 s of processor
    time in a short run, and 7 s without it, while the tasks wait for the same cores.
    """
    return {
        _DAEMON_KEY: _DAEMON,
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        f"spark.executorEnv.{PRELOAD_VARIABLE}": ",".join(options.preload),
    }


def _cluster_settings(options: SparkOptions) -> dict[str, str]:
    memory = {f"spark.executorEnv.{name}": text for name, text in WORKER_MEMORY.items()}
    named = {"spark.app.name": options.app_name, "spark.master": options.master}
    return {**_LEAN, **memory, **named, **options.conf}


def _add_missing(conf: SparkConf, settings: Mapping[str, str]) -> None:
    """Add settings of executors that neither the user nor ``spark-defaults.conf`` has.

    None if Python files are shipped: workers find modules in those, but their daemon does not.
    """
    known = SparkConf()  # as spark-submit has read it, if there is a JVM
    if conf.get(_PY_FILES, "") or known.get(_PY_FILES, ""):
        return
    for key, value in settings.items():
        if not known.contains(key):
            conf.setIfMissing(key, value)


_PY_FILES = "spark.submit.pyFiles"


def _settings(options: SparkOptions, jvm: Jvm) -> dict[str, str]:
    if not options.is_local:
        return {**_executor_settings(options), **_cluster_settings(options)}
    folder = jvm.folder
    daemon = {} if jvm.daemon is None else {_DAEMON_KEY: HANDOVER_MODULE}
    return {
        **_LEAN,
        **_LEAN_LOCAL,
        **daemon,
        **_worker_sockets(folder),
        "spark.app.name": options.app_name,
        "spark.master": options.master,
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **options.conf,
    }


def _worker_sockets(folder: Path) -> dict[str, str]:
    """Let workers be reached by files: over TCP, Spark waits 40 ms for a worker's acknowledgement.

    A path that is too long for a socket leaves it at that.
    """
    if len(os.fsencode(folder)) > _SOCKET_PATH_BYTES - _SOCKET_NAME_BYTES:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


_SOCKET_PATH_BYTES = 104
"""The least that any system allows."""
_SOCKET_NAME_BYTES = 50
"""Spark names each by an id of 36 characters, with a dot and an ending."""


def _first_line(error: BaseException) -> str:
    """Return the line that says what happened; Java's stands behind one of py4j's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return short_reason(lines[1])
    return lines[0] if lines else type(error).__name__
