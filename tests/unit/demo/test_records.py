from __future__ import annotations

import json
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from kafkeep.demo.records import (
    EVENTS,
    ORDERS,
    PARTITIONS,
    compare_topics,
    iter_stream,
    more_records,
)
from kafkeep.demo.records import sample_records as samples
from kafkeep.kafka.batch.decode import RECORD_SCHEMA


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


def _record(**changes: Any) -> dict[str, Any]:
    record = {
        "offset": 0,
        "timestamp": 5,
        "timestamp_type": 0,
        "key": b"k",
        "value": b"v",
        "headers": [{"key": b"h", "value": None}],
    }
    return {**record, **changes}


def _table(*records: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(records), schema=RECORD_SCHEMA)


def _difference(before: pa.Table, after: pa.Table) -> str | None:
    return compare_topics({"t": {0: before}}, {"t": {0: after}})[0].difference


def test_the_same_records_are_the_same_at_other_offsets_too() -> None:
    assert _difference(_table(_record()), _table(_record(offset=7))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"timestamp": 6},
        {"key": None},
        {"value": b""},
        {"headers": []},
        {"headers": [{"key": b"h", "value": b""}]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_changed_field_is_named(changes: dict[str, Any]) -> None:
    found = _difference(_table(_record(), _record()), _table(_record(), _record(**changes)))
    assert found is not None
    assert found.startswith(f"t-0: record 1: {next(iter(changes))} was ")


def test_a_lost_record_is_counted() -> None:
    assert _difference(_table(_record(), _record()), _table(_record())) == (
        "t-0: 2 records became 1"
    )


def test_swapped_records_differ() -> None:
    one, two = _record(value=b"1"), _record(value=b"2")
    assert _difference(_table(one, two), _table(two, one)) is not None


def test_a_lost_partition_is_named() -> None:
    found = compare_topics({"t": {0: _table(), 1: _table()}}, {"t": {0: _table()}})
    assert found[0].difference == "2 partitions became 1"
