"""Keys go to the partition to which Kafka's producer sends them."""

from __future__ import annotations

import pytest

from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.partitioner import deal
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.kafka.batch.unpack import RecordFields, iter_unpacked, walk_records


def rows(*keys: bytes | None) -> RecordFields:
    batch = build_batch([Record(i, 0, key, b"value") for i, key in enumerate(keys)])
    [part] = iter_unpacked(scan_batches(batch))
    return walk_records(part)


@pytest.mark.parametrize(
    ("key", "signed"),  # the vectors of Kafka's own test of its clients
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_goes_where_kafkas_producer_sends_it(key: bytes, signed: int) -> None:
    found, _ = deal(rows(key), 2**31, 0)
    assert found.tolist() == [signed & 0x7FFFFFFF]


def test_records_with_a_key_go_by_it_and_others_in_turn() -> None:
    keys = [b"foobar", None, b"", None, b"21", b"foobar", None, None]
    found, turn = deal(rows(*keys), 5, 2)
    by_key = {key: deal(rows(key), 5, 0)[0].tolist()[0] for key in (b"foobar", b"", b"21")}
    wanted = [by_key[b"foobar"], 2, by_key[b""], 3, by_key[b"21"], by_key[b"foobar"], 4, 0]
    assert found.tolist() == wanted
    assert turn == 6
