"""The dead letter queue: sends bad records with their errors to a topic. Runs in tasks.

The driver creates the topic if it does not exist.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafkeep.archive.entry import PartitionId
from kafkeep.errors import KafkeepError, PreflightError, RecordError, TransientError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import Wire
from kafkeep.objects.sink.pipeline import BadRecord, Stage
from kafkeep.options.sink.sink import ErrorOptions
from kafkeep.records.arrow import view_numbers
from kafkeep.store.spill import Spill

PREFIX = "__connect.errors."
BATCH_BYTES = 512 * 1024
"""Half of Kafka's default for max.message.bytes. A larger dead letter gets its own batch."""
FIRST = 50
"""The number of dead letters that are kept in memory for log messages."""
MEMORY_BYTES = 8 << 20
_TOO_LARGE = 10
_CLASSES: Mapping[Stage, str] = {
    Stage.KEY_CONVERTER: "org.apache.kafka.connect.storage.Converter",
    Stage.VALUE_CONVERTER: "org.apache.kafka.connect.storage.Converter",
    Stage.TRANSFORMATION: "org.apache.kafka.connect.transforms.Transformation",
    Stage.TASK_PUT: "org.apache.kafka.connect.sink.SinkTask",
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One bad record, unchanged from Kafka, and its error."""

    record: Record
    stage: Stage
    error: RecordError

    def describe(self, source: PartitionId, *, details: bool) -> str:
        """Return one line without the record's content. ``details`` adds timestamp and sizes."""
        line = f"{source} offset {self.record.offset}: {self.stage}: {self.error.message}"
        if not details:
            return line
        sizes = [
            "null" if part is None else f"{len(part)} bytes"
            for part in (self.record.key, self.record.value)
        ]
        time = self.record.timestamp
        return f"{line} (timestamp {time}, key {sizes[0]}, value {sizes[1]})"


def make_dead_letter(raw: pa.RecordBatch, bad: BadRecord) -> DeadLetter:
    """Return the dead letter for a bad record of the batch ``raw``."""
    row = int(np.searchsorted(view_numbers(raw.column("offset"), np.int64), bad.offset))
    values = {name: raw.column(name)[row].as_py() for name in ("timestamp", "key", "value")}
    headers = [(h["key"], h["value"]) for h in raw.column("headers")[row].as_py()]
    record = Record(bad.offset, values["timestamp"], values["key"], values["value"], headers)
    return DeadLetter(record, bad.stage, bad.error)


class DeadLetterQueue:
    """The bad records of one range, in the order they were found. Large queues go to disk.

    Records before the offset ``end`` are due for sending. A later cycle reads the others again.
    """

    def __init__(self, *, are_sent: bool) -> None:
        self.end = 0
        self._are_sent = are_sent
        self._offsets = array("q")
        self._last = -1
        self._first: list[DeadLetter] = []
        self._newest: list[DeadLetter] = []
        self._weight = 0
        self._spill = Spill()
        self._spilled: list[tuple[int, int]] = []

    def add(self, letter: DeadLetter) -> None:
        """Add a bad record."""
        self._offsets.append(letter.record.offset)
        self._last = max(self._last, letter.record.offset)
        if len(self._first) < FIRST:
            self._first.append(letter)
        if not self._are_sent:
            return
        self._newest.append(letter)
        self._weight += _weigh(letter.record)
        if self._weight >= MEMORY_BYTES:
            data = pickle.dumps(self._newest)
            self._spilled.append((self._spill.append(data), len(data)))
            self._newest, self._weight = [], 0

    @property
    def is_waiting(self) -> bool:
        """Whether some dead letters are not due yet."""
        return self._last >= self.end

    def __len__(self) -> int:
        return sum(offset < self.end for offset in self._offsets)

    @property
    def first(self) -> list[DeadLetter]:
        """The due letters among the first ``FIRST``, for log messages."""
        return list(self._due(self._first))

    def __iter__(self) -> Iterator[DeadLetter]:
        """Yield the due dead letters; none if the sink has no dead letter topic."""
        for start, size in self._spilled:
            yield from self._due(pickle.loads(b"".join(self._spill.read(start, size))))
        yield from self._due(self._newest)

    def _due(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        return (letter for letter in letters if letter.record.offset < self.end)


def _weigh(record: Record) -> int:
    parts = [record.key, record.value, *(part for header in record.headers for part in header)]
    return 200 + sum(len(part) for part in parts if part is not None)


def send_dead_letters(
    wire: Wire,
    letters: Iterable[DeadLetter],
    *,
    topic: str,
    source: PartitionId,
    connector: str,
    with_context: bool,
) -> None:
    """Produce each dead letter at least once. Raise TransientError when Kafka rejects them.

    Raise KafkeepError when a letter exceeds max.message.bytes of the topic.
    """
    records: list[Record] = []
    weight = 0
    for letter in letters:
        record = _addressed(letter, source, connector, with_context)
        if records and weight + _weigh(record) > BATCH_BYTES:
            _send(wire, topic, records)
            records, weight = [], 0
        records.append(record)
        weight += _weigh(record)
    if records:
        _send(wire, topic, records)


def _send(wire: Wire, topic: str, records: list[Record]) -> None:
    numbered = [record._replace(offset=number) for number, record in enumerate(records)]
    body = build_batch(numbered, base_offset=0)
    answer: Any = wire.produce({(topic, 0): body}).result()[topic, 0]
    if answer.error_code == _TOO_LARGE:
        raise KafkeepError(
            f"dead-letter topic {topic} does not accept a dead letter of {len(body)} bytes",
            hint="Raise max.message.bytes of that topic.",
        )
    if answer.error_code:
        raise TransientError(f"dead-letter topic {topic}: Kafka answers {answer.error_name}")


def _addressed(
    letter: DeadLetter, source: PartitionId, connector: str, with_context: bool
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
    return letter.record._replace(headers=headers)


def create_dead_letter_topic(admin: Admin, errors: ErrorOptions) -> None:
    """Create the topic unless it exists. Connectors that share it may call this concurrently."""
    name = errors.dead_letter_topic
    if name in admin.topics([name]):
        return
    try:
        admin.create_topic(
            name,
            1,
            replication_factor=errors.dead_letter_replication,
            # Dead letters keep old record timestamps, so time-based retention would delete them.
            configs={"retention.ms": "-1"},
            may_exist=True,
        )
    except PreflightError as error:
        raise PreflightError(
            f"errors.deadletterqueue.topic.name: {error.message}",
            hint="Make the topic yourself, or set errors.deadletterqueue.topic.replication.factor"
            f" (it is {errors.dead_letter_replication}) to what the cluster can hold.",
        ) from error
