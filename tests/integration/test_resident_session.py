"""The resident session: commands share it, and die in it, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, count, dump
from tests.support.releases import TEST_SPARK
from tests.support.run_kafkeep import Driver, Outcome, members, python_workers, signal_group
from tests.support.waiting import PATIENCE_S, until

from kafkeep import kernel_cache
from kafkeep.archive.log_check import check_log
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.class_archive import cache_folder
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.core(suite="resident")]
needs_token = pytest.mark.skipif(
    TEST_SPARK < (4, 0), reason="refused: Spark Connect has no token before Spark 4.0"
)
USED = "the resident Spark session is used"
NOT_USED = "the resident Spark session is not used"
COMPILING_S = 3 * PATIENCE_S
"""The first start on a machine compiles the kernels."""
WRONG_KEYS = {"AWS_ACCESS_KEY_ID": "wrong", "AWS_SECRET_ACCESS_KEY": "wrong"}


@dataclass
class Resident:
    """A resident session with a folder of its own, and commands that may use it."""

    folder: Path
    environment: Mapping[str, str]
    runs: int = 0

    def start(self, *arguments: object) -> dict[str, object]:
        """Start the session, in an environment with other credentials than the commands'."""
        begun = self.begin("spark", "start", "--output", "json", *arguments, env=WRONG_KEYS)
        return dict(begun.wait(COMPILING_S).expect(0).json)

    def status(self) -> dict[str, object]:
        return dict(self.run("spark", "status", "--output", "json").expect(0, 1).json)

    def begin(self, *arguments: object, env: Mapping[str, str] | None = None) -> Driver:
        self.runs += 1
        return Driver(
            self.folder / f"run-{self.runs}",
            "--debug",
            *arguments,
            env={**self.environment, **(env or {})},
        )

    def run(self, *arguments: object, env: Mapping[str, str] | None = None) -> Outcome:
        return self.begin(*arguments, env=env).wait()

    @property
    def held(self) -> Mapping[str, str]:
        """Let each task of a backup wait after its first object, until it is killed."""
        return {
            "KAFKEEP_FAILPOINT": "object.after:hold@1",
            "KAFKEEP_FAILPOINT_GATE": str(self.folder / "never"),
        }

    def workers(self) -> list[int]:
        """Return the processes that the session forked for tasks."""
        return python_workers(int(str(self.status()["pid"])))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a resident session of its own; what is compiled is that of all tests."""
    folder = tmp_path_factory.mktemp("cache")
    for archive in cache_folder().glob("spark-*.jsa"):
        (folder / archive.name).symlink_to(archive)
    return folder


@pytest.fixture(scope="module")
def resident(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    """A session that tests start when they need it; one that still runs is used again."""
    made = Resident(
        tmp_path_factory.mktemp("runs"),
        {
            "KAFKEEP_CACHE": str(cache),
            "NUMBA_CACHE_DIR": str(kernel_cache._bases()[0].parent),
            "KAFKEEP_CLASS_ARCHIVE": "on",
            "KAFKEEP_SPARK_RESIDENT": "on",
            "grpc_proxy": "http://127.0.0.1:1",  # gRPC would go through it
        },
    )
    yield made
    made.run("spark", "stop").expect(0)


@pytest.fixture
def topic(services: DevStatus, cluster: Cluster, topic_name: str) -> str:
    """Two partitions with twenty batches of half a megabyte."""
    cluster.create(topic_name, 2)
    now = time.time_ns() // 1_000_000
    rows = [Record(i, now, b"%d" % i, bytes(1000)) for i in range(500)]
    for partition in range(2):
        cluster.raw(topic_name, [build_batch(rows)] * 10, partition)
    return topic_name


@dataclass(frozen=True)
class Commands:
    """The commands of one test: its topic, its archive, its target."""

    bootstrap: str
    topic: str
    archive: str

    @property
    def target(self) -> str:
        return f"{self.topic}-back"

    @property
    def where(self) -> tuple[object, ...]:
        return ("--bootstrap-servers", self.bootstrap, "--archive", self.archive)

    @property
    def backup(self) -> tuple[object, ...]:
        chosen = ("--topics", self.topic, "--segment-bytes", "1MiB", "--output", "json")
        return ("backup", *self.where, *chosen)

    @property
    def restore(self) -> tuple[object, ...]:
        chosen = ("--topics", f"{self.topic}:{self.target}", "--output", "json")
        return ("restore", *self.where, *chosen)

    @property
    def compare(self) -> tuple[object, ...]:
        chosen = ("--topics", f"{self.topic}:{self.target}", "--output", "json")
        return ("verify", "--archive", self.archive, "--against", self.bootstrap, *chosen)

    def objects(self) -> int:
        store = open_store(self.archive, StorageOptions.from_env())
        return sum(1 for _ in store.list("topics/"))

    def check(self) -> None:
        """Nothing is lost and nothing is there twice."""
        store = open_store(self.archive, StorageOptions.from_env())
        assert check_log(store, "backup") == []
        before = dump(self.bootstrap, self.topic)
        assert count(before) == 10_000
        assert_same(before, dump(self.bootstrap, self.target))


@pytest.fixture
def commands(services: DevStatus, topic: str, archive_address: str) -> Commands:
    return Commands(services.bootstrap_servers, topic, archive_address)


@needs_token
def test_commands_share_the_session_each_with_its_own_credentials(
    resident: Resident, commands: Commands
) -> None:
    begun = resident.start()
    assert begun["state"] == "ready"
    assert resident.start()["pid"] == begun["pid"]
    for command in (commands.backup, commands.restore, commands.compare):
        ended = resident.run(*command).expect(0)
        assert USED in ended.stderr, ended.stderr
    commands.check()
    refused = resident.run(*commands.backup, env=WRONG_KEYS).expect(1, 12)
    assert USED in refused.stderr
    sink = ("--topics", commands.topic, "--format", "bytes", "--name", "sink")
    sink = ("backup", *commands.where, *sink, "--output", "json")
    assert USED in resident.run(*sink).expect(0).stderr
    assert resident.status()["pid"] == begun["pid"]
    without = resident.run(*commands.backup, env={"KAFKEEP_SPARK_RESIDENT": "off"}).expect(0)
    assert USED not in without.stderr
    other = resident.run(*commands.backup, "--spark-conf", "spark.driver.memory=700m").expect(0)
    assert "spark.driver.memory differs" in other.stderr


@needs_token
def test_a_killed_backup_leaves_no_tasks_and_the_next_one_finishes(
    resident: Resident, commands: Commands
) -> None:
    resident.start()
    driver = resident.begin(*commands.backup, env=resident.held)
    until(lambda: driver.runs() and commands.objects() > 0, "it writes")
    assert resident.status()["state"] == "busy"
    assert resident.workers()
    driver.kill()
    until(lambda: not resident.workers(), "the tasks it left are cancelled")
    until(lambda: resident.status()["state"] == "ready", "the session is free")
    for command in (commands.backup, commands.restore):
        assert USED in resident.run(*command).expect(0).stderr
    commands.check()


@needs_token
def test_a_killed_restore_is_finished_by_the_same_command(
    resident: Resident, commands: Commands, cluster: Cluster
) -> None:
    resident.start()
    resident.run(*commands.backup).expect(0)
    driver = resident.begin(*commands.restore, "--rate", "1MiB")
    until(
        lambda: (
            driver.runs()
            and cluster.partitions(commands.target)
            and cluster.end(commands.target) > 0
        ),
        "it writes",
    )
    driver.kill()
    until(lambda: not resident.workers(), "the tasks it left are cancelled")
    resident.run(*commands.restore).expect(0)
    commands.check()


@needs_token
def test_signals_end_a_command_and_its_tasks_as_without_the_session(
    resident: Resident, commands: Commands, cluster: Cluster
) -> None:
    resident.start()
    driver = resident.begin(*commands.backup, env=resident.held)
    until(lambda: driver.runs() and commands.objects() > 0, "it writes")
    signal_group(driver.group, signal.SIGINT)
    driver.wait().expect(130)
    until(lambda: not resident.workers(), "its tasks are cancelled")
    assert USED in resident.run(*commands.backup).expect(0).stderr
    driver = resident.begin(*commands.restore, "--rate", "1MiB")
    until(
        lambda: (
            driver.runs()
            and cluster.partitions(commands.target)
            and cluster.end(commands.target) > 0
        ),
        "it writes",
    )
    driver.signal(signal.SIGTERM)
    assert "paused" in driver.wait().expect(0).stderr
    until(lambda: not resident.workers(), "its tasks are cancelled")
    resident.run(*commands.restore).expect(0)
    commands.check()


@needs_token
def test_a_session_that_dies_under_a_command_is_reported_and_not_used_again(
    resident: Resident, commands: Commands
) -> None:
    group = int(str(resident.start()["pid"]))
    driver = resident.begin(*commands.backup, env=resident.held)
    until(lambda: driver.runs() and commands.objects() > 0, "it writes")
    for pid in members(group):
        os.kill(pid, signal.SIGKILL)
    ended = driver.wait().expect(1)
    assert "the resident Spark session ended while" in ended.stderr, ended.stderr
    assert resident.status()["state"] == "stopped"
    again = resident.run(*commands.backup).expect(0)
    assert USED not in again.stderr
    resident.run(*commands.restore).expect(0)
    commands.check()


@needs_token
def test_an_idle_session_ends_and_leaves_nothing(resident: Resident) -> None:
    resident.run("spark", "stop").expect(0)
    group = int(str(resident.start("--idle-timeout", "1s")["pid"]))
    until(lambda: resident.status()["state"] == "stopped", "it ends")
    until(lambda: not members(group), "its processes end")
    assert not list(Path(resident.environment["KAFKEEP_CACHE"]).glob("resident-*/session.json"))


@needs_token
def test_the_server_refuses_a_client_without_the_token(resident: Resident) -> None:
    address = str(resident.start()["address"])
    client = (
        "import sys; from pyspark.sql.connect.session import SparkSession;"
        "session = SparkSession(sys.argv[1]); session.client.set_retry_policies([]);"
        "session.conf.get('spark.app.name')"
    )
    for parameters in ("", "/;token=wrong"):
        ended = subprocess.run(
            [sys.executable, "-c", client, address + parameters],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode != 0
        assert "UNAUTHENTICATED" in ended.stderr, ended.stderr


@pytest.mark.skipif(TEST_SPARK >= (4, 0), reason="its Spark Connect has a token")
def test_a_spark_without_a_token_is_refused_by_name(resident: Resident) -> None:
    refused = resident.run("spark", "start").expect(1)
    assert f"needs Spark 4.0 or newer, not {pyspark.__version__}" in refused.stderr
    assert "has no token" in refused.stderr
