from __future__ import annotations

from decimal import Decimal

from kafkeep.backup.summary import BackupSummary
from kafkeep.demo.records import Comparison, Ledger
from kafkeep.demo.story import DemoResult, SqlRow
from kafkeep.restore.summary import RestoreSummary


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
