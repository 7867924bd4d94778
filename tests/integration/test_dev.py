"""The development environment does what tests, demo and benchmarks rely on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.waiting import PATIENCE_S
from typer.testing import CliRunner

from kafkeep.cli.dev import app
from kafkeep.dev import (
    DevOptions,
    DevStatus,
    kafka_tool,
    kill_broker,
    start,
    start_broker,
    status,
    stop,
)
from kafkeep.dev.process import Ports, launch
from kafkeep.dev.state import load_state, save_state
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import require_java

pytestmark = pytest.mark.integration


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder whose environment is stopped afterwards, whatever happens."""
    own = tmp_path / "dev"
    yield own
    stop(own)


def _s3(services: DevStatus) -> object:
    return boto3.client(
        "s3",
        endpoint_url=services.s3.endpoint,
        aws_access_key_id=services.s3.access_key,
        aws_secret_access_key=services.s3.secret_key,
        region_name=services.s3.region,
    )


def _create(admin: AdminClient, topic: str, *, replicas: int = 1) -> None:
    made = admin.create_topics([NewTopic(topic, 1, replicas)])
    made[topic].result(PATIENCE_S)


def _produce(settings: dict[str, object], topic: str, value: bytes) -> None:
    producer = Producer(settings)
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


def _read_one(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    while message is not None and message.error() is not None:  # a leader is found in its time
        assert message.error().retriable(), message.error()
        message = consumer.poll(PATIENCE_S)
    consumer.close()
    return message.value() if message else None


def test_data_survives_a_killed_broker_and_down_and_up(folder: Path, topic_name: str) -> None:
    first = start(DevOptions(folder=folder))
    assert first.alive
    admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
    _create(admin, topic_name)
    _produce({"bootstrap.servers": first.bootstrap_servers}, topic_name, b"kept")
    client = _s3(first)
    client.put_object(Bucket=first.s3.bucket, Key="k", Body=b"kept")
    client.close()
    assert start(DevOptions(folder=folder)) == first  # nothing to do

    kill_broker(folder, 1)
    assert not status(folder).brokers[0].alive
    start_broker(folder, 1)
    assert status(folder).alive
    assert _read_one(first.bootstrap_servers, topic_name) == b"kept"

    stop(folder)
    down = status(folder)
    assert not down.alive
    assert not any(server.alive for server in (*down.brokers, down.s3))

    again = start(DevOptions(folder=folder))
    assert again.bootstrap_servers == first.bootstrap_servers
    assert _read_one(again.bootstrap_servers, topic_name) == b"kept"
    client = _s3(again)
    assert client.get_object(Bucket=again.s3.bucket, Key="k")["Body"].read() == b"kept"
    client.close()

    stop(folder, purge=True)
    assert not folder.exists()


def test_status_prints_one_json_document(services: DevStatus) -> None:
    result = CliRunner().invoke(app, ["status", "--folder", services.folder, "--output", "json"])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert set(document) == {
        "folder", "kafka", "bootstrap_servers", "brokers", "s3", "registry", "secure", "zookeeper",
        "alive",
    }  # fmt: skip
    assert set(document["s3"]) == {
        "kind", "endpoint", "access_key", "secret_key", "region", "bucket", "pid", "alive", "log",
        "state",
    }  # fmt: skip
    assert document["brokers"][0]["alive"] is True


def test_up_of_a_running_environment_prints_where_it_is(services: DevStatus) -> None:
    result = CliRunner().invoke(app, ["up", "--folder", services.folder])
    assert result.exit_code == 0, result.stderr
    assert services.bootstrap_servers in result.stdout
    assert f"export AWS_ENDPOINT_URL={services.s3.endpoint}" in result.stdout


def test_up_that_times_out_says_what_is_starting_and_stops_nothing(folder: Path) -> None:
    """It used to stop everything after 90 seconds, and to show it as down."""
    run = CliRunner()
    late = run.invoke(app, ["up", "--folder", str(folder), "--timeout", "1ms"])
    assert isinstance(late.exception, EnvironmentFault)
    assert "within 0.001 s" in late.exception.message
    assert "broker-1 is starting" in late.exception.message
    assert "dev down" in (late.exception.hint or "")
    seen = run.invoke(app, ["status", "--folder", str(folder)])
    assert (seen.exit_code, "down" in seen.stdout) == (1, False)
    assert re.search(r"kafka 1 .* starting", seen.stdout)
    starting = status(folder)
    assert starting.brokers[0].alive
    assert not starting.is_up

    _pretend_registry(folder)
    up = run.invoke(app, ["up", "--folder", str(folder)])  # waits for what has been started
    assert up.exit_code == 0, up.exception
    now = status(folder)
    assert [one.pid for one in now.brokers] == [one.pid for one in starting.brokers]
    assert now.states == {"s3": "up", "registry": "starting", "broker-1": "up"}
    stopped = stop(folder)
    assert stopped is not None
    assert set(stopped.states.values()) == {"down"}
    assert set(status(folder).states) == {"s3", "broker-1"}


def _pretend_registry(folder: Path) -> None:
    """Put a registry into the environment that runs and never answers."""
    state = load_state(folder)
    assert state is not None
    mark = folder / "registry"
    argv = [sys.executable, "-c", "import time; time.sleep(900)", str(mark)]
    server = launch("registry", argv, log=folder / "registry.log", mark=mark, cwd=folder)
    state.servers["registry"] = server
    with Ports() as ports:
        state.ports["registry"] = ports.take()
    save_state(folder, replace(state, registry=True))


def test_official_tools_run(services: DevStatus, topic_name: str) -> None:
    bootstrap = ["--bootstrap-server", services.bootstrap_servers]
    create = kafka_tool("kafka-topics", *bootstrap, "--create", "--topic", topic_name)
    subprocess.run(create, check=True, capture_output=True)
    asked = kafka_tool("kafka-get-offsets", *bootstrap, "--topic", topic_name)
    answer = subprocess.run(asked, check=True, capture_output=True, text=True)
    assert answer.stdout.split() == [f"{topic_name}:0:0"]


def test_missing_java_is_one_sentence(folder: Path) -> None:
    environment = {**os.environ, "PATH": "/nowhere"}
    environment.pop("JAVA_HOME", None)
    code = (
        "import sys; from kafkeep.errors import KafkeepError; from kafkeep.cli.dev import app\n"
        "try: app()\n"
        "except KafkeepError as e: print(e, file=sys.stderr); sys.exit(e.exit_code)"
    )
    argv = [sys.executable, "-c", code, "up", "--folder", str(folder)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "Java 17 or newer is required, but none was found"
    assert done.stdout == ""
    assert not folder.exists()


def test_minio_that_cannot_be_built_is_reported_before_anything_is_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKEEP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "java").symlink_to(require_java())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="MinIO needs the command go") as caught:
        start(DevOptions(folder=folder, s3="minio"))
    assert "Install Go" in (caught.value.hint or "")
    assert not folder.exists()


def test_failed_start_leaves_nothing_running(folder: Path) -> None:
    wrong = DevOptions(folder=folder, broker_properties={"num.io.threads": "none"})
    with pytest.raises(EnvironmentFault, match="broker-1") as caught:
        start(wrong)
    assert "num.io.threads" in (caught.value.hint or "")
    seen = status(folder)
    assert [seen.s3.pid, seen.brokers[0].pid] == [None, None]


def _librdkafka(services: DevStatus, name: str) -> dict[str, object]:
    """Translate a client.properties file to librdkafka's names."""
    way = services.secured(name)
    lines = Path(way.properties_file).read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    settings: dict[str, object] = {
        "bootstrap.servers": way.bootstrap_servers,
        "security.protocol": properties["security.protocol"],
        "ssl.ca.location": properties["ssl.truststore.location"],
    }
    if login := properties.get("sasl.jaas.config"):
        words = dict(word.split("=", 1) for word in login.rstrip(";").split() if "=" in word)
        settings["sasl.mechanism"] = properties["sasl.mechanism"]
        settings["sasl.username"] = words["username"].strip('"')
        settings["sasl.password"] = words["password"].strip('"')
    if own := properties.get("ssl.keystore.location"):
        settings["ssl.key.location"] = settings["ssl.certificate.location"] = own
    return settings


@pytest.mark.parametrize("name", ["scram", "scram256", "plain", "mtls", "tls"])
def test_secured_listener_takes_records(
    secure_services: DevStatus, name: str, topic_name: str
) -> None:
    settings = _librdkafka(secure_services, name)
    _create(AdminClient(settings), topic_name)
    _produce(settings, topic_name, b"secret")
    assert _read_one(secure_services.bootstrap_servers, topic_name) == b"secret"


def test_mtls_listener_refuses_a_client_without_certificate(secure_services: DevStatus) -> None:
    settings = _librdkafka(secure_services, "tls")
    settings["bootstrap.servers"] = secure_services.secured("mtls").bootstrap_servers
    with pytest.raises(KafkaException):
        AdminClient({**settings, "log_level": 0}).list_topics(timeout=3)


def test_limited_user_is_denied(secure_services: DevStatus, topic_name: str) -> None:
    with pytest.raises(KafkaException) as caught:
        _create(AdminClient(_librdkafka(secure_services, "limited")), topic_name)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("kind", ["tls-jks", "tls-pkcs12"])
def test_java_truststore_opens_the_listener(secure_services: DevStatus, kind: str) -> None:
    way = secure_services.secured(kind)
    connect = ["--bootstrap-server", way.bootstrap_servers, "--command-config", way.properties_file]
    listed = kafka_tool("kafka-topics", *connect, "--list")
    done = subprocess.run(listed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_three_brokers_survive_the_loss_of_one(folder: Path, topic_name: str) -> None:
    up = start(DevOptions(folder=folder, brokers=3))
    settings = {"bootstrap.servers": up.bootstrap_servers}
    _create(AdminClient(settings), topic_name, replicas=3)
    kill_broker(folder, 2)
    _produce(settings, topic_name, b"kept")
    start_broker(folder, 2)
    assert status(folder).alive
    assert _read_one(up.brokers[1].address, topic_name) == b"kept"


@pytest.mark.slow  # downloads 140 MB the first time
def test_registry_speaks_confluents_api_and_keeps_its_schemas(folder: Path) -> None:
    options = DevOptions(folder=folder, registry=True)
    up = start(options)
    assert up.registry
    body = json.dumps({"schema": '{"type": "string"}'}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    address = f"{up.registry.url}/subjects/orders-value/versions"
    request = urllib.request.Request(address, data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert "id" in json.load(answer)
    stop(folder)
    again = start(options)
    assert again.registry
    with urllib.request.urlopen(f"{again.registry.url}/subjects", timeout=30) as answer:
        assert json.load(answer) == ["orders-value"]
