"""A drill: restore the newest backup into scratch topics, compare, clean up, report.

The caller passes the function that restores. A drill writes nothing else: it keeps the document of
its restore in a temporary folder.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.clock import now_ms, tool_name
from kafkeep.compare.job import run_compare
from kafkeep.compare.plan import choose_topics
from kafkeep.compare.result import CompareResult
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.choose_log import load_chosen
from kafkeep.options.kafka import Locations
from kafkeep.options.maintenance import CompareOptions, DrillOptions, Sample
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.options.spark import SparkOptions
from kafkeep.spark.background_session import BackgroundSession
from kafkeep.store.open import open_store

logger = logging.getLogger(__name__)
PREFIX = "kafkeep-drill-"
VERSION = 1
_LONGEST_TOPIC = 180


class RestoreCounts(Protocol):
    """The part of a restore's summary that a drill uses."""

    records: int
    bytes: int
    seconds: float
    missing: list[str]
    gaps: list[dict[str, Any]]

    @property
    def left_out(self) -> list[str]:
        """Return a sentence for each loss of missing or damaged objects."""
        ...


Restore = Callable[[RestoreOptions, Locations, SparkOptions], RestoreCounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSteps:
    """The two steps of a drill that need Spark, on a session that the caller brings."""

    restore: Callable[[RestoreOptions], RestoreCounts]
    compare: Callable[[CompareOptions, str], CompareResult]
    """Compare the cluster with the log of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """The result of a drill."""

    against: CompareResult
    archived: int
    """The number of archived records of these topics."""
    restored: RestoreCounts
    scratch: Mapping[str, str]
    """Archived topic → the scratch topic it was restored into."""
    sample: str
    leftovers: tuple[str, ...]
    """Scratch topics of drills that were killed or are still running."""
    began_ms: int
    seconds: float
    warnings: tuple[str, ...] = field(default_factory=tuple)

    @property
    def proven(self) -> int:
        """The number of records that were restored unchanged."""
        return self.against.sum("matched")

    @property
    def verdict(self) -> str:
        """``clean``, ``warnings`` or ``differs``."""
        found = self.against.verdict
        return "warnings" if found == "clean" and (self.warnings or self.leftovers) else found

    @property
    def exit_code(self) -> int:
        """0, 3 or 13."""
        return 3 if self.verdict == "warnings" else self.against.exit_code

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``--output json`` and of a report; scripts may rely on it."""
        return {
            "message_type": "summary",
            "report": "drill",
            "version": VERSION,
            "tool": tool_name(),
            "verdict": self.verdict,
            "archived": self.archived,
            "restored": self.restored.records,
            "proven": self.proven,
            "proven_share": round(self.proven / self.archived, 6) if self.archived else None,
            "sample": self.sample,
            "bytes": self.restored.bytes,
            "scratch_topics": dict(self.scratch),
            "leftovers": list(self.leftovers),
            "warnings": list(self.warnings),
            "began_ms": self.began_ms,
            "seconds": round(self.seconds, 3),
            "restore_seconds": round(self.restored.seconds, 3),
            "verify": self.against.to_json(),
        }


def run_drill(
    options: DrillOptions, locations: Locations, spark: SparkOptions, restore: Restore
) -> DrillResult:
    """Restore, compare and clean up in a Spark session of its own; see ``drill``."""
    with BackgroundSession(spark, on_demand=True) as session:

        def restore_on_session(given: RestoreOptions) -> RestoreCounts:
            session.session()  # both steps share it
            return restore(given, locations, spark)

        def compare_on_session(given: CompareOptions, name: str) -> CompareResult:
            return run_compare(given, locations, spark, name=name)

        steps = DrillSteps(restore=restore_on_session, compare=compare_on_session)
        return drill(options, locations, steps)


def drill(
    options: DrillOptions, locations: Locations, steps: DrillSteps, *, id: str = ""
) -> DrillResult:
    """Restore, compare and clean up; the scratch topics are always deleted.

    A drill that is killed with SIGKILL leaves them. The next drill with the same ``id`` deletes
    them, and any other drill reports them.
    """
    began_ms, began = now_ms(), time.monotonic()
    with Wire(locations.kafka) as wire:
        admin = Admin(wire)
        store = open_store(locations.archive, locations.storage)
        view = view_to_try(store, options)
        wanted = CompareOptions(topics=tuple((t, t) for t in options.topics), commit=view.commit)
        sources = [info for info, _ in choose_topics(view.topics, wanted)]
        scratch = scratch_names([info.topic for info in sources], began_ms, id)
        kept: list[str] = []
        leftovers = _leftovers(admin)
        if id:
            mine = tuple(name for name in leftovers if name.startswith(f"{PREFIX}{id}-"))
            _delete(admin, mine, kept)
            leftovers = tuple(name for name in leftovers if name not in mine)
        archived = {(info.topic, info.incarnation) for info in sources}
        picks = pick_sample(view, archived, options.sample, random.SystemRandom())
        names = tuple(scratch.values())
        with cleaned_up(admin, names, kept), tempfile.TemporaryDirectory() as folder:
            restored = steps.restore(
                RestoreOptions(
                    topics=tuple(scratch.items()),
                    commit=view.commit,
                    name=view.name,
                    offsets=picks,
                    replication_factor=options.replication_factor,
                    rate_bytes=options.rate_bytes,
                    state=folder,
                )
            )
            compared = replace(wanted, topics=tuple(scratch.items()), offsets=picks)
            against = steps.compare(compared, view.name)
    return DrillResult(
        against=against,
        archived=sum(e.own_records for name in archived for e in view.entries(*name)),
        restored=restored,
        scratch=scratch,
        sample=str(options.sample) if options.sample else "all",
        leftovers=leftovers,
        began_ms=began_ms,
        seconds=time.monotonic() - began,
        warnings=(*_warnings(restored), *kept),
    )


def view_to_try(store: ObjectStore, options: DrillOptions) -> ArchiveView:
    """Return the view to restore; PreflightError when several logs match a requested commit."""
    topics = options.topics or None
    return load_chosen(store, options.name, topics, at_ms=options.at_ms, commit=options.commit)


def scratch_names(topics: Sequence[str], at_ms: int, id: str = "") -> dict[str, str]:
    """Return a unique name for each topic: prefix, id or time, random part, number, topic."""
    when = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    run = f"{PREFIX}{id or when}-{uuid.uuid4().hex[:8]}"
    return {
        topic: f"{run}-{number}-{topic[:_LONGEST_TOPIC]}" for number, topic in enumerate(topics)
    }


def pick_sample(
    view: ArchiveView,
    topics: set[tuple[str, int]],
    sample: Sample | None,
    chance: random.Random,
) -> tuple[OffsetPick, ...]:
    """Return one range of offsets of each partition, at a random place; none means everything."""
    if sample is None:
        return ()
    spans: dict[PartitionId, OffsetRange] = {}
    for name in topics:
        for entry in view.entries(*name):
            known = spans.get(entry.partition_id, entry.range)
            start, end = min(known.start, entry.range.start), max(known.end, entry.range.end)
            spans[entry.partition_id] = OffsetRange(start, end)
    picks = []
    for partition_id, span in sorted(spans.items()):
        size = sample.offsets(len(span))
        if size:
            start = chance.randint(span.start, span.end - size)
            stretch = OffsetRange(start, start + size)
            picks.append(OffsetPick(partition_id.topic, partition_id.partition, stretch))
    return tuple(picks)


def _leftovers(admin: Admin) -> tuple[str, ...]:
    return tuple(sorted(name for name in admin.topics() if name.startswith(PREFIX)))


@contextmanager
def cleaned_up(admin: Admin, topics: tuple[str, ...], kept: list[str]) -> Iterator[None]:
    """Delete the topics at the end, also after an error.

    A failure to delete them is added to ``kept`` and does not hide the result of the drill.
    """
    try:
        yield
    finally:
        _delete(admin, topics, kept)


def _delete(admin: Admin, topics: tuple[str, ...], kept: list[str]) -> None:
    try:
        admin.delete_topics(topics)
    except KafkeepError as error:
        kept.append(f"scratch topics were not deleted: {error.message}")
        logger.warning("%s", kept[-1])


def _warnings(restored: RestoreCounts) -> Iterator[str]:
    """Yield what a restore of this archive would lack, without retention settings."""
    yield from restored.left_out
    yield from restored.missing
    for gap in restored.gaps:
        yield (
            f"{gap['topic']}-{gap['partition']}: offsets {gap['start']} to {gap['end'] - 1} are "
            f"not in the archive: {gap['reason']}"
        )
