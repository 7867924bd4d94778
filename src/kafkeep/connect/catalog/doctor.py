"""Check what the worker needs: its machine, Kafka, the store of its state, and each archive.

These are the checks of ``kafkeep doctor``. They write small objects to each store and remove them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass, replace

from kafkeep.check_result import Check, CheckStatus
from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.model import RestError
from kafkeep.maintenance.doctor import (
    check_disk,
    check_java,
    check_kafka,
    check_store,
    errors_as_checks,
)
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions

PATIENCE_S = 30.0
"""All checks together; what has not answered by then has failed."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """The checks of one part of the worker's surroundings."""

    title: str
    place: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> CheckStatus:
        """The worst verdict of its checks."""
        found = {one.verdict for one in self.checks}
        for verdict in (CheckStatus.FAIL, CheckStatus.WARN):
            if verdict in found:
                return verdict
        return CheckStatus.PASS


@dataclass(frozen=True, slots=True)
class _Part:
    title: str
    place: str
    run: Callable[[], Iterable[Check]]


class WorkerDoctor:
    """Runs the checks; one run at a time."""

    def __init__(
        self,
        kafka: KafkaOptions,
        state: ArchivePlace | None,
        archives: Callable[[], Sequence[ArchivePlace]],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._kafka = kafka
        self._state = state
        self._archives = archives
        self._patience_s = patience_s
        self._running = threading.Lock()

    def examine(self) -> list[CheckedPart]:
        """Return the checks of each part within ``patience_s``; 409 while another run lasts."""
        if not self._running.acquire(blocking=False):
            raise RestError(409, "The checks are already running. Wait for them to end.")
        try:
            return self._examine(self._parts())
        finally:
            self._running.release()

    def _parts(self) -> list[_Part]:
        kafka = self._kafka
        parts = [
            _Part("This machine", "", lambda: (*_checks("java"), *_checks("disk"))),
            _Part(
                "Kafka",
                kafka.bootstrap_servers,
                lambda: errors_as_checks("kafka", check_kafka(kafka)),
            ),
        ]
        if self._state is not None:
            parts.append(_store_part("State of the service", self._state, is_archive=False))
        for place in self._archives():
            title = f"Archive of {', '.join(place.connectors)}"
            parts.append(_store_part(title, place, is_archive=True))
        return parts

    def _examine(self, parts: Sequence[_Part]) -> list[CheckedPart]:
        deadline = time.monotonic() + self._patience_s
        pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor")
        try:
            runs = [pool.submit(_run, one) for one in parts]
            return [
                CheckedPart(
                    title=one.title,
                    place=one.place,
                    checks=self._result(run, one.title, deadline),
                )
                for one, run in zip(parts, runs, strict=True)
            ]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _result(
        self, run: Future[tuple[Check, ...]], title: str, deadline: float
    ) -> tuple[Check, ...]:
        try:
            return run.result(max(0.0, deadline - time.monotonic()))
        except NotDone:
            what = f"did not answer within {self._patience_s:g} s"
            hint = "Check the network between the worker and it, then run the checks again."
            return (Check(CheckStatus.FAIL, title, what, hint, 1),)


def _run(part: _Part) -> tuple[Check, ...]:
    return tuple(part.run())


def _checks(name: str) -> Iterable[Check]:
    return errors_as_checks(name, check_java() if name == "java" else check_disk())


def _store_part(title: str, place: ArchivePlace, *, is_archive: bool) -> _Part:
    def run() -> Iterable[Check]:
        storage = place.storage or StorageOptions.from_env()
        checks = errors_as_checks("store", check_store(place.address, storage, now_ms))
        for number, one in enumerate(checks):
            if number == 0 and not is_archive:
                one = replace(one, what=one.what.partition(";")[0])  # noqa: PLW2901 - no archive
            yield one

    return _Part(title, place.address, run)
