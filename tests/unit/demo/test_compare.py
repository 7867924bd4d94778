from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kafkeep.backup.summary import BackupSummary
from kafkeep.demo.compare import Comparison, compare_topics
from kafkeep.demo.records import Ledger
from kafkeep.demo.story import DemoResult, SqlRow
from kafkeep.kafka.batch.decode import RECORD_SCHEMA
from kafkeep.restore.summary import RestoreSummary


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


def _result(*, difference: str | None = None, sql_records: int = 2) -> DemoResult:
    made = {"orders": 2, "events": 1}
    return DemoResult(
        topics=[
            Comparison("orders", 2, 2, difference),
            Comparison("events", 1, 1),
        ],
        produced=Ledger(records=dict(made), amount=Decimal("1.50")),
        sql=[SqlRow("orders", sql_records, Decimal("1.50")), SqlRow("events", 1, None)],
        objects=1,
        backups=[BackupSummary(topics=dict(made))],
        restore=RestoreSummary(),
    )


def test_the_demo_succeeds_when_everything_agrees() -> None:
    assert _result().exit_code == 0
    assert all(line.startswith("✔") for line in _result().lines())


def test_the_demo_fails_on_a_record_that_differs() -> None:
    result = _result(difference="orders-0: 2 records became 1")
    assert result.exit_code == 1
    assert "✘ orders: orders-0: 2 records became 1" in list(result.lines())


def test_the_demo_fails_when_spark_counts_otherwise() -> None:
    assert _result(sql_records=3).exit_code == 1
