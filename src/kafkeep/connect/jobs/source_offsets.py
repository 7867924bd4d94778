"""A source's offsets in the REST API: by folder, the last object that was restored.

Objects are restored whole. Where a folder without a log has objects of several partitions,
``kafka_partition`` tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import kafka_of
from kafkeep.connect.jobs.source import state_folder
from kafkeep.connect.model import Json, RestError
from kafkeep.errors import KeyMissingError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.unlogged.listing import names_of
from kafkeep.objects.unlogged.names import NO_OFFSET, UnloggedName
from kafkeep.restore.follow import listing, log
from kafkeep.restore.follow.listing import (
    LISTING_STATES,
    FolderPartition,
    LastObject,
    next_offsets,
)
from kafkeep.restore.follow.log import LOG_STATES, LogFollowState
from kafkeep.store.open import open_store

FOLDER, PARTITION = "folder", "kafka_partition"
LAST, COUNT, WHOLE = "lastFileRead", "fileOffset", "eof"


def read_source(config: SourceConfig, context: JobContext) -> list[dict[str, Any]]:
    """Return the last object of each folder; nothing when nothing is restored."""
    store = _state_store(config, context)
    listed = LISTING_STATES.load(store)
    if listed is not None:
        return listing_offsets(listed.positions)
    state = LOG_STATES.load(store)
    if state is None or not state.positions:
        return []
    return log_offsets(_view(config, state), state.positions)


def alter_source(config: SourceConfig, context: JobContext, offsets: Sequence[Json]) -> None:
    """Continue after other objects; RestError 400 for one that is not in the log or bucket."""
    store = _state_store(config, context)
    listed = LISTING_STATES.load(store)
    if listed is not None:
        positions = move_listing(listed.positions, config, offsets)
        LISTING_STATES.save(store, listed.move(positions))
        return
    state = LOG_STATES.load(store)
    if state is None:
        raise RestError(400, "This connector has restored nothing yet: there is nothing to alter")
    moves = plan_moves(_view(config, state), offsets)
    kept = {pid: at for pid, at in state.positions.items() if pid not in moves}
    moved = {pid: at for pid, at in moves.items() if at is not None}
    LOG_STATES.save(store, state.move({**kept, **moved}))


def reset_source(config: SourceConfig, context: JobContext) -> None:
    """Begin again: everything is restored once more."""
    store = _state_store(config, context)
    listed = LISTING_STATES.load(store)
    if listed is not None:
        LISTING_STATES.save(store, listed.move({}))
    state = LOG_STATES.load(store)
    if state is not None:
        LOG_STATES.save(store, state.move({}))


def log_offsets(view: ArchiveView, positions: log.Positions) -> list[dict[str, Any]]:
    """Return positions as folders and objects. Reads the entries of the view."""
    last: dict[str, Entry] = {}
    for entry in _entries(view, positions):
        if entry.range.end <= positions[entry.partition_id]:
            last[_folder(entry)] = entry
    return [
        {
            "partition": {FOLDER: folder},
            "offset": {LAST: entry.key, COUNT: str(entry.own_records), WHOLE: "true"},
        }
        for folder, entry in sorted(last.items())
    ]


def plan_moves(view: ArchiveView, offsets: Sequence[Json]) -> dict[PartitionId, int | None]:
    """Return the positions after the named objects; None for a partition to begin again."""
    by_key = {entry.key: entry for entry in view.entries()}
    folders: dict[str, set[PartitionId]] = {}
    for entry in by_key.values():
        folders.setdefault(_folder(entry), set()).add(entry.partition_id)
    moves: dict[PartitionId, int | None] = {}
    for one in offsets:
        partition, offset = one.get("partition"), one.get("offset")
        folder = partition.get(FOLDER) if isinstance(partition, dict) else None
        if not isinstance(folder, str) or folder not in folders:
            raise RestError(400, f"The log names no object in the folder {folder!r}")
        if offset is None:
            moves.update(dict.fromkeys(folders[folder]))
            continue
        last = by_key.get(str(offset.get(LAST))) if isinstance(offset, dict) else None
        if last is None or _folder(last) != folder:
            raise RestError(400, f"{LAST} must name an object in {folder} that the log knows")
        _check_whole(offset, last)
        moves[last.partition_id] = last.range.end
    return moves


def _check_whole(offset: Mapping[str, Any], entry: Entry) -> None:
    whole = str(offset.get(WHOLE, "true")).lower() == "true"
    if not whole or str(offset.get(COUNT, entry.own_records)) != str(entry.own_records):
        raise RestError(
            400, f"Objects come back whole: {COUNT} of {entry.key} is {entry.own_records}"
        )


def _entries(view: ArchiveView, positions: log.Positions) -> Iterable[Entry]:
    for topic, incarnation in sorted({pid[:2] for pid in positions}):
        for entry in view.entries(topic, incarnation):
            if entry.partition_id in positions:
                yield entry


def _folder(entry: Entry) -> str:
    return entry.key.rpartition("/")[0] + "/"


def listing_offsets(positions: listing.Positions) -> list[dict[str, Any]]:
    """Return positions as Confluent's source shows them."""
    shared = Counter(place.folder for place in positions)
    return [
        {
            "partition": {FOLDER: place.folder, PARTITION: place.partition}
            if shared[place.folder] > 1
            else {FOLDER: place.folder},
            "offset": {LAST: last.key, COUNT: str(last.records), WHOLE: "true"},
        }
        for place, last in sorted(positions.items())
    ]


def move_listing(
    positions: listing.Positions, config: SourceConfig, offsets: Sequence[Json]
) -> dict[FolderPartition, LastObject]:
    """Return the positions after the named objects; RestError 400 for one that is not there."""
    assert config.unlogged is not None
    store, names = open_store(config.archive, config.storage), names_of(config.unlogged)
    moved, continued = dict(positions), next_offsets(positions)
    for one in offsets:
        partition, offset = one.get("partition"), one.get("offset")
        folder = partition.get(FOLDER) if isinstance(partition, dict) else None
        number = partition.get(PARTITION) if isinstance(partition, dict) else None
        if not isinstance(folder, str):
            raise RestError(400, f"A partition of this connector has a {FOLDER}")
        if offset is None:
            for place in list(moved):
                if place.folder == folder and number in (None, place.partition):
                    del moved[place]
            continue
        key = str(offset.get(LAST)) if isinstance(offset, dict) else ""
        name = names.parse(key) if key else None
        if not isinstance(name, UnloggedName) or name.folder != folder:
            raise RestError(400, f"{LAST} must name an object in {folder}")
        _check_exists(store, key)
        if str(offset.get(WHOLE, "true")).lower() != "true":
            raise RestError(400, f"Objects come back whole: {WHOLE} of {key} is true")
        start = continued.get(name.topic, 0) if name.start == NO_OFFSET else name.start
        moved[FolderPartition.of(name)] = LastObject(key, start, _count(offset.get(COUNT)))
    return moved


def _check_exists(store: ObjectStore, key: str) -> None:
    try:
        store.head(key)
    except KeyMissingError as error:
        raise RestError(400, f"There is no object {key}") from error


def _count(value: object) -> int:
    """Parse an object's number of records; it may be left out, for objects are restored whole."""
    text = str(value or 0).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise RestError(400, f"{COUNT} must be a whole number from 0 on, not {value!r}")
    return int(text)


def _view(config: SourceConfig, state: LogFollowState) -> ArchiveView:
    return load_view(open_store(config.archive, config.storage), state.log)


def _state_store(config: SourceConfig, context: JobContext) -> ObjectStore:
    with Wire(kafka_of(context.kafka, config.kafka)) as wire:
        cluster_id = Admin(wire).cluster_id()
    folder = state_folder(config, cluster_id, context)
    return open_store(folder, context.state_storage, create=True)
