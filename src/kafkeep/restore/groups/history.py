"""The offsets that consumer groups had before they were changed, so that a change can be undone.

Each change is a separate object beside the restore's document. It is created before the first
offset is committed; the next change records that all offsets are committed. On the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from kafkeep.archive.document import check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import (
    active_groups,
    commit_offsets,
    delete_offsets,
    load_group_offsets,
)
from kafkeep.restore.document import FOLDER, MAX_BYTES, check_version

VERSION = 1
_OLDER_FIELDS = ("version", "at_ms", "rolled_back", "pending", "before")
Offsets = Mapping[tuple[str, int], int | None]
"""By topic and partition; None: no offset."""


def change_offsets(
    wanted: Mapping[str, Offsets],
    id: str,
    documents: ObjectStore,
    admin: Admin,
    now_ms: Callable[[], int],
) -> None:
    """Store the present offsets of groups as a change of restore ``id``, then commit ``wanted``.

    Safe to repeat after a crash: the offsets before the first attempt stay stored. PreflightError
    when a group is active; nothing is changed then.
    """
    groups = sorted(wanted)
    require_idle(admin, groups)
    topics = {topic for offsets in wanted.values() for topic, _ in offsets}
    there = load_group_offsets(admin, topics, groups).offsets
    before = {
        group: {key: there.get(group, {}).get(key) for key in wanted[group]} for group in groups
    }
    history = load_history(documents, id)
    noted = GroupChange(history.next_revision, now_ms(), before, pending=True)
    save_change(documents, id, noted)
    failpoint("groups.recorded")
    for group in groups:
        put_offsets(admin, group, wanted[group])
        failpoint("groups.committed")
    save_change(documents, id, GroupChange(noted.revision + 1, now_ms(), {}))


def put_offsets(admin: Admin, group: str, offsets: Offsets) -> None:
    """Commit offsets, and delete those that are None."""
    commit_offsets(admin, group, {key: at for key, at in offsets.items() if at is not None})
    failpoint("groups.halfway")
    delete_offsets(admin, group, [key for key, at in offsets.items() if at is None])


def require_idle(admin: Admin, groups: Sequence[str]) -> None:
    """Raise PreflightError when a group has members."""
    active = active_groups(admin, groups)
    if active:
        raise PreflightError(
            f"group {active[0]} is active: Kafka rejects offset commits for it (code 25)"
            + (f" (and {len(active) - 1} more)" if len(active) > 1 else ""),
            hint="Stop the consumers of the group, then run the same command again.",
        )


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One change: the previous offsets of each group; None if it had none."""

    revision: int
    at_ms: int
    before: Mapping[str, Offsets]
    rolled_back: bool = False
    """True if this change rolls back the earlier ones."""
    pending: bool = False
    """True if its offsets may not be committed yet; the next change confirms them."""


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
        """True if all groups were moved and not rolled back."""
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
    """Create a change; PreflightError if another run created it first."""
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
            "another run is moving the groups of this restore",
            hint="Wait for it to end, then run the same command again.",
        )


def load_history(store: ObjectStore, id: str) -> GroupHistory:
    """Return every change, in order."""
    numbers = sorted(group_changes(store, id).iter_numbers())
    return GroupHistory([load_change(store, id, number) for number in numbers])


def load_change(store: ObjectStore, id: str, revision: int) -> GroupChange:
    """Return one change; KeyMissingError when there is none."""
    changes = group_changes(store, id)
    return _parse(revision, changes.key(revision), changes.read(revision))


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
        raise DamagedError(f"{key} is not a group change document: {error}") from error
