"""Offsets of a source over objects without a log: by folder, the last object that came back.

Where a folder has objects of several partitions, ``kafka_partition`` tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.model import Json, RestError
from kafkeep.errors import KeyMissingError
from kafkeep.objects.unlogged.listing import names_of
from kafkeep.objects.unlogged.names import NO_OFFSET, UnloggedName
from kafkeep.restore.follow.unlogged import ForeignFollowed, LastRead, Place, Positions, place_of
from kafkeep.store.open import open_store

FOLDER, PARTITION = "folder", "kafka_partition"
LAST, COUNT, WHOLE = "lastFileRead", "fileOffset", "eof"


def foreign_offsets(positions: Positions) -> list[dict[str, Any]]:
    """Return positions as Connect's source shows them."""
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


def plan_foreign_moves(
    positions: Positions, config: SourceConfig, offsets: Sequence[Json]
) -> dict[Place, LastRead]:
    """Return where a source goes on; RestError 400 for an object that is not there."""
    assert config.unlogged is not None
    store, names = open_store(config.archive, config.storage), names_of(config.unlogged)
    moved, reached = dict(positions), ForeignFollowed(positions=positions).reached()
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
        try:
            store.head(key)
        except KeyMissingError as error:
            raise RestError(400, f"There is no object {key}") from error
        if str(offset.get(WHOLE, "true")).lower() != "true":
            raise RestError(400, f"Objects come back whole: {WHOLE} of {key} is true")
        start = reached.get(name.topic, 0) if name.start == NO_OFFSET else name.start
        moved[place_of(name)] = LastRead(key, start, _count(offset.get(COUNT)))
    return moved


def _count(value: object) -> int:
    """Read how many records an object has; it may be left out, for objects come back whole."""
    text = str(value or 0).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise RestError(400, f"{COUNT} must be a whole number from 0 on, not {value!r}")
    return int(text)
