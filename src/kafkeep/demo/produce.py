"""Write the demo's records to Kafka: a few at once, or a stream in a thread."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

from kafkeep.clock import now_ms
from kafkeep.demo.records import PARTITIONS, DemoRecord, iter_stream
from kafkeep.errors import TransientError
from kafkeep.kafka.build import Record, build_batch
from kafkeep.kafka.compression import Codec
from kafkeep.kafka.wire import Wire

_TICK_SECONDS = 0.1


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


class Stream:
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
