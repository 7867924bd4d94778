"""What a configuration needs and this machine lacks is said in validate, not after 201."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkeep.connect.model import RestError
from kafkeep.connect.plugins.validate import Definitions, machine_problems
from kafkeep.connect.safety.restrictions import check_connector
from kafkeep.connect.worker.options import WorkerOptions

SINK = "ch.tbd.kafka.backuprestore.backup.kafkaconnect.BackupSinkConnector"
SOURCE = "ch.tbd.kafka.backuprestore.restore.kafkaconnect.RestoreSourceConnector"
GOOD = {"connector.class": SINK, "name": "x", "topics": "a", "s3.bucket.name": "some-bucket"}


@pytest.fixture
def definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Definitions:
    for variable in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "config").write_text("[profile there]\nregion = eu-central-1\n")
    lines = {
        "bootstrap.servers": "kafka:9092",
        "kafkeep.allowed.folders": str(tmp_path),
        "connector.client.config.override.policy": "All",
    }
    worker = WorkerOptions.load(None, {}, lines)
    return Definitions(
        providers=worker.providers,
        restrictions=lambda config: check_connector(config, worker),
        machine=lambda config: machine_problems(config, worker),
    )


def errors_of(definitions: Definitions, more: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the errors of a configuration by key; POST must refuse what validate refuses."""
    config = {**GOOD, **more}
    answer: dict[str, Any] = definitions.validate(config["connector.class"], config)
    found = {one["value"]["name"]: one["value"]["errors"] for one in answer["configs"]}
    errors = {key: texts for key, texts in found.items() if texts}
    if errors:
        with pytest.raises(RestError) as caught:
            definitions.checked("x", config, None)
        assert all(text in caught.value.message for texts in errors.values() for text in texts)
    else:
        definitions.checked("x", config, None)
    return errors


@pytest.mark.parametrize("name", [SINK, SOURCE])
def test_a_missing_profile_is_an_error_of_its_key(definitions: Definitions, name: str) -> None:
    there = {"connector.class": name, "s3.profile.name": "there"}
    assert errors_of(definitions, there) == {}
    errors = errors_of(definitions, {**there, "s3.profile.name": "gone"})
    assert list(errors) == ["s3.profile.name"]
    assert "no profile gone" in errors["s3.profile.name"][0]


@pytest.mark.parametrize("name", [SINK, SOURCE])
def test_an_unusable_proxy_is_an_error_of_its_key(definitions: Definitions, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        listening = {"connector.class": name, "s3.proxy.url": proxy}
        assert errors_of(definitions, listening) == {}
    assert list(errors_of(definitions, listening)) == ["s3.proxy.url"]
    for text in ("http://proxy:no-port", "http://proxy:0", "http://proxy:99999"):
        assert list(errors_of(definitions, {"s3.proxy.url": text})) == ["s3.proxy.url"]


def test_a_proxy_that_the_guard_refuses_is_not_called(
    definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *args, **_more: called.append(args))
    assert "s3.proxy.url" in errors_of(definitions, {"s3.proxy.url": "http://169.254.169.254"})
    assert called == []


def test_a_region_that_is_none_is_an_error_of_the_key_it_was_given_by(
    definitions: Definitions,
) -> None:
    assert list(errors_of(definitions, {"s3.region": "TBD"})) == ["s3.region"]
    aiven = {
        "connector.class": "io.aiven.kafka.connect.s3.S3SinkConnector",
        "aws.s3.region": "TBD",
    }
    assert list(errors_of(definitions, aiven)) == ["aws.s3.region"]
    assert errors_of(definitions, {"s3.region": "TBD", "store.url": "http://minio:9000"}) == {}


def test_a_key_store_that_cannot_be_read_is_an_error_of_its_key(
    definitions: Definitions, tmp_path: Path
) -> None:
    key = "consumer.override.ssl.truststore.location"
    given = {"consumer.override.security.protocol": "SSL", key: str(tmp_path / "gone.pem")}
    errors = errors_of(definitions, given)
    assert list(errors) == [key]
    converter = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "https://registry",
        "value.converter.schema.registry.ssl.truststore.location": str(tmp_path / "gone.pem"),
        "format.class": "avro",
        "store.envelope": "false",
    }
    assert "cannot read" in str(errors_of(definitions, converter))
