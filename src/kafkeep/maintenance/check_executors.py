"""Check from Spark's executors what tasks need: versions, compiled loops, Kafka and the store."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import AccessDeniedError, KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import list_groups
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.compile_kernels import compile_kernels
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.tasks import SPARK_VERSION, TaskRunner
from kafkeep.store.open import open_store

SLOW_KERNELS_S = 20.0
"""Processor time. Loading compiled loops takes a second, and compiling them takes longer. By the
clock both take any time on an executor that does other work."""
_ROUNDS = 5
_TIMEOUT_MS = 10_000
_RETRY_DEADLINE_MS = 5_000
_SHIP = "Ship the driver's environment to the executors, or install the same version there."
_REACH = "Tasks connect by themselves: open the network from the executors."


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that must agree between the driver and its executors."""

    python: str
    pyspark: str
    kafkeep: str

    @classmethod
    def here(cls) -> Versions:
        """Return the versions of this process."""
        return cls(platform.python_version(), SPARK_VERSION, version("kafkeep"))


@dataclass(frozen=True, kw_only=True)
class ExecutorProbe:
    """What a task is to check; Kafka and the archive are optional."""

    driver: Versions
    kafka: KafkaOptions | None = None
    archive: str | None = None
    storage: StorageOptions = field(default_factory=StorageOptions)


def check_executors(runner: TaskRunner, probe: ExecutorProbe) -> Iterator[Check]:
    """Run the probe in every slot; yield one check for all executors that say the same.

    Spark places the probes. It may give an executor those of another that has just started, so they
    run again until every executor has run one. A Spark Connect server does not say how many it has.
    """
    found: list[tuple[str, Check]] = []
    answered: set[str] = set()
    for _ in range(_ROUNDS):
        probes = [probe] * runner.slots()
        rows = runner.run_tasks(
            probes, run_probe, label="doctor", description="doctor: try executors"
        )
        answered.update(row.body["executor"] for row in rows)
        found += [(row.body["host"], _to_check(row.body)) for row in rows]
        missing = runner.count_executors() - len(answered)
        if missing <= 0:
            break
    yield from merge_checks(found)
    if missing > 0:
        yield Check(
            CheckStatus.WARN,
            "executors",
            f"{missing} of {len(answered) + missing} ran none of {_ROUNDS} rounds of probes",
            "Something else may use their slots: run it again while nothing does.",
        )


def merge_checks(found: Iterable[tuple[str, Check]]) -> Iterator[Check]:
    """Yield each different check once, with the hosts that it holds for."""
    hosts: dict[Check, set[str]] = {}
    for host, check in found:
        hosts.setdefault(check, set()).add(host)
    order = list(dict.fromkeys(check.subject for check in hosts))
    for check in sorted(hosts, key=lambda one: order.index(one.subject)):
        where = ", ".join(sorted(hosts[check]))
        yield replace(check, what=f"{check.what}, on {where}")


def run_probe(probe: ExecutorProbe) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run in a task: yield the result of each check. Changes nothing."""
    host = socket.gethostname()
    executor = f"{host}:{os.getppid()}"  # each has a daemon that forks its workers
    for check in _checks(probe):
        yield "check", {"host": host, "executor": executor, **check.to_json()}


def _checks(probe: ExecutorProbe) -> Iterator[Check]:
    yield from compare_versions(probe.driver, Versions.here())
    yield _check_kernels()
    if probe.kafka is not None:
        yield _check_kafka(probe.kafka)
    if probe.archive is not None:
        yield _check_store(probe.archive, probe.storage)


def compare_versions(driver: Versions, executor: Versions) -> Iterator[Check]:
    """Yield a check of each version: tasks travel as code between the two."""
    for name, here, there, parts in (
        ("python", driver.python, executor.python, 2),
        ("pyspark", driver.pyspark, executor.pyspark, 2),
        ("kafkeep", driver.kafkeep, executor.kafkeep, 3),
    ):
        subject = f"executor {name}"
        if here == there:
            yield Check(CheckStatus.PASS, subject, there)
        elif here.split(".")[:parts] == there.split(".")[:parts]:
            yield Check(CheckStatus.WARN, subject, f"{there}; the driver has {here}", _SHIP)
        else:
            yield Check(CheckStatus.FAIL, subject, f"{there}; the driver has {here}", _SHIP, 1)


def _check_kernels() -> Check:
    began = time.process_time()
    try:
        compile_kernels()
    except Exception as error:  # whatever numba or the machine says
        return Check(CheckStatus.FAIL, "executor kernels", f"{error}", _SHIP, 1)
    if time.process_time() - began > SLOW_KERNELS_S:
        return Check(
            CheckStatus.WARN,
            "executor kernels",
            f"to compile loops took more than {SLOW_KERNELS_S:.0f} s of processor time",
            "Set NUMBA_CACHE_DIR to a folder that stays and can be written, so that they are kept.",
        )
    return Check(CheckStatus.PASS, "executor kernels", "compiled loops can be used")


def _check_kafka(options: KafkaOptions) -> Check:
    """Ask every broker: a task reads from the leaders, not only from the first that answers."""
    try:
        with Wire(options, connect_timeout_ms=_TIMEOUT_MS) as wire:
            admin = Admin(wire, timeout_ms=_TIMEOUT_MS)
            cluster, brokers = admin.cluster_id(), len(admin.brokers())
            with suppress(AccessDeniedError):  # what matters is that all brokers answer
                list_groups(admin)
    except KafkeepError as error:
        return _failed("executor kafka", error)
    return Check(CheckStatus.PASS, "executor kafka", f"cluster {cluster}, {brokers} broker(s)")


def _check_store(address: str, options: StorageOptions) -> Check:
    try:
        store = open_store(address, replace(options, retry_deadline_ms=_RETRY_DEADLINE_MS))
        next(iter(store.list("_kafkeep/")), None)
    except KafkeepError as error:
        return _failed("executor store", error)
    return Check(CheckStatus.PASS, "executor store", f"{store.describe()} can be listed")


def _failed(subject: str, error: KafkeepError) -> Check:
    return Check(CheckStatus.FAIL, subject, error.message, error.hint or _REACH, error.exit_code)


def _to_check(body: dict[str, Any]) -> Check:
    return Check(
        CheckStatus(body["verdict"]),
        body["subject"],
        body["what"],
        body["hint"],
        body["exit_code"],
    )
