"""A schedule as a value: what to run, when, and which time was the last; and its JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kafkeep.archive.document import as_dict, as_int, as_str
from kafkeep.connect.model import Json, RestError

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
EVERY_DAY = "day"
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = timedelta(days=1)


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
