"""The only broker dies or hangs during a run: that run or the next ends it, and nothing is odd."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.log_check import check_log
from kafkeep.dev import (
    DevOptions,
    DevStatus,
    kill_broker,
    pause_broker,
    resume_broker,
    start,
    start_broker,
    stop,
)
from kafkeep.errors import TransientError, UnknownOutcomeError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
MAY_BE_TRIED_AGAIN = (TransientError.__name__, UnknownOutcomeError.__name__)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStatus]:
    """A broker of this file's own, to be killed."""
    folder = tmp_path_factory.mktemp("fragile")
    try:
        yield start(DevOptions(folder=folder))
    finally:
        stop(folder)


def kill_and_start(folder: Path) -> None:
    kill_broker(folder, 1)
    time.sleep(1.0)
    start_broker(folder, 1)


def hang(folder: Path) -> None:
    pause_broker(folder, 1)
    time.sleep(4.0)
    resume_broker(folder, 1)


@pytest.mark.parametrize("trouble", [kill_and_start, hang])
def test_a_run_that_lost_its_broker_is_complete_in_the_end(
    fragile: DevStatus,
    topic_name: str,
    local_archive: Path,
    trouble: Callable[[Path], None],
) -> None:
    cluster, folder = Cluster(fragile.bootstrap_servers), Path(fragile.folder)
    cluster.create(topic_name, 2)
    now = time.time_ns() // 1_000_000
    for partition in range(2):
        batches = [
            build_batch([Record(i, now, b"%d" % n, bytes(1000)) for i in range(1000)])
            for n in range(20)
        ]
        cluster.raw(topic_name, batches, partition)
    before = dump(cluster.bootstrap, topic_name)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", local_archive)

    def in_trouble(after: float, *arguments: object) -> None:
        timer = Timer(after, trouble, [folder])
        timer.start()
        first = kafkeep(*arguments, "--output", "json").expect(0, 1)
        timer.join()
        told = first.stderr.strip().splitlines()
        assert first.code == 0 or json.loads(told[-1])["error"] in MAY_BE_TRIED_AGAIN, first.stderr
        kafkeep(*arguments, "--output", "json").expect(0)

    in_trouble(0.3, "backup", *where, "--topics", topic_name, "--segment-bytes", "1MiB")
    assert check_log(open_store(str(local_archive), StorageOptions()), "backup") == []
    target = f"{topic_name}-back"
    renamed = ("--topics", f"{topic_name}:{target}")
    in_trouble(2.0, "restore", *where, *renamed, "--rate", "8MiB")
    assert_same(before, dump(cluster.bootstrap, target))
