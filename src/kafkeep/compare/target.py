"""Describe the target topics when a comparison begins. On the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from kafkeep.archive.document import FIELD, MAX_DOCUMENT_BYTES, has_valid_checksum
from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.compare.plan import NOT_RESTORED, RestoredTopic, TargetTopic
from kafkeep.compare.read import ids_of
from kafkeep.errors import DamagedError, PreflightError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec

RESTORES = "_kafkeep/restores/"
OBJECTS = "-objects"
"""Folders of lists of objects, which are no documents of restores."""


def describe_targets(
    admin: Admin, names: Sequence[str], restored: Mapping[str, RestoredTopic]
) -> dict[str, TargetTopic]:
    """Return the topics; PreflightError names those that are not there."""
    there = admin.topics(names)
    missing = [name for name in names if name not in there]
    if missing:
        raise PreflightError(
            f"the target has no topic {', '.join(missing)}",
            hint="Give the names of topics there with --topics a:new-a.",
        )
    partitions = [(name, number) for name in names for number in there[name].partitions]
    starts = admin.offsets(partitions, OffsetSpec.EARLIEST)
    ends = admin.offsets(partitions, OffsetSpec.LAST_STABLE)
    policies = admin.all_topic_configs(names)
    found = {}
    for name in names:
        policy = policies[name].get("cleanup.policy")
        topic_id = there[name].topic_id
        found[name] = TargetTopic(
            name=name,
            topic_id=topic_id,
            offsets={
                n: OffsetRange(starts[name, n], max(starts[name, n], ends[name, n]))
                for n in there[name].partitions
            },
            compacts=policy is not None and "compact" in (policy.value or ""),
            restored=restored.get(topic_id, NOT_RESTORED),
        )
    return found


def load_restored_topics(store: ObjectStore) -> dict[str, RestoredTopic]:
    """Return what the archive's restore documents say, by the id of the target topic.

    They say where the restored records begin; all of these are compared whatever they say.
    """
    found: dict[str, tuple[int, RestoredTopic]] = {}
    for document in _iter_documents(store):
        for target in document.get("targets", ()):
            bases = {n: int(p["base"]) for n, p in enumerate(target.get("partitions", ()))}
            known = found.get(target.get("topic_id") or "")
            at_ms = int(document.get("at_ms", 0))
            if target.get("topic_id") and bases and (known is None or known[0] <= at_ms):
                found[target["topic_id"]] = at_ms, _restored_topic(document, target, bases)
    return {topic_id: restored for topic_id, (_, restored) in found.items()}


def _restored_topic(
    document: Mapping[str, Any], target: Mapping[str, Any], bases: Mapping[int, int]
) -> RestoredTopic:
    return RestoredTopic(
        bases=bases,
        asked=document.get("asked") or {},
        ids=ids_of(document),
        source=(target.get("source", ""), int(target.get("incarnation", 1))),
        commit=(document.get("log", ""), int(document.get("commit", -1))),
    )


def _iter_documents(store: ObjectStore) -> Iterator[dict[str, Any]]:
    """Yield the newest revision of each document that can be read."""
    for folder in store.folders(RESTORES):
        if folder.endswith(OBJECTS):
            continue
        documents = DocumentSequence(
            store=store, folder=f"{RESTORES}{folder}/", digits=6, max_bytes=MAX_DOCUMENT_BYTES
        )
        newest = documents.newest()
        if newest < 0:
            continue
        try:
            body = documents.read(newest)
            document = orjson.loads(body)
        except (ValueError, DamagedError):
            continue
        if isinstance(document, dict) and (has_valid_checksum(body) or FIELD not in document):
            yield document
