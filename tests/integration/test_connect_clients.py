"""Connect clients that are not ours, and the examples of Kafka's own document, on a live service.

Clients from PyPI: kafka-connect-py (a library and the command ``kc``), kafka-connect-api, and
kafka-connect-healthcheck, which other programs ask whether all connectors are well. And Java's own
HTTP client, which Strimzi's operator uses.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka_connect import KafkaConnect
from kafka_connect.cli import cli as kc
from kafka_connect_api.errors import GenericConflict, GenericNotFound
from kafka_connect_api.kafka_connect_api import Api
from kafka_connect_api.kafka_connect_api import Cluster as ConnectCluster
from kafka_connect_healthcheck.health import Health
from requests import HTTPError
from tests.support.cluster import Cluster, until
from tests.support.connect.curl_service import PATIENCE, Answer, CurlService, Shelf, curl_service
from tests.support.connect.jobs import group_offsets

from kafkeep.dev import DevStatus
from kafkeep.options.spark import require_java

pytestmark = pytest.mark.integration

SINK = "io.confluent.connect.s3.S3SinkConnector"
CONNECT = "org.apache.kafka.connect."
STRINGS = CONNECT + "storage.StringConverter"


@dataclass
class Desk:
    """The service, and the hands of a test on Kafka and the bucket."""

    service: CurlService
    cluster: Cluster
    bucket: Shelf

    @property
    def url(self) -> str:
        return f"http://localhost:{self.service.port}"

    def topic(self) -> str:
        return self.cluster.create(f"orders-{uuid.uuid4().hex[:8]}")

    def config(self, topic: str, **more: str) -> dict[str, str]:
        """Return a sink that puts each record into an object of its own."""
        return {
            "connector.class": SINK,
            "tasks.max": "1",
            "topics": topic,
            **self.service.s3_keys(self.bucket.name),
            "flush.size": "1",
            "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "key.converter": STRINGS,
            "value.converter": CONNECT + "json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **{key.replace("_", "."): text for key, text in more.items()},
        }

    def send(self, topic: str, *values: object) -> None:
        self.cluster.produce(topic, [{"value": json.dumps(value)} for value in values])

    def expect_stored(self, topic: str, *values: object) -> None:
        """Wait until these values, one to an object, are all there is of a topic."""
        prefix = f"topics/{topic}/"
        until(lambda: len(self.bucket.sizes(prefix)) >= len(values), "stored", seconds=PATIENCE)
        assert list(self.bucket.lines(prefix).values()) == [[value] for value in values]

    def until_state(self, name: str, state: str) -> None:
        until(lambda: self.service.states(name) == {state}, f"{name} {state}", seconds=PATIENCE)


@pytest.fixture(scope="module")
def desk(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    bucket = Shelf(services, f"clients-{uuid.uuid4().hex[:8]}")
    bucket.client.create_bucket(Bucket=bucket.name)
    with curl_service(services, tmp_path_factory.mktemp("clients")) as service:
        yield Desk(service, cluster, bucket)
        assert service.end() == 0
    bucket.remove()


def test_kafka_connect_py_as_a_library(desk: Desk) -> None:
    client, topic = KafkaConnect(url=desk.url), desk.topic()
    assert client.get_cluster_info().keys() == {"version", "commit", "kafka_cluster_id"}
    config = desk.config(topic)
    checked = client.validate_connector_config("S3SinkConnector", {**config, "name": "copy"})
    assert checked["error_count"] == 0
    made = client.create_connector({"name": "copy", "config": config})
    assert (made["name"], made["type"]) == ("copy", "sink")
    with pytest.raises(HTTPError, match="409"):
        client.create_connector({"name": "copy", "config": config})
    desk.until_state("copy", "RUNNING")
    assert client.list_connectors() == ["copy"]
    assert client.list_connectors(expand="status", state="running").keys() == {"copy"}
    assert client.get_connector("copy")["tasks"] == [{"connector": "copy", "task": 0}]
    assert client.get_connector_config("copy")["topics"] == topic
    assert client.list_connector_tasks("copy")[0]["id"] == {"connector": "copy", "task": 0}
    assert client.get_connector_task_status("copy", 0)["state"] == "RUNNING"

    client.pause_connector("copy")
    desk.until_state("copy", "PAUSED")
    desk.send(topic, {"n": 0})
    client.resume_connector("copy")
    desk.expect_stored(topic, {"n": 0})
    told = {"copy": {"topics": [topic]}}  # with the commit, which comes after the object
    until(lambda: client.list_connector_topics("copy") == told, "its topic is told")
    client.reset_connector_topics("copy")

    assert client.restart_connector("copy") is None
    said = client.restart_connector("copy", include_tasks=True)  # sent as "True"
    assert {part["state"] for part in (said["connector"], *said["tasks"])} == {"RESTARTING"}
    client.restart_connector_task("copy", 0)
    changed = client.update_connector("copy", {**config, "flush.size": "2"})
    assert changed["config"]["flush.size"] == "2"
    desk.send(topic, {"n": 1}, {"n": 2})
    until(lambda: len(desk.bucket.sizes(f"topics/{topic}/")) == 2, "written", seconds=PATIENCE)
    client.stop_connector("copy")
    assert client.get_connector_status("copy")["connector"]["state"] == "STOPPED"
    client.delete_connector("copy")
    with pytest.raises(HTTPError, match="404"):
        client.get_connector("copy")
    assert SINK in {one["class"] for one in client.list_connector_plugins()}


def test_kafka_connect_py_as_a_command(desk: Desk) -> None:
    topic = desk.topic()

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(kc, ["--url", desk.url, *arguments])
        assert done.exit_code == 0, done.output
        return json.loads(done.output) if done.output.strip() else None

    body = {"name": "command", "config": desk.config(topic)}
    assert run("create", "--config-data", json.dumps(body))["name"] == "command"
    desk.until_state("command", "RUNNING")
    assert run("list") == ["command"]
    assert run("status", "command")["tasks"][0]["state"] == "RUNNING"
    run("pause", "--all", "--pattern", "comm.*")
    desk.until_state("command", "PAUSED")
    run("resume", "command")
    run("restart", "command", "--include-tasks", "--only-failed")
    desk.until_state("command", "RUNNING")
    assert run("config", "command")["topics"] == topic
    run("delete", "command")
    assert run("list") == []


def test_kafka_connect_api(desk: Desk) -> None:
    connect, topic = ConnectCluster(Api(url=desk.url)), desk.topic()
    assert connect.version
    assert connect.kafka_cluster == desk.cluster.admin.list_topics(timeout=30).cluster_id
    body = {"name": "copy-2", "config": desk.config(topic)}
    assert connect.api.post("/connectors", json=body)["name"] == "copy-2"
    with pytest.raises(GenericConflict):
        connect.api.post("/connectors", json=body)
    (connector,) = connect.connectors.values()
    until(lambda: connector.state == "RUNNING", "it runs", seconds=PATIENCE)
    assert connector.exists()  # asked with a slash at the end of the path
    assert connector.connector_class == SINK
    (task,) = connector.tasks
    until(task.is_running, "its task runs", seconds=PATIENCE)

    connector.pause()
    until(lambda: task.state == "PAUSED", "its task pauses", seconds=PATIENCE)
    connector.resume()
    connector.restart()
    connector.cycle_connector()  # pause, restart every task, resume
    until(task.is_running, "its task runs again", seconds=PATIENCE)
    desk.send(topic, {"n": 0})
    desk.expect_stored(topic, {"n": 0})
    connector.config = {**connector.config, "flush.size": "7"}
    assert connector.config["flush.size"] == "7"
    connect.root_logger = "INFO"
    assert connect.root_logger["level"] == "INFO"
    connector.delete()
    with pytest.raises(GenericNotFound):
        connector.exists()


def test_kafka_connect_healthcheck(desk: Desk) -> None:
    good, bad = desk.topic(), desk.topic()
    desk.service.post("good", desk.config(good))
    desk.until_state("good", "RUNNING")
    check = Health(desk.url, None, ["FAILED"], None, 0, ["connector", "task"])
    assert check.get_health_result()["healthy"]

    desk.cluster.produce(bad, [{"value": b"{no json"}])
    desk.service.post("bad", desk.config(bad))
    until(lambda: "FAILED" in desk.service.states("bad"), "it fails", seconds=PATIENCE)
    result = check.get_health_result()
    assert not result["healthy"]
    assert {one["connector"] for one in result["failures"]} == {"bad"}
    (task,) = [one for one in result["failures"] if one["type"] == "task"]
    assert f"{bad}-0" in task["trace"]
    desk.service.curl("-X", "DELETE", "/connectors/bad").expect(204)
    assert check.get_health_result()["healthy"]
    desk.service.curl("-X", "DELETE", "/connectors/good").expect(204)


def test_javas_http_client_which_offers_an_upgrade_with_every_body(desk: Desk) -> None:
    config = {**desk.config(desk.topic()), "name": "java", "note": "x" * 200_000}
    stopped = {"name": "java", "config": config, "initial_state": "STOPPED"}
    changed = {**config, "flush.size": "2", "note": "y"}
    calls = [
        ("POST", "/connectors", stopped),
        ("POST", "/connectors", stopped),
        ("GET", "/connectors/java/config", None),
        ("PUT", "/connectors/java/config", changed),
        ("PATCH", "/connectors/java/config", {"flush.size": "3"}),
        ("PUT", f"/connector-plugins/{SINK}/config/validate", config),
        ("PUT", "/admin/loggers/kafkeep.none", {"level": "WARN"}),
        ("PUT", "/connectors/java/pause", None),
        ("GET", "/connectors/java/status", None),
        ("DELETE", "/connectors/java", None),
        ("GET", "/connectors", None),
    ]
    answers = java_calls(desk.url, calls)
    expected = [201, 409, 200, 200, 200, 200, 200, 202, 200, 204, 200]
    assert [one.status for one in answers] == expected, [one.text[:200] for one in answers]
    assert json.loads(answers[0].text)["config"]["note"] == config["note"]
    assert json.loads(answers[2].text)["note"] == config["note"]
    assert json.loads(answers[3].text)["config"]["flush.size"] == "2"
    assert json.loads(answers[4].text)["config"]["flush.size"] == "3"
    assert json.loads(answers[5].text)["error_count"] == 0
    assert json.loads(answers[10].text) == []


def java_calls(url: str, calls: list[tuple[str, str, Any]]) -> list[Answer]:
    """Make calls with Java's client, one after the other on connections it keeps."""
    program = Path(__file__).parents[1] / "support" / "connect" / "JavaHttpClient.java"
    lines = [
        f"{method} {path} {'' if body is None else json.dumps(body)}\n"
        for method, path, body in calls
    ]
    done = subprocess.run(
        [require_java(), str(program), url],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = [line.partition(" ") for line in done.stdout.splitlines()]
    return [Answer(int(status), text) for status, _, text in parts]


def test_kafkas_documented_transforms(desk: Desk) -> None:
    """Lines become maps with where they come from; a predicate lets one topic's records go."""
    topic, left_out = desk.topic(), desk.topic()
    config = {
        **desk.config(f"{topic},{left_out}", value_converter=STRINGS),
        "transforms": "MakeMap, InsertSource, Filter",
        "transforms.MakeMap.type": CONNECT + "transforms.HoistField$Value",
        "transforms.MakeMap.field": "line",
        "transforms.InsertSource.type": CONNECT + "transforms.InsertField$Value",
        "transforms.InsertSource.static.field": "data_source",
        "transforms.InsertSource.static.value": "test-file-source",
        "transforms.Filter.type": CONNECT + "transforms.Filter",
        "transforms.Filter.predicate": "IsFoo",
        "predicates": "IsFoo",
        "predicates.IsFoo.type": CONNECT + "transforms.predicates.TopicNameMatches",
        "predicates.IsFoo.pattern": left_out,
    }
    del config["value.converter.schemas.enable"]
    desk.service.post("local-console-sink", config)
    for name in (left_out, topic):
        desk.cluster.produce(name, [{"value": text} for text in ("foo", "bar", "hello world")])
    lines = [
        {"line": text, "data_source": "test-file-source"} for text in ("foo", "bar", "hello world")
    ]
    desk.expect_stored(topic, *lines)
    assert desk.bucket.sizes(f"topics/{left_out}/") == {}
    desk.service.curl("-X", "DELETE", "/connectors/local-console-sink").expect(204)


def test_kafkas_documented_calls(desk: Desk) -> None:
    """A connector made stopped, its offsets set and taken back, its levels of logging."""
    service, topic = desk.service, desk.topic()
    desk.send(topic, {"n": 0}, {"n": 1}, {"n": 2})
    body = {"name": "sink", "config": desk.config(topic), "initial_state": "STOPPED"}
    service.send("POST", "/connectors", service.write("sink.json", body)).expect(201)
    assert service.states("sink") == {"STOPPED"}

    place = {"kafka_topic": topic, "kafka_partition": 0}
    altered = {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]}
    file = service.write("offsets.json", altered)
    said = service.send("PATCH", "/connectors/sink/offsets", file).expect()
    assert "altered" in said["message"]
    assert service.curl("/connectors/sink/offsets").expect() == altered
    assert group_offsets(desk.cluster, "connect-sink", topic) == {(topic, 0): 1}
    service.curl("-X", "PUT", "/connectors/sink/resume").expect(202)
    desk.expect_stored(topic, {"n": 1}, {"n": 2})
    refused = service.curl("-X", "DELETE", "/connectors/sink/offsets").expect(400)
    assert "STOPPED" in refused["message"]

    expanded = service.curl("/connectors?expand=status&expand=info").expect()
    assert expanded["sink"].keys() == {"status", "info"}
    service.curl("-X", "PUT", "/connectors/sink/stop").expect(204)
    service.curl("-X", "DELETE", "/connectors/sink/offsets").expect(200)
    assert service.curl("/connectors/sink/offsets").expect() == {"offsets": []}
    level = ("-X", "PUT", "-H", "Content-Type: application/json", "-d", '{"level":"WARN"}')
    service.curl(*level, "/admin/loggers/kafkeep.connect?scope=cluster").expect(204)
    assert service.curl("/admin/loggers").expect()["kafkeep.connect"]["level"] == "WARN"
    assert service.curl("/health").expect()["status"] == "healthy"
    service.curl("-X", "DELETE", "/connectors/sink").expect(204)
