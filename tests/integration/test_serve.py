"""``kafkeep serve`` on real Kafka, S3 and Spark: connectors over REST, objects by boto3.

Every record is in one object and no other, whatever is done to connectors and services. The tests
share one state, which lies in a bucket, and run in order.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.support.cluster import Cluster
from tests.support.connect.jobs import group_offsets
from tests.support.connect.serve_processes import PARTITIONS, Service, World
from tests.support.faults.s3_proxy import Answer, FaultProxy, Rule
from tests.support.independent_client import dump
from tests.support.waiting import until

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def world(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("serve")
    made = World(services, cluster, folder / "log")
    yield made
    for service in made.running:
        service.kill()
    sys.stderr.write(made.log.read_text()[-20_000:])


@pytest.fixture(scope="module")
def service(world: World) -> Service:
    return world.start().wait_ready()


@pytest.mark.core(suite="service")
def test_pause_stop_restart_and_a_new_start_under_the_name_lose_and_double_nothing(
    world: World, service: Service
) -> None:
    topic = world.topic("story")
    config = world.config(topic)
    made = service.call("POST", "/connectors", {"name": "story", "config": config}, expect=201)
    assert made["config"]["aws.secret.access.key"] == "******"
    topic.send(2)
    topic.expect_all()
    until(lambda: service.states("story") == ("RUNNING", ["RUNNING"] * 2), "both tasks run")

    service.call("PUT", "/connectors/story/pause", expect=202)
    until(lambda: service.states("story") == ("PAUSED", ["PAUSED"] * 2), "both tasks pause")
    before = topic.sent
    topic.send(1)
    time.sleep(2.5)  # longer than a connector that runs takes
    assert len(topic.stored()) == before
    service.call("PUT", "/connectors/story/resume", expect=202)
    topic.expect_all()

    service.call("PUT", "/connectors/story/stop", expect=204)
    assert service.states("story") == ("STOPPED", [])
    assert service.call("GET", "/connectors/story/tasks") == []
    topic.send(1)
    service.call("PUT", "/connectors/story/resume", expect=202)
    restarted = service.call(
        "POST", "/connectors/story/restart?includeTasks=true&onlyFailed=false", expect=202
    )
    assert restarted["connector"]["state"] == "RESTARTING"
    topic.expect_all()

    # What was shown is sent back, masks included: nothing changes and nothing is restarted.
    shown = service.call("GET", "/connectors/story/config")
    service.call("PUT", "/connectors/story/config", shown)
    service.call("DELETE", "/connectors/story", expect=204)
    topic.send(1)
    service.call("POST", "/connectors", {"name": "story", "config": config}, expect=201)
    topic.expect_all()
    told = {"story": {"topics": [topic.name]}}
    until(lambda: service.call("GET", "/connectors/story/topics") == told, "its commit is told")


def test_a_connector_that_fails_leaves_the_one_beside_it_running_and_can_be_fixed(
    world: World, service: Service
) -> None:
    bad, good = world.topic("bad"), world.topic("good")
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    producer.produce(bad.name, value=b"{not json", partition=0)  # no object is due yet
    assert producer.flush(30) == 0
    for topic, name in ((bad, "bad"), (good, "good")):
        body = {"name": name, "config": world.config(topic)}
        service.call("POST", "/connectors", body, expect=201)
    until(lambda: "FAILED" in service.states("bad")[1], "the bad record is met")
    trace = service.call("GET", "/connectors/bad/tasks/0/status")["trace"]
    assert f"{bad.name}-0" in trace
    assert world.services.s3.secret_key not in trace
    good.send(1)
    good.expect_all()
    assert service.states("good")[0] == "RUNNING"
    assert service.call("GET", "/health")["failed"] == ["bad"]

    service.call("PATCH", "/connectors/bad/config", {"errors.tolerance": "all"})
    until(lambda: service.states("bad") == ("RUNNING", ["RUNNING"] * 2), "it is mended")
    bad.send(1)
    bad.expect_all()
    service.call("DELETE", "/connectors/bad", expect=204)


def test_a_topics_regex_that_backtracks_on_a_topic_of_45_letters_freezes_nothing(
    world: World, service: Service
) -> None:
    letters, beside = "a" * 45, world.topic("beside")
    world.cluster.create(letters)
    try:
        config = world.config(beside, **{"topics.regex": "(a+)+$" * 6 + f"|{beside.name}"})
        del config["topics"]
        service.call("POST", "/connectors", {"name": "letters", "config": config}, expect=201)
        beside.send(1)
        beside.expect_all()  # so the pattern has met every topic
        until(lambda: active_topics(service, "letters") == [beside.name], "its topic is reported")
        service.call("POST", "/connectors/letters/restart?includeTasks=true", expect=202)
        until(lambda: service.states("letters")[0] == "RUNNING", "it runs again")
        beside.send(1)
        beside.expect_all()
        service.call("DELETE", "/connectors/letters", expect=204)
    finally:
        world.cluster.delete(letters)


def active_topics(service: Service, name: str) -> list[str]:
    """The topics that a connector has archived records of."""
    return service.call("GET", f"/connectors/{name}/topics")[name]["topics"]


def has_lag(service: Service, name: str) -> bool:
    """Whether a connector has seen records that it has not archived."""
    told = service.call("GET", f"/connectors/{name}/status")
    return bool(told.get("kafkeep", {}).get("lag_records"))


def test_a_jvm_that_is_killed_is_replaced_and_connectors_continue(
    world: World, service: Service
) -> None:
    topic = world.topic("jvm")
    service.call("POST", "/connectors", {"name": "jvm", "config": world.config(topic)}, expect=201)
    topic.send(2)
    topic.expect_all()
    first = service.jvm()
    # At a niceness of its own it starved on a busy machine.
    assert os.getpriority(os.PRIO_PROCESS, first) == os.getpriority(os.PRIO_PROCESS, 0)
    topic.send(2)
    until(lambda: has_lag(service, "jvm") or len(topic.stored()) == topic.sent, "they are found")
    os.kill(first, signal.SIGKILL)
    topic.send(1)
    topic.expect_all()
    assert service.jvm() != first
    assert service.states("jvm") == ("RUNNING", ["RUNNING"] * 2)
    assert service.call("GET", "/health")["failed"] == []
    service.call("POST", "/connectors/jvm/restart?includeTasks=true", expect=202)
    topic.send(1)
    topic.expect_all()
    service.call("DELETE", "/connectors/jvm", expect=204)


def test_a_restarted_service_keeps_its_connectors_and_their_states(
    world: World, service: Service
) -> None:
    service.call("PUT", "/connectors/good/pause", expect=202)
    body = {"name": "idle", "config": world.config(world.topic("idle")), "initial_state": "STOPPED"}
    service.call("POST", "/connectors", body, expect=201)
    before = service.call("GET", "/connectors")
    assert service.end() == 0
    again = world.start().wait_ready()
    assert again.call("GET", "/connectors") == before
    assert again.states("idle") == ("STOPPED", [])
    until(lambda: again.states("good") == ("PAUSED", ["PAUSED"] * 2), "it is paused as before")
    until(lambda: again.states("story") == ("RUNNING", ["RUNNING"] * 2), "it runs as before")


def test_the_other_service_takes_over_when_the_leader_is_killed(world: World) -> None:
    leader = world.running[-1] if world.running else world.start().wait_ready()
    follower = world.start().wait_ready()
    assert leader.leads()
    assert not follower.leads()
    topic = world.topic("two")
    body = {"name": "two", "config": world.config(topic)}
    follower.call("POST", "/connectors", body, expect=201)  # carried out by the leader
    follower.call("POST", "/connectors", body, expect=409)
    until(lambda: follower.states("two") == ("RUNNING", ["RUNNING"] * 2), "the follower tells it")
    until(lambda: "kafkeep" in follower.call("GET", "/connectors/two/status"), "so is its lag")
    seen = [one.call("GET", "/connectors/two/status") for one in (follower, leader)]
    lags = [one.pop("kafkeep") for one in seen]
    assert seen[0] == seen[1]
    assert [(one["lag_records"], one["gaps"]["count"]) for one in lags] == [(0, 0)] * 2
    logger = "/admin/loggers/kafkeep.connect.service.leader"
    follower.call("PUT", f"{logger}?scope=cluster", {"level": "DEBUG"}, expect=204)
    assert leader.call("GET", logger)["level"] == "DEBUG"
    leader.call("PUT", f"{logger}?scope=cluster", {"level": "ERROR"}, expect=204)
    until(lambda: bool(follower.call("GET", logger)["level"] == "ERROR"), "the follower hears it")
    topic.send(1)
    topic.expect_all()
    source = world.source(topic, "two")
    leader.call("POST", "/connectors", {"name": "back", "config": source}, expect=201)
    until(lambda: bool(world.cluster.partitions(f"{topic.name}-back")), "some come back")
    for _ in range(4):
        topic.send(2)
        time.sleep(0.3)
    leader.kill()
    world.damage_newest_heartbeat()
    topic.send(3)
    until(follower.leads, "the follower leads")
    topic.send(2)
    topic.expect_all()
    assert follower.states("two")[0] == "RUNNING"
    ends = {(topic.name, number): topic.sent // PARTITIONS for number in range(PARTITIONS)}
    told = "connect-two"
    until(lambda: group_offsets(world.cluster, told, topic.name) == ends, "its group is at the end")
    back = f"{topic.name}-back"
    for number in range(PARTITIONS):
        until(lambda n=number: world.cluster.end(back, n) >= ends[topic.name, n], "all came back")
    kept, found = (dump(world.cluster.bootstrap, name) for name in (topic.name, back))
    assert {n: [one.value for one in all_] for n, all_ in found.items()} == {
        n: [one.value for one in all_] for n, all_ in kept.items()
    }
    for name in ("two", "back"):
        follower.call("PUT", f"/connectors/{name}/stop", expect=204)


def test_a_service_ends_in_time_while_a_store_fails_and_nothing_is_half_done(world: World) -> None:
    service, topic = world.running[-1], world.topic("failing")
    with FaultProxy(world.services.s3.endpoint) as proxy:
        proxy.add(
            Rule(Answer(503, "SlowDown"), method="PUT", path=f"/{world.folder}/{topic.name}/")
        )
        config = world.config(topic, **{"store.url": proxy.url})
        service.call("POST", "/connectors", {"name": "failing", "config": config}, expect=201)
        topic.send(1)
        until(lambda: proxy.rules[0].applied > 1, "a task tries to store")
        before = world.log.stat().st_size
        began = time.monotonic()
        assert service.end() == 0
        assert time.monotonic() - began < 45  # trying again would go on for a minute
        assert "did not finish in time" not in world.log.read_text()[before:]
    # What it could not finish is not half there: the next one to lead begins it again.
    assert topic.stored() == []
    reached = group_offsets(world.cluster, "connect-failing", topic.name)
    assert set(reached.values()) <= {0}, reached
