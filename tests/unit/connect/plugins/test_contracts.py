"""The calls that operators, user interfaces and tools make to a Connect worker, and what they read.

None of these programs can run here. Each section names the public repository that its facts come
from: paths, parameters, the statuses the program takes for success, the fields it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from tests.support.connect.memory_service import SINK, MemoryService
from tests.support.connect.rest_server import serving

from kafkeep.connect.connectors.families import CLASSES
from kafkeep.connect.model import Json, RunState
from kafkeep.connect.plugins.classes import definitions, find_any_plugin, list_plugins
from kafkeep.connect.plugins.validate import validate
from kafkeep.connect.rest.app import make_app
from kafkeep.connect.worker.rest_security import RestSecurity

JSON = {"Accept": "application/json", "Content-Type": "application/json"}
CONFIG = {"connector.class": SINK, "flush.size": "3", "topics": "t", "tasks.max": "2"}


class Service(MemoryService):
    """Connectors in memory; classes and their keys are the real ones."""

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        return list_plugins(connectors_only)

    def plugin_config(self, plugin: str) -> list[Json]:
        return definitions(find_any_plugin(plugin))

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        return validate(plugin, config)


SERVICE = Service()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        serving(make_app(SERVICE, RestSecurity())) as url,
        httpx.Client(base_url=url) as client,
    ):
        yield client


@pytest.fixture
def api(client: httpx.Client) -> httpx.Client:
    SERVICE.__init__()  # type: ignore[misc]
    return client


def create(api: httpx.Client, name: str = "copy", **more: Any) -> httpx.Response:
    body = {"name": name, "config": CONFIG, **more}
    answer = api.post("/connectors", json=body, headers=JSON)
    assert answer.status_code == 201
    return answer


# Strimzi: strimzi/strimzi-kafka-operator, cluster-operator/…/assembly/KafkaConnectApiImpl.java and
# AbstractConnectOperator.java. It makes what is not there (404), leaves alone what is as wished,
# waits and repeats at 409, and takes any other status for a failure whose "message" it shows.


def test_strimzi_makes_a_connector_that_is_not_there_in_the_state_it_wants(
    api: httpx.Client,
) -> None:
    missing = api.get("/connectors/copy/config", headers={"Accept": "application/json"})
    assert missing.status_code == 404
    assert isinstance(missing.json()["message"], str)
    create(api, initial_state="PAUSED")
    status = api.get("/connectors/copy/status").json()
    assert status["connector"]["state"] == "PAUSED"
    assert api.post("/connectors", json={"name": "copy", "config": CONFIG}).status_code == 409


def test_strimzi_compares_a_configuration_with_its_own_and_finds_no_difference(
    api: httpx.Client,
) -> None:
    """What is shown has every key that was sent, the name, nothing else, and only texts."""
    put = api.put("/connectors/copy/config", json={**CONFIG, "tasks.max": 2}, headers=JSON)
    assert put.status_code == 201
    assert api.get("/connectors/copy/config").json() == {**CONFIG, "name": "copy"}
    assert api.put("/connectors/copy/config", json=CONFIG, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    ("call", "status", "state"),
    [("pause", 202, "PAUSED"), ("resume", 202, "RUNNING"), ("stop", 204, "STOPPED")],
)
def test_strimzi_changes_the_state_without_a_body_and_expects_one_status(
    api: httpx.Client, call: str, status: int, state: str
) -> None:
    create(api)
    answer = api.put(f"/connectors/copy/{call}", headers={"Accept": "application/json"})
    assert answer.status_code == status
    assert api.get("/connectors/copy/status").json()["connector"]["state"] == state


def test_strimzi_restarts_connectors_and_tasks(api: httpx.Client) -> None:
    create(api)
    path = "/connectors/copy/restart?includeTasks={}&onlyFailed={}"
    for include in ("true", "false"):
        for only in ("true", "false"):
            answer = api.post(path.format(include, only))
            if include == only == "false":
                assert (answer.status_code, answer.content) == (204, b"")
            else:
                assert (answer.status_code, answer.json()["name"]) == (202, "copy")
    assert api.post("/connectors/copy/tasks/0/restart").status_code == 204
    assert api.post("/connectors/copy/tasks/9/restart").status_code == 404


def test_strimzi_deletes_and_waits_until_there_is_no_status(api: httpx.Client) -> None:
    create(api)
    assert api.request("DELETE", "/connectors/copy", headers=JSON).status_code == 204
    assert api.get("/connectors/copy/status").status_code == 404
    assert api.get("/connectors").json() == []


def test_strimzi_writes_an_arrow_in_a_name_escaped(api: httpx.Client) -> None:
    """Mirrors are called source->target.Class there."""
    name, path = "here->there.Copy", "/connectors/here%2D%3Ethere.Copy"
    assert api.put(f"{path}/config", json=CONFIG).status_code == 201
    assert api.get("/connectors").json() == [name]
    assert api.get(f"{path}/topics").json() == {name: {"topics": ["t"]}}


def test_strimzi_reads_alters_and_resets_offsets(api: httpx.Client) -> None:
    create(api)
    path = "/connectors/copy/offsets"
    before = api.get(path, headers=JSON)
    assert before.status_code == 200
    assert api.patch(path, json=before.json()).status_code == 400  # it must be stopped
    assert api.put("/connectors/copy/stop").status_code == 204
    altered = api.patch(path, json=before.json(), headers=JSON)
    assert altered.status_code == 200
    assert list(altered.json()) == ["message"]
    assert api.get(path).json() == before.json()
    reset = api.delete(path, headers={"Accept": "application/json"})
    assert reset.status_code == 200
    assert list(reset.json()) == ["message"]


def test_strimzi_sets_levels_of_loggers_for_the_whole_cluster(api: httpx.Client) -> None:
    set_one = api.put("/admin/loggers/root?scope=cluster", json={"level": "DEBUG"}, headers=JSON)
    assert set_one.status_code == 204
    listed = api.get("/admin/loggers/", headers={"Accept": "application/json"})
    assert listed.status_code == 200
    assert listed.json()["root"]["level"] == "DEBUG"


def test_strimzi_shows_the_classes_there_are(api: httpx.Client) -> None:
    found = api.get("/connector-plugins", headers={"Accept": "application/json"}).json()
    assert {plugin["class"] for plugin in found} == set(CLASSES)
    for plugin in found:
        assert plugin["type"] in ("sink", "source")
        assert plugin["version"]


# kafbat/kafka-ui, contract/src/main/resources/swagger/kafka-connect-api.yaml: its client is made
# from this document, and an enumeration that meets a word it does not have fails to be read.

KAFBAT_TYPES = {
    "BOOLEAN", "CLASS", "DOUBLE", "INT", "LIST", "LONG", "PASSWORD", "SHORT", "STRING",
}  # fmt: skip
KAFBAT_CONNECTOR = {"RUNNING", "FAILED", "PAUSED", "UNASSIGNED", "RESTARTING", "STOPPED"}
KAFBAT_TASK = KAFBAT_CONNECTOR - {"STOPPED"}


def test_kafbat_lists_connectors_with_all_about_them_in_one_call(api: httpx.Client) -> None:
    create(api)
    found = api.get("/connectors?search=co&expand=info&expand=status").json()
    assert set(found) == {"copy"}
    info, status = found["copy"]["info"], found["copy"]["status"]
    assert info["tasks"] == [{"connector": "copy", "task": n} for n in (0, 1)]
    assert info["type"] == "sink"
    assert status["connector"]["state"] in KAFBAT_CONNECTOR
    for task in status["tasks"]:
        assert isinstance(task["id"], int)
        assert task["state"] in KAFBAT_TASK


def test_kafbat_knows_every_state_there_is(api: httpx.Client) -> None:
    assert {state.value for state in RunState} <= KAFBAT_CONNECTOR
    create(api, initial_state="STOPPED")
    assert api.get("/connectors/copy/status").json()["tasks"] == []  # so no task is STOPPED


def test_kafbat_reads_about_the_worker_tasks_and_topics(api: httpx.Client) -> None:
    create(api)
    assert set(api.get("/").json()) == {"version", "commit", "kafka_cluster_id"}
    (first, _) = api.get("/connectors/copy/tasks").json()
    assert first["id"] == {"connector": "copy", "task": 0}
    assert all(isinstance(text, str) for text in first["config"].values())
    assert api.get("/connectors/copy/tasks/0/status").json()["worker_id"]
    assert api.get("/connectors/copy/topics").json() == {"copy": {"topics": ["t"]}}


def check_form(answer: Json, asked: Mapping[str, str]) -> None:
    """What forms are built from: each key's definition and value, in words the reader has."""
    assert answer["error_count"] == sum(len(c["value"]["errors"]) for c in answer["configs"])
    assert {c["definition"]["group"] for c in answer["configs"]} - {None} <= set(answer["groups"])
    names = [config["definition"]["name"] for config in answer["configs"]]
    assert len(names) == len(set(names))
    assert set(asked) <= set(names)
    for config in answer["configs"]:
        definition, value = config["definition"], config["value"]
        assert definition["type"] in KAFBAT_TYPES
        assert definition["importance"] in {"LOW", "MEDIUM", "HIGH"}
        assert definition["width"] in {"SHORT", "MEDIUM", "LONG", "NONE"}
        assert isinstance(definition["required"], bool)
        assert isinstance(definition["order"], int)
        assert isinstance(definition["default_value"], str | None)
        assert all(isinstance(text, str) for text in definition["dependents"])
        assert definition["display_name"]
        assert value["name"] == definition["name"]
        assert isinstance(value["value"], str | None)
        assert isinstance(value["visible"], bool)
        for text in (*value["recommended_values"], *value["errors"]):
            assert isinstance(text, str)


@pytest.mark.parametrize("class_name", CLASSES)
def test_kafbat_builds_a_form_for_every_class(api: httpx.Client, class_name: str) -> None:
    asked = {"connector.class": class_name, "topics": "t", "name": "copy"}
    answer = api.put(f"/connector-plugins/{class_name}/config/validate", json=asked)
    assert answer.status_code == 200
    assert answer.json()["name"] == class_name
    check_form(answer.json(), asked)


# AKHQ: tchiotludo/akhq, src/main/java/org/akhq/repositories/ConnectRepository.java, over the client
# SourceLabOrg/kafka-connect-client. To show the classes it validates each of them with two keys;
# one refusal, and its page shows none. It escapes names as segments of a path.


def test_akhq_asks_for_the_keys_of_every_class_by_its_full_name(api: httpx.Client) -> None:
    for plugin in api.get("/connector-plugins").json():
        asked = {"connector.class": plugin["class"], "topics": "getPlugins"}
        path = f"/connector-plugins/{plugin['class']}/config/validate"
        answer = api.put(path, json=asked, headers=JSON)
        assert answer.status_code == 200, plugin
        check_form(answer.json(), asked)


def test_akhq_shows_definition_and_status_of_each_name_it_was_given(api: httpx.Client) -> None:
    create(api, "a name, with signs")
    (name,) = api.get("/connectors").json()
    path = "/connectors/a%20name,%20with%20signs"
    definition, status = api.get(path).json(), api.get(f"{path}/status").json()
    assert definition["name"] == status["name"] == name
    assert definition["config"]["connector.class"] == SINK
    assert definition["type"] == status["type"] == "sink"
    assert status["connector"]["worker_id"]
    for call in ("restart", "tasks/0/restart"):
        assert api.post(f"{path}/{call}", headers=JSON).status_code < 300
    assert api.put(f"{path}/config", json=CONFIG).json()["name"] == name
    assert api.delete(path).status_code == 204


# Redpanda Console: redpanda-data/console, backend/pkg/connect/client_*.go. Go reads into types:
# a configuration's values must be texts, a task's number a number. Errors are read as
# {"error_code", "message"}.


def test_console_reads_everything_into_its_types(api: httpx.Client) -> None:
    create(api)
    found = api.get("/connectors", params={"expand": ["info", "status"]}).json()["copy"]
    assert all(isinstance(text, str) for text in found["info"]["config"].values())
    for task in found["info"]["tasks"]:
        assert (type(task["connector"]), type(task["task"])) == (str, int)
    for task in found["status"]["tasks"]:
        assert (type(task["id"]), type(task["state"]), type(task["worker_id"])) == (int, str, str)
    assert set(api.get("/").json()) == {"version", "commit", "kafka_cluster_id"}
    only_status = api.get("/connectors?expand=status").json()["copy"]
    assert set(only_status) == {"status"}
    error = api.get("/connectors/other").json()
    assert (error["error_code"], type(error["message"])) == (404, str)


# kcctl: kcctl/kcctl, src/main/java/org/kcctl/service/KafkaConnectApi.java. It asks for
# "/connectors/" with a slash at the end, and repeats what was answered with 409.


def test_kcctl_ends_paths_with_a_slash_and_asks_for_all_kinds_of_plugins(api: httpx.Client) -> None:
    body = {"name": "copy", "config": CONFIG}
    assert api.post("/connectors/", json=body).status_code == 201
    assert api.get("/connectors/").json() == ["copy"]
    every = api.get("/connector-plugins?connectorsOnly=false").json()
    assert {"sink", "source", "transformation", "converter"} <= {one["type"] for one in every}
    for key in api.get(f"/connector-plugins/{SINK}/config").json():
        assert key["type"] in KAFBAT_TYPES
    patched = {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}}]}
    api.put("/connectors/copy/stop")
    answer = api.patch("/connectors/copy/offsets", json=patched)
    assert answer.status_code == 200  # without an offset, one partition is reset
    assert api.get("/admin/loggers/root").json()["level"] == "INFO"
    assert api.put("/admin/loggers/root", json={"level": "WARN"}).json() == ["root"]


# Confluent's CLI: confluentinc/cli, internal/local/command_service_connect.go. Every call, a GET
# too, says that JSON comes, with an empty body; a configuration has the connector's name in it; any
# answer with a body must be JSON, whatever its status.


def test_confluents_cli_loads_shows_changes_and_unloads(api: httpx.Client) -> None:
    kind = {"Content-Type": "application/json"}

    def call(method: str, path: str, body: Any = None) -> Any:
        sent = {"json": body} if body else {"content": b""}
        answer = api.request(method, path, headers=kind, **sent)
        return answer.json() if answer.content else ""

    assert call("POST", "/connectors", {"name": "copy", "config": CONFIG})["name"] == "copy"
    assert call("GET", "/connectors") == ["copy"]
    assert call("GET", "/connectors/copy/status")["connector"]["state"] == "RUNNING"
    changed = {**CONFIG, "flush.size": 5, "name": "copy"}
    assert call("PUT", "/connectors/copy/config", changed)["config"]["flush.size"] == "5"
    assert call("GET", "/connectors/copy/config")["flush.size"] == "5"
    assert call("GET", "/connector-plugins")
    assert call("DELETE", "/connectors/copy") == ""
    assert call("DELETE", "/connectors/copy")["error_code"] == 404
