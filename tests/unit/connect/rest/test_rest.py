"""The REST layer's own rules: bodies, names, paths, errors. A service in memory answers."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.support.connect.memory_service import SINK, MemoryService
from tests.support.connect.rest_server import raw_request, serving
from tests.support.waiting import PATIENCE_S

from kafkeep.connect.model import Json
from kafkeep.connect.rest.app import _CALLS_AT_ONCE, ENDPOINTS, make_app
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.errors import (
    AccessDeniedError,
    DamagedError,
    FencedError,
    KafkeepError,
    TransientError,
    UsageError,
)

JSON = {"Content-Type": "application/json"}
GOOD = {"connector.class": SINK, "flush.size": "3", "topics": "t", "tasks.max": "2"}
NOT_FOUND = {"error_code": 404, "message": "HTTP 404 Not Found"}


class Failing(MemoryService):
    """Raises what it is told to when asked for its root."""

    error: Exception | None = None

    def root(self) -> Json:
        if self.error is not None:
            raise self.error
        return super().root()


SERVICE = Failing()


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving(make_app(SERVICE, RestSecurity())) as url:
        yield url


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=base_url) as client:
        yield client


def create(api: httpx.Client, name: str, **config: Any) -> httpx.Response:
    return api.post("/connectors", json={"name": name, "config": {**GOOD, **config}})


@pytest.mark.parametrize(
    "name", ["with space", "Größe+50%", "日本語", "a?b#c&d", "a;b", "a\\b", "~"]
)
def test_names_of_any_characters_come_back_and_lead_to_the_connector(
    api: httpx.Client, name: str
) -> None:
    made = create(api, name)
    assert made.status_code == 201
    assert made.headers["location"].isascii()
    assert api.get(made.headers["location"]).json()["name"] == name
    assert name in api.get("/connectors").json()
    assert api.get(made.headers["location"] + "/topics").json() == {name: {"topics": ["t"]}}
    assert api.delete(made.headers["location"]).status_code == 204


def test_spaces_around_a_posted_name_are_dropped(api: httpx.Client) -> None:
    assert create(api, "  around ").json()["name"] == "around"
    assert api.delete("/connectors/around").status_code == 204


@pytest.mark.parametrize(
    "name", ["a/b", "/", "a\r\nX: y", "tab\t", "nul\0", ".", "..", "c1\x85", ""]
)
def test_names_no_url_or_log_can_hold_are_refused(api: httpx.Client, name: str) -> None:
    answer = create(api, name)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)
    assert api.get("/connectors").json() == []


@pytest.mark.parametrize(
    "path",
    [
        "/connectors/a%2Fb",
        "/connectors/a%0D%0Ab/status",
        "/connectors/%zz",
        "/connectors/%ff",
        "/connectors/%2e%2e/status",
        "/connectors/../connectors",
        "/%00",
    ],
)
def test_paths_that_cannot_name_anything_are_the_clients_error(base_url: str, path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        status, body = raw_request(base_url, method, path)
        assert status == 400
        assert json.loads(body)["error_code"] == 400


@pytest.mark.parametrize(
    "path", ["/none", "/connectors//", "/connectors/a/none", "/admin", "/a/b/c"]
)
def test_unknown_paths_are_answered_as_connect_does(base_url: str, path: str) -> None:
    status, body = raw_request(base_url, "GET", path)
    assert (status, json.loads(body)) == (404, NOT_FOUND)


@pytest.mark.parametrize("task", ["x", "-1", "1.0", "²", "99999999999", "0x1"])
def test_a_task_that_is_no_number_is_not_found(api: httpx.Client, task: str) -> None:
    answer = api.get(f"/connectors/a/tasks/{task}/status")
    assert (answer.status_code, answer.json()) == (404, NOT_FOUND)


def test_a_slash_at_the_end_changes_nothing_and_redirects_nowhere(base_url: str) -> None:
    assert raw_request(base_url, "GET", "/connectors/")[0] == 200
    assert raw_request(base_url, "GET", "/connector-plugins/")[0] == 200


def test_a_wrong_method_is_answered_with_the_allowed_ones(api: httpx.Client) -> None:
    answer = api.delete("/connectors")
    assert answer.status_code == 405
    assert answer.json() == {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert api.request("PROPFIND", "/connectors").status_code == 405
    assert api.request("BREW", "/connectors").status_code == 405


def test_head_answers_as_get_without_a_body(api: httpx.Client) -> None:
    answer = api.head("/connectors")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{not json",
        b"[]",
        b'"text"',
        b"null",
        b'{"name":"x"}',
        b'{"name":"x","config":null}',
        b'{"name":"x","config":[]}',
        b'{"name":"x","config":{"a":{}}}',
        b'{"name":"x","config":{"a":[1]}}',
        b'{"name":7.5e0,"config":[]}',
        b'{"name":true,"config":{}}',
        b'{"name":"x","config":{"a":NaN}}',
        b'{"name":"x","config":{"a":"\\ud800"}}',
        b'{"name":"x","config":{},"extra":1}',
        b'{"name":"x","config":{},"initial_state":"NONSENSE"}',
        b'{"name":"x","config":{},"initial_state":{}}',
        b'{"name":"\xff","config":{}}',
        b"[" * 100_000,
        b'{"name":"x","config":{"a":' + b"[" * 50_000,
    ],
    ids=range(20),
)
def test_a_bad_body_is_the_clients_error(api: httpx.Client, body: bytes) -> None:
    answer = api.post("/connectors", content=body, headers=JSON)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error_code", "message"}


def test_numbers_and_truth_values_of_a_configuration_become_texts(api: httpx.Client) -> None:
    body = '{"connector.class":"%s","flush.size":3,"f":1.50e3,"b":true,"big":%s}'
    big = "9" * 5000
    answer = api.put("/connectors/n/config", content=body % (SINK, big), headers=JSON)
    assert answer.status_code == 201
    config = api.get("/connectors/n/config").json()
    assert (config["flush.size"], config["f"], config["b"]) == ("3", "1.50e3", "true")
    assert config["big"] == big
    assert api.delete("/connectors/n").status_code == 204


def test_a_null_in_a_configuration_is_refused_by_name_but_removes_a_key_in_a_patch(
    api: httpx.Client,
) -> None:
    refused = api.put("/connectors/n/config", json={**GOOD, "gone": None})
    assert refused.status_code == 400
    assert "gone" in refused.json()["message"]
    create(api, "n", gone="soon")
    patched = api.patch("/connectors/n/config", json={"gone": None})
    assert (patched.status_code, "gone" in patched.json()["config"]) == (200, False)
    assert api.patch("/connectors/n/config", json={"name": "m"}).status_code == 400
    assert api.patch("/connectors/n/config", json={"name": None}).status_code == 400
    assert api.delete("/connectors/n").status_code == 204


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_of_another_type_is_refused(api: httpx.Client, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = api.post("/connectors", content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.json() == {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}


def test_a_type_may_name_its_charset(api: httpx.Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=UTF-8"}
    assert api.post("/connectors", content=b"{}", headers=headers).status_code == 400


def test_a_write_without_a_body_needs_no_type(api: httpx.Client) -> None:
    create(api, "n")
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # curl -X PUT -d ''
    assert api.put("/connectors/n/pause").status_code == 202
    assert api.put("/connectors/n/resume", content=b"", headers=form).status_code == 202
    assert api.delete("/connectors/n").status_code == 204


@pytest.mark.parametrize("size", [(1 << 20) + 1, 20 << 20])
def test_a_body_beyond_the_limit_is_413_with_or_without_a_content_length(
    api: httpx.Client, size: int
) -> None:
    text = b'"' + b"a" * (size - 2) + b'"'
    told = api.post("/connectors", content=text, headers=JSON)
    chunked = api.post(
        "/connectors", content=(text[i : i + 65536] for i in range(0, size, 65536)), headers=JSON
    )
    assert (told.status_code, chunked.status_code) == (413, 413)
    assert told.json()["error_code"] == 413
    fitting = b'"' + b"a" * ((1 << 20) - 2) + b'"'
    assert api.post("/connectors", content=fitting, headers=JSON).status_code == 400


def test_restart_answers_204_alone_and_202_with_tasks(api: httpx.Client) -> None:
    create(api, "n")
    alone = api.post("/connectors/n/restart?includeTasks=false&onlyFailed=false")
    assert (alone.status_code, alone.content) == (204, b"")
    for query in ("includeTasks=true", "onlyFailed=TRUE", "includeTasks=true&onlyFailed=true"):
        answer = api.post(f"/connectors/n/restart?{query}")
        assert answer.status_code == 202
        assert answer.json()["connector"]["state"] == "RUNNING"
    assert api.post("/connectors/n/restart?includeTasks=yes").status_code == 400
    assert api.delete("/connectors/n").status_code == 204


def test_unknown_expansions_add_nothing(api: httpx.Client) -> None:
    create(api, "n")
    assert api.get("/connectors?expand=other").json() == {"n": {}}
    assert set(api.get("/connectors?expand=info&expand=other").json()["n"]) == {"info"}
    assert api.delete("/connectors/n").status_code == 204


def test_loggers_answer_strimzis_cluster_scope_without_a_body(api: httpx.Client) -> None:
    level = {"level": "DEBUG"}
    cluster = api.put("/admin/loggers/a.b?scope=cluster", json=level)
    assert (cluster.status_code, cluster.content) == (204, b"")
    assert api.put("/admin/loggers/a.b", json=level).json() == ["a.b"]
    assert api.get("/admin/loggers/a.b").json()["level"] == "DEBUG"
    assert set(api.get("/admin/loggers").json()) == {"root", "a.b"}
    assert api.put("/admin/loggers/a.b", json={}).status_code == 400
    assert api.put("/admin/loggers/a.b", json={"level": 1}).status_code == 400
    assert api.put("/admin/loggers/a.b?scope=world", json=level).status_code == 400
    assert api.put("/admin/loggers/a.b", json={"level": "LOUD"}).status_code == 404


def test_validate_takes_a_flat_configuration(api: httpx.Client) -> None:
    url = "/connector-plugins/S3SinkConnector/config/validate"
    assert api.put(url, json={"connector.class": SINK, "flush.size": None}).status_code == 200
    assert api.put(url, json={"config": {}}).status_code == 400
    assert api.put(url).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"offsets": None},
        {"offsets": []},
        {"offsets": {}},
        {"offsets": [1]},
        {"other": []},
        {"offsets": [{"partition": None}]},
        {"offsets": [{"partition": {}, "offset": 1}]},
        {"offsets": [{"partition": {}, "offset": None, "more": 1}]},
    ],
)
def test_offsets_of_another_shape_are_the_clients_error(api: httpx.Client, body: Json) -> None:
    assert api.patch("/connectors/n/offsets", json=body).status_code == 400


def test_health_is_reported_in_connects_form(api: httpx.Client) -> None:
    answer = api.get("/health")
    assert answer.status_code == 200
    assert list(answer.json())[:2] == ["status", "message"]
    assert answer.json()["status"] == "healthy"
    SERVICE.ready = False
    try:
        assert api.get("/health/ready").status_code == 503
    finally:
        SERVICE.ready = True
    assert api.get("/health/ready").status_code == 200


def test_metrics_are_typed_as_prometheus_asks(api: httpx.Client) -> None:
    answer = api.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("bad value", hint="Use another."), 400),
        (FencedError("taken"), 409),
        (AccessDeniedError("refused"), 502),
        (TransientError("not now"), 503),
        (DamagedError("broken"), 500),
        (KafkeepError("other"), 500),
    ],
)
def test_errors_of_kafkeep_have_a_status_each(
    api: httpx.Client, error: KafkeepError, status: int
) -> None:
    SERVICE.error = error
    try:
        answer = api.get("/")
    finally:
        SERVICE.error = None
    assert (answer.status_code, answer.json()["error_code"]) == (status, status)
    assert error.message in answer.json()["message"]


def test_an_error_nobody_foresaw_is_logged_and_not_shown(
    api: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    SERVICE.error = RuntimeError("secret inside")
    try:
        with caplog.at_level(logging.ERROR):
            answer = api.get("/")
    finally:
        SERVICE.error = None
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret inside" in caplog.text


def test_the_document_names_every_endpoint_and_every_schema_it_uses(api: httpx.Client) -> None:
    document = api.get("/openapi.json").json()
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert told == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    text = json.dumps(document)
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used - set(document["components"]["schemas"]) == set()


def test_every_schema_that_the_page_links_to_is_on_it(api: httpx.Client) -> None:
    page = api.get("/openapi").text
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert len(linked) > 60
    assert linked - set(re.findall(r'<details id="([^"]+)"', page)) == set()


def test_the_page_takes_nothing_from_elsewhere(api: httpx.Client) -> None:
    page = api.get("/openapi")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "'unsafe-inline'" not in page.headers["content-security-policy"]
    for word in ("<script", "<link", "<img", "src=", "http://", "https://", "@import", "style="):
        assert word not in page.text
    for endpoint in ENDPOINTS:
        assert f"{endpoint.method} {endpoint.path}" in page.text


class Held(MemoryService):
    """Holds every call that goes to a thread; has connectors in memory, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.release, self.held = threading.Event(), threading.Semaphore(0)
        self.in_memory = True

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        self.held.release()
        self.release.wait(PATIENCE_S)
        return []

    def answers_from_memory(self) -> bool:
        return self.in_memory


def test_what_is_in_memory_is_answered_while_every_thread_is_held() -> None:
    service = Held()
    with serving(make_app(service, RestSecurity())) as url, ThreadPoolExecutor(40) as pool:
        held = [
            pool.submit(httpx.get, f"{url}/connector-plugins", timeout=PATIENCE_S)
            for _ in range(40)
        ]
        try:
            assert all(service.held.acquire(timeout=PATIENCE_S) for _ in range(_CALLS_AT_ONCE))
            for path, status in (("", 200), ("/none", 404), ("/none/status", 404)):
                answer = httpx.get(f"{url}/connectors{path}", timeout=PATIENCE_S / 2)
                assert answer.status_code == status
            service.in_memory = False
            with pytest.raises(httpx.ReadTimeout):
                httpx.get(f"{url}/connectors", timeout=0.5)
        finally:
            service.release.set()
        assert {one.result().status_code for one in held} == {200}
