"""Connectors of the REST API get no rights, addresses or files that the worker does not allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.connect.safety.restrictions import (
    check_connector,
    is_special,
    parse_address,
    url_problem,
)
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.options import WorkerOptions

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required username="u" password="hunter22";'
JNDI = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://evil";'
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "2852039166",
    "0xA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "0251.254.0xa9.254",
    "169.254.43518",
    "169.16689662",
    "169.254.169.254.",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "\uff11\uff16\uff19.\uff12\uff15\uff14.\uff11\uff16\uff19.\uff12\uff15\uff14",
]


def worker(**keys: str) -> WorkerOptions:
    flags = {key.replace("_", "."): text for key, text in keys.items()}
    return WorkerOptions.load(None, {}, {"bootstrap.servers": "kafka:9092", **flags})


def policy(name: str) -> WorkerOptions:
    return worker(connector_client_config_override_policy=name)


@pytest.mark.parametrize("host", METADATA)
@pytest.mark.parametrize(
    "key",
    [
        "store.url",
        "s3.proxy.url",
        "value.converter.schema.registry.url",
        "aws_s3_endpoint",
        "schema.registry",
        "restore.schema.registry",
    ],
)
def test_metadata_addresses_are_refused_however_they_are_written(key: str, host: str) -> None:
    assert list(check_connector({key: f"http://{host}:80/latest"}, worker())) == [key]


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "2852039166"])
def test_a_link_local_address_is_called_when_the_worker_names_it(host: str) -> None:
    told = worker(kafkeep_outbound_hosts="169.254.169.254, *.example.org")
    allowed = host != "[::ffff:169.254.169.254]"
    assert (check_connector({"store.url": f"http://{host}"}, told) == {}) is allowed


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000",
        "http://localhost:9000",
        "https://s3.eu-central-1.amazonaws.com",
        "http://10.0.0.7",
        "minio:9000",
        "http://[2001:db8::1]:9000",
        "http://registry:8081,http://user:pw@registry-2:8081",
        "",
    ],
)
def test_ordinary_addresses_are_fine(url: str) -> None:
    keys = ("store.url", "value.converter.schema.registry.url")
    assert check_connector(dict.fromkeys(keys, url), worker()) == {}


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://host/x",
        "gopher://host",
        "http://",
        "http://a b",
        "http://host\\@evil",
        "http://host:99999",
        "http://%31%36%39.254.169.254",
        "http://good,http://169.254.169.254",
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        "store.url",
        "aws.s3.endpoint",
        "connect.s3.custom.endpoint",
        "consumer.override.sasl.oauthbearer.token.endpoint.url",
    ],
)
def test_addresses_that_are_not_plain_http_are_refused(key: str, url: str) -> None:
    assert list(check_connector({key: url}, worker())) == [key]


def test_with_a_list_of_hosts_no_other_is_called() -> None:
    told = worker(kafkeep_outbound_hosts="s3.example.org,*.internal,10.0.0.0/8")
    fine = ("http://s3.example.org", "https://a.b.internal:1", "http://10.1.2.3")
    for url in fine:
        assert check_connector({"store.url": url}, told) == {}
    for url in ("http://s3.example.com", "http://internal", "http://11.0.0.1", "http://localhost"):
        assert "kafkeep.outbound.hosts" in check_connector({"store.url": url}, told)["store.url"]


def test_an_address_in_a_refusal_does_not_reveal_its_password() -> None:
    found = check_connector({"store.url": "http://u:hunter22@169.254.169.254/"}, worker())
    assert "hunter22" not in found["store.url"]


def test_addresses_are_read_as_the_system_reads_them() -> None:
    for name in METADATA[:9]:
        address = parse_address(name)
        assert address is not None
        assert is_special(address)
    assert parse_address("example.org") is None
    assert url_problem("http://1.2.3.4.5") is None  # a name to every resolver


@pytest.mark.parametrize("client", ["consumer", "producer", "admin"])
def test_policy_none_allows_no_override(client: str) -> None:
    key = f"{client}.override.client.id"
    why = check_connector({key: "x"}, policy("None"))[key]
    assert why == (
        "The 'None' policy does not allow 'client.id' to be overridden in the connector "
        "configuration."
    )
    assert check_connector({key: "x"}, policy("All")) == {}


def test_policy_principal_allows_who_one_is_alone() -> None:
    who = {
        "consumer.override.sasl.jaas.config": JAAS,
        "consumer.override.sasl.mechanism": "PLAIN",
        "consumer.override.security.protocol": "SASL_SSL",
    }
    others = {"consumer.override.auto.offset.reset": "latest", "producer.override.acks": "all"}
    assert set(check_connector({**who, **others}, policy("Principal"))) == set(others)


@pytest.mark.parametrize("name", ["All", "Principal"])
def test_unknown_login_modules_are_refused_without_telling_secrets(name: str) -> None:
    key = "consumer.override.sasl.jaas.config"
    why = check_connector({key: JNDI}, policy(name))[key]
    assert "JndiLoginModule is refused" in why
    assert list(check_connector({key: f"{JAAS} {JNDI}"}, policy(name))) == [key]
    assert "hunter22" not in check_connector({key: f"{JAAS} x"}, policy(name))[key]
    assert check_connector({key: JAAS}, policy(name)) == {}


@pytest.mark.parametrize(
    "name",
    [
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
        "sasl.login.class",
        "ssl.engine.factory.class",
        "security.providers",
        "plugin.library.paths",
        "interceptor.classes",
        "metric.reporters",
        "ssl.no.such.thing",
    ],
)
@pytest.mark.parametrize("client", ["consumer", "producer", "admin"])
def test_overrides_that_name_code_or_nothing_known_are_refused(client: str, name: str) -> None:
    key = f"{client}.override.{name}"
    assert check_connector({key: "com.example.Evil"}, worker())[key].startswith("refused: ")


def test_brokers_of_a_connector_are_checked_like_other_addresses() -> None:
    key = "consumer.override.bootstrap.servers"
    assert list(check_connector({key: "kafka:9092,169.254.169.254:80"}, worker())) == [key]
    assert list(check_connector({key: "nonsense"}, worker())) == [key]
    told = worker(kafkeep_outbound_hosts="other.example.org")
    assert check_connector({key: "kafka:9092,other.example.org:9092"}, told) == {}
    assert list(check_connector({key: "kafka:1"}, told)) == [key]


@pytest.mark.parametrize("key", ["archive", "kafkeep.archive", "store.url"])
def test_folders_of_the_machine_are_refused_unless_allowed(key: str) -> None:
    assert list(check_connector({key: "file:///var/lib/archives/a"}, worker())) == [key]


def test_archives_lie_in_an_allowed_folder(tmp_path: Path) -> None:
    told = worker(kafkeep_allowed_folders=str(tmp_path))
    (tmp_path / "link").symlink_to("/etc")
    for address in (f"file://{tmp_path}/new/one", f"{tmp_path}/two", "s3://bucket/x"):
        assert check_connector({"archive": address}, told) == {}
    for address in (
        f"file://{tmp_path}/../x",
        f"file://{tmp_path}-other/x",
        f"file://{tmp_path}/link/x",
        f"file://{tmp_path}/%2e%2e/x",
        "/etc",
        "/etc/\0",
        "relative",
        "ftp://x/y",
    ):
        assert list(check_connector({"archive": address}, told)) == ["archive"], address


def test_key_stores_lie_in_an_allowed_folder_or_are_the_workers_own(tmp_path: Path) -> None:
    key = "consumer.override.ssl.keystore.location"
    assert "kafkeep.allowed.folders" in check_connector({key: "/etc/ssl/key.jks"}, worker())[key]
    told = worker(kafkeep_allowed_folders=str(tmp_path))
    assert check_connector({key: f"{tmp_path}/\0"}, told) == {key: "is not a path"}
    assert check_connector({key: f"{tmp_path}/key.jks"}, told) == {}
    own = worker(security_protocol="SSL", ssl_truststore_location="/etc/ssl/trust.jks")
    assert (
        check_connector({"producer.override.ssl.truststore.location": "/etc/ssl/trust.jks"}, own)
        == {}
    )
    for registry in (
        "value.converter.schema.registry.ssl.truststore.location",
        "schema.registry.config",
        "restore.schema.registry.config",
    ):
        assert list(check_connector({registry: "/etc/shadow"}, worker())) == [registry]
        assert check_connector({registry: f"{tmp_path}/registry.properties"}, told) == {}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("store.url", "http://169.254.169.254/${:x}"),
        ("archive", "file:///etc/cron.d/${:x}"),
        ("consumer.override.sasl.jaas.config", "${:x} required;"),
        ("consumer.override.bootstrap.servers", "169.254.169.254:${:x}"),
        ("consumer.override.ssl.truststore.location", "/etc/shadow/${:x}/.."),
    ],
)
def test_what_only_resembles_a_reference_is_checked(key: str, text: str) -> None:
    assert Providers().resolve({key: text}) == {key: text}
    assert list(check_connector({key: text}, worker())) == [key]


def test_a_module_is_checked_though_its_password_is_a_reference() -> None:
    key = "consumer.override.sasl.jaas.config"
    text = JAAS.replace("hunter22", "${env:PASSWORD}")
    assert check_connector({key: text}, worker()) == {}
    assert list(check_connector({key: text.replace("Plain", "Evil")}, worker())) == [key]


def test_a_usual_connector_passes() -> None:
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "store.url": "http://minio:9000",
        "topics": "a",
        "s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
        "transforms.x.static.value": "http://169.254.169.254",
    }
    assert check_connector(config, worker()) == {}
