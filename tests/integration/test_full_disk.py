"""A disk takes no more bytes, here or at the store: one sentence, and the next run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.kills import Trial
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.dev import DevOptions, DevStatus
from kafkeep.dev.plan import plan_state
from kafkeep.dev.process import Ports, wait_ready
from kafkeep.dev.services import BUCKET, bucket_ready, launch_s3, remove_sockets, s3_answers
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
MIB = 1 << 20
BYTES = "value.converter=org.apache.kafka.connect.converters.ByteArrayConverter"
SINK = ("--name", "sink", "--format", "json", "--set", BYTES)


class Disk:
    """A small disk of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine lets nobody mount a disk: {done.stderr.strip()}")

    def fill(self, leave_bytes: int = 0) -> Path:
        """Leave so much room, until the file returned is removed."""
        stat = os.statvfs(self.folder)
        ballast = self.folder / "ballast"
        ballast.write_bytes(bytes(stat.f_bavail * stat.f_frsize - leave_bytes))
        return ballast

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    try:
        yield made
    finally:
        made.unmount()


@pytest.fixture
def trial(services: DevStatus, topic_name: str, archive_address: str, tmp_path: Path) -> Trial:
    return Trial(Cluster(services.bootstrap_servers), archive_address, topic_name, tmp_path)


def produce(cluster: Cluster, topic: str, megabytes: int) -> int:
    """Fill a topic with what cannot be compressed; return how many records that is."""
    cluster.create(topic)
    now = time.time_ns() // 1_000_000
    pairs = range(2 * megabytes)
    batches = [
        build_batch([Record(i, now, b"%d" % n, os.urandom(10_000)) for i in range(50)])
        for n in pairs
    ]
    cluster.raw(topic, batches)
    return 50 * len(pairs)


def assert_one_sentence(done: Outcome, code: int, *words: str) -> None:
    done.expect(code)
    assert done.stdout == ""
    [line] = done.stderr.strip().splitlines()
    told = json.loads(line)
    assert told["code"] == code and told["hint"].endswith(".")
    assert all(word in told["message"] for word in words), line


@pytest.mark.parametrize("flags", [(), SINK])
def test_without_room_for_temporary_files_a_backup_says_so_and_the_next_one_continues(
    trial: Trial, disk: Disk, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    records = produce(trial.cluster, trial.topic, 40)
    disk.mount("size=8m")
    backup = ("backup", "--topics", trial.topic, *flags)
    monkeypatch.setenv("TMPDIR", str(disk.folder))
    done = trial.start(*backup).wait()
    monkeypatch.delenv("TMPDIR")
    assert_one_sentence(done, 1, "No space left on device", str(disk.folder))
    assert list(disk.folder.iterdir()) == [], "nothing is left on the disk"
    assert list(trial.store.list("topics/")) == []
    trial.run(*backup).expect(0)
    found = kafkeep("verify", "--archive", trial.archive, "--output", "json").expect(0)
    assert (found.json["records"], found.json["findings"]) == (records, [])


def test_on_a_disk_that_is_read_only_a_backup_says_so_and_leaves_no_archive(
    trial: Trial, disk: Disk
) -> None:
    trial.cluster.create(trial.topic)
    trial.cluster.fill(trial.topic, 10)
    disk.mount("size=8m,ro")
    backup = ("backup", "--topics", trial.topic)
    spark = ("--spark-conf", f"spark.local.dir={disk.folder}/spark")
    assert_one_sentence(trial.start(*backup, *spark).wait(), 1, "local dir")
    assert list(trial.store.list("topics/")) == []
    into = ("--bootstrap-servers", trial.cluster.bootstrap, "--archive", disk.folder / "archive")
    done = kafkeep("backup", *into, "--topics", trial.topic, "--output", "json")
    assert_one_sentence(done, 12, "Read-only file system")
    trial.run(*backup).expect(0)


@pytest.fixture
def small_s3(disk: Disk, tmp_path: Path, s3_env: DevStatus, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 server on a disk of 64 MiB, for the AWS_* variables of this test."""
    disk.mount("size=64m")
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "s3").symlink_to(disk.folder)
    with Ports() as ports:
        state = plan_state(DevOptions(folder=folder), None, ports)
        port = state.ports["s3"]
        server = launch_s3(folder, state)
        try:
            wait_ready(server, lambda: s3_answers(port) and bucket_ready(port))
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            yield f"s3://{BUCKET}/small"
        finally:
            server.kill()
            remove_sockets(state.ports)


def test_a_store_whose_disk_is_full_fails_a_backup_that_continues_when_there_is_room(
    services: DevStatus,
    topic_name: str,
    small_s3: str,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(services.bootstrap_servers)
    produce(cluster, topic_name, 20)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", small_s3)
    backup = ("backup", *where, "--topics", topic_name, "--segment-bytes", "4MiB")
    backup += ("--output", "json")
    told = StorageOptions.from_env
    with monkeypatch.context() as patch:
        patch.setattr(
            StorageOptions,
            "from_env",
            lambda **given: replace(told(**given), retry_deadline_ms=900),
        )
        ballast = disk.fill(leave_bytes=10 * MIB)
        assert_one_sentence(kafkeep(*backup), 1, "creating topics/", "attempts")
    timer = Timer(3.0, ballast.unlink)  # and now there is room while it tries
    timer.start()
    kafkeep(*backup).expect(0)
    timer.join()
    kafkeep("verify", "--archive", small_s3).expect(0)
    target = f"{topic_name}-back"
    kafkeep("restore", *where, "--topics", f"{topic_name}:{target}").expect(0)
    assert_same(dump(cluster.bootstrap, topic_name), dump(cluster.bootstrap, target))
