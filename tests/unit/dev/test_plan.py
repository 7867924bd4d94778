from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kafkeep.dev import start, status, stop
from kafkeep.dev.broker import broker_properties
from kafkeep.dev.kafka_version import DEFAULT_KAFKA
from kafkeep.dev.plan import plan_state
from kafkeep.dev.process import Ports, Server
from kafkeep.dev.state import DevOptions, DevState, load_state, save_state
from kafkeep.errors import UsageError

# This very process stands in for a server that runs: its command line holds the interpreter.
_RUNNING = Server("broker-1", os.getpid(), "broker-1.log", Path(sys.executable).name)
_DEAD = Server("broker-1", os.getpid(), "broker-1.log", "in no command line")


def plan(options: DevOptions, stored: DevState | None) -> DevState:
    with Ports() as ports:
        return plan_state(options, stored, ports)


def test_stopped_environment_keeps_its_ports_and_cluster_id(tmp_path: Path) -> None:
    options = DevOptions(folder=tmp_path, brokers=3)
    first = plan(options, None)
    assert plan(options, first) == first


def test_state_survives_the_folder(tmp_path: Path) -> None:
    state = plan(DevOptions(folder=tmp_path, secure=True), None)
    state.servers["broker-1"] = _RUNNING
    save_state(tmp_path, state)
    assert load_state(tmp_path) == state


def test_state_is_none_where_nothing_was_started(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None


@pytest.mark.parametrize("text", ["", "garbage", "[1]", '"x"'])
def test_state_that_is_none_of_ours_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(UsageError, match=r"state\.json is not readable"):
        load_state(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="Not a directory"):
        load_state(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot make folder"):
        start(DevOptions(folder=tmp_path / "file"))


def test_number_of_brokers_cannot_change_under_the_data(tmp_path: Path) -> None:
    stored = plan(DevOptions(folder=tmp_path), None)
    with pytest.raises(UsageError, match="brokers=1, not 3"):
        plan(DevOptions(folder=tmp_path, brokers=3), stored)


def test_registry_can_be_added_later(tmp_path: Path) -> None:
    stored = plan(DevOptions(folder=tmp_path), None)
    later = plan(DevOptions(folder=tmp_path, registry=True), stored)
    assert later.registry
    assert set(later.ports) - set(stored.ports) == {"registry"}


def test_a_started_registry_is_not_remembered_for_ever(tmp_path: Path) -> None:
    asked, plain = DevOptions(folder=tmp_path, registry=True), DevOptions(folder=tmp_path)
    first = plan(asked, None)
    running = replace(first, servers={"registry": replace(_RUNNING, name="registry")})
    assert plan(plain, running).registry
    ended = replace(first, servers={"registry": replace(_DEAD, name="registry")})
    without = plan(plain, ended)
    assert not without.registry
    assert plan(asked, without).ports["registry"] == first.ports["registry"]

    save_state(tmp_path, first)
    stopped = stop(tmp_path)
    assert stopped is not None
    assert stopped.registry is not None
    assert status(tmp_path).registry is None


def test_a_port_for_a_registry_that_does_not_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no registry starts"):
        plan(DevOptions(folder=tmp_path, registry_port=19393), None)


def test_asked_ports_are_used(tmp_path: Path) -> None:
    with Ports() as free:
        kafka, s3 = free.take(), free.take()
    options = DevOptions(folder=tmp_path, kafka_port=kafka, s3_port=s3)
    ports = plan(options, None).ports
    assert (ports["broker-1"], ports["s3"]) == (kafka, s3)


def test_running_server_is_kept_and_a_dead_one_dropped(tmp_path: Path) -> None:
    options = DevOptions(folder=tmp_path)
    stored = plan(options, None)
    assert plan(options, replace(stored, servers={"broker-1": _RUNNING})).servers
    assert not plan(options, replace(stored, servers={"broker-1": _DEAD})).servers


def test_running_server_is_not_moved_to_another_port(tmp_path: Path) -> None:
    stored = plan(DevOptions(folder=tmp_path), None)
    running = replace(stored, servers={"broker-1": _RUNNING})
    with pytest.raises(UsageError, match="already runs on port"):
        plan(DevOptions(folder=tmp_path, kafka_port=19392), running)


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (3, "3", "2")])
def test_internal_topics_are_replicated_as_far_as_brokers_go(
    tmp_path: Path, brokers: int, replicas: str, in_sync: str
) -> None:
    state = plan(DevOptions(folder=tmp_path, brokers=brokers), None)
    properties = broker_properties(tmp_path, state, 1)
    assert properties["offsets.topic.replication.factor"] == replicas
    assert properties["transaction.state.log.min.isr"] == in_sync
    assert properties["controller.quorum.voters"].count("@127.0.0.1:") == brokers


def test_listeners_are_on_the_loopback_address_alone(tmp_path: Path) -> None:
    state = plan(DevOptions(folder=tmp_path, secure=True), None)
    listeners = broker_properties(tmp_path, state, 1)["listeners"].split(",")
    assert [one.split("://")[0] for one in listeners] == [
        "PLAINTEXT", "SASL_SSL", "TLS", "MTLS", "CONTROLLER",
    ]  # fmt: skip
    assert all("://127.0.0.1:" in one for one in listeners)


def test_own_broker_properties_win(tmp_path: Path) -> None:
    options = DevOptions(folder=tmp_path, broker_properties={"message.max.bytes": "1000"})
    state = plan(options, None)
    assert broker_properties(tmp_path, state, 1)["message.max.bytes"] == "1000"


def test_the_release_of_kafka_stays_that_of_the_folder(tmp_path: Path) -> None:
    stored = plan(DevOptions(folder=tmp_path, kafka="3.9.1"), None)
    assert plan(DevOptions(folder=tmp_path), stored).kafka == "3.9.1"
    with pytest.raises(UsageError, match=r"kafka=3\.9\.1, not 4\.1\.0"):
        plan(DevOptions(folder=tmp_path, kafka="4.1.0"), stored)


def test_a_folder_of_before_kafka_could_be_chosen_holds_the_default(tmp_path: Path) -> None:
    save_state(tmp_path, plan(DevOptions(folder=tmp_path), None))
    document = json.loads((tmp_path / "state.json").read_text())
    del document["kafka"]
    (tmp_path / "state.json").write_text(json.dumps(document))
    state = load_state(tmp_path)
    assert state is not None
    assert state.kafka == DEFAULT_KAFKA


@pytest.mark.parametrize(
    ("kafka", "secure", "expected"),
    [
        ("2.8.2", False, True),
        ("3.3.2", False, False),
        ("3.3.2", True, True),
        ("3.9.1", True, False),
    ],
)
def test_brokers_get_zookeeper_where_their_release_needs_it(
    tmp_path: Path, kafka: str, secure: bool, expected: bool
) -> None:
    state = plan(DevOptions(folder=tmp_path, kafka=kafka, secure=secure, brokers=3), None)
    properties = broker_properties(tmp_path, state, 2)
    assert ("zookeeper" in state.ports) is expected
    assert ("controller-2" in state.ports) is not expected
    assert ("zookeeper.connect" in properties) is expected
    assert ("controller.quorum.voters" in properties) is not expected
    assert ("CONTROLLER" in properties["listeners"]) is not expected
    assert ("authorizer.class.name" in properties) is secure
