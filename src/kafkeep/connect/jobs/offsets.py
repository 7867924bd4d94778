"""Read, alter and reset a connector's offsets, in Connect's JSON.

A sink's offsets are the positions of its log; its consumer group follows them. A source's offsets
are the last objects it has restored, by folder: objects are restored whole. Where a folder without
a log has objects of several partitions, ``kafka_partition`` distinguishes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.clock import now_ms, writer_id
from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.connector_group import (
    group_of,
    newest_partitions,
    positions_now,
    replace_offsets,
)
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import kafka_of, locations_of, read_sink
from kafkeep.connect.jobs.source import state_folder
from kafkeep.connect.model import Json, RestError
from kafkeep.errors import KeyMissingError, NoSuchArchiveError, UsageError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.client.wire import Wire
from kafkeep.maintenance.move_positions import move_positions
from kafkeep.maintenance.verify.last_verified import last_verified_ms
from kafkeep.objects.unlogged.listing import NO_OFFSET, NameParser, UnloggedName
from kafkeep.restore.follow import listing, log
from kafkeep.restore.follow.listing import (
    LISTING_STATES,
    FolderPartition,
    LastObject,
    next_offsets,
)
from kafkeep.restore.follow.log import LOG_STATES, LogFollowState
from kafkeep.store.open import open_store

TopicPartition = tuple[str, int]
_NOTHING = "Partitions / offsets need to be provided for an alter offsets request"
_DONE = (
    "The Connect framework-managed offsets for this connector have been {done} successfully. "
    "However, if this connector manages offsets externally, they will need to be manually {done} "
    "in the system that the connector uses."
)
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
FOLDER, LAST, COUNT, WHOLE = "folder", "lastFileRead", "fileOffset", "eof"
GROUP_TIMEOUT_MS = 10_000


def read_offsets(name: str, config: Mapping[str, str], context: JobContext) -> list[dict[str, Any]]:
    """Return ``{"partition": …, "offset": …}`` for each partition that has an offset."""
    if _is_source(config):
        return read_source(_source(name, config), context)
    return sink_offsets(_state(read_sink(name, config, context)))


def read_verified(name: str, config: Mapping[str, str], context: JobContext) -> int | None:
    """Return when a sink's log was last verified; None for a source, or when it never was."""
    if _is_source(config):
        return None
    sink = read_sink(name, config, context)
    return last_verified_ms(open_store(sink.archive, sink.storage), sink.name)


def alter_offsets(
    name: str, config: Mapping[str, str], context: JobContext, offsets: Sequence[Json]
) -> str:
    """Move the named partitions; RestError 400 for what is impossible."""
    if not offsets:
        raise RestError(400, _NOTHING)
    with _as_answers():
        if _is_source(config):
            alter_source(_source(name, config), context, offsets)
        else:
            moves = parse_moves(offsets)
            _move(read_sink(name, config, context), context, lambda _state: moves)
    return _DONE.format(done="altered")


def reset_offsets(name: str, config: Mapping[str, str], context: JobContext) -> str:
    """Move everything back to the beginning."""
    with _as_answers():
        if _is_source(config):
            reset_source(_source(name, config), context)
        else:
            _move(
                read_sink(name, config, context),
                context,
                lambda state: dict.fromkeys(newest_partitions(state)),
            )
    return _DONE.format(done="reset")


def sink_offsets(state: LogState) -> list[dict[str, Any]]:
    """Return a log's positions in Connect's JSON. Pure.

    A partition at its beginning has no offset, as in Connect, unless it was moved there.
    """
    return [_as_json(key, at) for key, at in moved_positions(state)]


def sink_offset_page(state: LogState, start: int, count: int) -> tuple[list[dict[str, Any]], int]:
    """Return some of ``sink_offsets``, and how many there are. Pure."""
    found = moved_positions(state)
    return [_as_json(key, at) for key, at in found[start : start + count]], len(found)


def moved_positions(state: LogState) -> list[tuple[TopicPartition, int]]:
    """Return the positions that ``sink_offsets`` shows, by topic and partition. Pure."""
    found = positions_now(state)
    if all(found.values()):
        return sorted(found.items())
    newest = newest_partitions(state)
    return sorted((key, at) for key, at in found.items() if at or state.generation(newest[key]))


def _as_json(key: TopicPartition, at: int) -> dict[str, Any]:
    return {"partition": {TOPIC: key[0], PARTITION: key[1]}, "offset": {OFFSET: at}}


def parse_moves(offsets: Sequence[Json]) -> dict[TopicPartition, int | None]:
    """Parse the new offsets of a sink; RestError 400 names what is wrong. Pure."""
    moves: dict[TopicPartition, int | None] = {}
    for one in offsets:
        partition, offset = one.get("partition"), one.get("offset")
        if not isinstance(partition, dict) or not {TOPIC, PARTITION} <= partition.keys():
            raise RestError(
                400, f"The partition of a sink's offset must have the keys {TOPIC} and {PARTITION}"
            )
        topic = partition[TOPIC]
        if not isinstance(topic, str) or not topic:
            raise RestError(400, f"{TOPIC} must be the name of a topic, not {topic!r}")
        number = _whole(partition[PARTITION], PARTITION)
        if offset is not None and (not isinstance(offset, dict) or OFFSET not in offset):
            raise RestError(400, f"A sink's offset must be null or have the key {OFFSET}")
        if (topic, number) in moves:
            raise RestError(400, f"{topic}-{number} is named twice")
        moves[topic, number] = None if offset is None else _whole(offset[OFFSET], OFFSET)
    return moves


def _whole(value: object, key: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise RestError(400, f"{key} must be a whole number from 0 on, not {value!r}")
    return int(text)


def _move(
    config: ConnectorConfig,
    context: JobContext,
    moves_of: Callable[[LogState], Mapping[TopicPartition, int | None]],
) -> None:
    locations = locations_of(config, context)
    store = open_store(locations.archive, locations.storage, create=True)
    state = load_log(store, config.name).state
    moves = moves_of(state)
    with Wire(locations.kafka) as wire:
        admin = Admin(wire, timeout_ms=GROUP_TIMEOUT_MS)
        _check_ends(admin, moves, newest_partitions(state))
        if moves:
            move_positions(store, config.name, moves, writer=writer_id(), now_ms=now_ms)
        now = positions_now(load_log(store, config.name).state)
        replace_offsets(admin, group_of(config.called), now)


def _check_ends(
    admin: Admin, moves: Mapping[TopicPartition, int | None], archived: Collection[TopicPartition]
) -> None:
    """Refuse an offset past the end of a partition: records up to it would be skipped.

    An archived topic that no longer exists in Kafka has no end.
    """
    wanted = {key: at for key, at in moves.items() if at is not None}
    there = admin.topics({topic for topic, _ in wanted}) if wanted else {}
    known = [
        (topic, number)
        for topic, number in wanted
        if topic in there and number in there[topic].partitions
    ]
    for topic, number in wanted.keys() - {*known, *archived}:
        raise RestError(400, f"There is no {topic}-{number}, neither in Kafka nor in the archive")
    for (topic, number), end in admin.offsets(known, OffsetSpec.LATEST).items():
        if wanted[topic, number] > end:
            raise RestError(
                400, f"{topic}-{number} ends at offset {end}; {wanted[topic, number]} is past it"
            )


def _state(config: ConnectorConfig) -> LogState:
    """Return the state of the log; a missing folder has an empty log."""
    with suppress(NoSuchArchiveError):
        return load_log(open_store(config.archive, config.storage), config.name).state
    return LogState(name=config.name)


def _is_source(config: Mapping[str, str]) -> bool:
    return find_family(config.get("connector.class", "")).kind == "source"


def _source(name: str, config: Mapping[str, str]) -> SourceConfig:
    return SourceConfig.from_map(config, name=name, strict=False)


@contextmanager
def _as_answers() -> Iterator[None]:
    """Turn a UsageError into a RestError 400."""
    try:
        yield
    except UsageError as error:
        hint = f". {error.hint}" if error.hint else ""
        raise RestError(400, error.message + hint) from error


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
    store, names = open_store(config.archive, config.storage), NameParser(config.unlogged)
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
