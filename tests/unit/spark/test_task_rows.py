"""The rows that a task hands to Spark."""

import subprocess
import sys

from kafkeep.spark.tasks import _rows_of


def test_rows_come_as_they_were_reported() -> None:
    rows = _rows_of(7, [("object", {"text": "ä"}), ("", {}), ("range", {"number": 1})])
    assert rows.to_pylist() == [
        {"bundle": 7, "kind": "object", "body": '{"text":"ä"}'.encode()},
        {"bundle": 7, "kind": "", "body": b"{}"},
        {"bundle": 7, "kind": "range", "body": b'{"number":1}'},
    ]
    rows.validate(full=True)


def test_a_task_without_anything_to_report_has_no_rows() -> None:
    rows = _rows_of(7, [])
    rows.validate(full=True)
    assert rows.num_rows == 0


def test_reporting_does_not_import_pandas() -> None:
    """It takes a worker most of a second, at the begin of every command."""
    program = (
        "import sys\n"
        "from kafkeep.spark.tasks import _rows_of\n"
        "_rows_of(0, [('object', {})])\n"
        "print('pandas' in sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "False"
