"""A backup and its restore on MinIO and on the emulators of Google and Azure, also when killed.

Fake-gcs-server and Azurite honour the conditions of creates. They check no permissions.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.cluster import Cluster
from tests.support.emulators import CONTAINER, account_token, azurite, fake_gcs
from tests.support.faults.s3_recorder import Recorder
from tests.support.independent_client import assert_same, count, dump
from tests.support.kills import Trial, die
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.clouds import AzureOptions, GoogleOptions
from kafkeep.store.open import open_store

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.stores,
]
PARTITIONS = 2
BATCHES = 80
"""About 40 MB in each partition: an object of each is sent in parts."""
FAILPOINTS = [
    "intent.after:exit@1",
    "object.before:exit@1",
    "object.part:exit@1",
    "object.after:exit@1",
    "object.after:drop@1",
    "commit.before:exit@1",
    "commit.after:exit@1",
    "commit.after:drop@1",
]


class CloudTrial(Trial):
    """One topic, its archive in a cloud, and the topic it is restored to."""

    @property
    def target(self) -> str:
        return f"{self.topic}-back"

    def fill(self) -> None:
        """Send batches that do not compress to every partition."""
        values, now = random.Random(1), time.time_ns() // 1_000_000
        for partition in range(PARTITIONS):
            made = [
                build_batch([Record(0, now + n, b"%d" % n, values.randbytes(500_000))])
                for n in range(BATCHES)
            ]
            self.cluster.raw(self.topic, made, partition)

    def back_up(self) -> None:
        self.run("backup", "--topics", self.topic).expect(0)

    def check(self) -> None:
        """The archive is intact, and what comes back is what was there."""
        assert check_log(self.store, "backup") == []
        assert load_view(self.store, "backup").intent is None
        where = ("--archive", self.archive, "--output", "json")
        assert kafkeep("verify", "--deep", *where).expect(0).json["intact"]
        self.run("restore", "--topics", f"{self.topic}:{self.target}").expect(0, 3)
        before = dump(self.cluster.bootstrap, self.topic)
        assert_same(before, dump(self.cluster.bootstrap, self.target))
        assert count(before) == PARTITIONS * BATCHES


@pytest.fixture(scope="module", params=["minio", "gcs", "azure"])
def place(
    request: pytest.FixtureRequest,
    minio_services: DevStatus,
    spark: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Return the address of a bucket or container; the variables of its cloud are set."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "minio":
            for name, value in minio_services.s3.environment.items():
                patch.setenv(name, value)
            yield f"s3://{minio_services.s3.bucket}"
        elif request.param == "gcs":
            with fake_gcs(folder) as google:
                set_google(patch, google)
                yield f"gs://{CONTAINER}"
        else:
            with azurite(folder) as azure:
                set_azure(patch, azure)
                yield f"az://{CONTAINER}"


def set_google(patch: pytest.MonkeyPatch, options: GoogleOptions) -> None:
    patch.setenv("STORAGE_EMULATOR_HOST", str(options.emulator))


def set_azure(patch: pytest.MonkeyPatch, options: AzureOptions) -> None:
    patch.setenv("AZURE_STORAGE_ACCOUNT", str(options.account))
    patch.setenv("AZURE_STORAGE_KEY", str(options.key))
    patch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", str(options.endpoint))


@pytest.fixture(scope="module")
def filled(place: str, minio_services: DevStatus) -> tuple[Cluster, str]:
    """A topic that several backups read."""
    cluster, topic = Cluster(minio_services.bootstrap_servers), f"t-{random.randbytes(4).hex()}"
    cluster.create(topic, PARTITIONS)
    CloudTrial(cluster, place, topic, Path()).fill()
    return cluster, topic


@pytest.fixture
def trial(place: str, filled: tuple[Cluster, str], tmp_path: Path) -> Iterator[CloudTrial]:
    cluster, topic = filled
    trial = CloudTrial(cluster, f"{place}/{tmp_path.name}", topic, tmp_path)
    yield trial
    if cluster.partitions(trial.target):
        cluster.delete(trial.target)


def test_a_backup_is_restored_exactly(trial: CloudTrial) -> None:
    checks = trial.run("doctor", "--no-spark").expect(0).json["checks"]
    assert {"store write", "store races", "clock"} <= {one["subject"] for one in checks}
    trial.back_up()
    largest = max(row.size_bytes for row in trial.store.list("topics/"))
    assert largest > 33_000_000  # so it was sent in parts to Google and Azure
    trial.check()
    assert trial.run("backup", "--topics", trial.topic).expect(0).json["records"] == 0


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_killed_backup_is_finished_by_the_next(trial: CloudTrial, failpoint: str) -> None:
    if failpoint.startswith("object.part") and trial.archive.startswith("s3:"):
        pytest.skip("one PUT for each object, because an endpoint is set")
    trial.die(trial.start("backup", "--topics", trial.topic, failpoint=failpoint), failpoint)
    trial.check_objects()
    trial.back_up()
    trial.check()


UPLOAD = """
import sys
from kafkeep.store.open import open_store
writer = open_store(sys.argv[1]).create("topics/large")
for letter in b"abc":
    writer.write(bytes([letter]) * (16 << 20))
writer.finish()
"""


@pytest.mark.parametrize("cloud", ["gs", "az"])
def test_an_object_whose_writer_dies_between_parts_is_not_there(
    cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, address = tmp_path / "data", f"{cloud}://{CONTAINER}/p"
    data.mkdir()
    with ExitStack() as stack:
        if cloud == "gs":
            set_google(monkeypatch, stack.enter_context(fake_gcs(data)))
        else:
            set_azure(monkeypatch, stack.enter_context(azurite(data)))
        store = open_store(address)
        for part in (1, 3):
            die(UPLOAD, address, failpoint=f"object.part:exit@{part}")
            assert list(store.list("")) == []
        subprocess.run([sys.executable, "-c", UPLOAD, address], check=True)
        assert [row.key for row in store.list("")] == ["topics/large"]
        assert store.get("topics/large") == b"".join(bytes([one]) * (16 << 20) for one in b"abc")


class ForgetfulProxy(Recorder):
    """Forwards creates without their conditions, as a store does that ignores them."""

    def forward(self, asked: BaseHTTPRequestHandler, host: str) -> None:
        asked.path = asked.path.replace("ifGenerationMatch=0", "")
        del asked.headers["If-None-Match"]
        super().forward(asked, host)


@pytest.mark.parametrize("cloud", ["gs", "az"])
def test_doctor_refuses_a_store_that_ignores_the_condition(
    cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with ExitStack() as stack:
        if cloud == "gs":
            google = stack.enter_context(fake_gcs(data))
            proxy = stack.enter_context(ForgetfulProxy(str(google.emulator)))
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        else:
            azure = stack.enter_context(azurite(data))
            host = urlsplit(str(azure.endpoint))
            proxy = stack.enter_context(ForgetfulProxy(f"http://{host.netloc}"))
            monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", proxy.url + host.path)
            # The signature of a key covers the condition, that of a token does not.
            monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", account_token(azure))
        found = kafkeep("doctor", "--no-spark", "--archive", f"{cloud}://{CONTAINER}/p").expect(14)
    assert "lets two writers create the same object" in found.stdout
    needed = {"gs": "ifGenerationMatch=0", "az": "If-None-Match on Put Blob"}[cloud]
    assert needed in found.stdout
