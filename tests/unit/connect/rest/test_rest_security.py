"""Who may call the REST API: credentials, roles, hosts, origins, where it may be bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from argon2 import PasswordHasher
from tests.support.connect.memory_service import SINK, MemoryService
from tests.support.connect.rest_server import raw_request, serving

from kafkeep.connect.rest.app import ENDPOINTS, make_app
from kafkeep.connect.rest.middleware import Authenticator
from kafkeep.connect.worker.rest_security import (
    RestSecurity,
    Role,
    parse_role,
    require_safe_bind,
    token_digest,
)
from kafkeep.errors import UsageError

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
SECURITY = RestSecurity(
    basic_users={
        "ann": (QUICK.hash("pa:ss wörd"), Role.ADMIN),
        "rob": (QUICK.hash("look"), Role.READ),
    },
    bearer_tokens={token_digest("t0ken"): Role.OPERATE},
    allowed_hosts=frozenset({"connect.example.com"}),
)
ANN, ROB = ("ann", "pa:ss wörd"), ("rob", "look")
BEARER = {"Authorization": "Bearer t0ken"}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving(make_app(MemoryService(), SECURITY)) as url:
        yield url


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=base_url) as client:
        yield client


def test_a_request_without_credentials_gets_401_with_the_accepted_schemes(
    api: httpx.Client,
) -> None:
    answer = api.get("/connectors")
    assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
    asked = answer.headers["www-authenticate"]
    assert "Basic" in asked
    assert "Bearer" in asked


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic ???",
        "Basic Og==",
        "Basic YW5uOndyb25n",
        "Basic bm9ib2R5Omxvb2s=",
        "Bearer",
        "Bearer wrong",
        "Digest a=b",
        "t0ken",
        "Basic /////w==",
        "Bearer t0ken2",
    ],
)
def test_wrong_credentials_are_401_even_where_none_are_needed(
    api: httpx.Client, header: str
) -> None:
    for path in ("/connectors", "/health"):
        assert api.get(path, headers={"Authorization": header}).status_code == 401


def test_a_password_with_colons_spaces_and_umlauts_is_right_again_and_again(
    api: httpx.Client,
) -> None:
    assert [api.get("/connectors", auth=ANN).status_code for _ in range(3)] == [200] * 3
    assert api.get("/connectors", auth=("ann", "pa")).status_code == 401
    assert api.get("/connectors", headers=BEARER).status_code == 200


def test_a_remembered_password_is_that_of_its_user_alone() -> None:
    who = Authenticator(SECURITY)
    ann, rob_as_ann = "Basic YW5uOnBhOnNzIHfDtnJk", "Basic cm9iOnBhOnNzIHfDtnJk"
    assert who.known(ann) is None
    assert who.check(ann) is not None
    known = who.known(ann)
    assert known is not None
    assert (known.name, known.role) == ("ann", Role.ADMIN)
    assert who.known(rob_as_ann) is None
    assert who.check(rob_as_ann) is None


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda e: f"{e.method} {e.path}")
def test_each_endpoint_asks_for_its_role(api: httpx.Client, endpoint) -> None:
    path = endpoint.path
    for name in ("connector", "plugin", "logger", "task"):
        path = path.replace(f"{{{name}}}", "0")
    nobody = api.request(endpoint.method, path).status_code
    reader = api.request(endpoint.method, path, auth=ROB).status_code
    operator = api.request(endpoint.method, path, headers=BEARER).status_code
    admin = api.request(endpoint.method, path, auth=ANN).status_code
    assert (nobody == 401) == (endpoint.role is not None)
    assert (reader == 403) == (endpoint.role is not None and endpoint.role > Role.READ)
    assert (operator == 403) == (endpoint.role is Role.ADMIN)
    assert admin not in (401, 403)


def test_every_call_that_changes_something_needs_more_than_read() -> None:
    for endpoint in ENDPOINTS:
        assert endpoint.method == "GET" or (endpoint.role or Role.READ) > Role.READ


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8083", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8083", 200),
        ("10.1.2.3:8083", 200),
        ("connect.example.com", 200),
        ("Connect.Example.com:8083", 200),
        ("evil.example", 403),
        ("localhost.evil.example:8083", 403),
        ("127.0.0.1.evil.example", 403),
        ("connect.example.com.evil.example", 403),
        ("", 403),
        (None, 200),
    ],
)
def test_a_name_that_is_not_ours_is_refused(base_url: str, host: str | None, status: int) -> None:
    headers = {"Host": host, **BEARER}
    assert raw_request(base_url, "GET", "/connectors", headers)[0] == status
    assert raw_request(base_url, "GET", "/health", {"Host": host})[0] == status


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Origin": "http://evil.example:8083", "Host": "evil.example:8083"}, False),
        ({"Origin": "http://localhost.evil.example"}, False),
        ({"Origin": "http://10.1.2.3:3000"}, False),
        ({"Origin": "http://10.1.2.3:3000", "Host": "10.1.2.3:8083"}, False),
        ({"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": "http://localhost:8000", "Host": "{host}"}, True),
        ({"Origin": "http://[::1]:8000", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://localhost:8000", "Host": "connect.example.com:8083"}, True),
        ({"Origin": "https://connect.example.com"}, True),
        ({"Origin": "https://connect.example.com.evil.example"}, False),
        ({"Origin": "{base_url}", "Host": "{host}"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-origin"}, True),
    ],
)
def test_pages_of_elsewhere_change_nothing(
    base_url: str, headers: dict[str, str], allowed: bool
) -> None:
    sent = {
        name: value.format(base_url=base_url, host=base_url[7:]) for name, value in headers.items()
    }
    status, _ = raw_request(base_url, "POST", "/connectors/n/restart", {**sent, **BEARER})
    assert status == (404 if allowed else 403)


def test_answers_carry_the_headers_of_safety_and_none_of_cors(api: httpx.Client) -> None:
    for answer in (api.get("/connectors", auth=ANN), api.get("/none"), api.get("/health")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    asked = {"Access-Control-Request-Method": "PUT", "Origin": "http://evil.example"}
    assert api.options("/connectors", headers=asked).status_code == 403
    assert api.options("/connectors", auth=ANN).status_code == 405


def test_health_is_for_everyone_but_its_details_are_not(api: httpx.Client) -> None:
    assert list(api.get("/health").json()) == ["status", "message"]
    assert "connectors" in api.get("/health", auth=ROB).json()


def test_a_proxy_that_rewrites_the_host_and_forwards_the_origin_may_change_connectors(
    base_url: str,
) -> None:
    """kafka-connect-ui's image does so: the page and the service are both at loopback names."""
    from_proxy = {"Host": "127.0.0.1:8083", "Origin": "http://localhost:8000", **BEARER}
    status, _ = raw_request(base_url, "PUT", "/connectors/n/pause", from_proxy)
    assert status == 404  # no such connector, but the call came through


def test_a_refused_origin_gets_the_setting_that_allows_it(base_url: str) -> None:
    headers = {"Origin": "http://ui.example.com", **BEARER}
    status, body = raw_request(base_url, "PUT", "/connectors/n/pause", headers)
    assert status == 403
    assert b"kafkeep.rest.hosts" in body
    security = RestSecurity(allowed_hosts=frozenset({"ui.example.com"}))
    assert security.allows_origin("http://ui.example.com", "localhost:8083")


def test_a_page_of_another_local_port_may_not_call_without_a_proxy() -> None:
    security = RestSecurity(allowed_hosts=frozenset({"localhost", "ui.example.com"}))
    for site in ("same-site", "cross-site"):
        assert not security.allows_origin("http://localhost:3000", "localhost:8083", site)
        assert security.allows_origin("http://localhost:8083", "localhost:8083", site)
        assert security.allows_origin("https://UI.example.com", "localhost:8083", site)


def test_a_local_page_may_not_call_an_address_where_browsers_do_not_say_from_where() -> None:
    security = RestSecurity(allowed_hosts=frozenset({"connect.example.com"}))
    assert not security.allows_origin("http://localhost:3000", "192.168.1.5:8083")
    assert security.allows_origin("http://localhost:3000", "192.168.1.5:8083", "same-origin")
    assert security.allows_origin("http://localhost:3000", "connect.example.com:8083")


def test_an_origin_that_is_no_address_is_refused(base_url: str) -> None:
    headers = {"Origin": "http://[bad", **BEARER}
    status, body = raw_request(base_url, "PUT", "/connectors/n/pause", headers)
    assert status == 403
    assert b"error_code" in body


def test_every_host_is_not_every_origin() -> None:
    security = RestSecurity(allowed_hosts=frozenset({"*"}))
    assert not security.allows_origin("http://evil.example", "localhost:8083")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]"])
def test_loopback_may_be_bound_by_anyone(host: str) -> None:
    require_safe_bind(host, RestSecurity())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "connect.example.com"])
def test_elsewhere_needs_credentials_or_a_word(host: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_safe_bind(host, RestSecurity())
    assert "--insecure" in (caught.value.hint or "")
    require_safe_bind(host, SECURITY)
    require_safe_bind(host, RestSecurity(insecure=True))


@pytest.mark.parametrize(
    "bad",
    [
        {"basic_users": {"ann": ("plain password", Role.READ)}},
        {"basic_users": {"a:b": (QUICK.hash("x"), Role.READ)}},
        {"bearer_tokens": {"t0ken": Role.READ}},
        {"body_limit_bytes": 0},
    ],
)
def test_what_cannot_be_right_is_refused_at_the_start(bad: dict) -> None:
    with pytest.raises(UsageError):
        RestSecurity(**bad)


def test_roles_are_named_in_any_case() -> None:
    assert parse_role(" Operate ") is Role.OPERATE
    with pytest.raises(UsageError, match="root"):
        parse_role("root")


def test_secrets_are_not_in_a_security_that_is_printed() -> None:
    assert "argon2" not in repr(SECURITY)
    assert token_digest("t0ken") not in repr(SECURITY)


SECRET_CONFIG = {
    "connector.class": SINK,
    "flush.size": "1",
    "aws.access.key.id": "AKIA",
    "aws.secret.access.key": "not-to-show",
    "s3.proxy.password": "${file:/run/secrets/proxy:password}",
}


@pytest.mark.parametrize("shows_secrets", [True, False])
@pytest.mark.parametrize("auth", [True, False])
def test_secrets_are_shown_to_those_who_may_write_them_if_at_all(
    shows_secrets: bool, auth: bool
) -> None:
    security = replace(SECURITY if auth else RestSecurity(), shows_secrets=shows_secrets)
    masked = {**SECRET_CONFIG, "name": "n", "aws.secret.access.key": "******"}
    sent = {**SECRET_CONFIG, "name": "n"}
    with serving(make_app(MemoryService(), security)) as url, httpx.Client(base_url=url) as api:
        made = api.put("/connectors/n/config", json=SECRET_CONFIG, auth=ANN)
        assert made.json()["config"] == (sent if shows_secrets else masked)
        for caller in ({"auth": ANN}, {"auth": ROB}, {"headers": BEARER}):
            is_admin = not auth or caller == {"auth": ANN}
            expected = sent if shows_secrets and is_admin else masked
            assert api.get("/connectors/n/config", **caller).json() == expected
            assert api.get("/connectors/n", **caller).json()["config"] == expected
            expanded = api.get("/connectors?expand=info", **caller).json()
            assert expanded["n"]["info"]["config"] == expected
            (task,) = api.get("/connectors/n/tasks", **caller).json()
            assert {key: task["config"][key] for key in expected} == expected
