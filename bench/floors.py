"""The floors: what the same client does when nothing is kept, and nothing is read.

Honest ones: isolation level 1, every CRC checked, acks from all, requests pipelined.
"""

from __future__ import annotations

import time
from collections import deque

from kafkeep.archive.entry import OffsetRange
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.batch.rewrite import regroup, stamp
from kafkeep.kafka.batch.scan import Batches, check_crcs, scan_batches
from kafkeep.kafka.client.wire import FetchPosition, Isolation, Wire
from kafkeep.options.kafka import KafkaOptions

FETCH_BYTES = 16 << 20
IN_FLIGHT = 5


def fetch_floor(
    options: KafkaOptions, topic: str, *, keep: bool = False
) -> tuple[float, list[list[bytes]]]:
    """Fetch a topic to nowhere and return the seconds; with ``keep``, the bytes too."""
    with Wire(options) as wire:
        admin = Admin(wire)
        described = admin.topics([topic])[topic]
        partitions = [(topic, p) for p in range(described.partition_count)]
        ends = admin.offsets(partitions, OffsetSpec.LAST_STABLE)
        kept: list[list[bytes]] = [[] for _ in partitions]
        began = time.perf_counter()
        waiting = deque()
        for _, p in partitions:
            waiting.append((p, _ask(wire, topic, described.topic_id, p, 0)))
        while waiting:
            p, pending = waiting.popleft()
            batches = scan_batches(pending.result()[0].records)
            position = int(batches.last_offsets[-1]) + 1
            if position < ends[topic, p]:
                waiting.append((p, _ask(wire, topic, described.topic_id, p, position)))
            check_crcs(batches)
            if keep:
                kept[p].append(bytes(batches.packed()))
        return time.perf_counter() - began, kept


def _ask(wire: Wire, topic: str, topic_id: str, partition: int, offset: int):
    wanted = FetchPosition(topic, topic_id, partition, offset, FETCH_BYTES)
    return wire.fetch([wanted], max_bytes=FETCH_BYTES, isolation=Isolation.READ_COMMITTED)


def produce_floor(options: KafkaOptions, target: str, data: list[list[bytes]]) -> float:
    """Produce batches that are ready in memory and return the seconds."""
    ready = [[b.body for b in _ready(chunks)] for chunks in data]
    with Wire(options) as wire:
        admin = Admin(wire)
        # Waits for the leaders of a topic just made: without them requests overtake each other.
        admin.offsets([(target, p) for p in range(len(ready))], OffsetSpec.LAST_STABLE)
        places = [admin.init_producer_id() for _ in ready]
        sequences = [0] * len(ready)
        for p, bodies in enumerate(ready):
            for body in bodies:
                stamp(body, *places[p], sequences[p])
                sequences[p] += int.from_bytes(body[57:61], "big")
        began = time.perf_counter()
        flying = deque()
        for number in range(max(map(len, ready))):
            if len(flying) == IN_FLIGHT:
                _landed(flying.popleft())
            request = {
                (target, p): bodies[number]
                for p, bodies in enumerate(ready)
                if number < len(bodies)
            }
            flying.append(wire.produce(request))
        while flying:
            _landed(flying.popleft())
        return time.perf_counter() - began


def _ready(chunks: list[bytes]):
    def batches() -> list[Batches]:
        return [scan_batches(chunk) for chunk in chunks]

    yield from regroup(batches(), range=OffsetRange(0, 2**62), max_batch_bytes=4 << 20)


def _landed(pending) -> None:
    for answer in pending.result().values():
        if answer.error_code:
            raise SystemExit(f"the broker answers {answer.error_name}")
