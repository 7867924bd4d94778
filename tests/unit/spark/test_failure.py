from __future__ import annotations

from kafkeep.errors import KafkeepError, TransientError
from kafkeep.spark.failure import explain_failure, interruption

WALL = """An error occurred while calling o88.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{error}
\tat org.apache.spark.api.python.BasePythonRunner
Driver stacktrace:
"""


def explain(error: str) -> KafkeepError:
    return explain_failure(RuntimeError(WALL.format(error=error)), "backup")


def test_transient_errors_stay_transient() -> None:
    found = explain("kafkeep.errors.TransientError: the broker is away")
    assert isinstance(found, TransientError)
    assert found.message == "the broker is away"


def test_other_errors_are_named() -> None:
    assert explain("KeyError: 'x'").message == "a task of backup failed: KeyError: 'x'"
    assert explain("MemoryError").message == "a task of backup failed: MemoryError: no message"


def test_lost_workers_are_transient() -> None:
    lost = "SparkException: Python worker exited unexpectedly (crashed)"
    assert isinstance(explain_failure(RuntimeError(lost), "backup"), TransientError)


def test_anything_else_is_one_line() -> None:
    found = explain_failure(RuntimeError("first\nsecond"), "backup")
    assert found.message == "backup failed in Spark: first"


def test_an_interrupt_is_found_behind_what_the_gateway_said_on_the_way_out() -> None:
    interrupt = KeyboardInterrupt()
    try:
        try:
            raise interrupt
        finally:
            raise RuntimeError("Answer from Java side is empty")
    except RuntimeError as error:
        assert interruption(error) is interrupt
    assert interruption(RuntimeError("Answer from Java side is empty")) is None
