"""What a restore reads: the log it chooses, and which of its objects are sound. On the driver."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.reader import ArchiveView, load_views
from kafkeep.archive.seal import read_sound
from kafkeep.archive.store import ObjectStore
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.choice import choose_logs, choose_view
from kafkeep.contents.options import NO_OPTIONS, ReadOptions, load_read_options
from kafkeep.contents.sound import lost_ranges, sound_parts
from kafkeep.contents.spool import open_object
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError
from kafkeep.restore.plan import RestorePlan


def no_archive(store: ObjectStore) -> NoSuchArchiveError:
    """Return the error for an address where nothing is."""
    return NoSuchArchiveError(
        f"there is no archive at {store.describe()}",
        hint="Check the address; kafkeep backup makes one.",
    )


def choose_log(store: ObjectStore, options: RestoreOptions) -> str:
    """Return the log to read: the one named, the only one, or the one that loses least."""
    logs = choose_logs(store, options.name, commit=options.commit)
    if len(logs) == 1:
        return logs[0]
    views = load_views(store, logs, options.at_ms)
    topics = {source for source, _ in options.topics}
    if options.topics_regex is not None:
        topics = {name for view in views for name, _ in view.topics if options.wants(name)}
    return choose_view(views, topics or None).name


def read_options(store: ObjectStore, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
    """Return how the log's objects were made; segments need not be told."""
    formats = {entry.format for topic in plan.topics for entry in topic.entries}
    return load_read_options(store, view) if formats - {SEGMENT} else NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a plan whose objects are not all there and sound."""

    plan: RestorePlan
    damaged: frozenset[str]
    """Objects of which something is left out."""
    lost: tuple[dict[str, Any], ...]
    """The offsets that are, in order."""


def leave_out_damage(store: ObjectStore, plan: RestorePlan) -> Left:
    """Read every object and leave out what cannot be read: only asked for with ``--allow-missing``.

    Of a segment the sound frames are restored, of any other object nothing.
    """
    parts = _find_damaged(store, plan)
    gone = plan.with_companions(frozenset(key for key, sound in parts.items() if not sound))
    left = {**parts, **dict.fromkeys(gone, ())}
    lost = tuple(
        _told(entry, range)
        for topic in plan.topics
        for entry in topic.entries
        if entry.key in left
        for range in lost_ranges(entry, left[entry.key])
    )
    return Left(plan.with_parts(left), frozenset(left), lost)


def _find_damaged(store: ObjectStore, plan: RestorePlan) -> dict[str, tuple[Entry, ...]]:
    """Return the objects that are not as they were, with what can be read of them."""
    found = {}
    for entry in (entry for topic in plan.topics for entry in topic.entries):
        try:
            with open_object(store, entry):
                pass
        except DamagedError:
            found[entry.key] = _sound_parts(store, entry)
    return found


def _sound_parts(store: ObjectStore, entry: Entry) -> tuple[Entry, ...]:
    try:
        data = read_sound(store, entry.key, lambda body: sha256(body).hexdigest() == entry.sha256)
        return sound_parts(data, entry)
    except KeyMissingError:
        return ()


def _told(entry: Entry, lost: OffsetRange) -> dict[str, Any]:
    topic, incarnation, partition = entry.partition_id
    return {
        "key": entry.key,
        "topic": topic,
        "incarnation": incarnation,
        "partition": partition,
        "start": lost.start,
        "end": lost.end,
    }
