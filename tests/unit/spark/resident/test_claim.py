"""A command claims the resident session only when it is free and fits."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkeep.options.spark import SparkOptions
from kafkeep.spark.resident.claim import (
    claim_early,
    claim_session,
    drop_claims,
    has_mark,
    take_claim,
    take_lock,
)
from kafkeep.spark.resident.record import Runtime, SessionRecord, start_time, write_record

OPTIONS = SparkOptions(resident=True)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionRecord]:
    """A session that this process stands for: it listens."""
    monkeypatch.setenv("KAFKEEP_CACHE", str(tmp_path))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = SessionRecord(
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_started=start_time(os.getpid()),
            port=server.getsockname()[1],
            token="t",
            proof="p",
            runtime=Runtime.current(),
            master=OPTIONS.master,
            settings={},
            started_ms=1,
            idle_timeout_ms=2,
        )
        write_record(made)
        yield made
    drop_claims()


def reason(caplog: pytest.LogCaptureFixture, options: SparkOptions = OPTIONS) -> str:
    """Return why the session is not used."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="kafkeep"):
        assert claim_session(options) is None
    return caplog.text


def test_a_session_is_claimed_by_one_command_at_a_time(
    record: SessionRecord, caplog: pytest.LogCaptureFixture
) -> None:
    claim = claim_session(OPTIONS)
    assert claim is not None
    assert claim.record == record
    assert "another command uses it" in reason(caplog)
    claim.release()
    claim.release()
    again = claim_session(OPTIONS)
    assert again is not None
    again.release()


def test_a_session_with_the_tasks_of_a_dead_command_is_not_claimed(
    record: SessionRecord, caplog: pytest.LogCaptureFixture
) -> None:
    claim = claim_session(OPTIONS)
    assert claim is not None
    claim.lock.close()  # what the kernel does for a process that dies
    assert "cancels the tasks of a command that died" in reason(caplog)
    lock = take_lock()
    assert lock is not None
    assert has_mark(lock)
    lock.close()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"runtime": replace(Runtime.current(), kafkeep="0.0.1")}, "it runs kafkeep 0.0.1"),
        ({"runtime": replace(Runtime.current(), spark="3.5.7")}, "it runs spark 3.5.7"),
        ({"runtime": replace(Runtime.current(), digest="x")}, "was installed or changed"),
        ({"pid_started": 1}, "its process has ended"),
        ({"host": "elsewhere"}, "its process has ended"),
        ({"port": 1}, "its process has ended"),
        ({"master": "local[77,4]"}, "its master is local"),
    ],
)
def test_a_session_that_does_not_fit_is_not_claimed(
    record: SessionRecord, changed: dict[str, object], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_record(replace(record, **changed))  # type: ignore[arg-type]
    assert why in reason(caplog)
    write_record(record)
    claim = claim_session(OPTIONS)
    assert claim is not None, "a refused claim leaves the lock free"
    claim.release()


def test_a_session_fits_properties_that_it_was_started_with(
    record: SessionRecord, caplog: pytest.LogCaptureFixture
) -> None:
    write_record(replace(record, settings={"spark.a": record.digest_of("1")}))
    other = SparkOptions(resident=True, conf={"spark.a": "2"})
    assert "spark.a differs" in reason(caplog, other)
    assert "spark.b differs" in reason(caplog, SparkOptions(resident=True, conf={"spark.b": "1"}))
    for conf in ({}, {"spark.a": "1"}):
        claim = claim_session(SparkOptions(resident=True, conf=conf))
        assert claim is not None
        claim.release()


@pytest.mark.parametrize(
    "options",
    [
        SparkOptions(resident=False),
        SparkOptions(resident=True, remote="sc://elsewhere"),
        SparkOptions(resident=True, master="spark://elsewhere:7077"),
        SparkOptions(resident=True, conf={"spark.jars.packages": "a:b:1"}),
    ],
)
def test_a_command_that_asks_for_something_else_does_not_claim(
    record: SessionRecord, options: SparkOptions
) -> None:
    assert claim_session(options) is None


def test_the_variable_turns_the_session_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKEEP_SPARK_RESIDENT", "on")
    assert SparkOptions.load(resident=True).resident
    monkeypatch.setenv("KAFKEEP_SPARK_RESIDENT", "off")
    assert not SparkOptions.load(resident=True).resident


def test_an_early_claim_is_for_the_run_with_the_same_options(record: SessionRecord) -> None:
    assert claim_early(OPTIONS)
    first = take_claim(OPTIONS)
    assert first is not None
    first.release()
    assert claim_early(OPTIONS)
    assert take_claim(replace(OPTIONS, resident=False)) is None
    second = take_claim(OPTIONS)
    assert second is not None, "the claim for other options was released"
    second.release()


def test_a_record_that_others_can_read_is_not_used(
    record: SessionRecord, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / f"resident-{os.getuid()}" / "session.json").chmod(0o644)
    assert "its mode is 644" in reason(caplog)


def test_without_a_session_nothing_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_CACHE", str(tmp_path / "cache"))
    assert claim_session(OPTIONS) is None
    assert not (tmp_path / "cache").exists()
