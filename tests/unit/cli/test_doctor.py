from __future__ import annotations

import pytest
from tests.support.invoke import Cli

from kafkeep.check_result import CheckStatus
from kafkeep.errors import AccessDeniedError
from kafkeep.maintenance.doctor import _skew
from kafkeep.store.memory import MemoryStore


def test_doctor_passes_a_good_store_and_leaves_nothing_behind(
    cli: Cli, address: str, store: MemoryStore
) -> None:
    found = cli.document("doctor", "--archive", address, "--no-spark")
    assert found["exit_code"] == 0
    subjects = {check["subject"]: check["verdict"] for check in found["checks"]}
    assert subjects["store write"] == subjects["store races"] == subjects["clock"] == "pass"
    assert list(store.list("")) == []


def test_doctor_fails_a_store_that_lets_two_writers_win(
    cli: Cli, address: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overwrite(key: str, body: bytes, metadata: object = None, **_: object) -> None:
        store.delete(key)
        MemoryStore.put_new(store, key, body)

    monkeypatch.setattr(store, "put_new", overwrite)
    assert cli.run("doctor", "--archive", address, "--no-spark") == 14
    assert b"fail  store races" in cli.out


def test_doctor_exits_12_when_the_store_may_not_be_written(
    cli: Cli, address: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AccessDeniedError("writing is not allowed", hint="Grant s3:PutObject.")

    monkeypatch.setattr(store, "put_new", refuse)
    assert cli.run("doctor", "--archive", address, "--no-spark") == 12
    assert b"Grant s3:PutObject." in cli.out


def test_doctor_without_kafka_or_archive_checks_the_machine(cli: Cli) -> None:
    found = cli.document("doctor", "--no-spark")
    assert [check["subject"] for check in found["checks"]] == ["java", "disk"]


@pytest.mark.parametrize(
    ("stamped", "verdict"),
    [(1_000_000, "pass"), (998_500, "pass"), (1_060_000, "warn"), (900_000, "warn")],
)
def test_clock_is_judged_with_room_for_whole_seconds(stamped: int, verdict: str) -> None:
    assert _skew(stamped, 1_000_000, 1_000_100).verdict is CheckStatus(verdict)


def test_spark_is_refused_together_with_no_spark(cli: Cli) -> None:
    assert cli.run("doctor", "--spark", "--no-spark") == 2
    assert "--spark cannot be combined with --no-spark" in cli.err
