"""The REST API over TLS, asked with the real ``curl``: two services in this process, one state."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.connect.https_worker import (
    CERTIFIED,
    PASSWORD,
    SINK,
    Worker,
    keys,
    load,
    make_stores,
    start,
    wrong,
)

from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.dev.secure import make_certificates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates, and the worker's as a PKCS12 store; another authority lies beside them."""
    made = make_stores(tmp_path_factory.mktemp("certificates"))
    (made / "other").mkdir()
    make_certificates(made / "other")
    return made


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Worker, Worker]]:
    """A leader and a follower, each of which lets in certificates of one authority alone."""
    flags = {
        "kafkeep.state": f"memory:{uuid.uuid4().hex}",
        "listeners": "https://127.0.0.1:0",
        "kafkeep.lease.timeout.ms": "6000",
        **keys(folder),
    }
    first = start(flags)
    first.wait_status(folder, '"is_leader":true')
    second = start(flags)
    second.wait_status(folder, '"healthy"')
    yield first, second
    second.end()
    first.end()


def test_curl_with_a_known_certificate_is_answered(
    pair: tuple[Worker, Worker], folder: Path
) -> None:
    assert pair[0].ready.url.startswith("https://127.0.0.1:")
    code, text = pair[0].curl(folder, "/connectors", *CERTIFIED)
    assert (code, text) == (0, "[]\n200")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cacert", "ca.pem"),
        ("--cacert", "ca.pem", "--cert", "other/client.pem"),
        ("--cacert", "other/ca.pem", "--cert", "client.pem"),
        ("--cacert", "ca.pem", "--cert", "client.pem", "--tls-max", "1.1"),
    ],
    ids=["no certificate", "an unknown one", "another authority", "TLS 1.1"],
)
def test_curl_without_trust_on_both_sides_gets_no_answer(
    pair: tuple[Worker, Worker], folder: Path, arguments: tuple[str, ...]
) -> None:
    code, text = pair[0].curl(folder, "/connectors", *arguments)
    assert code != 0
    assert text == "\n000"


def test_plain_http_gets_no_answer(pair: tuple[Worker, Worker], folder: Path) -> None:
    address = pair[0].ready.url.replace("https", "http") + "/connectors"
    done = subprocess.run(["curl", "-s", "--noproxy", "*", address], check=False)
    assert done.returncode != 0


def test_a_follower_forwards_over_https(pair: tuple[Worker, Worker], folder: Path) -> None:
    leader, follower = pair
    body = {"name": "over-tls", "config": SINK, "initial_state": "STOPPED"}
    told = ("-H", "Content-Type: application/json", "-d", json.dumps(body))
    code, text = follower.curl(folder, "/connectors", *CERTIFIED, *told)
    assert (code, text.rpartition("\n")[2]) == (0, "201"), text
    assert leader.curl(folder, "/connectors", *CERTIFIED)[1] == '["over-tls"]\n200'
    code, text = follower.curl(folder, "/connectors/over-tls", *CERTIFIED, "-X", "DELETE")
    assert text == "\n204"


@pytest.mark.parametrize(
    ("auth", "answered"), [("none", [True, True]), ("requested", [True, False])]
)
def test_a_certificate_may_be_left_out_unless_it_is_required(
    folder: Path, auth: str, answered: list[bool]
) -> None:
    """Keys without the prefix serve the listener too, when none has it."""
    flags = keys(folder, "", **{"ssl.client.auth": auth})
    worker = start({**flags, "kafkeep.state": "memory:one", "listeners": "https://127.0.0.1:0"})
    try:
        trust = ("--cacert", "ca.pem")
        found = [
            worker.curl(folder, "/connectors", *trust, *more)[1] == "[]\n200"
            for more in ((), ("--cert", "other/client.pem"))
        ]
        assert found == answered
    finally:
        worker.end()


def test_certificates_of_callers_make_it_safe_to_listen_everywhere(folder: Path) -> None:
    everywhere = {"listeners": "https://:8443"}
    assert load({**everywhere, **keys(folder)}).rest.listening[0].address == "0.0.0.0"
    for auth in ("none", "requested"):
        found = wrong({**everywhere, **keys(folder, **{"ssl.client.auth": auth})})
        assert list(found) == ["listeners"]


def test_stores_of_the_listener_are_not_those_of_kafkas_clients(folder: Path) -> None:
    listening = {"listeners": "https://localhost:8443"}
    apart = {**listening, **keys(folder), "security.protocol": "SSL", "ssl.key.password": "x"}
    assert load(apart).consumer.properties == {"security.protocol": "SSL", "ssl.key.password": "x"}
    shared = {**listening, **keys(folder, "")}
    assert load(shared).consumer.properties == {}
    both = load({**shared, "security.protocol": "SSL"})
    assert both.consumer.properties["ssl.truststore.location"] == str(folder / "ca.pem")
    assert "ssl.client.auth" not in both.consumer.properties
    assert PASSWORD not in repr(both)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.keystore.location": "/nowhere"}, "cannot read /nowhere"),
        ({"ssl.keystore.location": ""}, "https needs ssl.keystore.location"),
        ({"ssl.keystore.password": "other"}, "ssl.keystore.password is wrong"),
        ({"ssl.truststore.location": ""}, "needs ssl.truststore.location"),
        ({"ssl.client.auth": "maybe"}, "ssl.client.auth=maybe"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites is not supported"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 is not supported"),
        ({"port": "1"}, "listeners.https.port is no key"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_listener_cannot_have_is_refused(
    folder: Path, change: dict[str, str], words: str
) -> None:
    found = wrong({"listeners": "https://localhost:8443", **keys(folder, **change)})
    assert any(words in sentence for sentence in found.values()), found


def test_keys_of_a_listener_that_speaks_no_tls_are_refused(folder: Path) -> None:
    assert "has no https" in next(iter(wrong(keys(folder)).values()))
    assert "has no https" in wrong({"ssl.client.auth": "required"})["ssl.client.auth"]
    assert load({"ssl.client.auth": "none"}).tls is None


def test_the_advertised_scheme_is_the_listeners_or_a_proxys(folder: Path) -> None:
    https = {"listeners": "https://localhost:8443", **keys(folder)}
    assert load(https).rest.url() == "https://localhost:8443"
    assert list(wrong({**https, "rest.advertised.listener": "http"})) == [
        "rest.advertised.listener"
    ]
    proxy = {
        "rest.advertised.listener": "https",
        "rest.advertised.host.name": "connect.example.org",
        "rest.advertised.port": "443",
    }
    assert load(proxy).rest.url() == "https://connect.example.org:443"
    assert load({**https, "rest.port": "9000"}).rest.url() == "https://localhost:8443"


def test_a_port_on_top_keeps_the_files_https(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    lines = {"bootstrap.servers": "k:1", "listeners": "https://localhost:8443", **keys(folder)}
    file.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
    assert WorkerOptions.load(file, {}, {"rest.port": "9"}).rest.url() == "https://localhost:9"
