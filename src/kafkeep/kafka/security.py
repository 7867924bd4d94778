"""The client's properties, under Java's names, as the configuration of the client in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkeep.config.kafka import KafkaOptions
from kafkeep.errors import UsageError
from kafkeep.kafka.jaas import LOGIN_MODULES, LoginModule, parse_jaas
from kafkeep.kafka.keystores import tls_context
from kafkeep.kafka.oauth import TokenProvider
from kafkeep.kafka.properties import check_properties
from kafkeep.redact import remember

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def property_notes(options: KafkaOptions) -> list[str]:
    """Return what to warn about: properties that are known but have no effect here."""
    return check_properties(options.properties)


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """Return kafka-python's configuration for these options.

    UsageError for a property that is unknown or cannot be honoured; files are read here.
    """
    properties = options.properties
    check_properties(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise UsageError(f"security.protocol={protocol} is none of {', '.join(_PROTOCOLS)}")
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
            f"login module {module.name} cannot be honoured with sasl.mechanism {mechanism}",
            hint=f"It must be {LOGIN_MODULES[mechanism]}.",
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
            raise UsageError(f"option {name} of {module.short_name} cannot be honoured")
