"""Bad input gets one clear line, a hint and its exit code; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.dev import DevStatus
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

NOWHERE = "127.0.0.1:1"


def refused(code: int, *arguments: object) -> Outcome:
    """Run a command that must be refused, and check how it says so."""
    outcome = kafkeep(*arguments).expect(code)
    assert "Traceback" not in outcome.stderr and outcome.stdout == ""
    errors = [line for line in outcome.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, outcome.stderr
    hints = [line for line in outcome.stderr.splitlines() if line.startswith("hint: ")]
    assert len(hints) <= 1
    return outcome


def backup(folder: object, *arguments: object) -> tuple[object, ...]:
    where = ("--bootstrap-servers", NOWHERE, "--archive", folder)
    return ("backup", *where, *arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--topic", "a"), "Did you mean --topics?"),
        (("--topics", "a", "--topics-regex", "b"), "give either topics or topics-regex"),
        ((), "give either topics or topics-regex"),
        (("--topics", "a", "--segment-bytes", "12 parsecs"), "--segment-bytes"),
        (("--topics", "a", "--interval", "soon"), "--interval"),
        (("--topics-regex", "(("), "--topics-regex"),
        (("--topics", "a", "--on-gap", "ignore"), "record"),
        (("--topics", "a", "--isolation-level", "none"), "read_committed"),
        (("--topics", "a", "--format", "xml"), "segment"),
        (("--topics", "a", "--spark-conf", "nonsense"), "--spark-conf"),
        (("--topics", "a", "--output", "yaml"), "json"),
        (("--topics", "a", "--command-config", "/no/such/file"), "/no/such/file"),
    ],
)
def test_a_wrong_flag_is_named_with_a_way_out(
    arguments: tuple[str, ...], said: str, local_archive: Path
) -> None:
    assert said in refused(2, *backup(local_archive, *arguments)).stderr
    assert list(local_archive.iterdir()) == []


def test_an_archive_that_would_not_outlive_the_run_is_refused() -> None:
    refused(2, *backup("memory:x", "--topics", "a"))


def test_unknown_verbs_are_refused() -> None:
    refused(2, "backupp")


def test_a_broken_properties_file_is_named(local_archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TELEPATHY\n")
    said = refused(2, *backup(local_archive, "--topics", "a", "--command-config", file)).stderr
    assert "TELEPATHY" in said or "security.protocol" in said


@pytest.mark.parametrize("verb", ["restore", "verify", "info", "ls", "du"])
def test_a_missing_archive_is_10(verb: str, local_archive: Path) -> None:
    more = ("--bootstrap-servers", NOWHERE) if verb == "restore" else ()
    outcome = kafkeep(verb, "--archive", local_archive, *more)
    assert outcome.code == 10, outcome.stderr
    assert list(local_archive.iterdir()) == []


@pytest.mark.integration
def test_an_unreachable_kafka_is_named_and_nothing_is_begun(local_archive: Path) -> None:
    said = refused(1, *backup(local_archive, "--topics", "a")).stderr
    assert NOWHERE in said
    assert list(local_archive.iterdir()) == []


@pytest.mark.integration
def test_wrong_keys_are_12_and_a_missing_bucket_is_named(
    s3_env: DevStatus, archive_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = refused(10, "info", "--archive", "s3://no-such-bucket-at-all/x")
    assert "no-such-bucket-at-all" in missing.stderr
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-key")
    denied = refused(12, "info", "--archive", archive_address)
    assert "not-the-key" not in denied.stderr
    arguments = ("--bootstrap-servers", s3_env.bootstrap_servers, "--archive", archive_address)
    refused(12, "backup", *arguments, "--topics-regex", "nothing-is-called-so", "--follow")


@pytest.mark.integration
def test_a_topic_that_is_not_there_is_named_and_nothing_is_begun(
    s3_env: DevStatus, local_archive: Path
) -> None:
    arguments = ("--bootstrap-servers", s3_env.bootstrap_servers, "--archive", local_archive)
    said = refused(2, "backup", *arguments, "--topics", "not-there-at-all").stderr
    assert "not-there-at-all" in said
    said = refused(2, "backup", *arguments, "--topics-regex", "not-there-at-all").stderr
    assert "error: no topic in Kafka matches not-there-at-all\n" in said
    assert list(local_archive.iterdir()) == []


def test_an_archive_of_a_newer_version_is_refused_by_name(local_archive: Path) -> None:
    store = open_store(str(local_archive), StorageOptions())
    store.put_new("_kafkeep/backup/log/00000000000000000000.json", b'{"version": 99}')
    outcome = kafkeep("info", "--archive", local_archive)
    assert outcome.code == 13 and "99" in outcome.stderr, outcome.stderr
    assert "Traceback" not in outcome.stderr
