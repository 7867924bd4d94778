"""Stored documents: JSON with a version and a checksum.

A document in a bucket may be damaged, newer than this program, or written by an attacker. Every
field is checked for its type, and every failure names the key.

The first field of a document is its checksum: the SHA-256 of its other bytes. Documents of an older
kafkeep have none. docs/format.md says how to check one by hand.

Bytes that are not intact are read again. Damage in the store reads the same every time. Damage by a
network, a proxy or a memory module varies between reads, and some reads are intact.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import zstandard

from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, NewerFormatError, TransientError

FIRST_VERSION = 1
FORMAT_VERSION = 2
"""The newest version. A document has the lowest version that can express it, so that an older
kafkeep reads what it understands and refuses the rest."""
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""No document decompresses to more than this."""
MAX_PARSED_BYTES = 1024 * 1024 * 1024
"""The approximate limit of memory for a compressed document, decompressed and parsed."""
SMALL_BYTES = 64 * 1024 * 1024
MAX_EXPANSION = 4096
"""A document may take ``SMALL_BYTES`` of memory, or this many times its compressed size."""
_OBJECT_BYTES, _ARRAY_BYTES, _ITEM_BYTES = 232, 88, 64
_CHUNK_BYTES = 1024 * 1024
_LEVEL = 3


def dump_document(document: Mapping[str, Any]) -> bytes:
    """Return the canonical JSON of ``document``: keys sorted, no spaces."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def digest_of(body: bytes) -> str:
    """Return the digest by which documents refer to one another: SHA-256, in hex."""
    return hashlib.sha256(body).hexdigest()


def parse_document(body: bytes, key: str) -> dict[str, Any]:
    """Return the document of ``body``; NewerFormatError or DamagedError, both naming ``key``."""
    with reading(key):
        document = orjson.loads(body)
        version = as_int(as_dict(document)["version"])
    if version > FORMAT_VERSION:
        raise NewerFormatError(
            f"{key}: format version {version} needs a newer kafkeep"
            f" (this one reads up to version {FORMAT_VERSION})",
            hint="Install the newest kafkeep and run the same command again.",
        )
    if version < 1:
        raise DamagedError(f"{key} is damaged: format version {version} does not exist")
    return as_dict(document)


def pack(document: Mapping[str, Any]) -> bytes:
    """Return the compressed form of a large document."""
    return pack_plain(dump_document(document))


def pack_plain(plain: bytes) -> bytes:
    """Return the compressed form of a document's text."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(plain)


def unpack(body: bytes, key: str) -> dict[str, Any]:
    """Return the document of a compressed body; refuse one that would exhaust the memory."""
    return parse_document(unpack_plain(body, key), key)


def unpack_plain(body: bytes, key: str) -> bytes:
    """Return the text of a compressed body; refuse one that would exhaust the memory if parsed.

    A few bytes can decompress to gigabytes, and brackets parse to twenty times their size.
    """
    with reading(key):
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= MAX_DOCUMENT_BYTES:
            raise ValueError(f"decompressed size {size} is out of bounds")
        plain = _unpack_bounded(body)
        if len(plain) != size:
            raise ValueError(f"only {len(plain)} of {size} bytes can be decompressed")
    return plain


def _unpack_bounded(body: bytes) -> bytes:
    limit = min(MAX_PARSED_BYTES, max(SMALL_BYTES, MAX_EXPANSION * len(body)))
    needed = 0
    chunks = []
    with zstandard.ZstdDecompressor().stream_reader(body) as reader:
        while chunk := reader.read(_CHUNK_BYTES):
            needed += parsed_bytes(chunk)
            if needed > limit:
                raise ValueError(
                    f"{len(body)} bytes decompress and parse to more than {limit} bytes"
                )
            chunks.append(chunk)
    return b"".join(chunks)


def parsed_bytes(plain: bytes) -> int:
    """Estimate how much memory a JSON text takes together with its parsed form."""
    return (
        len(plain)
        + _OBJECT_BYTES * plain.count(b"{")
        + _ARRAY_BYTES * plain.count(b"[")
        + _ITEM_BYTES * plain.count(b",")
    )


@contextmanager
def reading(key: str) -> Iterator[None]:
    """Turn the errors of parsing a document into a DamagedError that names ``key``."""
    try:
        yield
    except KeyError as error:
        raise DamagedError(f"{key} is damaged: the field {error} is missing") from error
    except (TypeError, ValueError, AttributeError, zstandard.ZstdError) as error:
        raise DamagedError(f"{key} is damaged: {error}") from error


def as_int(value: Any) -> int:
    """Return ``value`` if it is an integer, else raise TypeError."""
    if type(value) is not int:
        raise TypeError(f"expected an integer, not {_shown(value)}")
    return value


def as_str(value: Any) -> str:
    """Return ``value`` if it is a string, else raise TypeError."""
    if type(value) is not str:
        raise TypeError(f"expected a string, not {_shown(value)}")
    return value


def as_dict(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is an object, else raise TypeError."""
    if type(value) is not dict:
        raise TypeError(f"expected an object, not {_shown(value)}")
    return value


def as_list(value: Any) -> list[Any]:
    """Return ``value`` if it is an array, else raise TypeError."""
    if type(value) is not list:
        raise TypeError(f"expected an array, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


FIELD = "checksum"
_READS_WITHOUT_CHECKSUM = 2
"""A document without a checksum is accepted after this many equal reads."""
HINT = "Recover the object from a copy of the bucket, or from an older version in the store."
_HEAD, _TAIL = f'{{"{FIELD}":"'.encode(), b'",'
_DIGEST = slice(len(_HEAD), len(_HEAD) + 64)
_REST = slice(_DIGEST.stop, None)

logger = logging.getLogger(__name__)


def dump_with_checksum(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document with its checksum; equal documents give equal bytes."""
    plain = dump_document(document)
    return _HEAD + digest_of(plain).encode() + _TAIL + plain[1:]


def has_valid_checksum(body: bytes) -> bool:
    """Return whether ``body`` begins with a checksum that matches the rest of it."""
    rest = body[_REST]
    return (
        body.startswith(_HEAD)
        and rest.startswith(_TAIL)
        and digest_of(b"{" + rest[len(_TAIL) :]).encode() == body[_DIGEST]
    )


def check_checksum(body: bytes, key: str) -> None:
    """Raise DamagedError when ``body`` begins with a checksum that does not match.

    Called before a document is parsed, so that a flipped bit in its version is reported as damage.
    """
    if body.startswith(_HEAD) and not has_valid_checksum(body):
        raise DamagedError(f"{key} is damaged: its checksum does not match", hint=HINT)


def require_checksum(
    body: bytes, document: Mapping[str, Any], key: str, older_fields: Collection[str]
) -> None:
    """Raise DamagedError unless ``body`` has a matching checksum, or is of an older kafkeep.

    ``older_fields`` are the fields of such documents before they had checksums. A document with
    any other field must have a checksum: if none is found, the name of that field is damaged.
    """
    if has_valid_checksum(body):
        return
    if FIELD in document or set(document) - set(older_fields):
        raise DamagedError(f"{key} is damaged: its checksum does not match", hint=HINT)


def parse_with_checksum(
    body: bytes,
    key: str,
    older_fields: Collection[str],
    parse: Callable[[bytes, str], dict[str, Any]] = parse_document,
) -> dict[str, Any]:
    """Return a document whose checksum matches; see ``require_checksum`` for ``older_fields``."""
    check_checksum(body, key)
    document = parse(body, key)
    require_checksum(body, document, key, older_fields)
    return document


def read_intact(
    store: ObjectStore,
    key: str,
    is_intact: Callable[[bytes], bool] = has_valid_checksum,
    *,
    max_bytes: int | None = None,
) -> bytes:
    """Return a document's bytes, read again while they are not intact.

    Damaged bytes are returned after enough equal reads: then the store itself holds them, and the
    caller must check them. TransientError when they keep changing. DamagedError when the document
    is larger than ``max_bytes``; no more than that is read. KeyMissingError as in ``get``.
    """
    reads = RepeatedReads(key)
    while True:
        body = _read(store, key, max_bytes)
        enough = _READS_WITHOUT_CHECKSUM if _is_older(body) else None
        if is_intact(body) or reads.is_conclusive(body, enough):
            return body
        if reads.differ:
            logger.warning("%s returned different bytes than before: reading it again", key)


def _is_older(body: bytes) -> bool:
    """Return whether ``body`` looks like a document of a kafkeep that wrote no checksums."""
    return body.startswith(b'{"') and not body.startswith(_HEAD)


def _read(store: ObjectStore, key: str, max_bytes: int | None) -> bytes:
    if max_bytes is None:
        return store.get(key)
    body = store.get_range(key, 0, max_bytes + 1)
    if len(body) > max_bytes:
        raise DamagedError(
            f"{key} is damaged: it is larger than the maximum of {max_bytes} bytes", hint=HINT
        )
    return body


EQUAL_READS = 6
"""This many equal reads show that the store holds these bytes."""
WHOLE_OBJECT_READS = 4
"""The same for a whole object, which may be large."""
MOST_READS = 24
"""After this many inconclusive reads, the connection to the store is at fault."""
READ_AGAIN_HINT = (
    "Check network, proxies and memory on the way to the store, then run it again. "
    "There is no evidence that the archive itself is damaged."
)


class RepeatedReads:
    """The damaged reads of one object, or of a part of it.

    If every second response is damaged, the probability that ``MOST_READS`` in a row are damaged is
    below one in ten million.
    """

    def __init__(self, name: str, enough: int = EQUAL_READS) -> None:
        self._name = name
        self._enough = enough
        self._seen: Counter[bytes] = Counter()

    @property
    def differ(self) -> bool:
        """True if the reads so far returned different bytes."""
        return len(self._seen) > 1

    def is_conclusive(self, data: bytes | memoryview, enough: int | None = None) -> bool:
        """Count a damaged read; return True once the store is known to hold these bytes.

        False means: read it again. TransientError when the reads keep differing.
        """
        reading = hashlib.blake2b(data).digest()
        self._seen[reading] += 1
        if self._seen[reading] >= (enough or self._enough):
            return True
        if self._seen.total() >= MOST_READS:
            raise TransientError(
                f"{self._name} returned {len(self._seen)} different contents in "
                f"{self._seen.total()} reads: its bytes change in transit",
                hint=READ_AGAIN_HINT,
            )
        return False
