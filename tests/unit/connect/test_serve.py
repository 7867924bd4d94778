"""Two whole services in this process, on one state in memory; their connectors do not run."""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.support.waiting import PATIENCE_S, until

from kafkeep.connect.serve import ServiceInfo, run_service
from kafkeep.connect.service.forward import HEADER, PATH
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import EnvironmentFault
from kafkeep.store.memory import MemoryStore

KAFKA_LOOP = "kafka-io-kafkeep"
CONFIG = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "2",
    "topics": "t",
    "s3.bucket.name": "bucket",
    "store.url": "http://127.0.0.1:1",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "not-to-show",
    "flush.size": "3",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
}


@dataclass
class Worker:
    http: httpx.Client
    stop: threading.Event
    thread: threading.Thread
    ready: ServiceInfo

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = self.http.request(method, path, json=body)
        return answer.status_code, answer.json() if answer.content else None

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
        self.http.close()


def options(state: str, *, port: int = 0, **more: str) -> WorkerOptions:
    flags = {
        "bootstrap.servers": "127.0.0.1:1",
        "socket.connection.setup.timeout.ms": "500",
        "kafkeep.state": state,
        "rest.port": str(port),
        "kafkeep.lease.timeout.ms": "6000",
        **more,
    }
    return WorkerOptions.load(None, {}, flags)


def start(state: str, **more: str) -> Worker:
    told: queue.Queue[ServiceInfo] = queue.Queue()
    stop = threading.Event()
    worker = options(state, **more)
    thread = threading.Thread(
        target=lambda: run_service(worker, on_ready=told.put, stop=stop), daemon=True
    )
    thread.start()
    ready = told.get(timeout=PATIENCE_S)
    return Worker(httpx.Client(base_url=ready.url, timeout=PATIENCE_S), stop, thread, ready)


@pytest.fixture(scope="module", autouse=True)
def no_client_outlives_these_tests() -> Iterator[None]:
    """Wait for the Kafka clients: their jitter moves the random numbers of other tests."""
    before = set(threading.enumerate())  # those of other files in this process may stay
    yield

    def is_left(thread: threading.Thread) -> bool:
        return thread.name == KAFKA_LOOP and thread not in before

    until(lambda: not any(map(is_left, threading.enumerate())))


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Worker, Worker]]:
    state = f"memory:{uuid.uuid4().hex}"
    first = start(state)
    until(lambda: first.call("GET", "/health")[1].get("is_leader"))
    second = start(state)
    until(lambda: second.call("GET", "/health")[0] == 200)
    yield first, second
    second.end()
    first.end()


@pytest.fixture
def name(pair: tuple[Worker, Worker]) -> Iterator[str]:
    made = f"c-{uuid.uuid4().hex[:8]}"
    yield made
    pair[0].call("DELETE", f"/connectors/{made}")


def test_a_follower_sends_changes_to_the_leader_and_sees_them_at_once(
    pair: tuple[Worker, Worker], name: str
) -> None:
    leader, follower = pair
    status, made = follower.call("POST", "/connectors", paused(name))
    assert status == 201
    assert made == {
        "name": name,
        "config": {**CONFIG, "name": name, "aws.secret.access.key": "******"},
        "tasks": [],
        "type": "sink",
    }
    assert follower.call("GET", f"/connectors/{name}/config") == leader.call(
        "GET", f"/connectors/{name}/config"
    )
    again = follower.call("POST", "/connectors", paused(name))
    assert again == (409, {"error_code": 409, "message": f"Connector {name} already exists"})
    until(lambda: states(follower, name) == ("PAUSED", ["PAUSED"] * 2))
    assert states(leader, name) == ("PAUSED", ["PAUSED"] * 2)
    assert follower.call("PUT", f"/connectors/{name}/stop")[0] == 204
    assert states(follower, name) == ("STOPPED", [])
    assert follower.call("DELETE", f"/connectors/{name}")[0] == 204
    assert follower.call("GET", f"/connectors/{name}/status") == (
        404,
        {"error_code": 404, "message": f"No status found for connector {name}"},
    )


@pytest.mark.parametrize("title", ["Lager (größer) → S3", "two words", "倉庫", "a" * 250])
def test_a_connector_may_have_any_name(pair: tuple[Worker, Worker], title: str) -> None:
    leader, follower = pair
    assert follower.call("POST", "/connectors", paused(title))[0] == 201
    assert title in leader.call("GET", "/connectors")[1]
    path = f"/connectors/{quote(title, safe='')}"
    assert follower.call("GET", path)[1]["config"]["name"] == title
    until(lambda: leader.call("GET", f"{path}/status")[1]["connector"]["state"] == "PAUSED")
    assert leader.call("DELETE", path)[0] == 204


def test_the_shown_configuration_sent_back_changes_nothing(
    pair: tuple[Worker, Worker], name: str
) -> None:
    leader, _ = pair
    leader.call("POST", "/connectors", paused(name))
    changes = count_changes(leader)
    shown = leader.call("GET", f"/connectors/{name}/config")[1]
    assert leader.call("PUT", f"/connectors/{name}/config", shown)[0] == 200
    assert count_changes(leader) == changes
    changed = {**shown, "flush.size": "4"}
    assert leader.call("PUT", f"/connectors/{name}/config", changed)[0] == 200
    assert count_changes(leader) == changes + 1
    patched = leader.call("PATCH", f"/connectors/{name}/config", {"tasks.max": None})
    assert patched[0] == 200
    assert "tasks.max" not in patched[1]["config"]
    assert patched[1]["config"]["flush.size"] == "4"


def test_a_wrong_configuration_is_refused_in_connects_words(
    pair: tuple[Worker, Worker], name: str
) -> None:
    for worker in pair:
        wrong = {key: text for key, text in CONFIG.items() if key != "flush.size"}
        assert worker.call("POST", "/connectors", {"name": name, "config": wrong}) == (
            400,
            {
                "error_code": 400,
                "message": "Connector configuration is invalid and contains the following 1 "
                'error(s):\nMissing required configuration "flush.size" which has no default '
                "value.\nYou can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            },
        )
        none = worker.call("POST", "/connectors", {"name": name, "config": {"topics": "t"}})
        assert none[0] == 400
        assert none[1]["message"].endswith("contains no connector type")
        masked = {**CONFIG, "aws.secret.access.key": "******"}
        refused = worker.call("POST", "/connectors", {"name": name, "config": masked})
        assert refused[0] == 400
        assert "aws.secret.access.key" in refused[1]["message"]
    assert name not in pair[0].call("GET", "/connectors")[1]


def test_unknown_names_are_answered_in_connects_words(pair: tuple[Worker, Worker]) -> None:
    for worker in pair:
        for method, path, message in (
            ("GET", "/connectors/none", "Connector none not found"),
            ("GET", "/connectors/none/status", "No status found for connector none"),
            ("DELETE", "/connectors/none", "Connector none not found"),
            ("PUT", "/connectors/none/pause", "Unknown connector none"),
            ("POST", "/connectors/none/restart", "Unknown connector: none"),
            ("GET", "/connectors/none/tasks/0/status", "No status found for task none-0"),
        ):
            assert worker.call(method, path) == (404, {"error_code": 404, "message": message})


def test_the_worker_reports_its_version_while_kafka_is_away(pair: tuple[Worker, Worker]) -> None:
    status, told = pair[0].call("GET", "/")
    assert status == 200
    assert told["version"].startswith("4.1.0") and told["kafka_cluster_id"] is None
    schema = pair[0].call("GET", "/openapi.json")[1]["components"]["schemas"]["Worker"]
    assert "null" in schema["properties"]["kafka_cluster_id"]["type"]


def test_offsets_are_not_moved_unless_it_is_stopped(pair: tuple[Worker, Worker], name: str) -> None:
    leader, follower = pair
    leader.call("POST", "/connectors", paused(name))
    for worker in (leader, follower):
        status, told = worker.call("DELETE", f"/connectors/{name}/offsets")
        assert status == 400
        assert told["message"].startswith("Connectors must be in the STOPPED state before")


def test_without_the_shared_secret_nothing_is_carried_out(
    pair: tuple[Worker, Worker], name: str
) -> None:
    leader, _ = pair
    body = {"operation": "delete", "name": name}
    for headers in ({}, {HEADER: "guess"}):
        answer = leader.http.post(PATH, json=body, headers=headers)
        assert answer.status_code == 404


def test_a_level_set_over_rest_is_returned_and_an_unknown_one_is_refused(
    pair: tuple[Worker, Worker],
) -> None:
    leader, _ = pair
    changed = leader.call(
        "PUT", "/admin/loggers/kafkeep.connect.service.leader", {"level": "DEBUG"}
    )
    assert changed == (200, ["kafkeep.connect.service.leader"])
    assert (
        leader.call("GET", "/admin/loggers/kafkeep.connect.service.leader")[1]["level"] == "DEBUG"
    )
    assert leader.call("PUT", "/admin/loggers/root", {"level": "LOUD"})[0] == 404


def test_a_level_for_all_workers_may_be_set_at_any_of_them(
    pair: tuple[Worker, Worker],
) -> None:
    name = f"kafkeep.{uuid.uuid4().hex}"
    for worker in pair:
        path = f"/admin/loggers/{name}?scope=cluster"
        assert worker.call("PUT", path, {"level": "LOUD"})[0] == 404
        assert worker.call("PUT", path, {"level": "ERROR"}) == (204, None)
        assert worker.call("GET", f"/admin/loggers/{name}")[1]["level"] == "ERROR"


def test_a_leader_that_stops_hands_over_at_once_and_connectors_are_kept() -> None:
    state = f"memory:{uuid.uuid4().hex}"
    more = {"kafkeep.lease.timeout.ms": "60000"}
    first = start(state, **more)
    until(lambda: first.call("GET", "/health")[1].get("is_leader"))
    body = {"name": "kept", "config": CONFIG, "initial_state": "PAUSED"}
    assert first.call("POST", "/connectors", body)[0] == 201
    first.end()
    second = start(state, **more)
    until(lambda: second.call("GET", "/health")[1].get("is_leader"))
    until(lambda: states(second, "kept") == ("PAUSED", ["PAUSED"] * 2))
    second.end()


def test_a_stored_pattern_that_is_no_longer_accepted_fails_its_connector_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = f"memory:{uuid.uuid4().hex}"
    pattern = {key: text for key, text in CONFIG.items() if key != "topics"}
    old = {**pattern, "topics.regex": "((?!internal).)*"}
    first = start(state)
    until(lambda: first.call("GET", "/health")[1].get("is_leader"))
    refused = first.call("POST", "/connectors", {"name": "old", "config": old})
    assert refused[0] == 400 and "has a look-ahead (?!…)" in refused[1]["message"]
    with monkeypatch.context() as older:
        older.setattr("kafkeep.connect.connectors.sink_keys.java_regex", str)
        for name, config in (("old", old), ("other", CONFIG)):
            body = {"name": name, "config": config, "initial_state": "PAUSED"}
            assert first.call("POST", "/connectors", body)[0] == 201
    first.end()
    second = start(state)
    until(lambda: states(second, "old")[0] == "FAILED")
    until(lambda: states(second, "other") == ("PAUSED", ["PAUSED"] * 2))
    trace = second.call("GET", "/connectors/old/status")[1]["connector"]["trace"]
    assert "topics.regex" in trace and "has a look-ahead (?!…)" in trace
    mended = {**old, "topics.regex": "orders.*"}
    assert second.call("PUT", "/connectors/old/config", mended)[0] == 200
    until(lambda: states(second, "old") == ("PAUSED", ["PAUSED"] * 2))
    second.end()


def test_a_port_that_is_taken_is_reported_in_one_sentence(pair: tuple[Worker, Worker]) -> None:
    port = int(pair[0].ready.url.rpartition(":")[2])
    with pytest.raises(EnvironmentFault, match=f"cannot listen on 127.0.0.1:{port}: "):
        run_service(options("memory:other", port=port))


def states(worker: Worker, name: str) -> tuple[str, list[str]]:
    status = worker.call("GET", f"/connectors/{name}/status")[1]
    return status["connector"]["state"], [task["state"] for task in status["tasks"]]


def paused(name: str) -> dict[str, Any]:
    return {"name": name, "config": CONFIG, "initial_state": "PAUSED"}


def count_changes(worker: Worker) -> int:
    store = MemoryStore.shared(worker.ready.state.removeprefix("memory:"))
    return sum(1 for _ in store.list("journal/"))


TOKENS = {role: f"{role}-0123456789abcdef" for role in ("read", "operate", "admin")}


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Worker, Worker]]:
    """Yield a leader and a follower that ask who is calling, and mask as they do by default."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text("".join(f"{role}:{token}\n" for role, token in TOKENS.items()))
    state, flags = f"memory:{uuid.uuid4().hex}", {"kafkeep.rest.tokens.file": str(file)}
    first = start(state, **flags)
    first.http.headers["Authorization"] = f"Bearer {TOKENS['admin']}"
    until(lambda: first.call("GET", "/health")[1].get("is_leader"))
    second = start(state, **flags)
    second.http.headers["Authorization"] = f"Bearer {TOKENS['admin']}"
    until(lambda: second.call("GET", "/health")[0] == 200)
    yield first, second
    second.end()
    first.end()


def test_a_client_that_compares_reads_back_what_it_wrote_when_the_api_is_protected(
    protected: tuple[Worker, Worker],
) -> None:
    """Terraform's client waits until what it reads is what it wrote, and fails if it never is."""
    leader, follower = protected
    wanted = {**CONFIG, "name": "tf"}
    made = follower.call("POST", "/connectors", paused("tf"))
    assert (made[0], made[1]["config"]) == (201, wanted)
    for worker in (follower, leader):
        assert worker.call("PUT", "/connectors/tf/config", wanted)[1]["config"] == wanted
    changes = count_changes(leader)
    for worker in protected:
        assert worker.call("GET", "/connectors/tf/config") == (200, wanted)
        assert worker.call("GET", "/connectors/tf")[1]["config"] == wanted
        assert worker.call("GET", "/connectors?expand=info")[1]["tf"]["info"]["config"] == wanted
        masked = {**wanted, "aws.secret.access.key": "******"}
        for sent in (wanted, masked):  # also what a client of before sends back is no change
            assert worker.call("PUT", "/connectors/tf/config", sent)[1]["config"] == wanted
    assert count_changes(leader) == changes
    assert leader.call("DELETE", "/connectors/tf")[0] == 204


def test_who_may_not_write_secrets_does_not_see_them(
    protected: tuple[Worker, Worker], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "kafkeep")
    assert protected[1].call("POST", "/connectors", paused("closed"))[0] == 201
    task = "/connectors/closed/tasks/0/status"
    until(lambda: all(worker.call("GET", task)[0] == 200 for worker in protected))
    paths = ("", "/config", "/tasks", "/status", "/topics", "/tasks/0/status")
    paths = tuple(f"/connectors/closed{path}" for path in paths)
    paths += ("/connectors?expand=info&expand=status", "/metrics", "/openapi.json", "/health")
    for worker in protected:
        for role in ("read", "operate"):
            headers = {"Authorization": f"Bearer {TOKENS[role]}"}
            answers = {path: worker.http.get(path, headers=headers) for path in paths}
            assert {one.status_code for one in answers.values()} == {200}
            assert not [path for path, one in answers.items() if "not-to-show" in one.text]
            assert "AKIA" in answers["/connectors/closed/config"].text  # a name, not a secret
        assert "not-to-show" in worker.http.get("/connectors/closed/tasks").text
        for path in ("/metrics", "/openapi.json", "/connectors/closed/status"):
            assert "not-to-show" not in worker.http.get(path).text
        bad = {**CONFIG, "connector.class": ""}
        refused = worker.http.put("/connectors/closed/config", json=bad)
        assert (refused.status_code, "not-to-show" in refused.text) == (400, False)
    assert protected[0].call("DELETE", "/connectors/closed")[0] == 204
    assert "not-to-show" not in caplog.text
