from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kafkeep.errors import UsageError
from kafkeep.options.storage import MIB, ArchiveAddress, StorageOptions

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}


def test_the_standard_variables_are_read() -> None:
    env = {
        **KEYS,
        "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "eu-1",
        "AWS_CA_BUNDLE": "/ca",
    }
    options = StorageOptions.from_env({**env, "AWS_ENDPOINT_URL": "http://h:1"})
    assert (options.access_key, options.secret_key, options.session_token) == (
        "id",
        "hush",
        "token",
    )
    assert (options.region, options.ca_file, options.endpoint) == ("eu-1", "/ca", "http://h:1")


def test_the_variables_of_the_clouds_are_read_and_their_secrets_not_shown() -> None:
    env = {
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
        "STORAGE_EMULATOR_HOST": "localhost:4443",
        "AZURE_STORAGE_CONNECTION_STRING": "AccountKey=hush",
        "AZURE_STORAGE_ACCOUNT": "shop",
        "AZURE_STORAGE_KEY": "hush",
        "AZURE_STORAGE_SAS_TOKEN": "sig=hush",
    }
    options = StorageOptions.from_env(env)
    assert options.google.credentials_file == "/key.json"
    assert options.google.emulator == "http://localhost:4443"
    assert options.azure.account_url == "https://shop.blob.core.windows.net"
    assert (options.azure.key, options.azure.sas_token) == ("hush", "sig=hush")
    assert options.azure.connection_string == "AccountKey=hush"
    assert "hush" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_more_special_variable_wins() -> None:
    env = {
        "AWS_ENDPOINT_URL": "http://all",
        "AWS_ENDPOINT_URL_S3": "http://s3",
        "AWS_REGION": "a",
        "AWS_DEFAULT_REGION": "b",
    }
    options = StorageOptions.from_env(env)
    assert (options.endpoint, options.region) == ("http://s3", "a")


def test_flags_win_over_variables_and_none_is_no_flag() -> None:
    env = {**KEYS, "AWS_ENDPOINT_URL": "http://all", "AWS_REGION": "a"}
    options = StorageOptions.from_env(env, endpoint="https://flag", region=None)
    assert (options.endpoint, options.region) == ("https://flag", "a")
    assert StorageOptions.from_env(env, profile="p").access_key is None


def test_empty_variables_count_as_unset() -> None:
    assert StorageOptions.from_env({"AWS_REGION": "", "AWS_PROFILE": ""}) == StorageOptions()


def test_secrets_are_not_shown_and_options_pickle() -> None:
    options = StorageOptions.from_env({**KEYS, "AWS_SESSION_TOKEN": "token-hush"})
    assert "hush" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_path_style_follows_the_endpoint_unless_set() -> None:
    assert not StorageOptions().uses_path_style
    assert StorageOptions(endpoint="http://h").uses_path_style
    assert not StorageOptions(endpoint="http://h", path_style=False).uses_path_style


def test_only_aws_gets_ordinary_objects_in_parts_unless_asked() -> None:
    assert StorageOptions().multipart_from_bytes == 32 * MIB
    assert StorageOptions(endpoint="http://h").multipart_from_bytes == 4096 * MIB
    assert StorageOptions(endpoint="http://h", multipart_bytes=5).multipart_from_bytes == 5


@pytest.mark.parametrize("bad", [{"endpoint": "h:1"}, {"access_key": "id"}, {"secret_key": "x"}])
def test_halves_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        StorageOptions(**bad)  # type: ignore[arg-type]
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket//a///b/", "s3://bucket/a/b"),
        ("s3://my.bucket-1/a b/c=d", "s3://my.bucket-1/a b/c=d"),
        ("file:///a/b/", "/a/b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("file:/a", "/a"),
        ("/a/b", "/a/b"),
        ("memory:x", "memory:x"),
        ("gs://my_bucket.x//a/", "gs://my_bucket.x/a"),
        ("az://container", "az://container"),
    ],
)
def test_addresses_are_read_and_written(text: str, written: str) -> None:
    assert str(ArchiveAddress.parse(text)) == written
    assert ArchiveAddress.parse(written) == ArchiveAddress.parse(text)


def test_a_plain_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ArchiveAddress.parse("here/it is").path == str(tmp_path / "here/it is")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("s3:/bucket/p", "Did you mean s3://bucket/p?"),
        ("s3:bucket", "Did you mean s3://bucket?"),
        ("s3:///bucket/p", "Did you mean s3://bucket/p?"),
        ("s3a://bucket/p", "Did you mean s3://bucket/p?"),
        ("S3://bucket/p", "Did you mean s3://bucket/p?"),
        ("s3://", "bucket"),
        ("s3://b/x", "3 to 63"),
        ("s3://bucket/a/../b", "in full"),
        ("gs:///bucket/p", "Did you mean gs://bucket/p?"),
        ("gcs://bucket/p", "Did you mean gs://bucket/p?"),
        ("azure://container/p", "Did you mean az://container/p?"),
        ("gs://Bucket/p", "lowercase"),
        ("az://my_container/p", "container"),
        ("az://container/a/../b", "in full"),
        ("ftp://bucket/p", "gs://bucket/prefix"),
        ("http://h/b", "--s3-endpoint"),
        ("file://a/b", "three slashes"),
        ("file:a", "file:///folder"),
        ("", "s3://bucket/prefix"),
    ],
)
def test_bad_addresses_are_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        ArchiveAddress.parse(text)
    assert hint in (caught.value.hint or "")
