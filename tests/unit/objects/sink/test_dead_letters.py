"""Dead letters: none is lost, none is too much for memory or for a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.fake_kafka import Answer

from kafkeep.archive.entry import PartitionId
from kafkeep.errors import KafkeepError, RecordError, TransientError
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.client.wire import ProduceResult
from kafkeep.objects.sink import dead_letters as letters_module
from kafkeep.objects.sink.dead_letters import DeadLetter, DeadLetterQueue, send_dead_letters
from kafkeep.objects.sink.pipeline import Stage

SOURCE = PartitionId("orders", 1, 3)


class Topic:
    """Takes batches up to a size, as a broker does."""

    def __init__(self, most_bytes: int = 1_048_588, error_code: int = 0) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self._most, self._code = most_bytes, error_code

    def produce(self, wanted: Mapping[tuple[str, int], bytes]) -> Answer[Any]:
        [(where, body)] = wanted.items()
        code = 10 if len(body) > self._most else self._code
        if not code:
            self.batches.append(decode(scan_batches(bytes(body))).to_pylist())
        return Answer({where: ProduceResult(code, 0)})

    @property
    def letters(self) -> list[dict[str, Any]]:
        return [letter for batch in self.batches for letter in batch]


def letter(offset: int, size: int = 10) -> DeadLetter:
    record = Record(offset, 5, b"k", b"%d" % offset + b"x" * size, [(b"own", None)])
    return DeadLetter(
        record, Stage.VALUE_CONVERTER, RecordError("it ends too early", hint="a hint")
    )


def made(*letters: DeadLetter, end: int, are_sent: bool = True) -> DeadLetterQueue:
    found = DeadLetterQueue(are_sent=are_sent)
    for one in letters:
        found.add(one)
    found.end = end
    return found


def send(topic: Topic, letters: DeadLetterQueue, *, with_context: bool = True) -> None:
    wire: Any = topic
    send_dead_letters(
        wire,
        letters,
        topic="dead",
        source=SOURCE,
        connector="s3-sink",
        with_context=with_context,
    )


def test_dead_letters_name_their_source_and_keep_the_record() -> None:
    topic = Topic()
    send(topic, made(letter(7), end=8))
    [found] = topic.letters
    assert (found["key"], found["timestamp"]) == (b"k", 5)
    assert found["value"].startswith(b"7x")
    headers = [(h["key"].decode(), h["value"]) for h in found["headers"]]
    assert headers[0] == ("own", None)
    told = {name.removeprefix("__connect.errors."): value for name, value in headers[1:]}
    assert told["topic"] == b"orders" and told["partition"] == b"3" and told["offset"] == b"7"
    assert told["stage"] == b"VALUE_CONVERTER" and told["connector.name"] == b"s3-sink"
    assert told["exception.message"] == b"it ends too early"


def test_without_context_a_letter_is_the_record_as_it_was() -> None:
    topic = Topic()
    send(topic, made(letter(7), end=8), with_context=False)
    assert [h["key"] for h in topic.letters[0]["headers"]] == [b"own"]


def test_dead_letters_of_records_that_are_read_again_wait() -> None:
    found = made(letter(1), letter(9), letter(4), end=5)
    assert [one.record.offset for one in found] == [1, 4]
    assert (len(found), found.is_waiting) == (2, True)
    assert [one.record.offset for one in found.first] == [1, 4]
    found.end = 10
    assert (len(found), found.is_waiting) == (3, False)


def test_large_records_do_not_make_a_request_kafka_refuses() -> None:
    topic = Topic()
    send(topic, made(*(letter(n, 200_000) for n in range(20)), letter(20, 900_000), end=21))
    assert [int(one["value"].split(b"x")[0]) for one in topic.letters] == list(range(21))


def test_a_letter_too_large_for_its_topic_is_no_reason_to_try_for_ever() -> None:
    with pytest.raises(KafkeepError, match="dead does not accept a dead letter") as caught:
        send(Topic(most_bytes=1000), made(letter(1, 2000), end=2))
    assert not isinstance(caught.value, TransientError)
    assert "max.message.bytes" in (caught.value.hint or "")


def test_other_refusals_may_pass() -> None:
    with pytest.raises(TransientError, match="NOT_ENOUGH_REPLICAS"):
        send(Topic(error_code=19), made(letter(1), end=2))


def test_many_dead_letters_spill_to_disk_and_all_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters_module, "MEMORY_BYTES", 5_000)
    found = made(*(letter(n) for n in range(1000)), end=1000)
    assert len(found._newest) < 50 and len(found._spilled) > 10
    topic = Topic()
    send(topic, found)
    assert [int(one["value"].split(b"x")[0]) for one in topic.letters] == list(range(1000))


def test_dead_letters_without_a_topic_are_counted_and_dropped() -> None:
    found = made(*(letter(n) for n in range(1000)), end=900, are_sent=False)
    assert len(found) == 900
    assert list(found) == []
    assert [one.record.offset for one in found.first[:3]] == [0, 1, 2]


def test_a_logged_error_has_time_and_sizes_when_asked_and_never_the_content() -> None:
    said = letter(7).describe(SOURCE, details=False)
    assert said == "orders-3 offset 7: VALUE_CONVERTER: it ends too early"
    more = letter(7).describe(SOURCE, details=True)
    assert more == f"{said} (timestamp 5, key 1 bytes, value 11 bytes)"
