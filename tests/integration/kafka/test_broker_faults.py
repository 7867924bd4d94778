"""The broker goes away under the client: stopped, killed, started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import PATIENCE_S, until

from kafkeep import dev
from kafkeep.errors import TransientError, UnknownOutcomeError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.client.wire import FetchPosition, Wire
from kafkeep.options.kafka import KafkaOptions

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a broker that this module may stop and kill."""
    folder = tmp_path_factory.mktemp("faults")
    dev.start(dev.DevOptions(folder=folder))
    yield folder
    dev.stop(folder)


@pytest.fixture
def wire(own_broker: Path) -> Iterator[Wire]:
    servers = dev.status(own_broker).bootstrap_servers
    options = KafkaOptions(servers, {"request.timeout.ms": "3000"})
    with Wire(options) as client:
        yield client


def test_a_stopped_broker_is_waited_for(
    own_broker: Path, wire: Wire, topic_name: str, make_batch: Any
) -> None:
    Admin(wire).create_topic(topic_name, 1)
    wire.produce({(topic_name, 0): make_batch([b"x"])}).result()
    dev.pause_broker(own_broker, 1)
    try:
        pending = wire.fetch([FetchPosition(topic_name, "", 0, 0, 1000)], max_bytes=1000)
        with pytest.raises(TransientError, match="no answer"):
            pending.result(6)  # twice as long as one request may take
    finally:
        dev.resume_broker(own_broker, 1)
    [answer] = pending.result(PATIENCE_S)
    assert answer.error is None
    assert len(answer.records) > 0


def test_a_produce_without_an_answer_is_an_unknown_outcome(
    own_broker: Path, wire: Wire, topic_name: str, make_batch: Any
) -> None:
    admin = Admin(wire)
    admin.create_topic(topic_name, 1)
    producer_id, _ = admin.init_producer_id()
    batch = make_batch([b"once"], producer_id=producer_id, sequence=0)
    dev.pause_broker(own_broker, 1)
    try:
        pending = wire.produce({(topic_name, 0): batch}, timeout_ms=1000)
        with pytest.raises(UnknownOutcomeError):
            pending.result(PATIENCE_S)
    finally:
        dev.resume_broker(own_broker, 1)
    again = wire.produce({(topic_name, 0): batch}).result(PATIENCE_S)[topic_name, 0]
    assert (again.error_code, again.base_offset) == (0, 0)
    assert admin.offsets([(topic_name, 0)], OffsetSpec.LATEST)[topic_name, 0] == 1


def test_fetching_continues_after_the_broker_was_killed(
    own_broker: Path, wire: Wire, topic_name: str, make_batch: Any
) -> None:
    Admin(wire).create_topic(topic_name, 1)
    for _ in range(20):
        sent = wire.produce({(topic_name, 0): make_batch([b"x" * 1000] * 10)}).result()
        assert sent[topic_name, 0].error_code == 0
    offset = 0

    def read() -> None:
        nonlocal offset
        while offset < 200:
            wanted = FetchPosition(topic_name, "", 0, offset, 1)
            [answer] = wire.fetch([wanted], max_bytes=1).result(90)
            assert answer.error is None
            offset += 10
            time.sleep(0.05)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: offset > 0, "it reads")
    dev.kill_broker(own_broker, 1)
    dev.start_broker(own_broker, 1)
    reader.join(PATIENCE_S)
    assert offset == 200


def test_what_cannot_be_read_in_time_is_a_transient_error(
    own_broker: Path, wire: Wire, topic_name: str
) -> None:
    Admin(wire).create_topic(topic_name, 1)
    dev.pause_broker(own_broker, 1)
    began = time.monotonic()
    try:
        wanted = FetchPosition(topic_name, "", 0, 0, 1000)
        pending = wire.fetch([wanted], max_bytes=1000, deadline_ms=2000)
        with pytest.raises(TransientError):
            pending.result(PATIENCE_S)
    finally:
        dev.resume_broker(own_broker, 1)
    assert time.monotonic() - began < 45  # without a deadline it is a minute
