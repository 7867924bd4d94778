"""Store one finished object of a sink, or adopt the one an earlier attempt stored. In tasks.

An object under the wanted name is adopted when its metadata names the same plan and the same
records. Any other object is left alone, and the name gets one more zero.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkeep.archive.adoption import END, PLAN, SHA256, OwnObject, identify_object, object_metadata
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.errors import KafkeepError, KeyExistsError
from kafkeep.failpoint import failpoint
from kafkeep.objects.range_writer import MAX_NAMES
from kafkeep.objects.sink.naming import object_key
from kafkeep.objects.sink.open_file import FinishedObject
from kafkeep.options.sink.files import NameFacts, NamingOptions, TagOptions

RECORDS = "kafkeep-records"
VIEW = "kafkeep-view"
HELD_BYTES = 1 << 20
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all objects of one planned range share."""

    log_name: str
    planned: PlannedRange
    plan: str
    """Digest of the plan."""
    naming: NamingOptions
    tags: TagOptions


def store_object(
    store: ObjectStore, origin: Origin, done: FinishedObject, window: OffsetRange, entry: Entry
) -> Entry:
    """Create or adopt an object; return its entry with the name."""
    metadata = {
        **object_metadata(
            writer=origin.log_name,
            planned=origin.planned,
            start=done.first,
            plan=origin.plan,
            end=window.end,
            sha256=done.sha256,
        ),
        RECORDS: str(len(done.offsets)),
        VIEW: done.view,
    }
    tags = origin.tags.object_tags(
        start=done.first, end=int(done.offsets[-1]) + 1, records=len(done.offsets)
    )
    facts = _name_facts(origin.planned.folder_id, done)
    for extra in range(MAX_NAMES):
        key = object_key(origin.naming, facts, extra=extra)
        failpoint("object.before")
        try:
            _create(store, key, done, metadata, tags)
        except KeyExistsError:
            there = store.head(key)
            if _is_ours(there, metadata):
                failpoint("object.adopted")
                if tags:
                    store.set_tags(key, tags)
                found = there.metadata.get(SHA256, done.sha256)
                return replace(entry, key=key, size_bytes=there.size_bytes, sha256=found)
            log.warning("%s is not ours: writing beside it", key)
            continue
        failpoint("object.after")
        return replace(entry, key=key)
    raise KafkeepError(f"{key}: {MAX_NAMES} names for it are taken")


def _name_facts(source: PartitionId, done: FinishedObject) -> NameFacts:
    return NameFacts(
        topic=done.place.topic,
        incarnation=source.incarnation,
        partition=source.partition,
        start_offset=done.first,
        last_offset=int(done.offsets[-1]),
        first_timestamp=done.min_timestamp,
        last_timestamp=done.max_timestamp,
        path=done.place.path,
        extension=done.extension,
    )


def _create(
    store: ObjectStore,
    key: str,
    done: FinishedObject,
    metadata: Mapping[str, str],
    tags: Mapping[str, str] | None,
) -> None:
    if done.body.size <= HELD_BYTES:
        store.put_new(key, b"".join(done.body), metadata, tags=tags)
        return
    writer = store.create(key, metadata)
    try:
        for piece in done.body:
            writer.write(piece)
        writer.finish(tags=tags)
    finally:
        writer.abort()


def _is_ours(there: ObjectInfo, mine: Mapping[str, str]) -> bool:
    found = {name.lower(): value for name, value in there.metadata.items()}
    # Records compacted away between two attempts move windows: as many rows, but others.
    same = all(found.get(name) == mine[name] for name in (RECORDS, VIEW, END))
    if found.get(SHA256) == mine[SHA256]:
        # The same bytes: the option that was changed since does not affect them.
        mine = {**mine, PLAN: found.get(PLAN, "")}
    return isinstance(identify_object(found, mine), OwnObject) and same
