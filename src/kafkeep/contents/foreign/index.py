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
from kafkeep.archive.numbered import iter_numbered, number_of
from kafkeep.archive.seal import check_seal, is_sealed, read_sound, seal
from kafkeep.archive.store import ObjectStore
from kafkeep.config.formats import Compression, FormatKind
from kafkeep.contents.foreign.names import ForeignName
from kafkeep.contents.foreign.scan import Scanned
from kafkeep.errors import DamagedError, KeyExistsError

VERSION = 1
FOLDER = f"{ROOT}restores"
_SUFFIX = ".json.zst"
_UNSEALED = ("version", "number", "objects", "odd", "odd_count", "partitions")
_SMALL_BYTES, _MOST_TIMES = 16 << 20, 200
"""An index unpacks to that size, or to so many times its own: names and digests pack no better."""


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
    return f"{FOLDER}/{id}-objects/{number:06d}{_SUFFIX}"


def next_number(store: ObjectStore, id: str) -> int:
    """Return the number after the last index of a restore."""
    rows = iter_numbered(store, f"{FOLDER}/{id}-objects/", digits=6, suffix=_SUFFIX)
    return 1 + max((number_of(row.key) for row in rows), default=-1)


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
    body = zstandard.compress(seal(document))
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
        plain = _unpack(read_sound(store, key, _is_packed))
        document: dict[str, Any] = orjson.loads(plain)
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']}")
        check_seal(plain, document, key, _UNSEALED)
        return Index(
            document["number"],
            tuple(_scanned(row) for row in document["objects"]),
            tuple((key, why) for key, why in document["odd"]),
            document["odd_count"],
            document["partitions"],
        )
    except (KeyError, TypeError, ValueError, zstandard.ZstdError) as error:
        raise DamagedError(f"{key} does not name the objects of a restore: {error}") from error


def _unpack(body: bytes) -> bytes:
    size = zstandard.frame_content_size(body)
    if not 0 <= size <= max(_SMALL_BYTES, _MOST_TIMES * len(body)):
        raise ValueError(f"its unpacked size {size} is out of bounds")
    return zstandard.ZstdDecompressor().decompress(body, max_output_size=size)


def _is_packed(body: bytes) -> bool:
    try:
        return is_sealed(_unpack(body))
    except (ValueError, zstandard.ZstdError):
        return False


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
