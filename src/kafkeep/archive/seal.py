"""Documents that can tell whether they are whole: the checksum of a document is its first field.

It is the SHA-256 of the other bytes. Documents of an older kafkeep have none; of those a reader
can only ask twice. docs/format.md says how to check one by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafkeep.archive.document import digest_of, dump_document
from kafkeep.archive.readings import Readings
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import DamagedError

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
