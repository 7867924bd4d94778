"""What killed runs left behind is removed, that alone, and also beside a run that goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.kills import Trial
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.view import list_logs, load_view
from kafkeep.clock import now_ms
from kafkeep.dev import DevStatus
from kafkeep.maintenance.gc import GcPlan, OrphanAction, plan_gc, remove
from kafkeep.maintenance.move_positions import move_positions
from kafkeep.options.maintenance import DAY_MS
from kafkeep.store.s3.store import S3Store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
TEXT = "value.converter=org.apache.kafka.connect.storage.StringConverter"
SINK = ("--name", "sink", "--format", "json", "--set", TEXT, "--set", "topics.dir=deep/lake")
UPLOAD = """
import sys
from dataclasses import replace
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store
options = replace(StorageOptions.from_env(), multipart_bytes=1, part_bytes=5 << 20)
writer = open_store(sys.argv[1], options).create(sys.argv[2])
writer.write(bytes(6 << 20))
writer.finish()
"""


@pytest.fixture
def trial(services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path) -> Trial:
    cluster = Cluster(services.bootstrap_servers)
    cluster.create(topic_name)
    cluster.fill(topic_name, 100)
    return Trial(cluster, archive_address, topic_name, tmp_path)


@pytest.fixture
def tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store's clock is a day ahead of what it stamped; it tells seconds."""
    told = S3Store.now_ms
    monkeypatch.setattr(S3Store, "now_ms", lambda store: told(store) + DAY_MS + 1000)


def keys(trial: Trial) -> set[str]:
    return {info.key for info in trial.store.list("") if "_kafkeep/" not in info.key}


def gc(trial: Trial, *flags: object) -> list[tuple[str, str]]:
    done = kafkeep("gc", "--archive", trial.archive, "--output", "json", *flags).expect(0)
    return [(one["key"], one["fate"]) for one in done.json["left_overs"]]


@pytest.mark.parametrize(("log", "flags"), [("backup", ()), ("sink", SINK)])
@pytest.mark.usefixtures("tomorrow")
def test_the_object_of_a_run_that_died_before_its_commit_is_removed_once_it_is_archived_again(
    trial: Trial, log: str, flags: tuple[object, ...]
) -> None:
    backup = ("backup", "--topics", trial.topic, *flags)
    trial.run(*backup).expect(0)
    committed = keys(trial)
    trial.cluster.fill(trial.topic, 100)
    trial.die(trial.start(*backup, failpoint="commit.before:exit@1"), "commit.before:exit@1")
    [left] = keys(trial) - committed
    assert gc(trial) == [(left, "keep")], "the next run takes it"
    move_positions(
        trial.store, log, {(trial.topic, 0): 0}, writer="test", now_ms=now_ms
    )  # gives up the intent
    assert gc(trial) == [(left, "keep")], "the log has not come past it"
    trial.run(*backup).expect(0)
    before = keys(trial)
    assert gc(trial, "--dry-run") == [(left, "remove")]
    assert keys(trial) == before
    assert gc(trial) == [(left, "removed")]
    assert before - keys(trial) == {left}
    assert gc(trial) == []
    found = kafkeep("verify", "--archive", trial.archive, "--deep", "--output", "json").expect(0)
    assert found.json["findings"] == []
    assert found.json["records"] == 200


@pytest.mark.usefixtures("tomorrow")
def test_what_the_next_run_takes_is_no_orphan(trial: Trial) -> None:
    backup = ("backup", "--topics", trial.topic)
    trial.die(trial.start(*backup, failpoint="commit.before:exit@1"), "commit.before:exit@1")
    [left] = keys(trial)
    trial.run(*backup).expect(0)
    assert gc(trial) == [] and keys(trial) == {left}


def test_an_upload_whose_writer_died_between_parts_is_ended(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    trial.run("backup", "--topics", trial.topic).expect(0)
    before = keys(trial)
    ours = f"topics/{trial.topic}/partition=0/{trial.topic}+0+0000000100.log.zst"
    for key in (ours, "others/file"):
        armed = f"from kafkeep.failpoint import arm\narm('object.part:exit@1')\n{UPLOAD}"
        command = [sys.executable, "-c", armed, trial.archive, key]
        assert subprocess.run(command, check=False).returncode == 137
    assert gc(trial) == [(ours, "keep")], "it is young"
    request.getfixturevalue("tomorrow")
    assert gc(trial) == [(ours, "removed")]
    assert [upload.key for upload in trial.store.uploads()] == ["others/file"]
    assert gc(trial) == [] and keys(trial) == before
    trial.cluster.fill(trial.topic, 100)
    trial.run("backup", "--topics", trial.topic).expect(0)
    assert ours in keys(trial)


def test_gc_beside_a_running_backup_removes_nothing_of_it(trial: Trial) -> None:
    """With no age to wait for, only the log says what may go."""
    follow = ("--topics", trial.topic, *SINK, "--set", "flush.size=10", "--follow")
    driver = trial.start("backup", *follow, "--interval", "100ms")
    plans: list[GcPlan] = []

    def archived() -> int:
        if list_logs(trial.store):
            plans.append(remove(trial.store, plan_gc(trial.store, now_ms=now_ms() + 2 * DAY_MS)))
            return sum(load_view(trial.store, "sink").positions.values())
        return 0

    try:
        for count in range(100, 600, 100):
            until(lambda wanted=count: archived() >= wanted, f"{count} records are archived")
            trial.cluster.fill(trial.topic, 100)
        until(lambda: archived() >= 600, "all records are archived")
    finally:
        driver.process.terminate()
        driver.wait().expect(0)
    assert len(plans) > 5
    assert {one.fate for plan in plans for one in plan.left_overs} <= {OrphanAction.KEEP}
    found = kafkeep("verify", "--archive", trial.archive, "--deep", "--output", "json").expect(0)
    assert (found.json["records"], found.json["findings"]) == (600, [])
