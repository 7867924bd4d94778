"""Real services for every test that asks for them: started once per session, when first needed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from tests.support.releases import TEST_KAFKA, TEST_SPARK
from tests.support.screenshots import ROOT, SCREENSHOTS

from kafkeep import redact
from kafkeep.dev import DevOptions, DevStatus, start, status, stop

# How long an example takes depends on the machine and on kernels that compile at first use.
hypothesis.settings.register_profile(
    "kafkeep", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("kafkeep")

# The resident session of whoever runs the tests is not theirs.
os.environ["KAFKEEP_SPARK_RESIDENT"] = "off"

# What writes old records to a topic that does not keep them fails each time, not once in a while.
LOOK_FOR_EXPIRED_EACH_SECOND = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}


def pytest_configure(config: pytest.Config) -> None:
    """Before 4.2, PySpark leaves the sockets that bring results to the garbage collector."""
    if TEST_SPARK < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:.*unclosed.*socket:ResourceWarning")
        config.addinivalue_line(
            "filterwarnings", "ignore:.*<socket:pytest.PytestUnraisableExceptionWarning"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the suite of a core test into the report, for ``make test-matrix``."""
    for item in items:
        if core := item.get_closest_marker("core"):
            item.user_properties.append(("suite", core.kwargs["suite"]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the screenshots are."""
    ran = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    if SCREENSHOTS.is_dir() and any(one.nodeid.startswith("tests/browser/") for one in ran):
        where = SCREENSHOTS.relative_to(ROOT)
        terminalreporter.write_line(f"screenshots of the web console: {where}/")


def _environment(
    folder: Path, *, secure: bool = False, s3: str = "seaweedfs"
) -> Iterator[DevStatus]:
    try:
        yield start(
            DevOptions(
                folder=folder,
                kafka=TEST_KAFKA,
                secure=secure,
                s3=s3,
                broker_properties=LOOK_FOR_EXPIRED_EACH_SECOND,
            )
        )
    finally:
        stop(folder)


@pytest.fixture(scope="module", autouse=True)
def secrets_of_one_file() -> Iterator[None]:
    """Forget a file's secrets after it: an ordinary word among them is masked in later messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redact, "_words", dict(redact._words))
        patch.setattr(redact, "_known", redact._known)
        yield


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStatus]:
    """One broker and an S3 server; KAFKEEP_TEST_DEV names a folder that is up, to use instead."""
    if folder := os.environ.get("KAFKEEP_TEST_DEV"):
        yield status(Path(folder))
    else:
        yield from _environment(tmp_path_factory.mktemp("services"))


@pytest.fixture(scope="session")
def secure_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStatus]:
    """One broker with secured listeners, and an S3 server."""
    yield from _environment(tmp_path_factory.mktemp("secure-services"), secure=True)


@pytest.fixture(scope="session")
def minio_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStatus]:
    """One broker and MinIO."""
    yield from _environment(tmp_path_factory.mktemp("minio-services"), s3="minio")


@pytest.fixture
def topic_name() -> str:
    """Return a topic name that no other test has."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def s3_env(services: DevStatus, monkeypatch: pytest.MonkeyPatch) -> DevStatus:
    """Set the AWS_* variables to the S3 server of ``services``; no profile gets in the way."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in services.s3.environment.items():
        monkeypatch.setenv(name, value)
    return services


@pytest.fixture
def archive_address(s3_env: DevStatus) -> str:
    """Return an s3:// address that no other test has; the AWS_* variables are set for it."""
    return f"s3://{s3_env.s3.bucket}/{uuid.uuid4().hex[:12]}"


@pytest.fixture
def local_archive(tmp_path: Path) -> Path:
    """Return an empty folder for an archive."""
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder
