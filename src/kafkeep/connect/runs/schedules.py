"""The schedules of a service: read on any worker, changed and followed on the worker that leads.

All schedules are one small document with revisions, ``schedules/000000000004.json``. A run names
its schedule and the time that it is for. So a worker that died after it had started a run does not
make the next one start it again.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from kafkeep.archive.document import (
    as_dict,
    as_int,
    as_str,
    dump_with_checksum,
    parse_with_checksum,
    reading,
)
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import CreateOutcome, DocumentSequence
from kafkeep.connect.model import Json, RestError
from kafkeep.connect.runs.kind import DUE, SCHEDULE
from kafkeep.connect.runs.run import ACTIVE, Run, RunStage
from kafkeep.errors import (
    FencedError,
    KafkeepError,
    NewerFormatError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.failpoint import failpoint
from kafkeep.retry import JOURNAL

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EVERY_DAY = "day"
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = timedelta(days=1)
VERSION = 1
MOST_SCHEDULES = 200
FRESH_S = 1.0
_MAX_BYTES = 4 << 20
_KEPT_REVISIONS = 2
_RETRY_S = 30.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule:
    """Start a run of a kind every day, or on one day of every week, at a time in UTC."""

    id: str
    kind: str
    asked: Mapping[str, str] = field(repr=False)
    every: str
    """``day``, or a day of the week: ``monday``."""
    at: str
    """``HH:MM``, in UTC."""
    created_ms: int
    created_by: str
    last_due_ms: int
    """The last time that was handled; the time of creation at first."""
    problem: str = ""
    """Why no run was started at the last time; empty if one was."""

    def latest_ms(self, now_ms: int) -> int:
        """Return the last time at or before ``now_ms`` that it names."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        hour, minute = map(int, self.at.split(":"))
        found = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        while found > now or not self._is_on(found):
            found -= _DAY
        return int(found.timestamp() * 1000)

    def next_ms(self, now_ms: int) -> int:
        """Return the first time after ``now_ms`` that it names."""
        step = 1 if self.every == EVERY_DAY else len(WEEKDAYS)
        return self.latest_ms(now_ms) + step * int(_DAY.total_seconds() * 1000)

    def _is_on(self, day: datetime) -> bool:
        return self.every in (EVERY_DAY, WEEKDAYS[day.weekday()])

    def to_json(self) -> Json:
        """Return the fields of its document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunSchedule:
        """Parse a document; KeyError, TypeError or ValueError when it is none."""
        every, at = check_time(as_str(document["every"]), as_str(document["at"]))
        return cls(
            id=as_str(document["id"]),
            kind=as_str(document["kind"]),
            asked={as_str(key): as_str(text) for key, text in as_dict(document["asked"]).items()},
            every=every,
            at=at,
            created_ms=as_int(document["created_ms"]),
            created_by=as_str(document["created_by"]),
            last_due_ms=as_int(document["last_due_ms"]),
            problem=as_str(document["problem"]),
        )


def check_time(every: str, at: str) -> tuple[str, str]:
    """Return when a schedule is due; RestError 400 unless it is a day and a time."""
    if every not in (EVERY_DAY, *WEEKDAYS):
        names = ", ".join(WEEKDAYS)
        raise RestError(400, f"every must be {EVERY_DAY} or a day of the week ({names})")
    if not _TIME.fullmatch(at):
        raise RestError(400, f"at must be a time like 03:30, in UTC, not {at!r:.40}")
    return every, at


class ScheduledRuns(Protocol):
    """The part of the board that schedules use."""

    def check(self, kind: str, asked: Mapping[str, str]) -> None:
        """Raise a KafkeepError unless such a run can be started."""

    def find_all(self, *kinds: str) -> list[Run]:
        """Return the runs of these kinds."""

    def create(self, kind: str, asked: Mapping[str, str], who: str) -> Run:
        """Store a draft."""

    def start(self, id: str, who: str) -> Run:
        """Start a draft."""


class ScheduleBook:
    """The schedules as one worker sees them. Safe to use from any thread."""

    def __init__(
        self, store: ObjectStore, runs: ScheduledRuns, clock_ms: Callable[[], int]
    ) -> None:
        self._documents = DocumentSequence(
            store=store, folder="schedules/", max_bytes=_MAX_BYTES, is_pruned=True
        )
        self._runs = runs
        self._clock_ms = clock_ms
        self._lock = threading.RLock()
        self._schedules: tuple[RunSchedule, ...] = ()
        self._revision = -1
        self._leads = False
        self._read_at = -FRESH_S
        self._retry_at = 0.0

    def find_all(self) -> list[RunSchedule]:
        """Return all schedules, the oldest first."""
        with self._lock:
            if not self._leads and time.monotonic() - self._read_at > FRESH_S:
                self._load()
            return list(self._schedules)

    def expire(self) -> None:
        """Let the next call read the schedules again."""
        self._read_at = -FRESH_S

    def stop(self) -> None:
        """Follow no schedule any more: this worker does not lead."""
        self._leads = False

    def create(
        self, kind: str, asked: Mapping[str, str], when: Mapping[str, str], who: str
    ) -> RunSchedule:
        """Add a schedule; 400 unless a run that asks for this could start now."""
        every, at = check_time(when.get("every", ""), when.get("at", ""))
        self._runs.check(kind, asked)
        at_ms = self._clock_ms()
        added = RunSchedule(
            id=uuid.uuid4().hex[:10],
            kind=kind,
            asked=dict(asked),
            every=every,
            at=at,
            created_ms=at_ms,
            created_by=who,
            last_due_ms=at_ms,
        )
        with self._lock:
            if len(self._schedules) >= MOST_SCHEDULES:
                raise RestError(409, f"There are {MOST_SCHEDULES} schedules: delete one first")
            self._save((*self._schedules, added))
        return added

    def delete(self, id: str) -> None:
        """Remove a schedule; its runs stay. 404 when there is none."""
        with self._lock:
            kept = tuple(one for one in self._schedules if one.id != id)
            if len(kept) == len(self._schedules):
                raise RestError(404, f"There is no schedule {id!r:.40}")
            self._save(kept)

    def reconcile(self) -> None:
        """Start what is due; the leader calls it every few seconds.

        Times that passed while no worker led are made up for by one run.
        """
        with self._lock:
            if not self._leads:
                self._load()
                self._leads = True
            if time.monotonic() < self._retry_at:
                return
            now_ms = self._clock_ms()
            for one in self._schedules:
                due_ms = one.latest_ms(now_ms)
                if due_ms > one.last_due_ms:
                    self._run(one, due_ms)

    def _run(self, one: RunSchedule, due_ms: int) -> None:
        problem = ""
        try:
            self._start(one, due_ms)
        except TransientError as error:
            logger.warning("schedule %s: %s; trying again", one.id, error.message)
            self._retry_at = time.monotonic() + _RETRY_S
            return
        except (FencedError, UnknownOutcomeError):
            raise
        except KafkeepError as error:
            logger.warning("schedule %s: no %s was started: %s", one.id, one.kind, error.message)
            problem = error.message
        failpoint("schedule.started")
        done = replace(one, last_due_ms=due_ms, problem=problem)
        self._save(tuple(done if each.id == one.id else each for each in self._schedules))

    def _start(self, one: RunSchedule, due_ms: int) -> None:
        mine = [run for run in self._runs.find_all(one.kind) if run.asked.get(SCHEDULE) == one.id]
        run = next((run for run in mine if run.asked.get(DUE) == str(due_ms)), None)
        if run is None:
            if any(run.stage in ACTIVE for run in mine):
                raise RestError(409, "the run of the time before has not ended")
            self._runs.check(one.kind, one.asked)
            asked = {**one.asked, SCHEDULE: one.id, DUE: str(due_ms)}
            run = self._runs.create(one.kind, asked, one.created_by)
            failpoint("schedule.created")
        if run.stage is RunStage.DRAFT:
            self._runs.start(run.id, one.created_by)

    def _load(self) -> None:
        self._read_at = time.monotonic()
        numbers = list(self._documents.iter_numbers())
        newest = max(numbers, default=-1)
        if newest == self._revision:
            return
        found = self._documents.load_newest_intact(numbers, self._read)
        self._schedules, self._revision = found or (), newest

    def _read(self, number: int) -> tuple[RunSchedule, ...]:
        key = self._documents.key(number)
        document = parse_with_checksum(self._documents.read(number), key, ())
        if document["version"] > VERSION:
            raise NewerFormatError(
                f"{key}: version {document['version']} needs a newer kafkeep",
                hint="Install the newest kafkeep on every worker of this state.",
            )
        with reading(key):
            return tuple(RunSchedule.from_json(one) for one in document["schedules"])

    def _save(self, schedules: tuple[RunSchedule, ...]) -> None:
        """Create the next revision. FencedError when another worker has created it."""
        number = self._revision + 1
        document = {"version": VERSION, "schedules": [one.to_json() for one in schedules]}
        creation = self._documents.create(number, dump_with_checksum(document), JOURNAL)
        if creation.outcome is CreateOutcome.UNKNOWN:
            raise UnknownOutcomeError(
                "no answer says whether the schedules were stored",
                hint="Look at the schedules, and send the request again if they have not changed.",
            ) from creation.failure
        if not creation.is_ours:
            self._load()
            raise FencedError("another worker has changed the schedules")
        self._schedules, self._revision = schedules, number
        if number >= _KEPT_REVISIONS:
            self._documents.delete(number - _KEPT_REVISIONS)
