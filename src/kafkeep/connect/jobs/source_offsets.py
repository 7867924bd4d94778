"""A source's offsets: by folder, the last object that came back. Objects come back whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import kafka_of
from kafkeep.connect.jobs.source import state_folder
from kafkeep.connect.jobs.unlogged_source_offsets import foreign_offsets, plan_foreign_moves
from kafkeep.connect.model import Json, RestError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.restore.follow.log import Followed, Positions, load_followed, save_followed
from kafkeep.restore.follow.unlogged import load_foreign_followed, save_foreign_followed
from kafkeep.store.open import open_store

FOLDER, LAST, COUNT, WHOLE = "folder", "lastFileRead", "fileOffset", "eof"


def read_source(config: SourceConfig, context: JobContext) -> list[dict[str, Any]]:
    """Return how far each folder has come back; nothing when nothing has."""
    state = _state(config, context)
    unlogged = load_foreign_followed(state)
    if unlogged is not None:
        return foreign_offsets(unlogged.positions)
    followed = load_followed(state)
    if followed is None or not followed.positions:
        return []
    return source_offsets(_view(config, followed), followed.positions)


def alter_source(config: SourceConfig, context: JobContext, offsets: Sequence[Json]) -> None:
    """Go on after other objects; RestError 400 for one that is not in the log."""
    state = _state(config, context)
    unlogged = load_foreign_followed(state)
    if unlogged is not None:
        moved_to = plan_foreign_moves(unlogged.positions, config, offsets)
        save_foreign_followed(state, unlogged.move(moved_to))
        return
    followed = load_followed(state)
    if followed is None:
        raise RestError(400, "This connector has restored nothing yet: there is nothing to alter")
    moves = plan_moves(_view(config, followed), offsets)
    kept = {pid: at for pid, at in followed.positions.items() if pid not in moves}
    moved = {pid: at for pid, at in moves.items() if at is not None}
    save_followed(state, followed.move({**kept, **moved}))


def reset_source(config: SourceConfig, context: JobContext) -> None:
    """Begin anew: everything comes back once more."""
    state = _state(config, context)
    unlogged = load_foreign_followed(state)
    if unlogged is not None:
        save_foreign_followed(state, unlogged.move({}))
    followed = load_followed(state)
    if followed is not None:
        save_followed(state, followed.move({}))


def source_offsets(view: ArchiveView, positions: Positions) -> list[dict[str, Any]]:
    """Return positions as folders and objects. Pure but for what the view reads."""
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
    """Read what a source is to be moved to, by the objects the log names."""
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


def _entries(view: ArchiveView, positions: Positions) -> Iterable[Entry]:
    for topic, incarnation in sorted({pid[:2] for pid in positions}):
        for entry in view.entries(topic, incarnation):
            if entry.partition_id in positions:
                yield entry


def _folder(entry: Entry) -> str:
    return entry.key.rpartition("/")[0] + "/"


def _view(config: SourceConfig, followed: Followed) -> ArchiveView:
    return load_view(open_store(config.archive, config.storage), followed.log)


def _state(config: SourceConfig, context: JobContext) -> ObjectStore:
    with Wire(kafka_of(context.kafka, config.kafka)) as wire:
        cluster_id = Admin(wire).cluster_id()
    folder = state_folder(config, cluster_id, context)
    return open_store(folder, context.state_storage, create=True)
