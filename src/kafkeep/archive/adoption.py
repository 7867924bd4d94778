"""Decide whether a task adopts an object that already has the name it wants. Pure.

Objects are created once and never replaced. The metadata of an object says which plan it belongs
to. A task adopts an object that an earlier attempt at the same plan created. It leaves any other
object alone and writes under a longer name.
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
    """The object belongs to this plan: the task adopts it and continues from its end."""

    end: int | None
    """The offset where it ends; None when the metadata does not say so."""
    sha256: str | None


@dataclass(frozen=True, slots=True)
class OtherObject:
    """The object belongs to something else: the task writes under the next name."""

    reason: str


def plan_digest(log_name: str, planned_range: PlannedRange, options: Mapping[str, Any]) -> str:
    """Return the digest of everything that the bytes of a planned range depend on.

    ``options`` are those of the intent, with the time if the bytes depend on it. They are compared
    as JSON, so a list and a tuple are the same.
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

    ``end`` and ``sha256`` are left out while they are unknown: the metadata of a large object is
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
    """Compare the metadata of an existing object with that of the wanted one."""
    found = {name.lower(): value for name, value in existing.items()}
    if WRITER not in found:
        return OtherObject("it was not written by kafkeep")
    for name in _IDENTITY:
        if found.get(name) != mine[name]:
            return OtherObject(f"its {name} is {found.get(name)}, not {mine[name]}")
    end = found.get(END, "")
    return OwnObject(int(end) if end.isdecimal() else None, found.get(SHA256))
