"""Where flags and variables say that the archive lies."""

from __future__ import annotations

import pytest

from kafkeep.cli.flags import storage_options


@pytest.fixture(autouse=True)
def _keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def test_a_profile_given_as_a_flag_wins_over_keys_of_the_environment() -> None:
    options = storage_options(None, None, "backups")
    assert (options.profile, options.access_key, options.secret_key) == ("backups", None, None)


def test_an_endpoint_given_as_a_flag_wins_over_one_that_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "nonsense")
    options = storage_options("http://localhost:9000", None, None)
    assert options.endpoint == "http://localhost:9000"
    assert options.access_key == "of-the-environment"
