from __future__ import annotations

import json
from decimal import Decimal
from itertools import islice

from kafkeep.demo.records import EVENTS, ORDERS, PARTITIONS, iter_stream, more_records
from kafkeep.demo.records import sample_records as samples


def test_the_samples_are_ten_orders_and_five_events() -> None:
    records = [*samples(), *more_records()]
    keys = [record.key for record in records if record.topic == ORDERS]
    assert keys == [f"order-{i}".encode() for i in range(1, 11)]
    assert [r.key for r in records if r.topic == EVENTS] == [None] * 5
    assert sum(record.amount for record in records) == Decimal("1698.42")


def test_a_sample_order_keeps_its_digits() -> None:
    assert samples()[1].value == (
        b'{"orderId": "order-2", "customerId": "cust-101", "amount": 149.50, '
        b'"product": "Mouse", "timestamp": "2024-12-03T10:05:00Z"}'
    )


def test_amounts_of_the_stream_are_those_in_its_values() -> None:
    for record in islice(iter_stream(), 500):
        if record.topic == ORDERS and record.value is not None:
            document = json.loads(record.value, parse_float=Decimal)
            assert document["amount"] == record.amount
        else:
            assert record.amount == 0


def test_the_stream_has_what_a_careless_copy_loses() -> None:
    records = list(islice(iter_stream(), 500))
    assert any(record.value is None for record in records)
    assert any(record.key is None for record in records)
    headers = [header for record in records for header in record.headers]
    assert (b"trace", None) in headers and (b"trace", b"") in headers


def test_records_spread_over_all_partitions_and_a_key_stays_in_one() -> None:
    records = list(islice(iter_stream(), 500))
    for topic, count in PARTITIONS.items():
        found = {r.partition(i) for i, r in enumerate(records) if r.topic == topic}
        assert found == set(range(count))
    assert len({samples()[0].partition(number) for number in range(9)}) == 1
