"""Several listeners of one worker, and Java's own key stores on one, called with the real curl."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import uuid
from pathlib import Path

import pytest
from tests.support.connect.https_worker import (
    CERTIFIED,
    SINK,
    keys,
    load,
    make_stores,
    start,
    wrong,
)

from kafkeep.connect.serve import run_service
from kafkeep.connect.worker.rest_security import user_line
from kafkeep.dev.process import Ports
from kafkeep.errors import EnvironmentFault


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stores(tmp_path_factory.mktemp("certificates"))


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("listeners", "told", "url"),
    [
        ("http://localhost:1,https://127.0.0.1:2", {}, "http://localhost:1"),
        ("https://127.0.0.1:2,http://localhost:1", {}, "http://localhost:1"),
        ("https://127.0.0.1:2,https://localhost:3", {}, "https://127.0.0.1:2"),
        ("http://localhost:1,https://127.0.0.1:2", {"listener": "HTTPS"}, "https://127.0.0.1:2"),
        (
            "http://localhost:1,https://127.0.0.1:2",
            {"listener": "https", "host.name": "w"},
            "https://w:2",
        ),
        ("http://localhost:1,https://127.0.0.1:2", {"port": "80"}, "http://localhost:80"),
    ],
)
def test_other_workers_get_the_listener_that_connect_would_advertise(
    folder: Path, listeners: str, told: dict[str, str], url: str
) -> None:
    advertised = {f"rest.advertised.{key}": text for key, text in told.items()}
    worker = load({"listeners": listeners, **keys(folder), **advertised})
    assert worker.rest.url() == url
    assert worker.rest.worker_id() == url.partition("//")[2]


def test_each_listener_has_to_be_safe_by_itself(folder: Path, tmp_path: Path) -> None:
    """A certificate that is required over https proves nobody who calls over http."""
    both = {"listeners": "http://:8083,https://:8443", **keys(folder)}
    assert "0.0.0.0" in wrong(both)["listeners"]
    inside = {**both, "listeners": "http://127.0.0.1:8083,https://:8443"}
    assert [one.address for one in load(inside).rest.listening] == ["127.0.0.1", "0.0.0.0"]
    assert list(wrong({**inside, **keys(folder, **{"ssl.client.auth": "none"})})) == ["listeners"]
    users = tmp_path / "users"
    users.write_text(user_line("alice", "admin", "password") + "\n")
    assert load({**both, "kafkeep.rest.users.file": str(users)}).security.has_auth


def test_secrets_are_shown_where_every_listener_demands_a_certificate(folder: Path) -> None:
    proved = {"listeners": "https://:8443", **keys(folder)}
    assert load(proved).security.shows_secrets
    assert not load({**proved, "kafkeep.rest.mask.secrets": "always"}).security.shows_secrets
    inside = {**proved, "listeners": "http://127.0.0.1:8083,https://:8443"}
    assert not load(inside).security.shows_secrets
    requested = keys(folder, **{"ssl.client.auth": "requested"})
    here = {"listeners": "https://127.0.0.1:8443", **requested}
    assert not load(here).security.shows_secrets


def test_a_worker_answers_over_http_and_https_and_workers_call_each_other_as_advertised(
    folder: Path,
) -> None:
    with Ports() as ports:
        plain, secure, other = (ports.take() for _ in range(3))
    flags = {
        "kafkeep.state": f"memory:{uuid.uuid4().hex}",
        "listeners": f"http://127.0.0.1:{plain},https://127.0.0.1:{secure}",
        "rest.advertised.listener": "https",
        "kafkeep.lease.timeout.ms": "6000",
        **keys(folder),
    }
    over_http, body = f"http://127.0.0.1:{plain}", {"name": "told", "config": SINK}
    first = start(flags)
    first.wait_status(folder, '"is_leader":true')
    assert first.ready.url == f"https://127.0.0.1:{secure}"
    assert first.ready.worker_id == f"127.0.0.1:{secure}"
    second = start({**flags, "listeners": f"http://127.0.0.1:{other},https://127.0.0.1:0"})
    try:
        second.wait_status(folder, '"healthy"')
        told = json.dumps({**body, "initial_state": "STOPPED"})
        sent = ("-H", "Content-Type: application/json", "-d", told)
        _, text = second.curl(folder, "/connectors", *sent, url=f"http://127.0.0.1:{other}")
        assert text.endswith("\n201"), text
        assert first.curl(folder, "/connectors", url=over_http) == (0, '["told"]\n200')
        assert first.curl(folder, "/connectors", *CERTIFIED) == (0, '["told"]\n200')
        assert first.curl(folder, "/connectors", "--cacert", "ca.pem")[1] == "\n000"
        crossed = f"http://127.0.0.1:{secure}", f"https://127.0.0.1:{plain}"
        for url in crossed:
            assert first.curl(folder, "/connectors", *CERTIFIED, url=url)[0] != 0
    finally:
        second.end()
        first.end()
    assert not is_taken(plain) and not is_taken(secure)


def test_a_port_that_is_taken_is_named_and_the_others_are_given_back() -> None:
    with Ports() as ports:
        free = ports.take()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = load({"listeners": f"http://127.0.0.1:{free},http://127.0.0.1:{port}"})
        with pytest.raises(EnvironmentFault, match=f"cannot listen on 127.0.0.1:{port}"):
            run_service(worker, stop=threading.Event())
    assert not is_taken(free)


@pytest.fixture(scope="module")
def java(folder: Path) -> dict[str, str]:
    """Stores that Java's keytool made, of the old type: the key has a password of its own."""
    store = ["-keystore", "worker.jks", "-storetype", "JKS", "-storepass", "of the store"]
    made = ["-genkeypair", "-alias", "worker", "-keyalg", "EC", "-dname", "CN=worker"]
    made += ["-keypass", "of the key", "-ext", "SAN=IP:127.0.0.1,DNS:localhost", *store]
    shown = ["-exportcert", "-rfc", "-alias", "worker", "-file", "worker.pem", *store]
    trusted = ["-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem"]
    trusted += ["-keystore", "trust.jks", "-storetype", "JKS", "-storepass", "of the trust"]
    for arguments in (made, shown, trusted):
        subprocess.run(["keytool", *arguments], cwd=folder, check=True, capture_output=True)
    assert (folder / "worker.jks").read_bytes()[:4] == bytes.fromhex("feedfeed")
    return {
        "ssl.keystore.location": str(folder / "worker.jks"),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": "of the store",
        "ssl.key.password": "of the key",
        "ssl.truststore.location": str(folder / "trust.jks"),
        "ssl.truststore.type": "JKS",
        "ssl.truststore.password": "of the trust",
    }


def test_a_listener_has_the_stores_that_keytool_made(folder: Path, java: dict[str, str]) -> None:
    flags = {"listeners": "https://127.0.0.1:0", "kafkeep.state": f"memory:{uuid.uuid4().hex}"}
    worker = start({**flags, **keys(folder, **java)})
    try:
        trust = ("--cacert", "worker.pem")
        known = ("--cert", "client.pem")
        assert worker.curl(folder, "/connectors", *trust, *known) == (0, "[]\n200")
        assert worker.curl(folder, "/connectors", *trust)[1] == "\n000"
    finally:
        worker.end()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.key.password": "another"}, "worker.jks cannot be opened"),
        ({"ssl.keystore.type": "JCEKS"}, "ssl.keystore.type=JCEKS is not supported"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_errors_of_a_java_key_store_are_reported(
    folder: Path, java: dict[str, str], change: dict[str, str], words: str
) -> None:
    found = wrong({"listeners": "https://localhost:1", **keys(folder, **{**java, **change})})
    assert any(words in sentence for sentence in found.values()), found
