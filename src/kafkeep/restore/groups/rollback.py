"""Store what groups had committed before a restore moved them, so that it can be rolled back.

Each change is an object of its own beside the restore's document. It is created before the first
offset is committed; the next one says that all of them are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.restore.document import FOLDER, MAX_BYTES, check_version

VERSION = 1
_OLDER_FIELDS = ("version", "at_ms", "rolled_back", "pending", "before")
Offsets = Mapping[tuple[str, int], int | None]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One change: what each group had committed before it; None for nothing."""

    revision: int
    at_ms: int
    before: Mapping[str, Offsets]
    rolled_back: bool = False
    """Whether this change rolls the earlier ones back."""
    pending: bool = False
    """Whether its offsets may not be committed yet; the next change says that they are."""


@dataclass(slots=True)
class GroupHistory:
    """All changes a restore has made to groups."""

    changes: list[GroupChange] = field(default_factory=list)

    @property
    def next_revision(self) -> int:
        """The number of the next change."""
        return self.changes[-1].revision + 1 if self.changes else 0

    @property
    def moved(self) -> bool:
        """Whether all groups were moved, and not rolled back."""
        last = self.changes[-1] if self.changes else None
        return last is not None and not last.rolled_back and not last.pending

    def before(self) -> dict[str, dict[tuple[str, int], int | None]]:
        """Return the offsets before the first change that was not rolled back."""
        found: dict[str, dict[tuple[str, int], int | None]] = {}
        for change in self.changes:
            if change.rolled_back:
                found = {}
                continue
            for group, offsets in change.before.items():
                known = found.setdefault(group, {})
                for key, offset in offsets.items():
                    known.setdefault(key, offset)
        return found


def group_changes(store: ObjectStore, id: str) -> DocumentSequence:
    """Return the changes that a restore made to groups."""
    folder = f"{FOLDER}/{id}.groups/"
    return DocumentSequence(store=store, folder=folder, digits=6, max_bytes=MAX_BYTES)


def save_change(store: ObjectStore, id: str, change: GroupChange) -> None:
    """Create a change. PreflightError when another run was faster."""
    document = {
        "version": VERSION,
        "at_ms": change.at_ms,
        "rolled_back": change.rolled_back,
        "pending": change.pending,
        "before": {
            group: [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
            for group, offsets in change.before.items()
        },
    }
    if not group_changes(store, id).try_create(change.revision, dump_with_checksum(document)):
        raise PreflightError(
            "another run moves the groups of this restore",
            hint="Wait for it to end, then run the same command again.",
        )


def load_history(store: ObjectStore, id: str) -> GroupHistory:
    """Return every change, in order."""
    changes = group_changes(store, id)
    numbers = sorted(changes.iter_numbers())
    return GroupHistory([_parse(n, changes.key(n), changes.read(n)) for n in numbers])


def _parse(revision: int, key: str, body: bytes) -> GroupChange:
    try:
        check_checksum(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        require_checksum(body, document, key, _OLDER_FIELDS)
        before = {
            group: {(topic, partition): offset for topic, partition, offset in rows}
            for group, rows in document["before"].items()
        }
        pending = document.get("pending", False)
        return GroupChange(revision, document["at_ms"], before, document["rolled_back"], pending)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{key} is not a change of groups: {error}") from error
