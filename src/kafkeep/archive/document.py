"""Tells damage in the store from damage on the way: bytes that are not intact are read again.

Damage in the store reads the same every time. Bytes that a network, a proxy or a memory module
changes on the way come otherwise, and some readings come intact.

Stored documents: JSON with a version, read with suspicion.

What lies in a bucket may be damaged, newer than this program, or written by someone who wishes
harm: every field is checked for its type, and every failure names the key.

Documents that can tell whether they are whole: the checksum of a document is its first field.

It is the SHA-256 of the other bytes. Documents of an older kafkeep have none; of those a reader
can only ask twice. docs/format.md says how to check one by hand.
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
"""The newest there is. A document bears the lowest version that tells all of it, so that an older
kafkeep reads what it can read rightly, and refuses the rest."""
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""No document unpacks to more than this."""
MAX_PARSED_BYTES = 1024 * 1024 * 1024
"""No packed document takes more memory than about this, unpacked and parsed."""
SMALL_BYTES = 64 * 1024 * 1024
MAX_EXPANSION = 4096
"""A packed document may take ``SMALL_BYTES``, or so many times its packed size, if that is more."""
_OBJECT_BYTES, _ARRAY_BYTES, _ITEM_BYTES = 232, 88, 64
_PIECE_BYTES = 1024 * 1024
_LEVEL = 3


def dump_document(document: Mapping[str, Any]) -> bytes:
    """Return the one sequence of bytes that stands for ``document``: keys sorted, no spaces."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def digest_of(body: bytes) -> str:
    """Return the digest by which documents name one another: SHA-256, in hex."""
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
        raise DamagedError(f"{key} is damaged: there is no format version {version}")
    return as_dict(document)


def pack(document: Mapping[str, Any]) -> bytes:
    """Return the compressed form of a large document."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(dump_document(document))


def unpack(body: bytes, key: str) -> dict[str, Any]:
    """Return the document of a compressed body; refuses one that would fill the memory.

    A few bytes can unpack to a flood, and a flood of brackets parses to twenty times its size.
    """
    with reading(key):
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= MAX_DOCUMENT_BYTES:
            raise ValueError(f"unpacked size {size} is out of bounds")
        plain = _unpack_bounded(body)
        if len(plain) != size:
            raise ValueError(f"{len(plain)} of {size} bytes unpack")
    return parse_document(plain, key)


def _unpack_bounded(body: bytes) -> bytes:
    limit = min(MAX_PARSED_BYTES, max(SMALL_BYTES, MAX_EXPANSION * len(body)))
    needed = 0
    pieces = []
    with zstandard.ZstdDecompressor().stream_reader(body) as reader:
        while piece := reader.read(_PIECE_BYTES):
            needed += parsed_bytes(piece)
            if needed > limit:
                raise ValueError(f"{len(body)} bytes unpack and parse to more than {limit} bytes")
            pieces.append(piece)
    return b"".join(pieces)


def parsed_bytes(plain: bytes) -> int:
    """Estimate how much memory a JSON text takes, with all that it is parsed to."""
    return (
        len(plain)
        + _OBJECT_BYTES * plain.count(b"{")
        + _ARRAY_BYTES * plain.count(b"[")
        + _ITEM_BYTES * plain.count(b",")
    )


@contextmanager
def reading(key: str) -> Iterator[None]:
    """Turn what goes wrong while a document is taken apart into a DamagedError naming ``key``."""
    try:
        yield
    except KeyError as error:
        raise DamagedError(f"{key} is damaged: the field {error} is missing") from error
    except (TypeError, ValueError, AttributeError, zstandard.ZstdError) as error:
        raise DamagedError(f"{key} is damaged: {error}") from error


def as_int(value: Any) -> int:
    """Return ``value`` if it is a whole number, else raise TypeError; so for the others here."""
    if type(value) is not int:
        raise TypeError(f"a whole number was expected, not {_shown(value)}")
    return value


def as_str(value: Any) -> str:
    """Return ``value`` if it is text."""
    if type(value) is not str:
        raise TypeError(f"text was expected, not {_shown(value)}")
    return value


def as_dict(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is an object."""
    if type(value) is not dict:
        raise TypeError(f"an object was expected, not {_shown(value)}")
    return value


def as_list(value: Any) -> list[Any]:
    """Return ``value`` if it is an array."""
    if type(value) is not list:
        raise TypeError(f"an array was expected, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return f"{value!r:.60}"


FIELD = "checksum"
_UNSEALED_READS = 2
"""A document without a checksum counts when it came so often the same."""
HINT = "Bring the object back from a copy of the bucket, or an older version of it in the store."
_HEAD, _TAIL = f'{{"{FIELD}":"'.encode(), b'",'
_DIGEST = slice(len(_HEAD), len(_HEAD) + 64)
_REST = slice(_DIGEST.stop, None)

logger = logging.getLogger(__name__)


def seal(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document with its checksum; equal documents give equal bytes."""
    plain = dump_document(document)
    return _HEAD + digest_of(plain).encode() + _TAIL + plain[1:]


def is_sealed(body: bytes) -> bool:
    """Whether ``body`` begins with a checksum, and is what the checksum is of."""
    rest = body[_REST]
    return (
        body.startswith(_HEAD)
        and rest.startswith(_TAIL)
        and digest_of(b"{" + rest[len(_TAIL) :]).encode() == body[_DIGEST]
    )


def check_whole(body: bytes, key: str) -> None:
    """Raise DamagedError when ``body`` begins with a checksum and is not what that is of.

    Called before a document is parsed: a flipped bit in its version does not make it newer.
    """
    if body.startswith(_HEAD) and not is_sealed(body):
        raise DamagedError(f"{key} is damaged: its checksum does not fit", hint=HINT)


def check_seal(
    body: bytes, document: Mapping[str, Any], key: str, unsealed: Collection[str]
) -> None:
    """Raise DamagedError unless ``body`` is sealed, or of a kafkeep that did not seal it.

    ``unsealed`` are the fields such a document had. With any other it is of a kafkeep that
    seals: what is wrong is the name of its checksum.
    """
    if is_sealed(body):
        return
    if FIELD in document or set(document) - set(unsealed):
        raise DamagedError(f"{key} is damaged: its checksum does not fit", hint=HINT)


def parse_sealed(
    body: bytes,
    key: str,
    unsealed: Collection[str],
    parse: Callable[[bytes, str], dict[str, Any]] = parse_document,
) -> dict[str, Any]:
    """Return a document after its checksum; see ``check_seal`` for ``unsealed``."""
    check_whole(body, key)
    document = parse(body, key)
    check_seal(body, document, key, unsealed)
    return document


def read_sound(
    store: ObjectStore,
    key: str,
    is_sound: Callable[[bytes], bool] = is_sealed,
    *,
    max_bytes: int | None = None,
) -> bytes:
    """Return a document's bytes, asked for again when they are not sound.

    What is not sound is returned once it came the same often enough: it lies so in the store, and
    its reader has to judge it. TransientError when its bytes keep changing on the way. DamagedError
    when the document has more than ``max_bytes``, of which no more is read; KeyMissingError as
    ``get``.
    """
    readings = Readings(key)
    while True:
        body = _read(store, key, max_bytes)
        if is_sound(body) or readings.lies_so(body, _UNSEALED_READS if _is_plain(body) else None):
            return body
        if readings.differ:
            logger.warning("%s came with other bytes than a moment ago: it is read again", key)


def _is_plain(body: bytes) -> bool:
    """Whether it looks like a document of a kafkeep that did not seal it."""
    return body.startswith(b'{"') and not body.startswith(_HEAD)


def _read(store: ObjectStore, key: str, max_bytes: int | None) -> bytes:
    if max_bytes is None:
        return store.get(key)
    body = store.get_range(key, 0, max_bytes + 1)
    if len(body) > max_bytes:
        raise DamagedError(
            f"{key} is damaged: it is larger than the {max_bytes} bytes it may have", hint=HINT
        )
    return body


ENOUGH = 6
"""So many equal readings show that bytes lie so in the store."""
WHOLE_READS = 4
"""Fewer of a whole object, which may be large."""
MOST = 24
"""After so many readings without an end the way to the store is at fault."""
READ_AGAIN_HINT = (
    "Check network, proxies and memory on the way to the store, then run it again. "
    "Nothing shows that the archive itself is damaged."
)


class Readings:
    """The readings of one thing that did not come intact.

    Where every second answer is changed, the chance that ``MOST`` readings in a row are is below
    one in ten million.
    """

    def __init__(self, name: str, enough: int = ENOUGH) -> None:
        self._name = name
        self._enough = enough
        self._seen: Counter[bytes] = Counter()

    @property
    def differ(self) -> bool:
        """Whether not all readings so far were the same."""
        return len(self._seen) > 1

    def lies_so(self, data: bytes | memoryview, enough: int | None = None) -> bool:
        """Note a reading that is not intact; True once it is known to lie so in the store.

        False means: read it again. TransientError when the readings keep differing.
        """
        reading = hashlib.blake2b(data).digest()
        self._seen[reading] += 1
        if self._seen[reading] >= (enough or self._enough):
            return True
        if self._seen.total() >= MOST:
            raise TransientError(
                f"{self._name} came with {len(self._seen)} different contents in "
                f"{self._seen.total()} readings: its bytes change on the way",
                hint=READ_AGAIN_HINT,
            )
        return False
