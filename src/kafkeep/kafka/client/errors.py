"""Translate the errors of kafka-python and Kafka's error codes into errors of kafkeep."""

from __future__ import annotations

import ssl

import kafka.errors as client_errors

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    PreflightError,
    TransientError,
)
from kafkeep.kafka.client.transport import NotKafkaError, SpeaksTlsError

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
UNKNOWN_TOPIC_ID = 100

STALE_METADATA = frozenset({3, 5, 6, 9, 13, 56, 72, 74, 75, 100, 103})
"""The leader moved or is unknown, or the broker does not know the topic: refresh metadata."""

RETRIABLE = STALE_METADATA | {7, 14, 15, 16, 19, 20, 41, 78, 89}
DENIED = frozenset({29, 30, 31, 53, 65})


def error_name(code: int) -> str:
    """Return Kafka's name for an error code, such as ``NOT_LEADER_OR_FOLLOWER``."""
    return str(getattr(client_errors.for_code(code), "message", f"error {code}"))


def refusal(code: int, what: str, message: str | None = None) -> KafkeepError:
    """Return the error for an error code in an answer; ``what`` names the resource."""
    detail = f"{error_name(code)} ({code})" + (f": {message}" if message else "")
    if code in DENIED:
        return AccessDeniedError(
            f"access denied: {what}: {detail}",
            hint="Grant the user the ACLs that kafkeep needs on it.",
        )
    if code in RETRIABLE:
        return TransientError(f"{what}: {detail}")
    return PreflightError(f"refused by Kafka: {what}: {detail}")


def connection_failure(error: BaseException, where: str, *, answered: bool = False) -> KafkeepError:
    """Return the error for a failed connection to ``where``.

    ``answered`` is True when the broker had already answered on this connection.
    """
    if isinstance(error, KafkeepError):
        return error
    return (
        _login_failure(error, where)
        or _protocol_failure(error, where)
        or _tls_failure(error, where)
        or _lost(error, where, answered=answered)
    )


def is_final(error: KafkeepError) -> bool:
    """Return whether a retry cannot help: login, certificates, protocol."""
    return not isinstance(error, TransientError)


def _login_failure(error: BaseException, where: str) -> KafkeepError | None:
    if isinstance(error, client_errors.SaslAuthenticationFailedError):
        reason = str(error).partition(": ")[2].removeprefix("SaslAuthenticationFailedError: ")
        return AccessDeniedError(
            f"Kafka at {where} refused the login: {reason or 'authentication failed'}",
            hint="Check the user name and password in sasl.jaas.config.",
        )
    if isinstance(error, client_errors.UnsupportedSaslMechanismError):
        return AccessDeniedError(
            f"Kafka at {where} does not support the configured SASL mechanism",
            hint="Set sasl.mechanism to one that the listener has enabled.",
        )
    if isinstance(error, client_errors.IllegalSaslStateError):
        return EnvironmentFault(
            f"Kafka at {where} does not expect a login on this port",
            hint="Use security.protocol=PLAINTEXT or SSL, or the port of the SASL listener.",
        )
    if isinstance(error, client_errors.AuthorizationError):
        return AccessDeniedError(f"Kafka at {where} denied access: {error}")
    return None


def _protocol_failure(error: BaseException, where: str) -> KafkeepError | None:
    if isinstance(error, SpeaksTlsError):
        return EnvironmentFault(
            f"Kafka at {where} speaks TLS, but the connection is plaintext",
            hint="Set security.protocol=SSL (or SASL_SSL) in the client properties.",
        )
    if isinstance(error, NotKafkaError):
        return EnvironmentFault(f"{where} does not speak Kafka's protocol: it {error.args[0]}")
    if isinstance(error, client_errors.UnsupportedVersionError):
        return EnvironmentFault(f"Kafka at {where} is too old: {error}")
    return None


def _tls_failure(error: BaseException, where: str) -> KafkeepError | None:
    cause = _tls_cause(error)
    if cause is None:
        return None
    reason = getattr(cause, "verify_message", None) or getattr(cause, "reason", None) or str(cause)
    text = f"{reason} {cause}".lower()
    if "alert" in text and ("certificate" in text or "unknown ca" in text):
        return AccessDeniedError(
            f"Kafka at {where} did not accept the client certificate: {reason}",
            hint="Set ssl.keystore.* to a client certificate that the broker trusts.",
        )
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = "Set ssl.truststore.* to the authority that signed the broker's certificate."
        if "hostname" in text or "ip address" in text:
            hint = "Connect with a host name that is in the certificate."
        return EnvironmentFault(
            f"the certificate of Kafka at {where} is not trusted: {reason}", hint=hint
        )
    return EnvironmentFault(
        f"TLS handshake with Kafka at {where} failed: {reason}",
        hint="If the port is plaintext, use security.protocol=PLAINTEXT or SASL_PLAINTEXT.",
    )


def _tls_cause(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__
    return None


def _lost(error: BaseException, where: str, *, answered: bool) -> KafkeepError:
    text = str(error)
    if "Handshake failed" in text:
        return EnvironmentFault(
            f"TLS handshake with Kafka at {where} failed: the other side closed the connection",
            hint="If the port is plaintext, use security.protocol=PLAINTEXT.",
        )
    if "disconnected" in text or "reset" in text.lower():
        return TransientError(
            f"Kafka at {where} closed the connection",
            hint="The listener may require TLS or a login: check security.protocol.",
        )
    if answered:
        return TransientError(f"connection to Kafka at {where} lost: {text}")
    reason = text.rpartition(": ")[2] or type(error).__name__
    return TransientError(
        f"cannot reach Kafka at {where}: {_plain(reason)}",
        hint="Check the bootstrap servers, and that the brokers are running.",
    )


def _plain(reason: str) -> str:
    words = {"ECONNREFUSED": "connection refused", "ETIMEDOUT": "timed out"}
    for code, plain in words.items():
        if code in reason:
            return plain
    return reason
