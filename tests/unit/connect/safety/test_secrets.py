"""Secrets stay out of what is shown, and come back when a mask is sent back."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from kafkeep.connect.model import RestError
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.safety import secrets
from kafkeep.connect.safety.restrictions import check_connector
from kafkeep.connect.safety.secrets import MASK, SecretRedactor, hide, is_secret, mask, unmask
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.options.option import ConfigErrors

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="{}";'
)
SECRETS = {
    "aws.secret.access.key": "wJalr/XUtnFEMI+K7MDENG",
    "aws.session.token": "session-1",
    "connect.s3.aws.secret.key": "wJalr/XUtnFEMI+K7MDENG",
    "aws_secret_access_key": "wJalr/XUtnFEMI+K7MDENG",
    "s3.sse.customer.key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "s3.proxy.password": "proxy-pass",
    "value.converter.basic.auth.user.info": "registry:reg-pass",
    "value.converter.bearer.auth.token": "bearer-9",
    "value.converter.schema.registry.url": "http://bob:in-url@registry:8081",
    "consumer.override.sasl.jaas.config": JAAS.format("hunter22"),
    "consumer.override.ssl.keystore.password": "changeit",
    "producer.override.ssl.key.password": "changeit2",
    "admin.override.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----",
    "some.api.token": "abc123",
    "my.passphrase": "open sesame",
    "connection.uri": "mongodb://u:p4ss@db",
    "gcs.credentials.json": "{}x",
}
PLAIN = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "s3.credentials.provider.class": "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
    "value.converter.basic.auth.credentials.source": "USER_INFO",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "store.kafka.keys": "true",
    "keys.format.class": "json",
    "s3.sse.kms.key.id": "arn:key",
    "s3.object.tagging.key.value.pairs": "a:b",
    "consumer.override.sasl.mechanism": "PLAIN",
    "consumer.override.security.protocol": "SASL_SSL",
    "consumer.override.ssl.truststore.location": "/etc/trust.jks",
    "value.converter.schema.registry.url": "http://registry:8081",
    "store.url": "http://s3:9000",
    "topics": "a,b",
    "aws.access.key.id": "AKIAIOSFODNN7EXAMPLE",
    "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "connect.s3.aws.access.key": "AKIAIOSFODNN7EXAMPLE",
}


@pytest.mark.parametrize("key", SECRETS)
def test_a_literal_secret_is_masked(key: str) -> None:
    assert mask({key: SECRETS[key]}) == {key: MASK}


@pytest.mark.parametrize("key", PLAIN)
def test_what_is_no_secret_is_shown(key: str) -> None:
    assert mask({key: PLAIN[key]}) == {key: PLAIN[key]}


@pytest.mark.parametrize(
    "text",
    [
        "${file:/run/secrets/s3.properties:secret}",
        "${env:AWS_SECRET_ACCESS_KEY}",
        "${dir:/run/secrets:one}${dir:/run/secrets:two}",
        "alice:${env:PASSWORD}",
        JAAS.format("${file:/run/secrets/kafka:password}"),
        "http://bob:${env:PASSWORD}@registry:8081",
    ],
)
def test_a_reference_is_shown_as_it_was_sent(text: str) -> None:
    assert mask({"some.password": text}) == {"some.password": text}


@pytest.mark.parametrize(
    "text",
    [
        "literal${env:REST}",
        "${env:START}literal",
        JAAS.format("hunter22") + "${env:X}",
        JAAS.format("half${env:X}"),
        "http://bob:in-url@registry:8081/${env:X}",
    ],
)
def test_a_literal_beside_a_reference_is_masked(text: str) -> None:
    assert mask({"some.password": text}) == {"some.password": MASK}


def test_an_empty_secret_is_shown_empty() -> None:
    assert mask({"aws.secret.access.key": ""}) == {"aws.secret.access.key": ""}


def test_a_mask_sent_back_keeps_what_is_stored() -> None:
    shown = mask({**SECRETS, "topics": "a"})
    assert unmask({**shown, "topics": "b"}, {**SECRETS, "topics": "a"}) == {
        **SECRETS,
        "topics": "b",
    }


def test_a_new_value_replaces_the_stored_one() -> None:
    stored = {"s3.proxy.password": "old"}
    assert unmask({"s3.proxy.password": "new"}, stored) == {"s3.proxy.password": "new"}


def test_a_mask_for_which_nothing_is_stored_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigErrors) as caught:
        unmask({"s3.proxy.password": MASK, "topics": "a"}, {"topics": "a"})
    assert list(caught.value.by_key) == ["s3.proxy.password"]


@pytest.mark.parametrize(
    ("secret", "address"),
    [
        ("value.converter.basic.auth.user.info", "value.converter.schema.registry.url"),
        ("s3.proxy.password", "s3.proxy.url"),
        ("s3.sse.customer.key", "store.url"),
        ("s3.sse.customer.key", "s3.proxy.url"),
        ("aws_secret_access_key", "aws_s3_endpoint"),
        ("connect.s3.aws.secret.key", "connect.s3.custom.endpoint"),
        ("consumer.override.sasl.jaas.config", "consumer.override.bootstrap.servers"),
    ],
)
def test_a_masked_secret_does_not_go_along_to_another_address(secret: str, address: str) -> None:
    stored = {secret: "x:hidden", address: "http://good.example.org"}
    with pytest.raises(ConfigErrors) as caught:
        unmask({secret: MASK, address: "http://evil.example.org"}, stored)
    assert address in caught.value.by_key[secret]


@pytest.mark.parametrize("key", SECRETS)
def test_hide_takes_secrets_out_of_a_trace(key: str) -> None:
    trace = f"Traceback …\n  KafkaError: refused for {SECRETS[key]!r} at {SECRETS[key]}, value 7"
    clean = hide(trace, [SECRETS])
    assert SECRETS[key] not in clean
    assert clean.startswith("Traceback …\n  KafkaError: refused for ")
    assert clean.endswith("value 7")


@pytest.mark.parametrize("part", ["hunter22", "reg-pass", "in-url", "p4ss"])
def test_hide_takes_out_a_password_that_was_part_of_a_value(part: str) -> None:
    assert part not in hide(f"login failed: {part} is wrong", [SECRETS])


def test_hide_finds_a_secret_as_it_stands_in_an_address_or_in_json() -> None:
    config = {"some.password": 'a/b"c+d'}
    text = 'GET /?p=a%2Fb%22c%2Bd {"p": "a/b\\"c+d"}'
    assert hide(text, [config]) == f'GET /?p={MASK} {{"p": "{MASK}"}}'


def test_hide_leaves_words_whole_that_hold_a_short_secret() -> None:
    assert hide("a task at state a", [{"x.password": "a"}]) == f"{MASK} task at state {MASK}"


def test_a_secret_may_be_half_an_address() -> None:
    assert hide("it was http://[ all along", [{"s3.proxy.password": "http://["}]) == (
        f"it was {MASK} all along"
    )


def test_hide_leaves_what_is_no_secret() -> None:
    assert hide("orders at http://s3:9000", [PLAIN]) == "orders at http://s3:9000"


def test_is_secret_checks_addresses_under_any_key() -> None:
    assert is_secret("anything", "amqp://u:p@host")
    assert not is_secret("anything", "http://host/a@b")


@pytest.fixture
def hiding():
    filter_ = SecretRedactor()
    undo = filter_.install()
    yield filter_
    undo()


def test_logs_of_every_logger_are_cleaned(hiding: SecretRedactor, caplog) -> None:
    hiding.keep("one", {"x.password": "hunter22"})
    with caplog.at_level(logging.INFO):
        logging.getLogger("some.library").warning("login with %s as %s", "hunter22", 7)
        logging.getLogger().error("hunter22 was refused")
    assert caplog.messages == [f"login with {MASK} as 7", f"{MASK} was refused"]
    assert caplog.records[0].args == (MASK, 7)


def test_tracebacks_in_logs_are_cleaned(hiding: SecretRedactor, caplog) -> None:
    hiding.keep("one", {"x.password": "hunter22"})
    try:
        raise ValueError("no login for hunter22")
    except ValueError:
        logging.getLogger("some.library").exception("it failed")
    assert "hunter22" not in caplog.text
    assert f"ValueError: no login for {MASK}" in caplog.text


def test_secrets_of_a_changed_or_deleted_connector_are_forgotten(hiding: SecretRedactor) -> None:
    hiding.keep("one", {"x.password": "first-one"}, {"x.password": "resolved"})
    hiding.keep("two", {"x.password": "other-one"})
    hiding.keep("one", {"x.password": "second-one"})
    told = "first-one resolved second-one other-one"
    assert hiding.redact(told) == f"first-one resolved {MASK} {MASK}"
    hiding.forget("one")
    assert hiding.redact(told) == f"first-one resolved second-one {MASK}"


def test_a_connector_that_starts_costs_nothing_for_the_secrets_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(secrets, "is_secret", lambda key, _text: bool(looked.append(key)) or True)
    hiding = SecretRedactor()
    for number in range(500):
        hiding.keep(f"connector-{number}", {"x.password": f"hunter-{number:04}"})
    monkeypatch.undo()
    assert len(looked) == 500
    assert hiding.redact("hunter-0000 and hunter-0499") == f"{MASK} and {MASK}"


def test_a_reference_under_a_plain_key_makes_no_answer_of_a_secret(tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("secret=hunter22\n")
    lines = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    definitions = Definitions(providers=Providers.from_worker(lines))
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": "a",
        "s3.bucket.name": "bucket",
        "format.class": "json",
        "flush.size": f"${{file:{tmp_path}/s3:secret}}",
    }
    answer = definitions.validate(config["connector.class"], config)
    assert answer["error_count"] > 0
    assert "hunter22" not in json.dumps(answer)
    with pytest.raises(RestError) as caught:
        definitions.checked("x", config, None)
    assert "flush.size" in caught.value.message
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("store.url", "http://{}:9000"),
        ("consumer.override.bootstrap.servers", "{}:9092"),
        ("consumer.override.sasl.jaas.config", "{} required x=1;"),
        ("archive", "{}://bucket"),
    ],
)
def test_a_refused_reference_does_not_reveal_its_value(key: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("secret=Hunter-2222\n")
    lines = {
        "bootstrap.servers": "kafka:9092",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "kafkeep.outbound.hosts": "example.org",
    }
    worker = WorkerOptions.load(None, {}, lines)
    definitions = Definitions(
        providers=Providers.from_worker(lines),
        restrictions=lambda config: check_connector(config, worker),
    )
    kind = "io.confluent.connect.s3.S3SinkConnector"
    config = {
        "connector.class": kind,
        "topics": "a",
        key: text.format(f"${{file:{tmp_path}/s3:secret}}"),
    }
    with pytest.raises(
        RestError, match=f"configuration {key}: the value of its reference"
    ) as caught:
        definitions.checked("x", config, None)
    assert "hunter" not in caught.value.message.lower()
    assert "hunter" not in json.dumps(definitions.validate(kind, config)).lower()
