from __future__ import annotations

import time
from typing import Any

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevStatus
from kafkeep.errors import AccessDeniedError, EnvironmentFault, KafkeepError, TransientError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.admin.groups import commit_offsets, load_group_offsets
from kafkeep.kafka.client.wire import FetchErrorKind, FetchPosition, Wire
from kafkeep.options.kafka import KafkaOptions

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def ways(secure_services: DevStatus) -> dict[str, KafkaOptions]:
    """The options of every secured way in, by name."""
    found = {
        way.name: KafkaOptions.load(way.bootstrap_servers, way.properties_file)
        for way in secure_services.secure
    }
    found["plaintext"] = KafkaOptions(secure_services.bootstrap_servers)
    return found


def failure(options: KafkaOptions, *, patience_s: float = PATIENCE_S) -> KafkeepError:
    """Connect in vain; what trying again cannot mend is told long before the patience ends."""
    timeout_ms = int(patience_s * 1000)
    began = time.monotonic()
    with (
        Wire(options, connect_timeout_ms=timeout_ms) as wire,
        pytest.raises(KafkeepError) as raised,
    ):
        Admin(wire).cluster_id()
    if not isinstance(raised.value, TransientError):
        assert time.monotonic() - began < patience_s
    return raised.value


@pytest.mark.parametrize(
    "name", ["scram", "scram256", "plain", "tls", "tls-jks", "tls-pkcs12", "mtls"]
)
def test_every_way_in_fetches_and_produces(
    ways: dict[str, KafkaOptions], name: str, topic_name: str, make_batch: Any
) -> None:
    value = b"0123456789" * 300_000
    with Wire(ways[name]) as wire:
        admin = Admin(wire)
        admin.create_topic(topic_name, 1, configs={"max.message.bytes": "10000000"})
        assert (
            wire.produce({(topic_name, 0): make_batch([value])}).result()[topic_name, 0].error_code
            == 0
        )
        wanted = FetchPosition(topic_name, "", 0, 0, 1 << 20)
        [answer] = wire.fetch([wanted], max_bytes=1 << 20).result()
        assert value in bytes(answer.records)
        admin.delete_topics([topic_name])


def test_a_wrong_password_is_access_denied_at_once(ways: dict[str, KafkaOptions]) -> None:
    for name in ("scram", "plain"):
        properties = dict(ways[name].properties)
        jaas = properties["sasl.jaas.config"]
        properties["sasl.jaas.config"] = jaas.replace('password="', 'password="not-')
        error = failure(KafkaOptions(ways[name].bootstrap_servers, properties))
        assert isinstance(error, AccessDeniedError)
        assert "refused the login" in error.message


def test_wrong_protocols_are_reported_in_one_sentence(ways: dict[str, KafkaOptions]) -> None:
    tls, plaintext, sasl = ways["tls"], ways["plaintext"], ways["scram"]
    error = failure(KafkaOptions(plaintext.bootstrap_servers, tls.properties))
    assert "TLS handshake" in error.message
    assert "plaintext" in (error.hint or "")
    for server in (tls, sasl):
        error = failure(KafkaOptions(server.bootstrap_servers))
        assert "TLS" in error.message + (error.hint or "")
    error = failure(KafkaOptions(sasl.bootstrap_servers, tls.properties), patience_s=10)
    assert "login" in error.message + (error.hint or "")


def test_certificates_that_are_not_trusted_are_named(ways: dict[str, KafkaOptions]) -> None:
    error = failure(KafkaOptions(ways["tls"].bootstrap_servers, {"security.protocol": "SSL"}))
    assert isinstance(error, EnvironmentFault)
    assert "not trusted" in error.message
    error = failure(KafkaOptions(ways["mtls"].bootstrap_servers, ways["tls"].properties))
    assert isinstance(error, AccessDeniedError)
    assert "certificate" in error.message


def test_a_user_without_rights_is_denied_by_name(
    ways: dict[str, KafkaOptions], topic_name: str
) -> None:
    with Wire(ways["plaintext"]) as wire:
        Admin(wire).create_topic(topic_name, 1)
    with Wire(ways["limited"]) as wire:
        admin = Admin(wire)
        named = pytest.raises(AccessDeniedError, match=topic_name)
        with named:
            admin.topics([topic_name])
        with named:
            admin.topic_configs([topic_name])
        with named:
            admin.offsets([(topic_name, 0)], OffsetSpec.LATEST)
        with pytest.raises(AccessDeniedError, match="create topic other"):
            admin.create_topic("other", 1)
        with pytest.raises(AccessDeniedError, match="group g"):
            commit_offsets(admin, "g", {(topic_name, 0): 0})
        assert admin.topics() == {}
        assert admin.partition_sizes() == {}
        assert load_group_offsets(admin, [topic_name], ["g"]).denied == ["g"]
        [answer] = wire.fetch([FetchPosition(topic_name, "", 0, 0, 1000)], max_bytes=1000).result()
        assert answer.error is not None
        assert answer.error.kind is FetchErrorKind.ACCESS_DENIED
        assert isinstance(answer.error.exception(), AccessDeniedError)
