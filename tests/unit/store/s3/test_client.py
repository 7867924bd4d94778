"""Settings of S3 that cannot work are found without a request to the store."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.options.storage import StorageOptions
from kafkeep.store.s3.client import setting_problems


@pytest.fixture(autouse=True)
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the process AWS files of its own."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    (tmp_path / "credentials").write_text(
        "[there]\naws_access_key_id = a\naws_secret_access_key = b\n"
        "[role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = gone\n"
    )
    return tmp_path


def test_a_profile_that_the_aws_files_lack_is_named() -> None:
    assert setting_problems(StorageOptions(profile="there")) == {}
    problems = setting_problems(StorageOptions(profile="gone"))
    assert list(problems) == ["profile"]
    assert "no profile gone" in problems["profile"]
    assert "gone" in setting_problems(StorageOptions(profile="role"))["profile"]


def test_a_profile_is_not_read_when_keys_are_given() -> None:
    keys = StorageOptions(profile="gone", access_key="a", secret_key="b")
    assert setting_problems(keys) == {}


def test_aws_files_that_cannot_be_parsed_are_a_problem_of_the_profile(aws_files: Path) -> None:
    (aws_files / "credentials").write_text("no section = 1\n[there\n")
    assert "cannot be read" in setting_problems(StorageOptions(profile="there"))["profile"]


@pytest.mark.parametrize("region", ["eu-central-1", "cn-north-1", "us-gov-west-1", "us-west-9"])
def test_regions_of_amazons_form_are_fine(region: str) -> None:
    assert setting_problems(StorageOptions(region=region)) == {}


def test_a_region_that_is_none_of_amazons_is_named_but_for_other_makers() -> None:
    assert list(setting_problems(StorageOptions(region="TBD"))) == ["region"]
    assert setting_problems(StorageOptions(region="TBD", endpoint="http://minio:9000")) == {}


def test_a_proxy_that_listens_is_fine_and_one_that_does_not_is_named_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        listening = StorageOptions(proxy_url=f"http://me:secret@127.0.0.1:{port}")
        assert setting_problems(listening) == {}
    problems = setting_problems(listening)
    assert list(problems) == ["proxy_url"]
    assert f"127.0.0.1:{port} cannot be reached" in problems["proxy_url"]
    assert "secret" not in problems["proxy_url"]


def test_a_proxy_whose_name_nobody_knows_is_named() -> None:
    problems = setting_problems(StorageOptions(proxy_url="http://no-such-proxy.invalid:3128"))
    assert "no-such-proxy.invalid:3128" in problems["proxy_url"]


def test_a_proxy_that_never_answers_costs_no_more_than_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def hang(*_args: object, **_more: object) -> socket.socket:
        ended.wait(PATIENCE_S)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", hang)
    options = StorageOptions(proxy_url="http://proxy:3128")
    started = time.monotonic()
    try:
        problems = setting_problems(options, proxy_seconds=0.05)
    finally:
        ended.set()  # or the thread that tries would outlive the test
    assert "does not answer within 0.05 s" in problems["proxy_url"]
    assert time.monotonic() - started < PATIENCE_S / 2
