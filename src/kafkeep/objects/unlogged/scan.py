"""Scan the objects of an unlogged bucket: count their rows and compute their SHA-256.

Names do not contain the end offset of an object, so its rows must be counted. The SHA-256 ensures
that a later restore, for example after a crash, reads the bytes that were counted. Scans run on the
driver, several at a time.

A restore stores its list of objects, the index, before it writes the first record. Objects that
appear later do not change a restore that has begun. Indexes are stored as
``_kafkeep/restores/<id>-objects/<number>.json.zst``. Each is created once.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO, cast

import orjson
import zstandard

from kafkeep.archive.document import (
    WHOLE_OBJECT_READS,
    RepeatedReads,
    dump_with_checksum,
    has_valid_checksum,
    require_checksum,
)
from kafkeep.archive.names import ROOT
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.errors import (
    DamagedError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    RecordError,
    UsageError,
)
from kafkeep.objects.formats.bytes import BytesFormat
from kafkeep.objects.formats.open import open_format
from kafkeep.objects.sink.read_rows import check_documents
from kafkeep.objects.unlogged.listing import (
    NO_OFFSET,
    ListedFile,
    Listing,
    UnloggedName,
    list_unlogged,
)
from kafkeep.options.sink.formats import Compression, FormatKind, FormatOptions
from kafkeep.options.unlogged import UnloggedOptions

THREADS = 8
MEMORY_BYTES = 8 << 20
PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """An object and its row count. ``problem`` states why it cannot be read."""

    name: UnloggedName
    size_bytes: int
    records: int
    sha256: str
    problem: str = ""


def scan(
    store: ObjectStore,
    objects: Iterable[ListedFile],
    options: UnloggedOptions,
    *,
    checks_rows: bool = False,
    threads: int = THREADS,
) -> Iterator[ScannedObject]:
    """Read objects and count their rows. Yield the results in the given order.

    JSON lines are parsed only with ``checks_rows``. Counting does not need it.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="scan") as pool:
        yield from pool.map(partial(scan_one, store, options, checks_rows=checks_rows), objects)


def scan_one(
    store: ObjectStore, options: UnloggedOptions, listed: ListedFile, *, checks_rows: bool = False
) -> ScannedObject:
    """Read one whole object. Read it again after an error, because a response may be damaged."""
    readings = RepeatedReads(listed.name.key, WHOLE_OBJECT_READS)
    while True:
        digest = hashlib.sha256()
        try:
            count = _read(store, options, listed, digest, checks_rows)
        except (DamagedError, RecordError, KeyMissingError) as error:
            if isinstance(error, KeyMissingError) or readings.is_conclusive(digest.digest()):
                return ScannedObject(listed.name, listed.size_bytes, 0, "", error.message)
        else:
            return ScannedObject(listed.name, listed.size_bytes, count, digest.hexdigest())


def _read(
    store: ObjectStore,
    options: UnloggedOptions,
    listed: ListedFile,
    digest: hashlib._Hash,
    checks_rows: bool,
) -> int:
    """Return the number of rows of an object, and add its bytes to ``digest``."""
    name, size = listed.name, listed.size_bytes
    with _spool(size) as spool:
        for start in range(0, size, PIECE_BYTES):
            data = store.get_range(name.key, start, min(start + PIECE_BYTES, size))
            digest.update(data)
            spool.write(data)
        if spool.tell() != size:
            raise DamagedError(f"{spool.tell()} of {size} bytes came")
        spool.seek(0)
        return _count(spool, name, options, checks_rows)


def numbered(scanned: Iterable[ScannedObject], after: Mapping[str, int]) -> Iterator[ScannedObject]:
    """Assign offsets to objects without one, in the given order.

    ``after`` is the next offset of each topic. An object without records takes offsets too, so that
    no two objects begin at the same offset. It takes more than one offset. Otherwise every object
    could seem to hold one record.
    """
    nexts = dict(after)
    for one in scanned:
        topic = one.name.topic
        if one.name.start != NO_OFFSET:
            yield one
            continue
        start = nexts.get(topic, 0)
        nexts[topic] = start + (one.records or 2)
        yield replace(one, name=replace(one.name, start=start))


def read_options(name: UnloggedName, options: UnloggedOptions) -> FormatOptions:
    """Return the format options for reading an object."""
    whole = name.format in (FormatKind.JSON, FormatKind.BYTES)
    layout = options.format
    return FormatOptions(
        format_class=name.format,
        s3_compression_type=name.compression if whole else Compression.NONE,
        format_bytearray_separator=layout.format_bytearray_separator,
        enhanced_avro_schema_support=layout.enhanced_avro_schema_support,
    )


def _count(
    source: BinaryIO, name: UnloggedName, options: UnloggedOptions, checks_rows: bool
) -> int:
    form = open_format(name.format, read_options(name, options))
    if isinstance(form, BytesFormat):
        columns = form.read(source, single=options.rotate.flush_size == 1)
    else:
        columns = form.read(source)
    found = 0
    for column in columns:
        if checks_rows and name.format is FormatKind.JSON:
            check_documents(column, found)
        found += len(column)
    return found


def _spool(size: int) -> BinaryIO:
    if size <= MEMORY_BYTES:
        return io.BytesIO()
    return cast(BinaryIO, tempfile.TemporaryFile(prefix="kafkeep-scan-"))


VERSION = 1
FOLDER = f"{ROOT}restores"
_OLDER_FIELDS = ("version", "number", "objects", "odd", "odd_count", "partitions")
_SMALL_BYTES, _MOST_TIMES = 16 << 20, 200
"""The limits of a decompressed index: a size, or a multiple of its compressed size.

Names and digests do not compress better than that.
"""


@dataclass(frozen=True, slots=True)
class ScanIndex:
    """The scanned objects. ``odd`` lists the keys that do not match."""

    number: int
    objects: tuple[ScannedObject, ...]
    odd: tuple[tuple[str, str], ...] = ()
    odd_count: int = 0
    partitions: dict[str, int] = field(default_factory=dict)
    """Topic → minimum number of partitions, if it is larger than the object names imply."""


def indexes_of(store: ObjectStore, id: str) -> DocumentSequence:
    """Return the indexes of a restore."""
    return DocumentSequence(
        store=store,
        folder=f"{FOLDER}/{id}-objects/",
        digits=6,
        suffix=".json.zst",
        is_intact=_is_packed,
    )


def next_number(store: ObjectStore, id: str) -> int:
    """Return the number after the last index of a restore."""
    return 1 + indexes_of(store, id).newest()


def save_index(store: ObjectStore, id: str, index: ScanIndex) -> None:
    """Store an index. Do nothing if it exists, because only the same run can have created it."""
    document = {
        "version": VERSION,
        "number": index.number,
        "objects": [_row(one) for one in index.objects],
        "odd": index.odd,
        "odd_count": index.odd_count,
        "partitions": index.partitions,
    }
    body = zstandard.compress(dump_with_checksum(document))
    indexes = indexes_of(store, id)
    if not indexes.create(index.number, body).is_ours:
        raise KeyExistsError(f"{indexes.key(index.number)} names other objects")


def load_index(store: ObjectStore, id: str, number: int) -> ScanIndex:
    """Load an index. Raise DamagedError when the document is not a valid index."""
    indexes = indexes_of(store, id)
    key = indexes.key(number)
    try:
        plain = _unpack(indexes.read(number))
        document: dict[str, Any] = orjson.loads(plain)
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']}")
        require_checksum(plain, document, key, _OLDER_FIELDS)
        return ScanIndex(
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
        return has_valid_checksum(_unpack(body))
    except (ValueError, zstandard.ZstdError):
        return False


def _row(one: ScannedObject) -> list[Any]:
    name = one.name
    return [
        name.topic, name.partition, name.start, name.folder, name.key, name.view,
        name.format.value, name.compression.value, name.tombstones,
        one.size_bytes, one.records, one.sha256, one.problem,
    ]  # fmt: skip


def _scanned(row: Sequence[Any]) -> ScannedObject:
    topic, partition, start, folder, key, view, kind, compression, tombstones, *rest = row
    name = UnloggedName(
        topic, partition, start, folder, key, view,
        FormatKind(kind), Compression(compression), tombstones,
    )  # fmt: skip
    return ScannedObject(name, *rest)


SHOWN = 5
"""The number of non-matching keys to show in messages."""


def list_objects(
    store: ObjectStore,
    options: UnloggedOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
) -> Listing:
    """List the objects of the wanted topics. Raise NoSuchArchiveError when there are no objects.

    Raise UsageError when all objects belong to other topics.
    """
    listing = list_unlogged(store, options, wanted)
    if not listing.objects and listing.others:
        raise UsageError(
            f"no object of Confluent's sink at {store.describe()} belongs to a requested topic",
            hint=f"There are of: {', '.join(sorted(listing.others))}.",
        )
    if not listing.objects:
        odd = f"; {listing.odd[0][0]} {listing.odd[0][1]}" if listing.odd else ""
        raise NoSuchArchiveError(
            f"there is no archive at {store.describe()}: no log of kafkeep's, and no object of "
            f"Confluent's sink under {options.naming.topics_dir or 'it'}{odd}",
            hint="Check the address, and topics.dir, directory.delim and file.delim (--set).",
        )
    return listing


def find_objects(
    store: ObjectStore,
    options: UnloggedOptions,
    wanted: Callable[[str], bool] = lambda _topic: True,
    *,
    number: int = 0,
) -> ScanIndex:
    """List and scan the objects of the wanted topics."""
    listing = list_objects(store, options, wanted)
    objects = tuple(scan(store, listing.objects, options))
    return ScanIndex(number, objects, tuple(listing.odd[:SHOWN]), listing.odd_count)
