"""Commits and their parts as JSON documents. docs/format.md describes each field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafkeep.archive.commit import (
    Changes,
    Commit,
    Gap,
    Intent,
    LogSpan,
    PlannedRange,
    Retirement,
    Retirements,
    TopicInfo,
)
from kafkeep.archive.document import (
    FIRST_VERSION,
    FORMAT_VERSION,
    as_dict,
    as_int,
    as_list,
    as_str,
    dump_with_checksum,
    parse_with_checksum,
    reading,
)
from kafkeep.archive.entry import LAST_OFFSET, Entry, OffsetRange, PartitionId
from kafkeep.archive.names import check_topic_name, parse_folder
from kafkeep.archive.schemas import check_digest
from kafkeep.errors import DamagedError

T = TypeVar("T")
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last one of Python's calendar."""

_OLDER_FIELDS = (
    *("version", "log", "number", "previous", "epoch", "writer", "at_ms", "entries", "positions"),
    *("retired", "gaps", "topics", "leader_epochs", "spans", "groups", "schemas", "intent"),
    *("closes_intent", "note"),
)
"""The fields of commits before they had checksums: never add one here."""


def encode_commit(commit: Commit) -> bytes:
    """Return the bytes of a commit, with a checksum; equal commits give equal bytes."""
    return dump_with_checksum(
        {
            "version": version_of(commit.changes),
            "log": commit.log,
            "number": commit.number,
            "previous": commit.previous,
            "epoch": commit.epoch,
            "writer": commit.writer,
            "at_ms": commit.at_ms,
            **changes_to_json(commit.changes),
        }
    )


def version_of(changes: Changes) -> int:
    """Return the lowest format version whose readers understand a commit of ``changes``."""
    newer = changes.retired or any(entry.runs for entry in changes.entries)
    return FORMAT_VERSION if newer else FIRST_VERSION


def decode_commit(body: bytes, key: str, *, log: str, number: int) -> Commit:
    """Parse a commit; DamagedError when it is damaged or belongs under another key."""
    document = parse_with_checksum(body, key, _OLDER_FIELDS)
    with reading(key):
        commit = Commit(
            log=as_str(document["log"]),
            number=as_int(document["number"]),
            previous=as_str(document["previous"]),
            epoch=as_int(document["epoch"]),
            writer=as_str(document["writer"]),
            at_ms=as_time_ms(document["at_ms"]),
            changes=changes_from_json(document),
        )
    if (commit.log, commit.number) != (log, number):
        raise DamagedError(f"{key} holds commit {commit.number} of {commit.log!r}")
    return commit


def changes_to_json(changes: Changes) -> dict[str, Any]:
    """Return the document form, without empty fields."""
    document: dict[str, Any] = {
        "entries": [entry.to_json() for entry in changes.entries],
        "positions": partition_map_to_json(changes.positions),
        "retired": partition_map_to_json(changes.retired),
        "gaps": [gap_to_json(gap) for gap in changes.gaps],
        "topics": [topic_to_json(topic) for topic in changes.topics],
        "leader_epochs": partition_map_to_json(changes.leader_epochs),
        "spans": spans_to_json(changes.spans),
        "groups": groups_to_json(changes.groups),
        "schemas": changes.schemas,
        "intent": intent_to_json(changes.intent),
        "closes_intent": changes.closes_intent,
        "note": changes.note,
    }
    return {name: value for name, value in document.items() if value}


def changes_from_json(document: Mapping[str, Any]) -> Changes:
    """Rebuild the changes; KeyError, TypeError or ValueError when the document holds none."""
    return Changes(
        entries=tuple(map(Entry.from_json, as_list(document.get("entries", [])))),
        positions=partition_map_from_json(document.get("positions", {}), as_offset),
        retired=partition_map_from_json(document.get("retired", {}), as_offset),
        gaps=tuple(map(gap_from_json, as_list(document.get("gaps", [])))),
        topics=tuple(map(topic_from_json, as_list(document.get("topics", [])))),
        leader_epochs=partition_map_from_json(document.get("leader_epochs", {}), as_int),
        spans=spans_from_json(document.get("spans", {})),
        groups=groups_from_json(document.get("groups", {})),
        schemas=check_digest(as_str(document.get("schemas", ""))),
        intent=intent_from_json(document.get("intent")),
        closes_intent=document.get("closes_intent", False) is True,
        note=as_str(document.get("note", "")),
    )


def as_offset(value: Any) -> int:
    """Return ``value`` if it can be an offset of Kafka, else raise TypeError or ValueError."""
    if not 0 <= as_int(value) <= LAST_OFFSET:
        raise ValueError(f"{value} is not an offset")
    return as_int(value)


def as_long(value: Any) -> int:
    """Return ``value`` if it fits into 64 bits, else raise TypeError or ValueError."""
    if not -LAST_OFFSET <= as_int(value) <= LAST_OFFSET:
        raise ValueError(f"{value} does not fit into 64 bits")
    return as_int(value)


def as_time_ms(value: Any) -> int:
    """Return ``value`` if it is a time up to the year 9999, else raise TypeError or ValueError."""
    if not 0 <= as_int(value) <= LAST_MS:
        raise ValueError(f"{value} is not a time")
    return as_int(value)


def partition_map_to_json(values: Mapping[PartitionId, Any]) -> dict[str, dict[str, Any]]:
    """Return folder → partition → value."""
    document: dict[str, dict[str, Any]] = {}
    for partition_id, value in values.items():
        document.setdefault(partition_id.folder, {})[str(partition_id.partition)] = value
    return document


def partition_map_from_json(document: Any, value: Callable[[Any], T]) -> dict[PartitionId, T]:
    """Rebuild a map by partition, each value checked by ``value``."""
    found: dict[PartitionId, T] = {}
    for folder, partitions in as_dict(document).items():
        topic, incarnation = parse_folder(folder)
        for number, item in as_dict(partitions).items():
            found[PartitionId.checked(topic, incarnation, int(number))] = value(item)
    return found


def spans_to_json(spans: Mapping[PartitionId, LogSpan]) -> dict[str, dict[str, Any]]:
    """Return folder → partition → [start, end]."""
    return partition_map_to_json({pid: [span.start, span.end] for pid, span in spans.items()})


def spans_from_json(document: Any) -> dict[PartitionId, LogSpan]:
    return partition_map_from_json(document, lambda pair: LogSpan(*map(as_long, pair)))


def groups_to_json(groups: Mapping[str, Mapping[PartitionId, int]]) -> dict[str, Any]:
    """Return group → folder → partition → offset."""
    return {group: partition_map_to_json(offsets) for group, offsets in groups.items()}


def groups_from_json(document: Any) -> dict[str, dict[PartitionId, int]]:
    return {
        group: partition_map_from_json(offsets, as_long)
        for group, offsets in as_dict(document).items()
    }


def gap_to_json(gap: Gap) -> dict[str, Any]:
    return {
        **_range_to_json(gap.partition_id, gap.range, gap.generation),
        "reason": gap.reason,
        "at_ms": gap.at_ms,
    }


def gap_from_json(document: Mapping[str, Any]) -> Gap:
    partition_id, offsets = _range_from_json(document)
    return Gap(
        partition_id,
        offsets,
        as_str(document["reason"]),
        as_int(document["at_ms"]),
        as_int(document.get("generation", 0)),
    )


def topic_to_json(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "incarnation": topic.incarnation,
        "topic_id": topic.topic_id,
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "configs": dict(topic.configs),
        "deleted": topic.deleted,
    }


def topic_from_json(document: Mapping[str, Any]) -> TopicInfo:
    configs = as_dict(document["configs"])
    return TopicInfo(
        topic=check_topic_name(as_str(document["topic"])),
        incarnation=as_int(document["incarnation"]),
        topic_id=as_str(document["topic_id"]),
        partitions=as_int(document["partitions"]),
        replication_factor=as_int(document["replication_factor"]),
        configs={name: as_str(value) for name, value in configs.items()},
        deleted=document["deleted"] is True,
    )


def intent_to_json(intent: Intent | None) -> dict[str, Any] | None:
    if intent is None:
        return None
    return {
        "ranges": [
            {**_range_to_json(r.partition_id, r.range, r.generation), "topic_id": r.topic_id}
            for r in intent.ranges
        ],
        "options": dict(intent.options),
        "at_ms": intent.at_ms,
    }


def intent_from_json(document: Any) -> Intent | None:
    if document is None:
        return None
    return Intent(
        ranges=tuple(_planned(as_list(document["ranges"]))),
        options=as_dict(document["options"]),
        at_ms=as_int(document["at_ms"]),
    )


def _planned(documents: list[Any]) -> Iterable[PlannedRange]:
    for document in documents:
        partition_id, offsets = _range_from_json(document)
        topic_id = as_str(document["topic_id"])
        generation = as_int(document.get("generation", 0))
        yield PlannedRange(
            partition_id=partition_id, topic_id=topic_id, range=offsets, generation=generation
        )


def retired_to_json(retired: Mapping[PartitionId, Retirements]) -> dict[str, dict[str, Any]]:
    """Return folder → partition → [[generation, offset], …]."""
    return partition_map_to_json({pid: list(map(list, steps)) for pid, steps in retired.items()})


def retired_from_json(document: Any) -> dict[PartitionId, Retirements]:

    def steps(pairs: Any) -> Retirements:
        return tuple(Retirement(*map(as_offset, as_list(pair))) for pair in as_list(pairs))

    return partition_map_from_json(document, steps)


def generations_to_json(generations: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """Return folder → generation, the folder being that of the incarnation."""
    return {PartitionId(*key, 0).folder: number for key, number in generations.items()}


def generations_from_json(document: Any) -> dict[tuple[str, int], int]:
    return {parse_folder(folder): as_int(n) for folder, n in as_dict(document).items()}


def _range_to_json(
    partition_id: PartitionId, offsets: OffsetRange, generation: int
) -> dict[str, Any]:
    topic, incarnation, partition = partition_id
    document: dict[str, Any] = {
        "topic": topic,
        "incarnation": incarnation,
        "partition": partition,
        "start": offsets.start,
        "end": offsets.end,
    }
    return {**document, "generation": generation} if generation else document


def _range_from_json(document: Mapping[str, Any]) -> tuple[PartitionId, OffsetRange]:
    partition_id = PartitionId.checked(
        as_str(document["topic"]), as_int(document["incarnation"]), as_int(document["partition"])
    )
    return partition_id, OffsetRange(as_offset(document["start"]), as_offset(document["end"]))
