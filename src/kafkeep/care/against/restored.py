"""What a restore's document says of how its target is to be compared. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.reader import ArchiveView
from kafkeep.config.against import AgainstOptions
from kafkeep.errors import PreflightError
from kafkeep.kafka.schema_ids import IdMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a document says of one target topic; empty when there is none."""

    bases: Mapping[int, int] = field(default_factory=dict)
    """Where each partition's records begin."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What was picked, and into what shape: ``RestoreOptions.selection``."""
    ids: IdMap | None = None
    """Which schema ids records got; None: they kept theirs."""
    source: tuple[str, int] | None = None
    """The archived topic and its incarnation."""
    commit: tuple[str, int] | None = None
    """The log and the commit that were restored."""

    @property
    def spread(self) -> bool:
        """Whether records came into other partitions than they were in."""
        return bool(self.asked.get("partition_map") or self.asked.get("partition_count"))

    def moved(self, partitions: Collection[int]) -> dict[int, int] | None:
        """Return where each partition went as a whole; None when that has no answer."""
        if not self.spread:
            return {number: number for number in partitions}
        chosen = {
            int(source): int(target) for source, target in self.asked.get("partition_map", ())
        }
        whole = len(set(chosen.values())) == len(chosen) and set(partitions) <= chosen.keys()
        return chosen if whole else None


NOTHING_WRITTEN = Written()


def as_restored(
    view: ArchiveView, newest: TopicInfo, written: Written, options: AgainstOptions
) -> TopicInfo:
    """Return the incarnation to compare with: the one asked for, else the one that was restored."""
    told = dict(options.incarnations)
    if newest.topic in told or written.source is None or written.source[0] != newest.topic:
        return newest
    return view.topics.get(written.source, newest)


def check_asked(topic: str, written: Written) -> None:
    """Refuse what was restored in a way that leaves nothing to compare with."""
    if written.asked.get("filter"):
        raise PreflightError(
            f"topic {topic} was restored with --filter: what it left out cannot be told from what "
            "was lost",
            hint="Leave it out with --topics.",
        )
    if written.asked.get("transforms"):
        raise PreflightError(
            f"topic {topic} was restored with transforms: its records are not the archived ones",
            hint="Leave it out with --topics.",
        )


def about_restore(
    source: TopicInfo, written: Written, view: ArchiveView, options: AgainstOptions
) -> Iterator[str]:
    """Say what the document tells, as far as it matters here."""
    bases = {n: base for n, base in written.bases.items() if base}
    if bases:
        yield "records before the restore began are not compared: " + ", ".join(
            f"partition {n} begins at {base}" for n, base in sorted(bases.items())
        )
    if written.ids is not None:
        yield "its restore gave records other schema ids: compared with those"
    if written.source == (source.topic, source.incarnation) and _is_old(source, view):
        yield f"its restore was of incarnation {source.incarnation}: compared with that"
    if written.commit is not None and written.commit != (view.name, view.commit):
        log, number = written.commit
        yield f"its restore was of commit {number} of {log}, this comparison is of {view.commit}"
    given = {
        "partitions": options.partitions,
        "offsets": options.offsets,
        "from": options.from_ms,
        "until": options.until_ms,
    }
    for name, value in given.items():
        if written.asked.get(name) is not None and value in (None, ()):
            yield f"its restore was given --{name}, this comparison is not"


def _is_old(source: TopicInfo, view: ArchiveView) -> bool:
    return any(n > source.incarnation for name, n in view.topics if name == source.topic)


def is_exact(written: Written, options: AgainstOptions) -> bool:
    """Whether records must stand at their old offsets: said here, or by the document."""
    return options.exact_offsets or bool(written.asked.get("exact"))
