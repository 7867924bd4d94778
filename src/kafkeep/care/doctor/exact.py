"""Kafka: does what a restore at exact offsets needs work here? Tried on a topic of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

from kafkeep.care.doctor.check import failed, passed
from kafkeep.care.doctor.cluster import TIMEOUT_MS
from kafkeep.check import Check
from kafkeep.config.kafka import KafkaOptions
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin import Admin, OffsetSpec
from kafkeep.kafka.exact import Transactions, filler_batch
from kafkeep.kafka.rewrite import stamp
from kafkeep.kafka.wire import Wire

SUBJECT = "kafka exact offsets"
FILLED = 1000
MARKER_SECONDS = 10.0


def check_exact_offsets(options: KafkaOptions) -> Iterator[Check]:
    """Fill a scratch topic, delete that, take an offset with a transaction; delete the topic."""
    name = f"kafkeep-doctor-{uuid.uuid4().hex[:12]}"
    with Wire(options, connect_timeout_ms=TIMEOUT_MS) as wire:
        admin = Admin(wire, timeout_ms=TIMEOUT_MS)
        topic_id = admin.create_topic(name, 1).topic_id
        try:
            start, end = _try(wire, admin, name, topic_id)
        finally:
            admin.delete_topics([name])
    if (start, end) == (FILLED, FILLED + 1):
        yield passed(SUBJECT, "filler, DeleteRecords and empty transactions work")
    else:
        what = f"{name} was to have offsets {FILLED} to {FILLED + 1}, and has {start} to {end}"
        yield failed(SUBJECT, KafkeepError(what))


def _try(wire: Wire, admin: Admin, name: str, topic_id: str) -> tuple[int, int]:
    """Do what a restore does; return where the partition begins and ends then."""
    key = (name, 0)
    body = filler_batch(FILLED, -1)
    stamp(body, *admin.init_producer_id(), 0)
    answer = wire.produce({key: body}, topic_ids={name: topic_id}).result()[key]
    if answer.error_code:
        raise KafkeepError(f"Kafka does not take filler: {answer.error_name}")
    admin.delete_records({key: FILLED})
    transactions = Transactions(admin, f"kafkeep-restore-{name}")
    transactions.begin_anew()
    transactions.mark([key])
    deadline = time.monotonic() + MARKER_SECONDS
    while (end := admin.offsets([key], OffsetSpec.LATEST)[key]) <= FILLED:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return admin.offsets([key], OffsetSpec.EARLIEST)[key], end
