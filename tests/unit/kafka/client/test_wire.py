from __future__ import annotations

import ssl
import uuid
from typing import Any

import kafka.errors
import pytest

from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    PreflightError,
    TransientError,
    UsageError,
)
from kafkeep.kafka.client.connection import FairSemaphore
from kafkeep.kafka.client.errors import connection_failure, error_name, is_final, refusal
from kafkeep.kafka.client.fetch import FetchError, FetchErrorKind
from kafkeep.kafka.client.metadata import format_topic_id, parse_topic_id
from kafkeep.kafka.client.transport import ResponseBuffer, SpeaksTlsError, _frame_size


def _step(coroutine: Any) -> bool:
    """Drive a coroutine one step; True when it is done."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False


def test_permits_are_granted_in_the_order_of_requests() -> None:
    turns = FairSemaphore(2)
    asked = [turns.take() for _ in range(4)]
    assert [_step(one) for one in asked] == [True, True, False, False]
    turns.give()
    late = turns.take()
    assert not _step(late)
    assert _step(asked[2])
    turns.give()
    assert _step(asked[3])
    turns.give()
    assert _step(late)
    turns.give()
    turns.give()
    assert _step(turns.take())


def test_topic_ids_are_written_as_kafka_writes_them() -> None:
    known = uuid.UUID("58609dd7-7f16-48c3-9214-ba5449980a8c")
    assert format_topic_id(known) == "WGCd138WSMOSFLpUSZgKjA"
    assert parse_topic_id(format_topic_id(known)) == known
    assert format_topic_id(None) == ""
    with pytest.raises(UsageError):
        parse_topic_id("short")


def test_a_frame_hands_out_views_and_counts() -> None:
    frame = ResponseBuffer(bytearray(b"abcdef"))
    assert frame.read(2) == b"ab"
    assert frame.tell() == 2
    assert frame.read() == b"cdef"
    frame.seek(0)
    assert len(frame) == 6
    assert frame.read(99) == b"abcdef"


def test_a_tls_alert_is_recognised_instead_of_a_length() -> None:
    assert _frame_size(b"\0\0\1\0") == 256
    with pytest.raises(SpeaksTlsError):
        _frame_size(b"\x15\x03\x03\x00")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (SpeaksTlsError("alert"), EnvironmentFault, "speaks TLS"),
        (
            kafka.errors.SaslAuthenticationFailedError("SaslAuthenticationFailedError: bad"),
            AccessDeniedError,
            "refused the login: bad",
        ),
        (kafka.errors.IllegalSaslStateError(), EnvironmentFault, "does not expect a login"),
        (
            kafka.errors.KafkaConnectionError("unable to connect: 111 ECONNREFUSED"),
            TransientError,
            "cannot reach Kafka at h:1: connection refused",
        ),
        (kafka.errors.KafkaConnectionError("socket disconnected"), TransientError, "closed"),
    ],
)
def test_connection_failures_become_sentences(
    error: Exception, kind: type[Exception], said: str
) -> None:
    failure = connection_failure(error, "h:1")
    assert type(failure) is kind
    assert said in failure.message
    assert failure.hint
    assert is_final(failure) is (kind is not TransientError)


def test_the_cause_of_a_failed_handshake_is_found() -> None:
    error = kafka.errors.KafkaConnectionError("Handshake failed: x")
    error.__cause__ = ssl.SSLCertVerificationError(1, "[SSL: X] certificate verify failed")
    failure = connection_failure(error, "h:1")
    assert "not trusted" in failure.message
    assert "ssl.truststore" in (failure.hint or "")


def test_codes_become_errors_that_say_whether_to_retry() -> None:
    assert isinstance(refusal(29, "topic x"), AccessDeniedError)
    assert isinstance(refusal(6, "x-0"), TransientError)
    assert isinstance(refusal(36, "create topic x"), PreflightError)
    assert error_name(36) == "TOPIC_ALREADY_EXISTS"
    denied = FetchError(FetchErrorKind.ACCESS_DENIED, 29, "x-0 at offset 5")
    assert isinstance(denied.exception(), AccessDeniedError)
    gone = FetchError(FetchErrorKind.OFFSET_OUT_OF_RANGE, 1, "x-0 at offset 5").exception()
    assert str(gone) == "x-0 at offset 5: OFFSET_OUT_OF_RANGE (1)"
