"""What a kind of run has to provide, and what it is asked for.

To add a kind, write a class with a ``name`` and the two methods of ``RunKind`` in a module beside
this one, and pass an instance to the ``RunBoard`` in ``connect/serve.py``. ``check`` parses what
was asked with the options that the command line declares. ``execute`` does the work in a thread of
the leader. Its effects must tolerate that it runs again from the beginning: after a pause, after
the death of the worker, and after a TransientError. Then add the resource to ``connect/rest/v1/``
and a page, which create, start and read runs of that kind (``v1/restores.py`` is an example).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.runs.run import RunProgress
from kafkeep.errors import NoSuchArchiveError
from kafkeep.maintenance.report import ReportPage
from kafkeep.options.option import ConfigErrors, did_you_mean, iter_options, option, parse_group

Verdict = Literal["good", "warn", "bad"]
T = TypeVar("T")
ARCHIVE = "archive.id"
"""Not the address: the worker restricts the addresses that callers may name."""
SCHEDULE, DUE = "schedule", "due"
"""Which schedule started a run, and for which time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of a run: ``summary`` is shown with it, ``report`` on a page of its own."""

    verdict: Verdict
    summary: Mapping[str, Any] = field(default_factory=dict)
    report: ReportPage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork:
    """What a kind gets to do its work."""

    id: str
    asked: Mapping[str, str] = field(repr=False)
    """What was asked, with references to config providers resolved."""
    stop: threading.Event
    """Set when the run is paused or cancelled, or when the worker stops."""
    report: Callable[[RunProgress], None]
    """Publishes progress; call it as often as you like."""

    def bind(self, context: JobContext) -> JobContext:
        """Return a context whose tasks run in this run's pool and end when it stops."""
        tasks = partial(context.run_tasks, pool=f"run-{self.id}", stop=self.stop)
        return replace(context, run_tasks=tasks)


class RunKind(Protocol):
    """One kind of run: what may be asked, and how it is done."""

    @property
    def name(self) -> str:
        """The name of the kind in documents and answers: ``restore``."""

    def check(self, asked: Mapping[str, str]) -> None:
        """Raise UsageError or RestError unless a run that asks for this can be started."""

    def execute(self, work: RunWork) -> RunResult:
        """Do the work. After ``work.stop`` is set, raise anything, or return if it was done.

        A TransientError is tried again. Any other KafkeepError fails the run.
        """


@dataclass(frozen=True, kw_only=True)
class ArchiveChoice:
    """The archive that a run is about."""

    archive_id: str = option("archive.id", "The id of the archive.", metavar="ID")


def parse_asked(asked: Mapping[str, str], group: type[T]) -> tuple[ArchiveChoice, T]:
    """Return the archive and the options of ``group``; ConfigErrors for anything else.

    An empty value is the default, as in a form that was left empty.
    """
    given = {key: text for key, text in asked.items() if text.strip()}
    known = [one.name for part in (ArchiveChoice, group) for one in iter_options(part)]
    wrong = {
        key: did_you_mean(key, known) or "there is no such option"
        for key in given
        if key not in (*known, SCHEDULE, DUE)
    }
    if wrong:
        raise ConfigErrors(wrong)
    return parse_group(ArchiveChoice, given), parse_group(group, given)


def check_archive(archives: Archives, id: str, log: str | None) -> None:
    """Refuse an archive that no connector uses, or that lacks the log; without one, any log."""
    place = archives.place(id)
    if log is not None:
        archives.log(place, log)
    elif not archives.log_names(place):
        raise NoSuchArchiveError(
            f"{place.address} has no log yet", hint="Wait for the first commit of a connector."
        )
