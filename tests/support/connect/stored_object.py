"""Objects as a log describes them."""

from __future__ import annotations

from kafkeep.archive.entry import PartitionId
from kafkeep.connect.catalog.archives.stored_objects import StoredObject


def stored_object(key: str, topic: str, committed_ms: int | None = None) -> StoredObject:
    """Return an object with the records of offsets 0 to 2."""
    return StoredObject(
        key=key,
        partition_id=PartitionId(topic, 1, 0),
        start=0,
        end=3,
        records=3,
        size_bytes=120,
        raw_bytes=200,
        oldest_ms=1_000,
        newest_ms=1_000,
        format="json",
        codec="none",
        view="value",
        sha256="0" * 64,
        closed_by="flush.size",
        first_commit=0,
        last_commit=0,
        committed_ms=committed_ms,
    )
