"""The records of the demo: produced as samples and as a stream, then read back and compared."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

import pyarrow as pa

from kafkeep.clock import now_ms
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import RECORD_SCHEMA, decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import check_crcs, scan_batches
from kafkeep.kafka.client.wire import FetchPosition, Wire

ORDERS, EVENTS = "orders", "events"
PARTITIONS: Mapping[str, int] = {ORDERS: 3, EVENTS: 2}

_ORDERS = (
    ("cust-100", "99.99", "Laptop", "10:00"),
    ("cust-101", "149.50", "Mouse", "10:05"),
    ("cust-102", "299.99", "Keyboard", "10:10"),
    ("cust-100", "49.99", "USB Cable", "10:15"),
    ("cust-103", "199.00", "Monitor", "10:20"),
)
_MORE_ORDERS = (
    ("cust-104", "89.99", "Headphones", "10:25"),
    ("cust-105", "129.99", "Webcam", "10:30"),
    ("cust-106", "79.99", "Mousepad", "10:35"),
    ("cust-107", "249.99", "SSD", "10:40"),
    ("cust-108", "349.99", "GPU", "10:45"),
)
_EVENTS: tuple[dict[str, str], ...] = (
    {"type": "user_login", "userId": "user-100"},
    {"type": "page_view", "userId": "user-101", "page": "/home"},
    {"type": "button_click", "userId": "user-100", "button": "checkout"},
    {"type": "user_logout", "userId": "user-100"},
    {"type": "error", "userId": "user-102", "error": "timeout"},
)
_PRODUCTS = ("Laptop", "Mouse", "Keyboard", "USB Cable", "Monitor", "Headphones", "SSD", "GPU")
_TOMBSTONE_EVERY = 97
_TICK_SECONDS = 0.1
_FETCH_BYTES = 8 * 1024 * 1024

Dump = Mapping[int, pa.Table]
"""Partition → its records in order, in ``RECORD_SCHEMA``."""


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One record to produce; ``amount`` is what it adds to the sum of all orders."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    amount: Decimal = Decimal(0)

    def partition(self, number: int) -> int:
        """Return where it goes: by its key, else by its place ``number`` in the stream."""
        place = number if self.key is None else zlib.crc32(self.key)
        return place % PARTITIONS[self.topic]


def sample_records() -> list[DemoRecord]:
    """Return orders 1 to 5 and events 1 to 5."""
    orders = [_sample_order(i, *row) for i, row in enumerate(_ORDERS, 1)]
    return orders + [_sample_event(i, row) for i, row in enumerate(_EVENTS, 1)]


def more_records() -> list[DemoRecord]:
    """Return orders 6 to 10, which come while the backup runs."""
    return [_sample_order(i, *row) for i, row in enumerate(_MORE_ORDERS, 6)]


def iter_stream() -> Iterator[DemoRecord]:
    """Yield orders and events for ever; some orders are deleted by a tombstone.

    Among them is what a careless copy loses: null keys and values, headers that repeat, are null
    or empty.
    """
    number = 11
    while True:
        amount = Decimal(number * 37 % 50_000) / 100
        order = _sample_order(
            number,
            f"cust-{100 + number % 900}",
            f"{amount:.2f}",
            _PRODUCTS[number % len(_PRODUCTS)],
            f"{10 + number // 3600 % 10:02d}:{number // 60 % 60:02d}",
        )
        headers = ((b"source", b"demo"), (b"trace", None), (b"trace", b""))
        yield DemoRecord(ORDERS, order.key, order.value, headers, order.amount)
        yield _sample_event(number, _EVENTS[number % len(_EVENTS)])
        if number % _TOMBSTONE_EVERY == 0:
            yield DemoRecord(ORDERS, order.key, None)
        number += 1


def _sample_order(number: int, customer: str, amount: str, product: str, at: str) -> DemoRecord:
    name = f"order-{number}"
    # Written by hand: a float would turn 149.50 into 149.5.
    value = (
        f'{{"orderId": "{name}", "customerId": "{customer}", "amount": {amount}, '
        f'"product": "{product}", "timestamp": "2024-12-03T{at}:00Z"}}'
    )
    return DemoRecord(ORDERS, name.encode(), value.encode(), amount=Decimal(amount))


def _sample_event(number: int, fields: Mapping[str, str]) -> DemoRecord:
    at = f"2024-12-03T10:{(number - 1) * 5 % 60:02d}:00Z"
    document = {"eventId": f"evt-{number:03d}", **fields, "timestamp": at}
    return DemoRecord(EVENTS, None, json.dumps(document).encode())


@dataclass(slots=True)
class Ledger:
    """What was produced, kept apart from Kafka and the archive so that both can be checked."""

    records: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    amount: Decimal = Decimal(0)

    @property
    def total(self) -> int:
        """Records of all topics."""
        return sum(self.records.values())


def produce(wire: Wire, records: Sequence[DemoRecord], ledger: Ledger) -> None:
    """Write records, one batch per partition, and wait until Kafka has them."""
    rows: dict[tuple[str, int], list[Record]] = defaultdict(list)
    time_ms = now_ms()
    for number, record in enumerate(records):
        rows[record.topic, record.partition(number)].append(
            Record(0, time_ms, record.key, record.value, record.headers)
        )
    batches = {
        target: build_batch(
            [record._replace(offset=i) for i, record in enumerate(found)], codec=Codec.LZ4
        )
        for target, found in rows.items()
    }
    for (topic, partition), answer in wire.produce(batches).result().items():
        if answer.error_code:
            raise TransientError(f"{topic}-{partition}: produce failed: {answer.error_name}")
    for record in records:
        ledger.records[record.topic] += 1
        ledger.amount += record.amount


class DemoStream:
    """A producer that never rests, in a thread, until it is stopped."""

    def __init__(
        self, wire: Wire, ledger: Ledger, *, per_second: int, on_failure: Callable[[], None]
    ) -> None:
        self._on_failure = on_failure
        self._wire = wire
        self._ledger = ledger
        self._per_tick = max(1, round(per_second * _TICK_SECONDS))
        self._source = iter_stream()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-stream", daemon=True)
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the tick at hand; raises what went wrong in the thread."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while not self._stop.is_set():
                produce(self._wire, list(islice(self._source, self._per_tick)), self._ledger)
                due += _TICK_SECONDS
                self._stop.wait(max(0.0, due - time.monotonic()))
        except Exception as error:  # shown by stop(), in the thread that asked for the stream
            self._error = error
            self._on_failure()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one topic; ``difference`` is None when every record is as it was."""

    topic: str
    records: int
    restored: int
    difference: str | None = None

    @property
    def same(self) -> bool:
        """Whether nothing was lost, added, reordered or changed."""
        return self.difference is None


def dump_topics(wire: Wire, topics: Collection[str]) -> dict[str, Dump]:
    """Read every record of small topics into memory, straight from Kafka."""
    admin = Admin(wire)
    found = admin.topics(topics)
    partitions = [(name, p) for name in topics for p in range(len(found[name].partitions))]
    begin = admin.offsets(partitions, OffsetSpec.EARLIEST)
    end = admin.offsets(partitions, OffsetSpec.LATEST)
    dumps: dict[str, dict[int, pa.Table]] = {name: {} for name in topics}
    for name, p in partitions:
        dumps[name][p] = _dump_partition(wire, name, p, begin[name, p], end[name, p])
    return dict(dumps)


def _dump_partition(wire: Wire, topic: str, partition: int, offset: int, end: int) -> pa.Table:
    pieces: list[pa.RecordBatch] = []
    while offset < end:
        wanted = FetchPosition(topic, "", partition, offset, _FETCH_BYTES)
        answer = wire.fetch([wanted], max_bytes=_FETCH_BYTES).result()[0]
        if answer.error is not None:
            raise answer.error.exception()
        batches = scan_batches(answer.records)
        if not len(batches):
            raise TransientError(f"{wanted}: Kafka gave no records at offset {offset} of {end}")
        check_crcs(batches)
        pieces.append(decode(batches))
        offset = int(batches.last_offsets[-1]) + 1
    return pa.Table.from_batches(pieces, schema=RECORD_SCHEMA)


def compare_topics(before: Mapping[str, Dump], after: Mapping[str, Dump]) -> list[Comparison]:
    """Compare partition by partition: order, time, key, value, headers."""
    return [_compare(topic, before[topic], after[topic]) for topic in before]


def _compare(topic: str, before: Dump, after: Dump) -> Comparison:
    counts = [sum(len(table) for table in dump.values()) for dump in (before, after)]
    difference = None
    if before.keys() != after.keys():
        difference = f"{len(before)} partitions became {len(after)}"
    else:
        found = (_first_difference(f"{topic}-{p}", before[p], after[p]) for p in sorted(before))
        difference = next((text for text in found if text), None)
    return Comparison(topic, counts[0], counts[1], difference)


def _first_difference(partition: str, before: pa.Table, after: pa.Table) -> str | None:
    """Name the first record and field that differ; offsets may, when the log did not begin at 0."""
    fields = [name for name in RECORD_SCHEMA.names if name != "offset"]
    if before.select(fields).equals(after.select(fields)):
        return None
    if len(before) != len(after):
        return f"{partition}: {len(before)} records became {len(after)}"
    for row, (was, now) in enumerate(zip(before.to_pylist(), after.to_pylist(), strict=True)):
        for name in fields:
            if was[name] != now[name]:
                return f"{partition}: record {row}: {name} was {was[name]!r}, now {now[name]!r}"
    return f"{partition}: the records differ"
