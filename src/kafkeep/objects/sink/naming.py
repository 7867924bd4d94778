"""Name and store the objects of a sink, and find records with invalid object names. Runs in tasks.

An existing object with the same name is adopted if its metadata has the same plan and the same
records. Any other object stays untouched, and the new object's name gets one more zero.

Names are checked before objects are written, with the longest possible offsets and timestamps. A
record that passes this check is never rejected later because of its object's name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kafkeep.archive.adoption import END, PLAN, SHA256, OwnObject, identify_object, object_metadata
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.names import KeyLimits, check_key
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.errors import KafkeepError, KeyExistsError, RecordError
from kafkeep.failpoint import failpoint
from kafkeep.objects.range_writer import MAX_NAMES, SMALL_BYTES
from kafkeep.objects.sink.open_file import FinishedObject
from kafkeep.options.sink.naming import NameFacts, NamingOptions, TagOptions, format_name

RECORDS = "kafkeep-records"
VIEW = "kafkeep-view"
_LONGEST_OFFSET = 2**63 - 1
_LONGEST_TIME = -(2**63)
_REMEMBERED = 1 << 14
_SHOWN = 150
_NAMES = "No part of a name is empty, . or .., or has a backslash or a control character."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOrigin:
    """The properties that all objects of one planned range share."""

    log_name: str
    planned: PlannedRange
    plan: str
    """The digest of the plan."""
    naming: NamingOptions
    tags: TagOptions


def store_object(
    store: ObjectStore,
    origin: ObjectOrigin,
    done: FinishedObject,
    window: OffsetRange,
    entry: Entry,
) -> Entry:
    """Create or adopt an object. Return ``entry`` with the object's key."""
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
    if done.body.size <= SMALL_BYTES:
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
    # Compaction between two attempts can move windows: the same number of rows, other records.
    same = all(found.get(name) == mine[name] for name in (RECORDS, VIEW, END))
    if found.get(SHA256) == mine[SHA256]:
        # The bytes are equal, so the options that changed the plan do not matter here.
        mine = {**mine, PLAN: found.get(PLAN, "")}
    return isinstance(identify_object(found, mine), OwnObject) and same


def object_key(naming: NamingOptions, facts: NameFacts, *, extra: int = 0) -> str:
    """Return the key of an object. ``extra`` zeros avoid the key of another writer's object.

    Keys are unique: every layout contains topic, partition, and the first or last offset, and no
    two objects of a partition share these offsets. ``NameCheck`` checks the key, not this function.
    """
    if naming.name_template is None:
        return _confluent_key(naming, facts, extra)
    name = format_name(naming.name_template, facts, extra=extra)
    return f"{naming.topics_dir}/{name}" if naming.topics_dir else name


def _confluent_key(naming: NamingOptions, facts: NameFacts, extra: int) -> str:
    first, folder = facts.start_offset, facts.topic
    if facts.incarnation > 1:
        folder = f"{facts.topic}~{facts.incarnation}"
    digits = max(naming.pad_width, len(str(first))) + extra
    name = naming.file_delim.join([facts.topic, str(facts.partition), f"{first:0>{digits}d}"])
    delim = naming.directory_delim
    path = facts.path.replace("/", delim)
    parts = [naming.topics_dir, folder, path, name + facts.extension]
    return delim.join(part for part in parts if part)


class NameCheck:
    """Finds directories in which no object can have a valid name. Caches the result of each."""

    def __init__(self, naming: NamingOptions, limits: KeyLimits, extension: str) -> None:
        """Use the limits of a store, and the longest file extension of the sink."""
        self._naming = naming
        self._limits = limits
        self._extension = extension
        self._known = lru_cache(maxsize=_REMEMBERED)(self._judge)

    def refusals(
        self, source: PartitionId, topic: str, paths: Iterable[str]
    ) -> list[RecordError | None]:
        """Return for each path the error of storing a record of ``source`` there, or None."""
        known = self._known
        return [known(source, topic, path) for path in paths]

    def _judge(self, source: PartitionId, topic: str, path: str) -> RecordError | None:
        facts = NameFacts(
            topic=topic,
            incarnation=source.incarnation,
            partition=source.partition,
            start_offset=_LONGEST_OFFSET,
            last_offset=_LONGEST_OFFSET,
            first_timestamp=_LONGEST_TIME,
            last_timestamp=_LONGEST_TIME,
            path=path,
            extension=self._extension,
        )
        where = f"{topic}/{path}"[:_SHOWN]
        try:
            key = object_key(self._naming, facts, extra=MAX_NAMES - 1)
            if self._is_long(key):
                return RecordError(
                    f"an object in {where!r} has a name of up to {len(key.encode())} bytes,"
                    f" but the store takes {self._limits}",
                    hint="Place by fewer or shorter fields.",
                )
            check_key(key)
        except ValueError:
            return RecordError(f"no object can lie in {where!r}", hint=_NAMES)
        return None

    def _is_long(self, key: str) -> bool:
        if len(key.encode()) > self._limits.key_bytes:
            return True
        most = self._limits.folder_bytes
        return most is not None and any(len(f.encode()) > most for f in key.split("/")[:-1])
