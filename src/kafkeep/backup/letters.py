"""Dead letters: bad records on their way to a topic of their own, with what was wrong. In tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import PartitionId
from kafkeep.backup.pipeline import BadRecord, Stage
from kafkeep.errors import RecordError, TransientError
from kafkeep.kafka.build import Record, build_batch
from kafkeep.kafka.wire import Wire

PREFIX = "__connect.errors."
LETTERS_PER_BATCH = 200
_CLASSES: Mapping[Stage, str] = {
    Stage.KEY_CONVERTER: "org.apache.kafka.connect.storage.Converter",
    Stage.VALUE_CONVERTER: "org.apache.kafka.connect.storage.Converter",
    Stage.TRANSFORMATION: "org.apache.kafka.connect.transforms.Transformation",
    Stage.TASK_PUT: "org.apache.kafka.connect.sink.SinkTask",
}


@dataclass(frozen=True, slots=True)
class Letter:
    """One bad record as it lay in Kafka, and what was wrong with it."""

    record: Record
    stage: Stage
    error: RecordError

    def describe(self, source: PartitionId, *, details: bool) -> str:
        """Say it in a line, without the record's content; with its time and sizes if asked."""
        line = f"{source} offset {self.record.offset}: {self.stage}: {self.error.message}"
        if not details:
            return line
        sizes = [
            "null" if part is None else f"{len(part)} bytes"
            for part in (self.record.key, self.record.value)
        ]
        time = self.record.timestamp
        return f"{line} (timestamp {time}, key {sizes[0]}, value {sizes[1]})"


def make_letter(raw: pa.RecordBatch, bad: BadRecord) -> Letter:
    """Take the bad record out of the batch it came in."""
    row = int(np.searchsorted(raw.column("offset").to_numpy(), bad.offset))
    values = {name: raw.column(name)[row].as_py() for name in ("timestamp", "key", "value")}
    headers = [(h["key"], h["value"]) for h in raw.column("headers")[row].as_py()]
    record = Record(bad.offset, values["timestamp"], values["key"], values["value"], headers)
    return Letter(record, bad.stage, bad.error)


def send_letters(
    wire: Wire,
    letters: Sequence[Letter],
    *,
    topic: str,
    source: PartitionId,
    connector: str,
    with_context: bool,
) -> None:
    """Produce the letters; each at least once. TransientError when Kafka does not take them."""
    for start in range(0, len(letters), LETTERS_PER_BATCH):
        records = [
            _addressed(letter, number, source, connector, with_context)
            for number, letter in enumerate(letters[start : start + LETTERS_PER_BATCH])
        ]
        body = build_batch(records, base_offset=0)
        answer: Any = wire.produce({(topic, 0): body}).result()[topic, 0]
        if answer.error_code:
            raise TransientError(f"dead-letter topic {topic}: Kafka answers {answer.error_name}")


def _addressed(
    letter: Letter, number: int, source: PartitionId, connector: str, with_context: bool
) -> Record:
    headers = list(letter.record.headers)
    if with_context:
        context = {
            "topic": source.topic,
            "partition": str(source.partition),
            "offset": str(letter.record.offset),
            "connector.name": connector,
            "task.id": "0",
            "stage": str(letter.stage),
            "class.name": _CLASSES[letter.stage],
            "exception.class.name": "org.apache.kafka.connect.errors.DataException",
            "exception.message": letter.error.message,
            "exception.stacktrace": letter.error.message,
        }
        headers += [(f"{PREFIX}{name}".encode(), text.encode()) for name, text in context.items()]
    return letter.record._replace(offset=number, headers=headers)
