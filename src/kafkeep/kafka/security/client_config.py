"""Translate Kafka's client properties (Java's names) into the configuration of kafka-python.

This module declares which properties are honoured, which have no effect, and which are refused. It
parses ``sasl.jaas.config``: one login module, its flag and its options. A token for OAUTHBEARER
comes from an identity provider, by client credentials, or from a file.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkeep.errors import AccessDeniedError, UsageError
from kafkeep.kafka.security.tls import tls_context
from kafkeep.options.config_files import load_text
from kafkeep.options.kafka import KafkaOptions
from kafkeep.redact import remember

_TOKEN_TIMEOUT_SECONDS = 10
_SPARE_SECONDS = 30
_MAX_ANSWER_BYTES = 1 << 20
_TOKEN = re.compile(
    r"""\s*(?: "((?:[^"\\]|\\.)*)" | '((?:[^'\\]|\\.)*)' | ([^\s"'=;]+) | ([=;]) )""",
    re.VERBOSE,
)
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
"""The login module of each supported mechanism."""
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


@dataclass(frozen=True)
class LoginModule:
    """A login module by its Java class; the options may hold secrets."""

    name: str
    options: dict[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Parse one login module; UsageError never quotes the text, because it holds secrets."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ";" or tokens[1].lower() not in _FLAGS:
        raise UsageError(
            "sasl.jaas.config is not of the form '<login module> required key=\"value\";'"
        )
    body = tokens[2:-1]
    if ";" in body:
        raise UsageError("sasl.jaas.config names more than one login module")
    if len(body) % 3 or any(sign != "=" for sign in body[1::3]):
        raise UsageError("sasl.jaas.config has an option that is not key=value")
    return LoginModule(tokens[0], dict(zip(body[::3], body[2::3], strict=True)))


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError("sasl.jaas.config cannot be read: a quote is not closed")
        double, single, word, sign = match.groups()
        quoted = double if double is not None else single
        tokens.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else word or sign)
        at = match.end()
    return tokens


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
"""Values of unsupported properties that equal the built-in behaviour."""


def check_properties(properties: Mapping[str, str]) -> list[str]:
    """Return a note for each key without effect; UsageError for a key that is not supported.

    No key is ignored silently: it is honoured, noted or refused.
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
        return None if value in _HARMLESS.get(key, ()) else f"{key} is not supported"
    return f"unknown property {key}{_did_you_mean(key, HONOURED | WITHOUT_MEANING)}"


def _did_you_mean(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def _useless_security(properties: Mapping[str, str]) -> list[str]:
    """Return errors for security settings without effect: a typo must not lead to plaintext."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    unused = []
    for prefix, marker in (("ssl.", "SSL"), ("sasl.", "SASL")):
        if marker not in protocol:
            unused += [key for key in sorted(properties) if key.startswith(prefix)]
    return [f"{key} is set, but security.protocol is {protocol}" for key in unused]


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def property_notes(options: KafkaOptions) -> list[str]:
    """Return the warnings for known properties that have no effect here."""
    return check_properties(options.properties)


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """Return kafka-python's configuration for these options.

    UsageError for a property that is unknown or not supported; files are read here.
    """
    properties = options.properties
    check_properties(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise UsageError(f"security.protocol={protocol} is not one of {', '.join(_PROTOCOLS)}")
    config: dict[str, Any] = {
        "client_id": options.client_id,
        "request_timeout_ms": _milliseconds(properties, "request.timeout.ms", 30_000),
        "connect_timeout_ms": _milliseconds(
            properties, "socket.connection.setup.timeout.ms", 10_000
        ),
        "security_protocol": protocol,
    }
    if "SSL" in protocol:
        config["ssl_context"] = tls_context(properties)
    if "SASL" in protocol:
        config.update(_sasl(properties, protocol))
    return config


def _milliseconds(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default)).strip()
    if not text.isdigit() or int(text) == 0:
        raise UsageError(f"{key}={text} is not a number of milliseconds")
    return int(text)


def _sasl(properties: Mapping[str, str], protocol: str) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in LOGIN_MODULES:
        unset = "" if "sasl.mechanism" in properties else ", Kafka's default,"
        raise UsageError(
            f"sasl.mechanism {mechanism}{unset} is not supported",
            hint=f"Use one of {', '.join(LOGIN_MODULES)}.",
        )
    text = properties.get("sasl.jaas.config")
    if not text:
        raise UsageError(f"sasl.mechanism {mechanism} needs sasl.jaas.config")
    module = parse_jaas(text)
    if module.name != LOGIN_MODULES[mechanism]:
        raise UsageError(
            f"login module {module.name} is not supported with sasl.mechanism {mechanism}",
            hint=f"Use {LOGIN_MODULES[mechanism]}.",
        )
    return {"sasl_mechanism": mechanism, **_login(mechanism, module, properties, protocol)}


def _login(
    mechanism: str, module: LoginModule, properties: Mapping[str, str], protocol: str
) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_oauth_token_provider": _token_provider(module, properties)}
    if mechanism == "AWS_MSK_IAM":
        _only(module, ())
        if protocol != "SASL_SSL":
            raise UsageError("sasl.mechanism AWS_MSK_IAM needs security.protocol=SASL_SSL")
        return {}  # credentials come from the environment, as for S3
    _only(module, ("username", "password"))
    if "username" not in module.options or "password" not in module.options:
        raise UsageError(f"{module.short_name} needs username and password in sasl.jaas.config")
    remember(module.options["password"])
    return {
        "sasl_plain_username": module.options["username"],
        "sasl_plain_password": module.options["password"],
    }


def _token_provider(module: LoginModule, properties: Mapping[str, str]) -> TokenProvider:
    extensions = tuple(name for name in module.options if name.startswith("extension_"))
    _only(module, ("clientId", "clientSecret", "scope", *extensions))
    endpoint = properties.get("sasl.oauthbearer.token.endpoint.url")
    if not endpoint:
        raise UsageError("sasl.mechanism OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url")
    return TokenProvider(endpoint, module.options)


def _only(module: LoginModule, known: tuple[str, ...]) -> None:
    for name in module.options:
        if name not in known:
            raise UsageError(f"option {name} of {module.short_name} is not supported")


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Request a token when the last one is about to expire; used on the client's loop."""

    def __init__(self, endpoint: str, options: Mapping[str, str]) -> None:
        super().__init__()
        scheme = urllib.parse.urlsplit(endpoint).scheme
        if scheme not in ("http", "https", "file"):
            raise UsageError("sasl.oauthbearer.token.endpoint.url must be http, https or file")
        if scheme != "file" and not (options.get("clientId") and options.get("clientSecret")):
            raise UsageError("sasl.jaas.config needs clientId and clientSecret for OAUTHBEARER")
        self._endpoint = endpoint
        self._options = dict(options)
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """Return a token that is not about to expire."""
        if urllib.parse.urlsplit(self._endpoint).scheme == "file":
            return self._from_file()
        if time.monotonic() >= self._until:
            self._token, seconds = self._ask()
            self._until = time.monotonic() + max(0, seconds - _SPARE_SECONDS)
        return self._token

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions, given as ``extension_<name>`` options."""
        prefix = "extension_"
        return {k[len(prefix) :]: v for k, v in self._options.items() if k.startswith(prefix)}

    def _from_file(self) -> str:
        path = urllib.request.url2pathname(urllib.parse.urlsplit(self._endpoint).path)
        try:
            return load_text(path).strip()
        except UsageError as error:
            raise AccessDeniedError(f"the token: {error.message}") from error

    def _ask(self) -> tuple[str, int]:
        form = {"grant_type": "client_credentials"}
        if self._options.get("scope"):
            form["scope"] = self._options["scope"]
        login = f"{self._options['clientId']}:{self._options['clientSecret']}".encode()
        request = urllib.request.Request(
            self._endpoint,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": "Basic " + base64.b64encode(login).decode(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            with opener.open(request, timeout=_TOKEN_TIMEOUT_SECONDS) as answer:
                document = json.loads(answer.read(_MAX_ANSWER_BYTES))
            return str(document["access_token"]), int(document.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            with error:
                raise AccessDeniedError(
                    f"the token endpoint {self._endpoint} answered {error.code}"
                ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AccessDeniedError(
                f"no token from {self._endpoint}: {type(error).__name__}"
            ) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, so that client secrets go only to the configured endpoint."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Return None: the request fails with the status of the redirect."""
