"""What the integration tests of backup and restore share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.cluster import Cluster
from tests.support.releases import TEST_KAFKA
from tests.support.run_kafkeep import share_spark
from tests.support.versioned_bucket import VersionedBucket

from kafkeep.dev import DevOptions, DevStatus, start, stop
from kafkeep.spark.session import start_session
from kafkeep.spark.tasks import TaskRunner


@pytest.fixture(scope="module")
def module_s3(services: DevStatus) -> Iterator[None]:
    """Set the AWS_* variables for a whole file: its runs share one archive."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        for name, value in services.s3.environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def versioned(s3_env: DevStatus) -> VersionedBucket:
    """A bucket that keeps every version of an object."""
    return VersionedBucket.create(s3_env.s3.endpoint)


@pytest.fixture(scope="module")
def spark() -> None:
    """One Spark session for all runs of this process; each file sees to it that it works."""
    share_spark()


@pytest.fixture(scope="module")
def session(spark: None) -> SparkSession:
    """The session of this process, as a caller's own."""
    return TaskRunner(start_session()).session


@pytest.fixture(scope="module")
def open_spark(session: SparkSession) -> TaskRunner:
    """What runs tasks on the session of this process."""
    runner = TaskRunner(session)
    runner.run_first_job()
    return runner


@pytest.fixture(scope="module")
def cluster(services: DevStatus) -> Cluster:
    """The test's own hands on Kafka."""
    return Cluster(services.bootstrap_servers)


@pytest.fixture(scope="session")
def registry_url(services: DevStatus) -> str:
    """A schema registry beside the broker of ``services``; it is stopped with them."""
    if services.registry is None or not services.registry.alive:
        folder, brokers = Path(services.folder), len(services.brokers)
        services = start(DevOptions(folder=folder, brokers=brokers, registry=True))
    assert services.registry is not None
    return services.registry.url


# How soon a dead broker is replaced: by default after 9 s, for which tests would only wait.
NOTICE_DEAD_BROKERS = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStatus]:
    """Three brokers of a file's own, to be killed."""
    folder = tmp_path_factory.mktemp("three")
    try:
        settings = NOTICE_DEAD_BROKERS
        yield start(
            DevOptions(folder=folder, kafka=TEST_KAFKA, brokers=3, broker_properties=settings)
        )
    finally:
        stop(folder)
