"""What the task of an exact restore counts."""

from __future__ import annotations

import pytest

from kafkeep.kafka.client.produce import ProduceResult
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.exact.plan import ExactPartition
from kafkeep.restore.exact.task import ExactSender

COUNT = 1_000_000
"""Offsets that one batch fills."""


@pytest.mark.parametrize("stored", [False, True], ids=["lost", "stored"])
def test_a_batch_that_got_no_answer_is_counted_once(stored: bool) -> None:
    contents = ExactPartition((), 3 * COUNT, True, lambda _: iter(()))
    sender = ExactSender("t", 0, TargetPartition(0, 1, 0), contents=contents)
    sender.begin(0)

    def send() -> None:
        body, offset, records = sender.take()
        sender.acknowledge(ProduceResult(0, offset), offset, records, len(body))

    send()
    sender.take()
    sender.lose("no answer")
    sender.recover(2 * COUNT if stored else COUNT)
    while sender.can_send():
        send()
    assert (sender.filled, sender.records) == (3 * COUNT, 0)
