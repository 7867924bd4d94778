"""The checks of a worker: each part by itself, in a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkeep.check_result import Check, CheckStatus
from kafkeep.connect.catalog import doctor
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.catalog.doctor import WorkerDoctor
from kafkeep.connect.model import RestError
from kafkeep.errors import TransientError
from kafkeep.options.kafka import KafkaOptions

KAFKA = KafkaOptions("kafka:9092")


def kafka_is_down(_: KafkaOptions) -> Iterator[Check]:
    yield Check(CheckStatus.PASS, "kafka", "cluster c")
    raise TransientError("no broker answers", hint="Start one.")


def test_each_part_is_checked_and_one_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "check_kafka", kafka_is_down)
    for name in ("state", "archive"):
        (tmp_path / name).mkdir()
    state = ArchivePlace(address=str(tmp_path / "state"))
    archive = ArchivePlace(address=str(tmp_path / "archive"), connectors=("sink",))
    missing = ArchivePlace(address=str(tmp_path / "missing"), connectors=("other",))
    parts = WorkerDoctor(KAFKA, state, lambda: [archive, missing]).examine()
    assert [(one.title, one.verdict) for one in parts] == [
        ("This machine", parts[0].verdict),
        ("Kafka", CheckStatus.FAIL),
        ("State of the service", CheckStatus.PASS),
        ("Archive of sink", CheckStatus.PASS),
        ("Archive of other", CheckStatus.FAIL),
    ]
    assert [one.what for one in parts[1].checks] == ["cluster c", "no broker answers"]
    assert "archive yet" not in parts[2].checks[0].what
    assert "holds no archive yet" in parts[3].checks[0].what
    left = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert left == []


def test_a_part_that_does_not_answer_fails_in_time_and_runs_do_not_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def silent(_: KafkaOptions) -> Iterator[Check]:
        asked.set()
        go_on.wait(30)
        yield Check(CheckStatus.PASS, "kafka", "late")

    monkeypatch.setattr(doctor, "check_kafka", silent)
    one = WorkerDoctor(KAFKA, None, list, patience_s=1.0)
    found: list[CheckStatus] = []
    runner = threading.Thread(target=lambda: found.extend(p.verdict for p in one.examine()))
    runner.start()
    try:
        assert asked.wait(30)
        with pytest.raises(RestError, match="already running"):
            one.examine()
        runner.join(30)
        assert found[1] is CheckStatus.FAIL
        assert one.examine()[1].checks[0].what == "did not answer within 1 s"
    finally:
        go_on.set()
