"""A run as a value: what was asked, how far it is, what came of it; and its JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from kafkeep.archive.document import as_dict, as_int, as_str
from kafkeep.connect.model import Json, RestError


class RunStage(StrEnum):
    """How far a run is. Only a ``FAILED`` or ``PAUSED`` run continues when it is started again."""

    DRAFT = "draft"
    QUEUED = "queued"
    """Starts as soon as another run ends."""
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = (RunStage.QUEUED, RunStage.RUNNING)
ENDED = (RunStage.DONE, RunStage.FAILED, RunStage.CANCELLED)
_FROM: Mapping[str, tuple[RunStage, ...]] = {
    "change": (RunStage.DRAFT,),
    "start": (RunStage.DRAFT, RunStage.PAUSED, RunStage.FAILED),
    "resume": (RunStage.PAUSED, RunStage.FAILED),
    "pause": ACTIVE,
    "cancel": (*ACTIVE, RunStage.PAUSED),
    "delete": (RunStage.DRAFT, RunStage.PAUSED, *ENDED),
}
"""What may be done with a run, and in which stages."""
_DONE_WITH = {
    "change": "changed",
    "start": "started",
    "resume": "resumed",
    "pause": "paused",
    "cancel": "cancelled",
    "delete": "deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run is. ``total`` is None while it is not known yet."""

    phase: str
    """What it does at the moment: ``Writing records``."""
    done: int = 0
    total: int | None = None
    unit: str = "records"
    bytes: int = 0
    per_second: float | None = None
    seconds_left: float | None = None
    note: str = ""
    """Why it does not get on: the error after which it tries again."""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None while it is not known."""
        return None if self.total is None else min(1.0, self.done / max(1, self.total))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One revision of a run. ``asked`` holds secrets as they were sent; answers mask them."""

    id: str
    kind: str
    stage: RunStage
    asked: Mapping[str, str] = field(repr=False)
    created_ms: int
    created_by: str
    revision: int = 0
    changed_ms: int = 0
    started_ms: int | None = None
    started_by: str = ""
    ended_ms: int | None = None
    worker_id: str = ""
    """The worker that does it, or did it last."""
    progress: RunProgress | None = None
    verdict: str = ""
    """Of a run that is done: ``good``, ``warn`` or ``bad``."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """A summary of what came of it; the report has the details."""
    report: str = ""
    """The name of its report; empty if it has none."""
    error: str = ""
    hint: str = ""
    is_stopping: bool = False
    """True while work still ends after a pause or a cancel; never stored."""

    def may(self, action: str) -> bool:
        """Return whether an action is possible: ``start``, ``pause`` and so on."""
        return self.stage in _FROM[action] and not (action == "delete" and self.is_stopping)

    def require(self, action: str) -> None:
        """Raise RestError 409 unless the action is possible."""
        if self.may(action):
            return
        if self.is_stopping:
            raise RestError(409, f"The {self.kind} {self.id} is still stopping; try again soon")
        stages = ", ".join(_FROM[action])
        raise RestError(
            409,
            f"The {self.kind} {self.id} is {self.stage} and cannot be {_DONE_WITH[action]}; "
            f"that is possible while it is: {stages}",
        )

    def to_json(self) -> Json:
        """Return the fields of its document, with secrets."""
        document = asdict(self)
        del document["is_stopping"]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Run:
        """Parse a document; KeyError, TypeError or ValueError when it is none."""
        progress = document["progress"]
        return cls(
            id=as_str(document["id"]),
            kind=as_str(document["kind"]),
            stage=RunStage(document["stage"]),
            asked={as_str(key): as_str(text) for key, text in as_dict(document["asked"]).items()},
            created_ms=as_int(document["created_ms"]),
            created_by=as_str(document["created_by"]),
            revision=as_int(document["revision"]),
            changed_ms=as_int(document["changed_ms"]),
            started_ms=_int_or_none(document["started_ms"]),
            started_by=as_str(document["started_by"]),
            ended_ms=_int_or_none(document["ended_ms"]),
            worker_id=as_str(document["worker_id"]),
            progress=None if progress is None else _progress(as_dict(progress)),
            verdict=as_str(document["verdict"]),
            result=as_dict(document["result"]),
            report=as_str(document["report"]),
            error=as_str(document["error"]),
            hint=as_str(document["hint"]),
        )


def started(run: Run, who: str, at_ms: int) -> Run:
    """Return a run that waits for its turn; 409 when it cannot be started."""
    run.require("start")
    return replace(
        run,
        stage=RunStage.QUEUED,
        started_ms=run.started_ms or at_ms,
        started_by=who,
        ended_ms=None,
        error="",
        hint="",
    )


def _progress(document: Mapping[str, Any]) -> RunProgress:
    rates = (document["per_second"], document["seconds_left"])
    per_second, seconds_left = (None if one is None else float(one) for one in rates)
    return RunProgress(
        phase=as_str(document["phase"]),
        done=as_int(document["done"]),
        total=_int_or_none(document["total"]),
        unit=as_str(document["unit"]),
        bytes=as_int(document["bytes"]),
        per_second=per_second,
        seconds_left=seconds_left,
        note=as_str(document["note"]),
    )


def _int_or_none(value: Any) -> int | None:
    return None if value is None else as_int(value)
