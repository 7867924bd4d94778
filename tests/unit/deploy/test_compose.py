"""The Compose files fit the code, and the documents their readers have in hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tests.support.deploy_files import (
    COMPOSE,
    DEPLOY,
    DOCKERFILE,
    ROOT,
    check_command,
    load_compose,
    started_services,
    worker_of,
)

from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.worker.sinetstream_env import (
    DEFAULTS,
    REQUIRED,
    read_env_file,
    sinetstream_connectors,
)


def _waits(service: dict[str, Any]) -> list[str]:
    return list(service.get("depends_on", []))


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_compose_services_name_what_is_there(path: Path) -> None:
    compose = load_compose(path)
    services = compose["services"]
    for service in services.values():
        depends = service.get("depends_on", [])
        assert set(depends) <= set(services)
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("."):
                made = source in ("./data", "./.env")  # by Docker, and by the user
                assert made or (path.parent / source).is_file(), source
            else:
                assert source in compose["volumes"]
        if "build" in service:
            context = (path.parent / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()
            assert context == ROOT


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_compose_opens_ports_to_this_machine_alone_and_each_once(path: Path) -> None:
    ports = [p for s in load_compose(path)["services"].values() for p in s.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len(set(ports)) == len(ports)


def test_compose_commands_are_ones_there_are() -> None:
    for path in COMPOSE:
        command = load_compose(path)["services"]["kafka-connect"]["command"]
        check_command(["kafkeep", *command])


def test_compose_has_the_services_people_expect() -> None:
    services = load_compose(COMPOSE[0])["services"]
    assert set(started_services(services)) == {"kafka", "minio", "kafka-connect", "kafka-ui"}
    assert set(started_services(services, "minio")) == set(started_services(services))
    assert set(services) - set(started_services(services)) == {"seaweedfs", "create-bucket"}


@pytest.mark.parametrize(
    ("container", "program"),
    [
        ("kafka", "/opt/kafka/bin/kafka-topics.sh"),
        ("kafka", "/opt/kafka/bin/kafka-console-producer.sh"),
        ("kafka", "/opt/kafka/bin/kafka-consumer-groups.sh"),
        ("minio", "mc"),
        ("kafka-connect", "env"),
        ("kafka-connect", "curl"),
    ],
)
def test_the_exercises_docker_exec_finds_container_and_program(
    container: str, program: str
) -> None:
    services = started_services(load_compose(COMPOSE[0])["services"])
    assert services[container]["container_name"] == container
    known = {
        "kafka": "apache/kafka:",  # Kafka lies in /opt/kafka
        "minio": "minio/minio:",  # mc is in it
        "kafka-connect": "kafkeep:",
    }
    assert services[container]["image"].startswith(known[container])
    if program == "curl":
        assert re.search(r"apt-get install .*\bcurl\b", DOCKERFILE)


@pytest.mark.parametrize(
    ("container", "port"),
    [
        ("kafka", 9092),
        ("minio", 9000),
        ("minio", 9001),
        ("kafka-connect", 8083),
        ("kafka-ui", 8080),
    ],
)
def test_the_exercises_addresses_are_open_on_this_machine(container: str, port: int) -> None:
    service = started_services(load_compose(COMPOSE[0])["services"])[container]
    assert str(port) in [one.split(":")[1] for one in service["ports"]]


def test_the_exercises_login_alias_and_bucket_are_those_of_its_minio() -> None:
    services = started_services(
        load_compose(COMPOSE[0], {"AWS_ACCESS_KEY_ID": "of my shell"})["services"]
    )
    minio, connect = services["minio"]["environment"], services["kafka-connect"]["environment"]
    assert (minio["MINIO_ROOT_USER"], minio["MINIO_ROOT_PASSWORD"]) == ("minioadmin", "minioadmin")
    # "docker exec minio mc mb minio/kafka-backup": the alias is known, the bucket is not there yet.
    assert minio["MC_HOST_minio"] == "http://minioadmin:minioadmin@localhost:9000"
    assert "create-bucket" not in services
    assert connect["AWS_ACCESS_KEY_ID"] == connect["AWS_SECRET_ACCESS_KEY"] == "minioadmin"
    assert connect["AWS_ENDPOINT_URL_S3"] == "http://minio:9000"


def test_the_exercises_docker_logs_can_be_searched() -> None:
    """What goes to stderr passes by a pipe behind ``docker logs``."""
    service = load_compose(COMPOSE[0])["services"]["kafka-connect"]
    *start, script, name = [one.replace("$$", "$") for one in service["entrypoint"]]
    assert start == ["tini", "--", "sh", "-c"]
    program = script.replace("kafkeep", "printf")
    said = subprocess.run(
        ["sh", "-c", program, name, "%q is no form"], capture_output=True, text=True, check=False
    )
    assert (said.stderr, bool(said.stdout)) == ("", True)


def test_the_exercises_connector_is_one_of_ours_and_names_services_there_are() -> None:
    document = json.loads((DEPLOY / "s3-sink-connector.json").read_text())
    config = document["config"]
    ConnectorConfig.from_map(config, name=document["name"], environ={})
    assert document["name"] == "s3-sink"
    assert (config["topics"], config["s3.bucket.name"]) == ("orders,events", "kafka-backup")
    assert (config["flush.size"], config["rotate.interval.ms"]) == ("5", "60000")
    assert urlsplit(config["store.url"]).netloc == "minio:9000"


@pytest.mark.parametrize("profile", [None, "minio", "seaweedfs"])
@pytest.mark.parametrize("named", [False, True])
def test_compose_points_only_at_services_of_its_profile(profile: str | None, named: bool) -> None:
    """As it was described, the profile ``minio`` pointed kafkeep at ``kafka.example.org``."""
    given = read_env_file(DEPLOY / "sinetstream" / "example.env") if named else {}
    if profile == "seaweedfs":
        given["S3_ENDPOINT_URL"] = "http://seaweedfs:8333"
    services = started_services(load_compose(COMPOSE[0], given)["services"], profile)
    worker = worker_of(services["kafka-connect"])
    hosts = {worker.kafka.bootstrap_servers.partition(":")[0]}
    for service in services.values():
        for name, text in service.get("environment", {}).items():
            if name.endswith(("_BOOTSTRAPSERVERS", "_ADDRESS")) or name.startswith("AWS_ENDPOINT"):
                hosts.add((urlsplit(text).hostname or text).partition(":")[0])
    assert hosts <= set(services)
    assert "kafka" in hosts


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_minio_reports_whether_it_is_healthy(path: Path) -> None:
    services = load_compose(path)["services"]
    assert services["minio"]["healthcheck"]["test"] == ["CMD", "mc", "ready", "local"]
    waiting = [one["depends_on"]["minio"] for one in services.values() if "minio" in _waits(one)]
    assert waiting == [{"condition": "service_healthy"}]


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_our_image_is_built_and_not_pulled(path: Path) -> None:
    for service in load_compose(path)["services"].values():
        if service["image"].startswith("kafkeep"):
            assert service["pull_policy"] == "build"


def test_the_worker_in_compose_is_one_that_starts() -> None:
    services = load_compose(COMPOSE[0])["services"]
    worker = worker_of(services["kafka-connect"])
    assert worker.notes == ()
    assert worker.kafka.bootstrap_servers == "kafka:9092"
    assert [str(one) for one in worker.rest.listening] == ["http://0.0.0.0:8083"]
    ui = services["kafka-ui"]["environment"]
    assert ui["KAFKA_CLUSTERS_0_KAFKACONNECT_0_ADDRESS"] == worker.rest.url()
    assert worker.security.allows_host("kafka-connect:8083")
    assert worker.security.allows_host("localhost:8083")
    assert services["kafka-connect"]["hostname"] == worker.rest.advertised_host


def test_kafka_sends_clients_inside_and_outside_to_where_they_can_go() -> None:
    kafka = load_compose(COMPOSE[0])["services"]["kafka"]
    [(_, outside, inside)] = [port.split(":") for port in kafka["ports"]]
    listeners, advertised = (
        dict(one.split("://") for one in kafka["environment"][name].split(","))
        for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
    )
    assert advertised == {"PLAINTEXT": "kafka:9092", "HOST": f"localhost:{outside}"}
    assert listeners["PLAINTEXT"] == ":9092"  # also for the tools in the container, at localhost
    assert listeners["HOST"] == f":{inside}"


def test_the_state_in_compose_lies_on_a_volume() -> None:
    for path in COMPOSE:
        service = next(
            s
            for s in load_compose(path)["services"].values()
            if "CONNECT_REST_ADVERTISED_HOST_NAME" in s.get("environment", {})
        )
        [target] = [m.split(":")[1] for m in service["volumes"] if not m.startswith(".")]
        environ = {"CONNECT_BOOTSTRAP_SERVERS": "kafka:9092", **service["environment"]}
        state = worker_of({"environment": environ}).state_address
        assert state.startswith(target + "/")


def test_seaweedfs_in_compose_takes_the_keys_that_connectors_and_the_bucket_use() -> None:
    services = load_compose(COMPOSE[0], {"S3_ENDPOINT_URL": "http://seaweedfs:8333"})["services"]
    keys = json.loads((DEPLOY / "s3.json").read_text())["identities"][0]["credentials"][0]
    for name in ("create-bucket", "kafka-connect"):
        environ = services[name]["environment"]
        assert environ["AWS_ACCESS_KEY_ID"] == keys["accessKey"]
        assert environ["AWS_SECRET_ACCESS_KEY"] == keys["secretKey"]
        assert environ["AWS_ENDPOINT_URL_S3"] == "http://seaweedfs:8333"
    command = services["seaweedfs"]["command"]
    assert "-s3.port=8333" in command
    assert "-s3.config=/etc/kafkeep/s3.json" in command


def test_sinetstreams_minio_takes_the_keys_of_its_env() -> None:
    values = read_env_file(DEPLOY / "sinetstream" / "example.env")
    assert set(values) == {*REQUIRED, *DEFAULTS, "S3_ENDPOINT_URL"}
    sinetstream_connectors(values)
    services = load_compose(COMPOSE[1], values)["services"]
    assert urlsplit(values["S3_ENDPOINT_URL"]).netloc == "minio:9000"
    bucket, minio = (services[one]["environment"] for one in ("create-bucket", "minio"))
    assert bucket["AWS_ENDPOINT_URL_S3"] == values["S3_ENDPOINT_URL"]
    assert bucket["AWS_SECRET_ACCESS_KEY"] == values["AWS_SECRET_KEY"]
    assert minio["MINIO_ROOT_USER"] == values["AWS_ACCESS_KEY_ID"]
    assert minio["MINIO_ROOT_PASSWORD"] == values["AWS_SECRET_KEY"]


def test_sinetstreams_set_up_explains_extra_hosts_and_has_register_sh() -> None:
    text, page = COMPOSE[1].read_text(), (ROOT / "docs" / "sinetstream.md").read_text()
    shown = re.sub(r"(?m)^( *)# (extra_hosts:| +- \")", r"\1\2", text)
    assert yaml.safe_load(shown)["services"]["kafka-connect"]["extra_hosts"] == [
        "kafka.example.org:192.168.1.100",
        "my-machine:host-gateway",
    ]
    assert "extra_hosts" in page
    script = DEPLOY / "sinetstream" / "register.sh"
    assert os.access(script, os.X_OK)
    assert "./register.sh" in text
    assert "./register.sh" in page


def test_sinetstreams_compose_is_as_its_readers_know_it() -> None:
    services = load_compose(COMPOSE[1], {"REST_PORT": "8090"})["services"]
    assert {name for name, s in services.items() if "profiles" not in s} == {"kafka-connect"}
    assert {name for name, s in services.items() if s.get("profiles") == ["minio"]} == {
        "minio",
        "create-bucket",
    }
    assert services["kafka-connect"]["ports"] == ["127.0.0.1:8090:8083"]
    environ = {**services["kafka-connect"]["environment"], "CONNECT_BOOTSTRAP_SERVERS": "k:9092"}
    worker = worker_of({"environment": environ})
    assert [str(one) for one in worker.rest.listening] == ["http://0.0.0.0:8083"]
    assert worker.rest.worker_id() == "kafka-connect:8083"
