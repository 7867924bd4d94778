"""TLS, mTLS and SASL by a client.properties file, as Kafka's own tools take it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import Outcome, kafkeep

from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin, TopicRight, topic_rights
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

pytestmark = [
    pytest.mark.integration,
    pytest.mark.core(suite="secured"),
    pytest.mark.usefixtures("spark"),
]


@pytest.fixture(scope="module")
def secured(secure_services: DevStatus) -> Iterator[tuple[DevStatus, Cluster]]:
    yield secure_services, Cluster(secure_services.bootstrap_servers)


def run(services: DevStatus, way: str, verb: str, archive: Path, *arguments: object) -> Outcome:
    door = services.secured(way)
    return kafkeep(
        verb,
        *("--bootstrap-servers", door.bootstrap_servers),
        *("--command-config", door.properties_file, "--archive", archive, "--output", "json"),
        *arguments,
    )


def test_everything_works_over_tls_with_scram(
    secured: tuple[DevStatus, Cluster], topic_name: str, local_archive: Path
) -> None:
    services, cluster = secured
    cluster.create(topic_name, 3, {"retention.ms": "900000000"})
    for partition in range(3):
        cluster.fill(topic_name, 2000, partition=partition)
    cluster.transaction(topic_name, ["kept"] * 5, commit=True)
    cluster.transaction(topic_name, ["gone"] * 5, commit=False)
    cluster.commit_offset(f"{topic_name}-group", topic_name, 10)
    before = dump(cluster.bootstrap, topic_name)
    run(services, "scram", "backup", local_archive, "--topics", topic_name).expect(0)
    cluster.delete(topic_name)
    run(services, "scram", "restore", local_archive).expect(0)
    assert_same(before, dump(cluster.bootstrap, topic_name))


@pytest.mark.parametrize("way", ["scram256", "plain", "tls", "tls-jks", "tls-pkcs12", "mtls"])
def test_every_way_in_backs_up(
    secured: tuple[DevStatus, Cluster], topic_name: str, local_archive: Path, way: str
) -> None:
    services, cluster = secured
    if way not in {one.name for one in services.secure}:
        pytest.skip("keytool is not there to make this trust store")
    cluster.create(topic_name)
    cluster.fill(topic_name, 20)
    done = run(services, way, "backup", local_archive, "--topics", topic_name).expect(0)
    assert done.json["records"] == 20


def test_a_user_without_rights_gets_the_denied_operation(
    secured: tuple[DevStatus, Cluster], topic_name: str, local_archive: Path
) -> None:
    services, cluster = secured
    cluster.create(topic_name)
    denied = run(services, "limited", "backup", local_archive, "--topics", topic_name).expect(12)
    assert topic_name in denied.stderr
    assert "Traceback" not in denied.stderr and "secret" not in denied.stderr
    assert list(local_archive.iterdir()) == []


def test_a_restore_without_rights_fails_in_the_preflight_and_makes_nothing(
    secured: tuple[DevStatus, Cluster], topic_name: str, local_archive: Path
) -> None:
    services, cluster = secured
    cluster.create(topic_name)
    cluster.fill(topic_name, 5)
    run(services, "scram", "backup", local_archive, "--topics", topic_name).expect(0)
    new = ("--topics", f"{topic_name}:{topic_name}-new", "--dry-run")
    plan = run(services, "scram", "restore", local_archive, *new).expect(0).json
    assert {check["verdict"] for check in plan["preflight"]} == {"pass"}
    denied = run(services, "limited", "restore", local_archive, *new[:2]).expect(12)
    assert f"create topic {topic_name}-new" in denied.stderr
    assert not (local_archive / "_kafkeep" / "restores").exists()
    assert not cluster.partitions(f"{topic_name}-new")
    with Wire(KafkaOptions(cluster.bootstrap)) as wire:
        assert topic_rights(Admin(wire), [topic_name]) == {topic_name: frozenset(TopicRight)}


def test_a_wrong_password_is_12_and_never_shown(
    secured: tuple[DevStatus, Cluster], local_archive: Path, tmp_path: Path
) -> None:
    services, _ = secured
    door = services.secured("scram")
    wrong = tmp_path / "wrong.properties"
    text = Path(door.properties_file).read_text()
    wrong.write_text(text.replace("kafkeep-secret", "not-the-password"))
    outcome = kafkeep(
        "backup",
        *("--bootstrap-servers", door.bootstrap_servers, "--archive", local_archive),
        *("--command-config", wrong, "--topics", "any"),
    ).expect(12)
    assert "not-the-password" not in outcome.stderr and "Traceback" not in outcome.stderr
