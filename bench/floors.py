"""The floors: what the same client does when nothing is kept, and nothing is read.

Honest ones: isolation level 1, every CRC checked, acks from all, requests pipelined.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from urllib.parse import urlsplit

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench import topics
from bench.runs import delete, new_topic
from kafkeep.archive.entry import OffsetRange
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.admin import OffsetSpec as EndOffset
from kafkeep.kafka.batch.rewrite import regroup, stamp
from kafkeep.kafka.batch.scan import Batches, check_crcs, scan_batches
from kafkeep.kafka.client.wire import FetchPosition, Isolation, Wire
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.s3.client import client_of

FETCH_BYTES = 16 << 20
IN_FLIGHT = 5
PROCESSES = 2
CONNECTIONS = 4
"""Of each process that sends bare PUTs."""
PATIENCE_S = 60.0


def fetch_floor(
    options: KafkaOptions, topic: str, *, keep: bool = False
) -> tuple[float, list[list[bytes]]]:
    """Fetch a topic to nowhere and return the seconds; with ``keep``, the bytes too."""
    with Wire(options) as wire:
        admin = Admin(wire)
        described = admin.topics([topic])[topic]
        partitions = [(topic, p) for p in range(described.partition_count)]
        ends = admin.offsets(partitions, EndOffset.LAST_STABLE)
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
        admin.offsets([(target, p) for p in range(len(ready))], EndOffset.LAST_STABLE)
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


def put_floor(status: DevStatus, count: int, size: int) -> float:
    """Create objects by conditional PUTs that are signed before, and return the seconds."""
    s3 = status.s3
    client = client_of(
        StorageOptions(
            endpoint=s3.endpoint,
            region=s3.region,
            access_key=s3.access_key,
            secret_key=s3.secret_key,
        )
    )
    folder = uuid.uuid4().hex
    paths = [
        client.generate_presigned_url("put_object", {"Bucket": s3.bucket, "Key": f"{folder}/{n}"})
        for n in range(count)
    ]
    new = multiprocessing.get_context("spawn")
    together = new.Barrier(PROCESSES + 1)
    processes = [
        new.Process(target=_put_all, args=(paths[n::PROCESSES], os.urandom(size), together))
        for n in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    together.wait(PATIENCE_S)
    began = time.perf_counter()
    together.wait(PATIENCE_S)
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    return seconds


def _put_all(urls: Sequence[str], body: bytes, together: Barrier) -> None:
    shares = [urls[n::CONNECTIONS] for n in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        together.wait(PATIENCE_S)
        list(threads.map(partial(_put_some, body=body), shares))
        together.wait(PATIENCE_S)


def _put_some(urls: Sequence[str], body: bytes) -> None:
    connection = http.client.HTTPConnection(urlsplit(urls[0]).netloc)
    for url in urls:
        path = url.partition("//")[2].partition("/")[2]
        connection.request("PUT", f"/{path}", body, {"If-None-Match": "*"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            raise SystemExit(f"the store answers {answer.status}")
    connection.close()


def topic_floor(status: DevStatus, partitions: int) -> float:
    """Create a topic, not by our client, and return the seconds until its leaders answer."""
    name, bootstrap = new_topic(), status.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=PATIENCE_S)
    wanted = {TopicPartition(name, n): OffsetSpec.latest() for n in range(partitions)}
    began = time.perf_counter()
    topics.create(bootstrap, name, partitions)
    while not _answer(admin, wanted):
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    delete(status, name)
    return seconds


def _answer(admin: AdminClient, wanted: Mapping[TopicPartition, OffsetSpec]) -> bool:
    try:
        for found in admin.list_offsets(wanted).values():
            found.result(PATIENCE_S)
    except KafkaException:
        return False
    return True
