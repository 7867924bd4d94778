"""Which objects a restore without a log reads, written down before its first record is written.

What is put into the bucket later does not change a restore that was begun: it goes on with the same
objects. ``_kafkeep/restores/<id>-objects/<number>.json.zst``, created once each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import zstandard

from kafkeep.archive.names import ROOT
from kafkeep.archive.store import ObjectStore
from kafkeep.config.formats import Compression, FormatKind
from kafkeep.contents.foreign.names import ForeignName
from kafkeep.contents.foreign.scan import Scanned
from kafkeep.errors import DamagedError, KeyExistsError

VERSION = 1
FOLDER = f"{ROOT}restores"


@dataclass(frozen=True, slots=True)
class Index:
    """Objects as they were found; ``odd`` names did not fit."""

    number: int
    objects: tuple[Scanned, ...]
    odd: tuple[tuple[str, str], ...] = ()
    odd_count: int = 0
    partitions: dict[str, int] = field(default_factory=dict)
    """How many partitions topics have at least, where more is known than names tell."""


def index_key(id: str, number: int) -> str:
    """Return where an index lies."""
    return f"{FOLDER}/{id}-objects/{number:06d}.json.zst"


def next_number(store: ObjectStore, id: str) -> int:
    """Return the number after the last index of a restore."""
    keys = [info.key for info in store.list(f"{FOLDER}/{id}-objects/")]
    return 1 + max((int(key.rpartition("/")[2].partition(".")[0]) for key in keys), default=-1)


def save_index(store: ObjectStore, id: str, index: Index) -> None:
    """Write an index down; nothing when it is there already, which only the same run can do."""
    document = {
        "version": VERSION,
        "number": index.number,
        "objects": [_row(one) for one in index.objects],
        "odd": index.odd,
        "odd_count": index.odd_count,
        "partitions": index.partitions,
    }
    body = zstandard.compress(orjson.dumps(document))
    key = index_key(id, index.number)
    try:
        store.put_new(key, body)
    except KeyExistsError:
        if store.get(key) != body:
            raise


def load_index(store: ObjectStore, id: str, number: int) -> Index:
    """Read an index; DamagedError when it is none."""
    key = index_key(id, number)
    try:
        document: dict[str, Any] = orjson.loads(zstandard.decompress(store.get(key)))
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']}")
        return Index(
            document["number"],
            tuple(_scanned(row) for row in document["objects"]),
            tuple((key, why) for key, why in document["odd"]),
            document["odd_count"],
            document["partitions"],
        )
    except (KeyError, TypeError, ValueError, zstandard.ZstdError) as error:
        raise DamagedError(f"{key} does not name the objects of a restore: {error}") from error


def _row(one: Scanned) -> list[Any]:
    name = one.name
    return [
        name.topic, name.partition, name.start, name.folder, name.key, name.view,
        name.format.value, name.compression.value, name.tombstones,
        one.size_bytes, one.records, one.sha256, one.problem,
    ]  # fmt: skip


def _scanned(row: Sequence[Any]) -> Scanned:
    topic, partition, start, folder, key, view, kind, compression, tombstones, *rest = row
    name = ForeignName(
        topic, partition, start, folder, key, view,
        FormatKind(kind), Compression(compression), tombstones,
    )  # fmt: skip
    return Scanned(name, *rest)
