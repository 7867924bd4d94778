"""The kind of run that restores topics, as ``kafkeep restore`` does.

A restore is asked for with the keys of the connector class ``kafkeep.Restore``. ``archive.id``
names an archive of the service's connectors; ``archive`` or ``s3.bucket.name`` and the keys beside
it name any other. ``producer.override.…`` names another cluster. The restore's own document, in
the archive or in the service's state, makes it exactly once: a run that is executed again resumes
where the last attempt stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kafkeep.archive.object_store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.connectors.families import OUR_SOURCE
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.job import JobContext, slots_within
from kafkeep.connect.jobs.sink import kafka_of
from kafkeep.connect.model import Json
from kafkeep.connect.runs.kind import RunResult, RunWork
from kafkeep.connect.runs.run import RunProgress
from kafkeep.maintenance.report_pages import restore_page
from kafkeep.objects.unlogged.view import NAME as NO_LOG
from kafkeep.options.kafka import Locations
from kafkeep.options.option import ConfigErrors, one_of, option, parse_group
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.options.unlogged import UnloggedOptions, changes_of_log, is_read_key
from kafkeep.restore.document import load_document
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.preflight import Preflight
from kafkeep.restore.run import open_restore
from kafkeep.store.open import open_store

ARCHIVE_ID = "archive.id"
STATE = "restore.state"
IN_SERVICE = "service"
NAME = "restore"
_NOT_ASKED = ("name", "connector.class", "poll.interval.ms")
_PLAN_TIMEOUT_MS = 5_000
"""How long a plan waits for a connection to Kafka: somebody waits for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """What a restore asks for, parsed."""

    options: RestoreOptions
    locations: Locations = field(repr=False)
    unlogged: UnloggedOptions | None = field(default=None, repr=False)
    tasks_max: int | None = None
    is_state_in_service: bool = False


@dataclass(frozen=True, kw_only=True)
class RestoreStateOptions:
    """Where a restore keeps its state; a connector always keeps it in the service's state."""

    state: str = option(
        STATE,
        "Where the state of the restore is kept: in the archive, or in the service's state if the "
        "archive is read-only.",
        default="archive",
        parse=one_of(STATE, "archive", IN_SERVICE),
    )


class RestoreRuns:
    """Plans and executes restores. Safe to use from any thread."""

    name = NAME

    def __init__(self, archives: Callable[[], Archives], context: Callable[[], JobContext]) -> None:
        """Create it; ``context`` returns the worker's cluster and its Spark session."""
        self._archives = archives
        self._context = context

    def connector_config(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return the keys of ``kafkeep.Restore`` that mean the same; empty values are not set."""
        config = {key: text.strip() for key, text in asked.items() if text.strip()}
        config.pop(STATE, None)
        id = config.pop(ARCHIVE_ID, None)
        if id is not None:
            config["archive"] = self._archives().place(id).address
        return {**config, "connector.class": OUR_SOURCE, "name": NAME}

    def parse(self, asked: Mapping[str, str]) -> RestoreRequest:
        """Return the options of ``asked``, whose references are resolved; UsageError if wrong."""
        if wrong := {key: "is not a key of a restore" for key in _NOT_ASKED if key in asked}:
            raise ConfigErrors(wrong)
        config = SourceConfig.from_map(self.connector_config(asked))
        storage = config.storage
        if id := asked.get(ARCHIVE_ID, "").strip():
            storage = self._archives().place(id).storage or StorageOptions.from_env()
        texts = {key: text for key, text in asked.items() if text.strip() and is_read_key(key)}
        return RestoreRequest(
            options=config.restore,
            locations=Locations(
                kafka=kafka_of(self._context().kafka, config.kafka),
                archive=config.archive,
                storage=storage,
            ),
            unlogged=UnloggedOptions.parse(texts) if texts else None,
            tasks_max=config.tasks_max,
            is_state_in_service=_state_of(asked) == IN_SERVICE,
        )

    def plan(self, asked: Mapping[str, str]) -> Preflight:
        """Return what would be written, with all checks; writes nothing."""
        request = self.parse(asked)
        with open_restore(
            request.options,
            request.locations,
            unlogged=request.unlogged,
            connect_timeout_ms=_PLAN_TIMEOUT_MS,
            documents=self.documents(request),
        ) as job:
            return job.preflight()

    def check(self, asked: Mapping[str, str]) -> None:
        """Refuse what cannot be parsed. The target is checked when the run is executed."""
        self.parse(asked)

    def execute(self, work: RunWork) -> RunResult:
        """Plan, check and write; a run that is executed again continues."""
        request = self.parse(work.asked)
        context = work.bind(self._context())
        began = time.monotonic()
        work.report(RunProgress(phase="Planning and checking"))
        with open_restore(
            request.options,
            request.locations,
            unlogged=request.unlogged,
            documents=self.documents(request),
        ) as job:
            job.slots = partial(slots_within, context, request.tasks_max)
            with context.slot:
                preflight = job.preflight()
                job.on_progress = _reporter(work, preflight, request.options)
                summary = job.run(preflight, context.run_tasks)
                job.on_progress(preflight.plan.records, preflight.plan.records)
            summary.seconds = time.monotonic() - began
            targets = _targets(job, preflight)
        return RunResult(
            verdict="warn" if summary.warnings else "good",
            summary={
                **summary.to_json(),
                "log": preflight.plan.log,
                "targets": targets,
                "warnings": summary.warnings,
                "commands": [held.command for held in summary.held_back],
            },
            report=restore_page(summary, request.locations, now_ms()),
        )

    def changes(self, request: RestoreRequest) -> ChangeOptions | None:
        """Return the changes to the records of a log; None if they are restored unchanged."""
        changes = changes_of_log(request.unlogged, request.locations.archive)
        if changes is None or not changes.transforms:
            return None
        return changes.under(dict(request.options.topics))

    def documents(self, request: RestoreRequest) -> ObjectStore | None:
        """Return the service's place for the state of restores; None: it is in the archive."""
        if not request.is_state_in_service:
            return None
        context = self._context()
        address = f"{context.state_address.rstrip('/')}/restores"
        return open_store(address, context.state_storage, create=True)


def _state_of(asked: Mapping[str, str]) -> str:
    text = asked.get(STATE, "").strip()
    return parse_group(RestoreStateOptions, {STATE: text} if text else {}).state


def _reporter(
    work: RunWork, preflight: Preflight, options: RestoreOptions
) -> Callable[[int, int], None]:
    """Return what turns the growth of the targets into progress."""
    raw_bytes = preflight.plan.raw_bytes
    unit = "offsets" if options.exact_offsets else "records"

    def report(done: int, total: int) -> None:
        done = max(0, min(done, total))
        work.report(
            RunProgress(
                phase="Writing",
                done=done,
                total=total,
                unit=unit,
                bytes=raw_bytes * done // max(1, total),
            )
        )

    report(0, preflight.plan.records)
    return report


def _targets(job: RestoreJob, preflight: Preflight) -> list[Json]:
    """Return the archived topics and their names in the target, of all attempts."""
    document = load_document(job.documents, preflight.plan.id)
    pairs = {(topic.source.topic, topic.target) for topic in preflight.plan.topics}
    if document is not None:
        pairs |= {(target.source, target.topic) for target in document.targets}
    return [{"topic": source, "target": target} for source, target in sorted(pairs)]


def has_log(result: Mapping[str, object]) -> bool:
    """Return whether the archive of a finished restore has a log, to compare its target with."""
    return result.get("log") not in (None, NO_LOG)
