"""Objects read once before anything is made of them: how many rows each has, and its SHA-256.

No name tells where an object ends. The digest makes sure that what is restored later, perhaps after
a crash, are the very bytes that were counted. On the driver, several at a time.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, cast

from kafkeep.archive.readings import WHOLE_READS, Readings
from kafkeep.archive.store import ObjectStore
from kafkeep.config.foreign import ForeignOptions
from kafkeep.config.formats import Compression, FormatKind, FormatOptions
from kafkeep.contents.foreign.listing import Listed
from kafkeep.contents.foreign.names import ForeignName
from kafkeep.contents.rows import check_documents
from kafkeep.errors import DamagedError, KeyMissingError, RecordError
from kafkeep.formats.bytes import BytesFormat
from kafkeep.formats.open import open_format

THREADS = 8
MEMORY_BYTES = 8 << 20
PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Scanned:
    """An object and what was found in it; ``problem`` says why it cannot be read."""

    name: ForeignName
    size_bytes: int
    records: int
    sha256: str
    problem: str = ""


def scan(
    store: ObjectStore,
    objects: Iterable[Listed],
    options: ForeignOptions,
    *,
    checks_rows: bool = False,
    threads: int = THREADS,
) -> Iterator[Scanned]:
    """Read objects and count their rows; in the order given.

    JSON lines are parsed only when rows are to be checked: to count them it is not needed.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="scan") as pool:
        yield from pool.map(partial(scan_one, store, options, checks_rows=checks_rows), objects)


def scan_one(
    store: ObjectStore, options: ForeignOptions, listed: Listed, *, checks_rows: bool = False
) -> Scanned:
    """Read one object whole; what cannot be read is read again, as an answer may be damaged."""
    readings = Readings(listed.name.key, WHOLE_READS)
    while True:
        digest = hashlib.sha256()
        try:
            count = _read(store, options, listed, digest, checks_rows)
        except (DamagedError, RecordError, KeyMissingError) as error:
            if isinstance(error, KeyMissingError) or readings.lies_so(digest.digest()):
                return Scanned(listed.name, listed.size_bytes, 0, "", error.message)
        else:
            return Scanned(listed.name, listed.size_bytes, count, digest.hexdigest())


def _read(
    store: ObjectStore,
    options: ForeignOptions,
    listed: Listed,
    digest: hashlib._Hash,
    checks_rows: bool,
) -> int:
    """Return how many rows an object has; ``digest`` takes its bytes."""
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


def read_options(name: ForeignName, options: ForeignOptions) -> FormatOptions:
    """Return what the format of an object must be told."""
    whole = name.format in (FormatKind.JSON, FormatKind.BYTES)
    told = options.format
    return FormatOptions(
        format_class=name.format,
        s3_compression_type=name.compression if whole else Compression.NONE,
        format_bytearray_separator=told.format_bytearray_separator,
        enhanced_avro_schema_support=told.enhanced_avro_schema_support,
    )


def _count(source: BinaryIO, name: ForeignName, options: ForeignOptions, checks_rows: bool) -> int:
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
