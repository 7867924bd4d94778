"""Documents of restores: one object for each revision of what says how far one has come.

Each is created once, and the newest one counts: a worker that lost its place finds that it is late.
"""

from __future__ import annotations

from kafkeep.archive.numbered import iter_numbered
from kafkeep.archive.seal import read_sound
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import FencedError, KeyExistsError, NewerFormatError

MAX_BYTES = 256 << 20
"""No document of a restore is larger; of a larger one no more than this is read."""


def check_version(key: str, version: int, known: int) -> None:
    """Refuse a document of a newer kafkeep by name; TypeError when ``version`` is no number."""
    if version > known:
        raise NewerFormatError(
            f"{key} has version {version}, this kafkeep knows {known}", hint="Update kafkeep."
        )


def load_newest(store: ObjectStore, folder: str) -> tuple[bytes, str] | None:
    """Return the newest revision and its key, or None when there is none."""
    newest = None
    for info in iter_numbered(store, folder):
        newest = info.key
    return None if newest is None else (read_sound(store, newest, max_bytes=MAX_BYTES), newest)


def save_revision(store: ObjectStore, folder: str, revision: int, body: bytes) -> None:
    """Create a revision. FencedError when another worker was faster."""
    key = revision_key(folder, revision)
    try:
        store.put_new(key, body)
    except KeyExistsError as error:
        if read_sound(store, key, max_bytes=MAX_BYTES) != body:
            raise _fenced() from error
    # An old number is free again once it was swept: then there is a newer one.
    if next(iter_numbered(store, folder, after=key), None) is not None:
        raise _fenced()


def sweep_revisions(store: ObjectStore, folder: str, revision: int, *, before_ms: int) -> None:
    """Delete those before ``revision`` that are older than ``before_ms``."""
    for info in list(iter_numbered(store, folder)):
        if info.key < revision_key(folder, revision) and info.modified_ms < before_ms:
            store.delete(info.key)


def revision_key(folder: str, revision: int) -> str:
    """Return where a revision lies."""
    return f"{folder}{revision:012d}.json"


def _fenced() -> FencedError:
    return FencedError(
        "another worker runs this connector",
        hint="A connector is run by one worker at a time; this one has stopped.",
    )
