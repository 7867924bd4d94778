"""A task that the store holds up does not hold up other partitions, and dies without harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.faults.s3_proxy import FaultProxy, Hold, Rule
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import Driver, kafkeep
from tests.support.waiting import until

from kafkeep.archive.log_check import check_log
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.errors import NoSuchArchiveError
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
KINDS = {"segments": (), "sink": ("--format", "json", "--set", "flush.size=10")}
AT_ONCE = {"segments": ("--segment-age", "0ms"), "sink": ()}
"""What lets a following backup read a few records at once."""


@dataclass
class Scene:
    """Two topics, and a store that answers no upload of the slow one until ``released`` is set."""

    cluster: Cluster
    archive: str
    slow: str
    quick: str
    proxy: FaultProxy
    folder: Path
    released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        for topic in (self.slow, self.quick):
            self.cluster.create(topic, partitions=1)
        rule = Rule(Hold(self.released), method="PUT", path=f"/topics/{self.slow}/")
        self.proxy.add(rule)

    @property
    def where(self) -> tuple[str, ...]:
        return "--bootstrap-servers", self.cluster.bootstrap, "--archive", self.archive

    def backup(self, kind: str) -> tuple[str, ...]:
        return "backup", *self.where, "--topics", f"{self.slow},{self.quick}", *KINDS[kind]

    @contextmanager
    def following(self, kind: str) -> Iterator[Driver]:
        """Follow in a process that waits for the upload of ten records of the slow topic."""
        self.fill(self.slow)
        driver = Driver(
            self.folder,
            *(*self.backup(kind), "--follow", "--interval", "100ms", *AT_ONCE[kind]),
            env={**os.environ, "AWS_ENDPOINT_URL": self.proxy.url},
        )
        try:
            until(lambda: driver.runs() and self._holds(), "an upload of the slow topic")
            yield driver
        finally:
            driver.kill()

    def fill(self, topic: str) -> None:
        """Send ten records."""
        self.cluster.produce(topic, ({"key": "k", "value": str(number)} for number in range(10)))

    def lines(self, topic: str) -> list[str]:
        """Return the lines of all objects of a topic, whether the log names them or not."""
        store = self.store
        keys = sorted(info.key for info in store.list(f"topics/{topic}/"))
        return [line for key in keys for line in store.get(key).decode().splitlines()]

    @property
    def store(self) -> ObjectStore:
        return open_store(self.archive, StorageOptions.from_env())

    def _holds(self) -> bool:
        return any(f"/topics/{self.slow}/" in one for one in self.proxy.seen)

    def position(self, topic: str) -> int:
        """Return how far a topic is archived."""
        try:
            view = load_view(self.store, "backup")
        except NoSuchArchiveError:
            return 0
        return next((at for pid, at in view.positions.items() if pid.topic == topic), 0)

    def await_quick(self, driver: Driver, end: int) -> None:
        """Wait until the quick topic is archived up to ``end``."""
        until(
            lambda: driver.runs() and self.position(self.quick) == end,
            f"{end} records of the quick topic in the log",
        )


@pytest.fixture
def scene(
    cluster: Cluster, topic_name: str, archive_address: str, s3_env: DevStatus, tmp_path: Path
) -> Iterator[Scene]:
    slow, quick = f"{topic_name}-slow", f"{topic_name}-quick"
    with FaultProxy(s3_env.s3.endpoint) as proxy:
        scene = Scene(cluster, archive_address, slow, quick, proxy, tmp_path)
        try:
            yield scene
        finally:
            scene.released.set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_held_upload_holds_up_its_topic_only_and_a_kill_in_between_loses_nothing(
    scene: Scene, kind: str
) -> None:
    with scene.following(kind) as driver:
        for end in (10, 20, 30):
            scene.fill(scene.quick)
            scene.await_quick(driver, end)
        assert scene.position(scene.slow) == 0
        scene.fill(scene.slow)
    scene.released.set()
    kafkeep(*scene.backup(kind)).expect(0)
    assert scene.position(scene.slow) == 20
    assert check_log(scene.store, "backup") == []
    if kind == "sink":
        numbers = [str(number) for number in range(10)]
        assert scene.lines(scene.slow) == numbers * 2
        assert scene.lines(scene.quick) == numbers * 3
        return
    topics = (scene.slow, scene.quick)
    renamed = ",".join(f"{topic}:{topic}-back" for topic in topics)
    kafkeep("restore", *scene.where, "--topics", renamed).expect(0)
    bootstrap = scene.cluster.bootstrap
    for topic in topics:
        assert_same(dump(bootstrap, topic), dump(bootstrap, f"{topic}-back"))


def test_a_backup_that_is_stopped_commits_what_a_slow_task_still_writes(scene: Scene) -> None:
    with scene.following("segments") as driver:
        scene.fill(scene.quick)
        scene.await_quick(driver, 10)
        driver.signal(signal.SIGTERM)
        scene.released.set()
        driver.wait().expect(0)
    assert scene.position(scene.slow) == 10
