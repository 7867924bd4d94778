"""Documents of the service's state, with checksums: a flipped bit changes no connector in silence.

Documents of an older kafkeep have no checksum, and are read as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafkeep.archive.seal import check_seal, check_whole, read_sound, seal
from kafkeep.archive.store import ObjectStore
from kafkeep.connect.state.codec import STATE_VERSION, parse_state_document
from kafkeep.errors import DamagedError, NewerFormatError

MAX_BYTES = 64 << 20
"""No document of the state is larger; of a larger one no more than this is read."""
HINT = (
    "Bring the document back from a copy of the service's state, or from an older version of it "
    "in the store, and start the workers again."
)


def seal_state(fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document: its fields, the version of the state and the checksum."""
    return seal({"version": STATE_VERSION, **fields})


def load_state_document(
    store: ObjectStore, key: str, unsealed: Collection[str], *, hint: str = HINT
) -> dict[str, Any]:
    """Read a document of the state; it is asked for again when it came damaged.

    ``unsealed`` are the fields that it had, beside its version, before documents had checksums.
    DamagedError when it lies damaged in the store; NewerFormatError; KeyMissingError.
    """
    try:
        body = read_sound(store, key, max_bytes=MAX_BYTES)
        check_whole(body, key)
        document = parse_state_document(body, key)
        check_seal(body, document, key, ("version", *unsealed))
    except NewerFormatError:
        raise
    except DamagedError as error:
        raise DamagedError(error.message, hint=hint) from error
    return document
