"""What the real S3 sink of Kafka Connect made of given records and configurations.

``golden/sink/cases.jsonl.xz`` holds the cases, one document a line; ``golden/sink/README.md`` says
how they were recorded. A case is a value: what was in Kafka, how the connector was configured,
which objects it left behind.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.golden.compare import Rows, decode

PACKED = Path(__file__).parents[2] / "golden" / "sink" / "cases.jsonl.xz"
CONTEXT = "__connect.errors."
"""How the names of the headers begin that Connect adds to a dead letter."""


@dataclass(frozen=True, slots=True)
class GoldenRecord:
    """A record as it was in Kafka, or as it was sent to the dead letter topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    transaction: tuple[int, str] | None = None
    """Number of the transaction it was part of and how that ended: ``commit`` or ``abort``."""

    @property
    def aborted(self) -> bool:
        """Whether a reader of committed records does not see it."""
        return self.transaction is not None and self.transaction[1] == "abort"


@dataclass(frozen=True, slots=True)
class GoldenTopic:
    """A topic as it was made, and its end offsets (control records counted)."""

    partitions: int
    configs: Mapping[str, str]
    ends: Mapping[int, int]


@dataclass(frozen=True)
class GoldenCase:
    """One run of the real sink: what went in, what came out."""

    name: str
    connector: str
    config: Mapping[str, str]
    """As posted; ``${ENDPOINT}``, ``${BUCKET}``, ``${ACCESS_KEY}``, ``${SECRET_KEY}`` stand in."""
    topics: Mapping[str, GoldenTopic]
    records: tuple[GoldenRecord, ...]
    objects: Mapping[str, bytes]
    tags: Mapping[str, Mapping[str, str]]
    committed: Mapping[str, Mapping[int, int | None]]
    """Offsets of the consumer group when it stopped."""
    task: str
    """RUNNING, FAILED, or REFUSED when the configuration was not taken."""
    failure: str | None
    """The last cause it gave for that."""
    phases: tuple[Mapping[str, Any], ...]
    dlq: tuple[GoldenRecord, ...]

    @property
    def number(self) -> str:
        """The case's short name: ``24b``."""
        return self.name.split("-")[0]

    def rows(self, key: str) -> Rows:
        """Return what is in one object, decoded."""
        return decode(key, self.objects[key])


@cache
def load_cases() -> tuple[GoldenCase, ...]:
    """Return every case, in the order of their numbers."""
    with lzma.open(PACKED, "rt", encoding="utf-8", newline="\n") as lines:
        return tuple(_case(json.loads(line)) for line in lines)


def load_case(number: str) -> GoldenCase:
    """Return the case of that number."""
    return next(case for case in load_cases() if case.number == number)


def _case(told: dict[str, Any]) -> GoldenCase:
    return GoldenCase(
        name=told["name"],
        connector=told["connector"]["name"],
        config=told["connector"]["config"],
        topics={
            name: GoldenTopic(topic["partitions"], topic["configs"], _numbered(topic["ends"]))
            for name, topic in told["topics"].items()
        },
        records=tuple(_record(record) for record in told["records"]),
        objects={key: _needed(data) for key, data in told["objects"].items()},
        tags=told["tags"],
        committed={name: _numbered(ends) for name, ends in told["committed"].items()},
        task=told["task"],
        failure=told["failure"],
        phases=tuple(told["phases"]),
        dlq=tuple(_record(record) for record in told["dlq"]),
    )


def _record(told: dict[str, Any]) -> GoldenRecord:
    transaction = told.get("transaction")
    return GoldenRecord(
        told["topic"],
        told["partition"],
        told["offset"],
        told["timestamp"],
        _bytes(told["key"]),
        _bytes(told["value"]),
        tuple((name, _bytes(value)) for name, value in told["headers"]),
        (transaction[0], transaction[1]) if transaction else None,
    )


def _numbered(by_text: Mapping[str, Any]) -> dict[int, Any]:
    return {int(number): value for number, value in by_text.items()}


def _bytes(packed: Any) -> bytes | None:
    if packed is None:
        return None
    return packed.encode() if isinstance(packed, str) else base64.b64decode(packed["base64"])


def _needed(packed: Any) -> bytes:
    data = _bytes(packed)
    assert data is not None
    return data
