"""Choose the log, the topics and the incarnations that a command reads. Reads logs, no objects.

A log is preferred if its objects hold more of each record; ``what_is_missing`` lists what they
lack. Runs on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry
from kafkeep.archive.names import log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, list_logs, load_view, load_views
from kafkeep.errors import KafkeepError, NoSuchArchiveError, PreflightError, UsageError
from kafkeep.objects.sink.read_windows import (
    ENVELOPE,
    SEGMENT,
    Window,
    entries_by_partition,
    first_offset,
    iter_windows,
)
from kafkeep.objects.sink.spec import REGISTERED, ReadOptions
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.sink.converters import ConverterClass
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.unlogged import UnloggedOptions


def choose_logs(
    store: ObjectStore, name: str | None = None, *, commit: int | None = None
) -> list[str]:
    """Return the log called ``name``, or all logs when ``name`` is None.

    Raise NoSuchArchiveError when there is no such log. Raise PreflightError when ``commit`` is
    given and there are several logs: a commit number belongs to one log.
    """
    if name is not None:
        log_name(name)
    there = list_logs(store)
    if not there:
        raise NoSuchArchiveError(
            f"nothing is archived at {store.describe()}",
            hint="Check the address: an archive has a folder _kafkeep below its prefix. Objects of "
            "Confluent's sink without it are for restore, cat, info, ls, du and verify.",
        )
    if name is not None and name not in there:
        raise NoSuchArchiveError(
            f"{store.describe()} has no log named {name!r}",
            hint=f"There is: {', '.join(there)}.",
        )
    if name is None and commit is not None and len(there) > 1:
        raise PreflightError(
            f"{store.describe()} has several logs, and a commit belongs to one of them: "
            f"{', '.join(there)}",
            hint="Choose one with --name.",
        )
    return there if name is None else [name]


def without_log(
    store: ObjectStore, name: str | None, unlogged: UnloggedOptions | None
) -> UnloggedOptions | None:
    """Return the options for unlogged objects, or None to read a log.

    ``name`` is the log that the user named. ``unlogged`` are the user's options for unlogged
    objects, which are an error if there is a log to read.
    """
    if name is None and not list_logs(store):
        return unlogged or UnloggedOptions()
    if unlogged is not None and unlogged.texts:
        raise UsageError(
            f"{store.describe()} has a log, which says how its objects were made",
            hint="--set and --connector-config are for objects of Confluent's sink without a log.",
        )
    return None


class Wholeness(IntEnum):
    """How completely a log holds its records. A higher value is better."""

    LOSSY = 0
    WHOLE = 1
    """Complete records, stored as rows."""
    EXACT = 2
    """The record batches as Kafka stored them."""


def wholeness(entries: Iterable[Entry]) -> Wholeness:
    """Return the lowest wholeness among the entries."""
    others = [entry for entry in entries if entry.format != SEGMENT]
    if not others:
        return Wholeness.EXACT
    return Wholeness.LOSSY if what_is_missing(others) else Wholeness.WHOLE


def choose_best(found: Mapping[str, Sequence[Entry]], what: str, hint: str) -> str:
    """Return the log that holds its records most completely.

    Raise PreflightError when two logs rank equal. An empty log counts only if all logs are empty:
    its entries were retired, or its first backup has not committed yet.
    """
    filled = {name: entries for name, entries in found.items() if entries} or found
    judged = {name: wholeness(entries) for name, entries in filled.items()}
    best = [name for name, rank in judged.items() if rank == max(judged.values())]
    if len(best) > 1:
        raise PreflightError(
            f"{what} in {len(best)} logs of this archive: {', '.join(sorted(best))}", hint=hint
        )
    return best[0]


def choose_view(views: Sequence[ArchiveView], topics: Collection[str] | None) -> ArchiveView:
    """Return the log that holds these topics (None: all topics) most completely.

    Raise PreflightError when two logs rank equal, or when no log holds all of the topics.
    """
    if len(views) == 1:
        return views[0]
    wanted = set(topics or {topic for view in views for topic, _ in view.topics})
    holders = {v.name: v for v in views if wanted <= {topic for topic, _ in v.topics}}
    if not holders:
        raise PreflightError(
            f"no log of this archive has all of {', '.join(sorted(wanted))}: there are "
            f"{', '.join(sorted(view.name for view in views))}",
            hint="Choose one with --name, and its topics with --topics.",
        )
    if len(holders) == 1:
        return next(iter(holders.values()))
    entries = {
        name: [entry for topic in sorted(wanted) for entry in _newest(view, topic)]
        for name, view in holders.items()
    }
    named = ", ".join(sorted(wanted))
    return holders[choose_best(entries, f"{named} can be read", "Choose one with --name.")]


def _newest(view: ArchiveView, topic: str) -> list[Entry]:
    return view.entries(topic, choose_incarnation(view.topics, topic, None).incarnation)


def choose_incarnation(
    topics: Mapping[tuple[str, int], TopicInfo],
    topic: str,
    number: int | None,
    *,
    refusal: type[KafkeepError] = UsageError,
) -> TopicInfo:
    """Return incarnation ``number`` of a topic, or the newest one when ``number`` is None. Pure.

    ``topics`` come from a view. Raise ``refusal`` when there is no such incarnation. With
    ``number`` None the topic must be in ``topics``.
    """
    found = {count: info for (name, count), info in topics.items() if name == topic}
    wanted = max(found) if number is None else number
    if wanted not in found:
        there = ", ".join(str(count) for count in sorted(found))
        raise refusal(
            f"topic {topic} has no incarnation {wanted} in the archive",
            hint=f"It has: {there}." if there else None,
        )
    return found[wanted]


def choose_log(
    store: ObjectStore,
    name: str | None = None,
    topics: Collection[str] | None = None,
    *,
    at_ms: int | None = None,
    commit: int | None = None,
) -> str:
    """Return the log called ``name``, the only log, or the log with the most complete records.

    With ``at_ms``, logs are compared as they were at that time. Raise PreflightError when two logs
    rank equal for these topics (None: all topics), or when ``commit`` is given without a name and
    there are several logs.
    """
    there = choose_logs(store, name, commit=commit)
    if len(there) == 1:
        return there[0]
    views = load_views(store, there, at_ms)
    check_topics(views, topics)
    return choose_view(views, topics).name


def load_chosen(
    store: ObjectStore,
    name: str | None,
    topics: Collection[str] | None,
    *,
    at_ms: int | None,
    commit: int | None,
) -> ArchiveView:
    """Load the log that ``choose_log`` chooses, as it was at ``commit`` or at ``at_ms``."""
    log = choose_log(store, name, topics, at_ms=at_ms, commit=commit)
    return load_view(store, log, commit=commit, at_ms=at_ms)


def check_topics(views: Iterable[ArchiveView], topics: Collection[str] | None) -> None:
    """Raise NoSuchArchiveError unless each of ``topics`` is in at least one view."""
    known = {topic for view in views for topic, _ in view.topics}
    missing = sorted(set(topics or ()) - known)
    if missing:
        raise NoSuchArchiveError(
            f"the archive holds no topic {', '.join(missing)}",
            hint=f"It holds: {', '.join(sorted(known)) or 'none'}.",
        )


def check_partitions(
    views: Iterable[ArchiveView], topics: Collection[str] | None, partitions: Collection[int] | None
) -> None:
    """Raise NoSuchArchiveError unless each partition exists in one of ``topics`` (None: any)."""
    counts: dict[str, int] = {}
    for view in views:
        for (topic, _), info in view.topics.items():
            if not topics or topic in topics:
                counts[topic] = max(counts.get(topic, 0), info.partitions)
    missing = sorted(n for n in set(partitions or ()) if n >= max(counts.values(), default=0))
    if missing:
        there = ", ".join(f"{count} of {topic}" for topic, count in sorted(counts.items()))
        raise NoSuchArchiveError(
            f"no topic asked for has a partition {', '.join(map(str, missing))}",
            hint=f"Partitions count from 0, and there are {there or 'none'}.",
        )


_NAMES = {"json": "JSON", "avro": "Avro", "parquet": "Parquet", "bytes": "bytes"}
_REGISTERED = {kind.rpartition(".")[2] for kind in REGISTERED}
_JSON = ConverterClass.JSON.rpartition(".")[2]
_SIMPLE = ConverterClass.SIMPLE_HEADER.rpartition(".")[2]


def what_is_missing(
    entries: Iterable[Entry], options: ReadOptions | None = None
) -> tuple[str, ...]:
    """Return one sentence for each part of the records that a restore cannot rebuild.

    The result is empty when the records are complete, as in segments. ``entries`` may belong to
    several partitions. ``options`` are the options in the log, if the caller loaded them. Some
    losses can only be detected with them.
    """
    parts = entries_by_partition(entry for entry in entries if entry.format != SEGMENT)
    windows = [window for mine in parts.values() for window in iter_windows(mine)]
    mains = [e for w in windows for e in w.entries if e.own_records and e.converter != ENVELOPE]
    if not mains:
        return ()
    options = options or ReadOptions()
    found = [
        *_about_times(mains, options.changes),
        *_about_views(windows, mains, options.changes),
        *_about_offsets(windows),
        *_about_values(mains, options),
        *_about_keys_and_headers([e for w in windows for e in w.entries]),
    ]
    return tuple(found)


def _names(entries: Iterable[Entry]) -> str:
    names = sorted({_NAMES.get(entry.format, entry.format) for entry in entries})
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)


def _about_times(mains: Sequence[Entry], changes: ChangeOptions | None) -> Iterator[str]:
    vague = [entry for entry in mains if entry.min_timestamp != entry.max_timestamp]
    if vague and changes is not None and changes.time_field is not None:
        yield f"timestamps are those of the field {changes.time_field}; without it there is none"
    elif vague:
        yield f"timestamps are not in {_names(vague)} objects: restored records have none"


def _about_views(
    windows: Sequence[Window], mains: Sequence[Entry], changes: ChangeOptions | None
) -> Iterator[str]:
    made = changes is not None and any(spec.kind == "ValueToKey" for spec in changes.transforms)
    values = sum(entry.records for entry in mains if entry.view == "value")
    whole = sum(e.records for w in windows for e in w.entries if e.converter == ENVELOPE)
    everything = sum(entry.records for entry in mains)
    for view, wanted in (("keys", values), ("headers", everything)):
        stored = sum(e.records for w in windows for e in w.entries if e.view == view)
        if stored < wanted and not (view == "keys" and made):
            some = "" if not stored and not whole else f" for {wanted - stored:,} records"
            yield f"{view} were not stored{some}: restored records have none"


def _about_offsets(windows: Sequence[Window]) -> Iterator[str]:
    records = mixed = 0
    for window in windows:
        mains = [entry for entry in window.entries if entry.own_records]
        lost = [e for e in mains if e.converter != ENVELOPE and first_offset(e) is None]
        records += sum(entry.records for entry in lost)
        mixed += sum(entry.records for entry in lost) if len(mains) > 1 else 0
    if records:
        yield f"offsets of {records:,} records are not known: only between which two they lie"
    if mixed:
        yield f"the order of {mixed:,} records is known inside of each directory alone"


def _about_values(mains: Sequence[Entry], options: ReadOptions) -> Iterator[str]:
    values = [entry for entry in mains if entry.view == "value"]
    sink = options.sink
    if options.changes is not None and "value" in options.changes.converters:
        return  # the restore encodes values with the converter that the user chose
    registered = {e.converter: e for e in values if e.converter in _REGISTERED}
    for name, entry in sorted(registered.items()):
        if entry.format == FormatKind.JSON or sink is None:
            why = "schemas are not in JSON objects"
            why = why if entry.format == FormatKind.JSON else "its registry is not known"
            yield f"values of {name} are restored as JSON texts: {why}"
    if sink is not None and sink.transforms:
        yield "values went through transforms: they are restored as they were stored"
    texts = [e for e in values if e.converter == _JSON]
    columns = [e for e in texts if e.format != FormatKind.JSON]
    if columns:
        yield (
            f"JSON values in {_names(columns)} objects keep what they say, not how it was written "
            "(spaces, forms of numbers)"
        )
    if sink is not None and texts:
        if len(columns) < len(texts) and sink.has_schemas:
            yield "schemas of JSON values are not in JSON objects: the payloads are restored alone"
        if sink.nulls.behavior_on_null_values == "write":
            yield "a JSON null and no value at all are alike: both are restored as no value"


def _about_keys_and_headers(entries: Sequence[Entry]) -> Iterator[str]:
    if any(e.view in ("keys", "tombstones") and e.format == FormatKind.BYTES for e in entries):
        yield "no key and an empty one are alike in bytes objects: both are restored as empty"
    if any(e.view == "headers" and e.converter == _SIMPLE for e in entries):
        yield "SimpleHeaderConverter changed header values: they are restored as it wrote them"
