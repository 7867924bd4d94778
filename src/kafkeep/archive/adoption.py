"""Whose object is it? What a task decides when the name it wants is taken. Pure.

Objects are created once and never replaced. One that an earlier attempt at the same plan left is
adopted as it stands; any other is foreign, and the task goes on under a longer name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.document import dump_document

WRITER = "kafkeep-writer"
TOPIC_ID = "kafkeep-topic-id"
PARTITION = "kafkeep-partition"
START = "kafkeep-start"
END = "kafkeep-end"
PLAN = "kafkeep-plan"
SHA256 = "kafkeep-sha256"

_IDENTITY = (WRITER, TOPIC_ID, PARTITION, START, PLAN)


@dataclass(frozen=True, slots=True)
class OwnObject:
    """The object belongs to this plan: take it as it stands and go on from its end."""

    end: int | None
    """Where it ends, or None when only its bytes can tell."""
    sha256: str | None


@dataclass(frozen=True, slots=True)
class OtherObject:
    """The object is another's: leave it, and write under the next name."""

    reason: str


def plan_digest(log_name: str, planned_range: PlannedRange, options: Mapping[str, Any]) -> str:
    """Return the digest of all that shapes the bytes of a planned range.

    ``options`` are those of the intent, with the clock reading if it shapes anything; they are
    compared as JSON, so a list and a tuple are the same.
    """
    topic, incarnation, partition = planned_range.partition_id
    document = {
        "log": log_name,
        "topic": topic,
        "incarnation": incarnation,
        "partition": partition,
        "topic_id": planned_range.topic_id,
        "start": planned_range.range.start,
        "end": planned_range.range.end,
        "options": dict(options),
    }
    if planned_range.generation:
        document["generation"] = planned_range.generation
    return hashlib.sha256(dump_document(document)).hexdigest()


def object_metadata(
    *,
    writer: str,
    planned: PlannedRange,
    start: int,
    plan: str,
    end: int | None = None,
    sha256: str | None = None,
) -> dict[str, str]:
    """Return the metadata of a data object that begins at ``start``; ``writer`` names the log.

    ``end`` and ``sha256`` are left out while they are not known: a large object's metadata is
    sent before its last byte.
    """
    metadata = {
        WRITER: writer,
        TOPIC_ID: planned.topic_id,
        PARTITION: str(planned.partition_id.partition),
        START: str(start),
        PLAN: plan,
    }
    if end is not None:
        metadata[END] = str(end)
    if sha256 is not None:
        metadata[SHA256] = sha256
    return metadata


def identify_object(
    existing: Mapping[str, str], mine: Mapping[str, str]
) -> OwnObject | OtherObject:
    """Say whether an object with the metadata ``existing`` is what ``mine`` was to become."""
    found = {name.lower(): value for name, value in existing.items()}
    if WRITER not in found:
        return OtherObject("it was not written by kafkeep")
    for name in _IDENTITY:
        if found.get(name) != mine[name]:
            return OtherObject(f"its {name} is {found.get(name)}, not {mine[name]}")
    end = found.get(END, "")
    return OwnObject(int(end) if end.isdecimal() else None, found.get(SHA256))
