"""Which of Kafka's client properties are honoured, which mean nothing here, which are refused."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from kafkeep.errors import UsageError


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


HONOURED = _keys(
    """
    bootstrap.servers client.id security.protocol request.timeout.ms
    socket.connection.setup.timeout.ms ssl.truststore.type ssl.truststore.location
    ssl.truststore.password ssl.truststore.certificates ssl.keystore.type
    ssl.keystore.location ssl.keystore.password ssl.keystore.key
    ssl.keystore.certificate.chain ssl.key.password ssl.endpoint.identification.algorithm
    ssl.protocol ssl.enabled.protocols sasl.mechanism sasl.jaas.config
    sasl.oauthbearer.token.endpoint.url
    """
)

WITHOUT_MEANING = _keys(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter
    auto.offset.reset batch.size bootstrap.controllers buffer.memory check.crcs
    client.dns.lookup client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes isolation.level key.deserializer key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms transaction.timeout.ms transactional.id
    value.deserializer value.serializer
    """
)

_CANNOT_HONOUR = _keys(
    """
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
    sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name security.providers
    ssl.cipher.suites ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm
    """
)

_HARMLESS = {
    "ssl.keymanager.algorithm": {"SunX509", "PKIX"},
    "ssl.trustmanager.algorithm": {"PKIX"},
    "sasl.login.callback.handler.class": {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    },
    "sasl.client.callback.handler.class": {
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    },
}
"""Values that ask for what happens anyway."""


def check_properties(properties: Mapping[str, str]) -> list[str]:
    """Return a note for each key without meaning here; UsageError for one that cannot hold.

    Nothing is left out in silence: a key is honoured, noted or refused.
    """
    refused = [_refusal(key, value) for key, value in sorted(properties.items())]
    problems = [problem for problem in refused if problem]
    problems += _useless_security(properties)
    if problems:
        raise UsageError("; ".join(problems))
    return [f"{key} has no effect here" for key in sorted(properties) if key in WITHOUT_MEANING]


def _refusal(key: str, value: str) -> str | None:
    if key in HONOURED or key in WITHOUT_MEANING or (not value and key in _CANNOT_HONOUR):
        return None
    if key in _CANNOT_HONOUR:
        return None if value in _HARMLESS.get(key, ()) else f"{key} cannot be honoured"
    return f"unknown property {key}{_did_you_mean(key, HONOURED | WITHOUT_MEANING)}"


def _did_you_mean(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def _useless_security(properties: Mapping[str, str]) -> list[str]:
    """Name the security settings that would be passed over: a typo must not mean plaintext."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    unused = []
    for prefix, marker in (("ssl.", "SSL"), ("sasl.", "SASL")):
        if marker not in protocol:
            unused += [key for key in sorted(properties) if key.startswith(prefix)]
    return [f"{key} is set, but security.protocol is {protocol}" for key in unused]
