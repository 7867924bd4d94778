"""Stored documents: JSON with a version, read with suspicion.

What lies in a bucket may be damaged, newer than this program, or written by someone who wishes
harm: every field is checked for its type, and every failure names the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import zstandard

from kafkeep.errors import DamagedError, NewerFormatError

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
