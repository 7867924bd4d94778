"""Keys go to the partition Kafka's own producer would choose."""

from __future__ import annotations

import pytest

from kafkeep.kafka.batch.build import Record, build_batch
from kafkeep.kafka.batch.format import scan_batches
from kafkeep.kafka.batch.keys import deal, murmur2
from kafkeep.kafka.batch.unpack import Walked, iter_unpacked, walk_records


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
def test_the_hash_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def rows(*keys: bytes | None) -> Walked:
    batch = build_batch([Record(i, 0, key, b"value") for i, key in enumerate(keys)])
    [part] = iter_unpacked(scan_batches(batch))
    return walk_records(part)


def test_records_with_a_key_go_by_it_and_others_in_turn() -> None:
    keys = [b"foobar", None, b"", None, b"21", b"foobar", None, None]
    found, turn = deal(rows(*keys), 5, 2)
    by_key = {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in (b"foobar", b"", b"21")}
    wanted = [by_key[b"foobar"], 2, by_key[b""], 3, by_key[b"21"], by_key[b"foobar"], 4, 0]
    assert found.tolist() == wanted
    assert turn == 6
