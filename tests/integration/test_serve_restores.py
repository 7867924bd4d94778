"""Restores through REST: killed, paused, refused and proven, on real Kafka, S3 and Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.support.cluster import Cluster
from tests.support.connect.serve_processes import PARTITIONS, Service, Topic, World
from tests.support.faults.s3_proxy import Answer, FaultProxy, Rule
from tests.support.independent_client import assert_same, dump
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration
RECORDS = 3_000
"""Of half a kilobyte each, in each partition: a few seconds at ``RATE``."""
RATE = "200KiB"
SLOW = "80KiB"
"""So that it is not done in the seconds that running tasks may take after a pause."""
API = "/kafkeep/v1/restores"


@pytest.fixture(scope="module")
def world(services: DevStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    cluster = Cluster(services.bootstrap_servers)
    made = World(services, cluster, tmp_path_factory.mktemp("restores") / "log")
    yield made
    for service in made.running:
        service.kill()
    sys.stderr.write(made.log.read_text()[-10_000:])


def long_text(number: int) -> str:
    return f"{number:08}" * 64


def card(number: int) -> str:
    return json.dumps({"number": number, "card": str(number)})


def backup(
    world: World,
    service: Service,
    name: str,
    records: int = RECORDS,
    value: Callable[[int], str] = long_text,
) -> Topic:
    """Fill a topic, let a connector archive it, and wait until all of it is."""
    topic = world.topic(name)
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    for number in range(records):
        for partition in range(PARTITIONS):
            producer.produce(topic.name, value(number), key=str(number), partition=partition)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    kept = ("topics", "s3.region", "store.url", "aws.")
    config = {k: v for k, v in world.config(topic).items() if k.startswith(kept)}
    del config["topics.dir"]
    archive = f"s3://{world.services.s3.bucket}/{world.folder}-{name}"
    config |= {"connector.class": "kafkeep.Backup", "archive": archive}
    service.call("POST", "/connectors", {"name": name, "config": config}, expect=201)
    wanted = records * PARTITIONS
    until(lambda: archived(service, name) == wanted, f"{wanted} records are archived")
    return topic


def archived(service: Service, name: str) -> int:
    points = service.call("GET", f"/kafkeep/v1/connectors/{name}/growth")["points"]
    return int(points[-1]["records"]) if points else 0


def archive_of(service: Service, name: str) -> str:
    found = service.call("GET", "/kafkeep/v1/archives")["archives"]
    return next(one["id"] for one in found if name in one["connectors"])


def create(service: Service, name: str, **asked: str) -> str:
    body = {"config": {"archive.id": archive_of(service, name), **asked}}
    return str(service.call("POST", API, body, expect=201)["id"])


def state_of(service: Service, id: str) -> Any:
    return service.call("GET", f"{API}/{id}")


def wait(service: Service, id: str, state: str, path: str = "") -> Any:
    def reached() -> Any:
        found = service.call("GET", f"{API}/{id}{path}")
        assert found["state"] in (state, "queued", "running", "paused"), found["error"]
        return found if found["state"] == state and not found["is_stopping"] else None

    return until(reached, f"the restore is {state}")


def act(service: Service, id: str, action: str) -> Any:
    return service.call("POST", f"{API}/{id}/{action}", expect=202)


def written(service: Service, id: str) -> int:
    progress = state_of(service, id)["progress"]
    return progress["done"] if progress is not None else 0


def test_a_restore_outlives_kill_9_of_its_service_and_writes_each_record_once(
    world: World,
) -> None:
    service = world.start().wait_ready()
    topic = backup(world, service, "killed")
    target = f"{topic.name}-back"
    id = create(service, "killed", topics=f"{topic.name}:{target}", **{"restore.rate": RATE})
    plan = service.call("GET", f"{API}/{id}/plan")
    assert plan["records"] == RECORDS * PARTITIONS
    assert {check["verdict"] for check in plan["preflight"]} == {"pass"}
    assert world.cluster.partitions(target) == []
    act(service, id, "start")
    until(lambda: written(service, id) > 0, "records are written")
    service.kill()

    again = world.start().wait_ready()
    assert state_of(again, id)["state"] == "running"
    done = wait(again, id, "done")
    assert done["verdict"] == "good"
    assert 0 < done["result"]["already_there"] < RECORDS * PARTITIONS, "it was killed in between"
    source, found = (dump(world.services.bootstrap_servers, t) for t in (topic.name, target))
    assert_same(source, found)
    assert sum(map(len, found.values())) == RECORDS * PARTITIONS

    act(again, id, "proof")
    proven = wait(again, id, "done", "/proof")
    assert (proven["verdict"], proven["result"]["matched"]) == ("good", RECORDS * PARTITIONS)
    assert again.call("GET", f"{API}/{id}/proof/report")["verdict"] == "clean"
    assert again.call("GET", f"{API}/{id}/report")["verdict"] == "done"


def test_a_refused_restore_says_why_and_a_paused_one_continues(world: World) -> None:
    service = world.running[-1]
    topic = f"killed-{world.folder}"
    refused = create(service, "killed", topics=topic)
    checks = service.call("GET", f"{API}/{refused}/plan")["preflight"]
    assert [check["what"] for check in checks if check["verdict"] == "fail"] == ["it is not empty"]
    act(service, refused, "start")
    failed = until(lambda: _in_state(service, refused, "failed"), "preflight refuses it")
    assert failed["error"] == f"{topic}: it is not empty"
    assert "restore.into.non.empty" in failed["hint"]

    target = f"{topic}-paused"
    id = create(service, "killed", topics=f"{topic}:{target}", **{"restore.rate": SLOW})
    act(service, id, "start")
    until(lambda: written(service, id) > 0, "records are written")
    assert act(service, id, "pause")["state"] == "paused"
    paused = until(lambda: _rests(service, id), "its work ends")
    assert 0 < paused["progress"]["done"] < RECORDS * PARTITIONS
    act(service, id, "resume")
    wait(service, id, "done")
    found = dump(world.services.bootstrap_servers, target)
    assert_same(dump(world.services.bootstrap_servers, topic), found)

    service.call("DELETE", f"{API}/{refused}", expect=204)
    service.call("GET", f"{API}/{refused}", expect=404)


def test_a_restore_from_a_read_only_archive_keeps_its_state_in_the_service(world: World) -> None:
    service, s3 = world.running[-1], world.services.s3
    topic = f"killed-{world.folder}"
    with FaultProxy(s3.endpoint) as proxy:
        proxy.add(Rule(Answer(403, "AccessDenied"), method="PUT|POST|DELETE"))
        asked = {
            "archive": f"s3://{s3.bucket}/{world.folder}-killed",
            "store.url": proxy.url,
            "s3.region": s3.region,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
            "topics": f"{topic}:{topic}-read-only",
            "restore.rate": RATE,
        }
        refused = service.call("POST", API, {"config": asked}, expect=201)["id"]
        act(service, refused, "start")
        failed = until(lambda: _in_state(service, refused, "failed"), "the archive is read-only")
        assert "restore.state" in failed["hint"]
        assert world.cluster.partitions(f"{topic}-read-only") == []

        kept = {**asked, "restore.state": "service"}
        id = service.call("POST", API, {"config": kept}, expect=201)["id"]
        act(service, id, "start")
        until(lambda: written(service, id) > 0, "records are written")
        service.kill()
        again = world.start().wait_ready()
        done = wait(again, id, "done")
        assert 0 < done["result"]["already_there"] < RECORDS * PARTITIONS, "it was killed between"
        act(again, id, "proof")
        assert wait(again, id, "done", "/proof")["verdict"] == "good"
    source, found = (
        dump(world.services.bootstrap_servers, t) for t in (topic, f"{topic}-read-only")
    )
    assert_same(source, found)


def test_a_proof_applies_the_transforms_of_its_restore(world: World) -> None:
    service = world.running[-1]
    topic = backup(world, service, "masked", records=50, value=card)
    target = f"{topic.name}-masked"
    id = create(
        service,
        "masked",
        topics=f"{topic.name}:{target}",
        **{
            "transforms": "mask",
            "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
            "transforms.mask.fields": "card",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        },
    )
    act(service, id, "start")
    wait(service, id, "done")
    found = dump(world.services.bootstrap_servers, target)
    assert {json.loads(one.value)["card"] for some in found.values() for one in some} == {""}
    act(service, id, "proof")
    proven = wait(service, id, "done", "/proof")
    assert (proven["verdict"], proven["result"]["matched"]) == ("good", 50 * PARTITIONS)

    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    producer.produce(target, b'{"number": 0, "card": "0"}', key=b"0", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    act(service, id, "proof")
    proven = wait(service, id, "done", "/proof")
    assert (proven["verdict"], proven["result"]["matched"]) == ("warn", 50 * PARTITIONS)
    assert proven["result"]["found"] == 50 * PARTITIONS + 1


def _in_state(service: Service, id: str, state: str) -> Any:
    found = state_of(service, id)
    return found if found["state"] == state else None


def _rests(service: Service, id: str) -> Any:
    found = state_of(service, id)
    return None if found["is_stopping"] else found
