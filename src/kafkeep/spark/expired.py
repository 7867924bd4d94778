"""Entries whose objects are gone by a retention rule: left out, and said so. On the driver."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from kafkeep.archive.entry import Entry
from kafkeep.archive.reader import ArchiveView
from kafkeep.archive.retention import Expiry
from kafkeep.archive.store import ObjectStore

logger = logging.getLogger(__name__)


def without_expired(
    store: ObjectStore, view: ArchiveView, entries: Sequence[Entry], now_ms: int
) -> list[Entry]:
    """Return the entries to read: without windows of which a rule has deleted an object.

    What is gone and no rule explains stays, and is damage to whoever reads it. Without rules
    nothing is listed.
    """
    expiry = Expiry(store, view, now_ms)
    old = {entry.key: reason for entry in entries if (reason := expiry.reason(entry))}
    if not old:
        return list(entries)
    folder = os.path.commonpath([os.path.dirname(key) for key in old])
    there = {info.key for info in store.list(f"{folder}/" if folder else "")}
    gone = {
        (entry.partition_id, entry.range): old[entry.key]
        for entry in entries
        if entry.key in old and entry.key not in there
    }
    for (pid, range), reason in sorted(gone.items(), key=lambda one: (one[0][0], one[0][1].start)):
        logger.warning("%s offsets %d..%d: %s", pid, range.start, range.end, reason)
    return [entry for entry in entries if (entry.partition_id, entry.range) not in gone]
