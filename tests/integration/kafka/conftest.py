"""A client of the test broker, and record batches made by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import google_crc32c
import pytest

from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

BatchMaker = Callable[..., bytes]


@pytest.fixture(scope="module")
def wire(services: DevStatus) -> Iterator[Wire]:
    with Wire(KafkaOptions(services.bootstrap_servers)) as client:
        yield client


@pytest.fixture(scope="module")
def admin(wire: Wire) -> Admin:
    return Admin(wire)


@pytest.fixture
def topic(admin: Admin, topic_name: str) -> Iterator[str]:
    """A topic of three partitions that is deleted afterwards."""
    admin.create_topic(topic_name, 3, configs={"max.message.bytes": str(64 << 20)})
    yield topic_name
    admin.delete_topics([topic_name])


def _zigzag(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(0x80 | (number & 0x7F))
        number >>= 7
    out.append(number)
    return bytes(out)


def _record(delta: int, value: bytes) -> bytes:
    body = b"\0" + _zigzag(0) + _zigzag(delta) + _zigzag(-1) + _zigzag(len(value)) + value
    body += _zigzag(0)
    return _zigzag(len(body)) + body


@pytest.fixture
def make_batch() -> BatchMaker:
    """Return a function that encodes values of now as one uncompressed batch of magic 2."""

    def make(
        values: Sequence[bytes],
        *,
        producer_id: int = -1,
        sequence: int = -1,
        base_offset: int = 0,
        attributes: int = 0,
        time_ms: int | None = None,
    ) -> bytes:
        records = b"".join(_record(delta, value) for delta, value in enumerate(values))
        epoch = -1 if producer_id < 0 else 0
        last = len(values) - 1
        at = now_ms() if time_ms is None else time_ms
        tail = struct.pack(
            ">hiqqqhii", attributes, last, at, at, producer_id, epoch, sequence, len(values)
        )
        tail += records
        head = struct.pack(">qiibI", base_offset, len(tail) + 9, -1, 2, google_crc32c.value(tail))
        return head + tail

    return make
