"""The client of a schema registry: what is asked, and what becomes of each answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.converting import MemoryRegistry, answering

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import AccessDeniedError, RecordError, TransientError, UsageError
from kafkeep.records.converters.converter import TopicSubject
from kafkeep.registry.client import Registry
from kafkeep.retry import RetryPolicy


def test_the_registry_is_asked_once_for_each_id_with_credentials() -> None:
    with answering(lambda _: (200, b'{"schema": "\\"int\\""}')) as (url, asked):
        registry = Registry((url,), user=("me", "hidden"))
        schemas = [registry.schema(7), registry.schema(7)]

    assert schemas == [RegisteredSchema("AVRO", '"int"')] * 2
    assert [one["path"] for one in asked] == ["/schemas/ids/7"]
    assert asked[0]["authorization"] == "Basic bWU6aGlkZGVu"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, RecordError), (401, AccessDeniedError), (403, AccessDeniedError), (422, RecordError)],
)
def test_refusals_are_classified(status: int, kind: type[Exception]) -> None:
    with (
        answering(lambda _: (status, b"{}")) as (url, asked),
        pytest.raises(kind) as refusal,
    ):
        Registry((url,)).schema(41)

    assert len(asked) == 1
    assert refusal.type is kind
    if status == 404:
        assert "schema id 41" in str(refusal.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error_code": 42201, "message": "not Avro"}', " with status 422: not Avro"),
        (b"<html>what another server says to itself", " with status 422"),
        (b'{"message": "a secret"}', " with status 422"),
        (b'["a secret"]', " with status 422"),
    ],
)
def test_a_refusal_quotes_a_registry_and_no_other_server(body: bytes, words: str) -> None:
    with (
        answering(lambda _: (422, body)) as (url, _),
        pytest.raises(RecordError) as refusal,
    ):
        Registry((url,)).schema(41)
    assert str(refusal.value).endswith(words)


def test_a_registry_that_fails_is_asked_again_and_then_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "kafkeep.registry.client.REGISTRY", RetryPolicy(first_wait_s=0.001, attempts=4)
    )
    states = iter([500, 503, 200])
    with answering(lambda _: (next(states), b'{"schema": "\\"int\\""}')) as (url, asked):
        assert Registry((url,)).schema(1).text == '"int"'
    assert len(asked) == 3

    with answering(lambda _: (500, b"")) as (url, _), pytest.raises(TransientError, match="500"):
        Registry((url,)).schema(1)


def test_the_next_address_is_taken_when_one_does_not_answer() -> None:
    with answering(lambda _: (200, b'["a"]')) as (url, _):
        assert Registry(("http://127.0.0.1:1", url)).subjects() == ["a"]


def test_a_page_that_is_no_registry_is_named() -> None:
    with (
        answering(lambda _: (200, b"<html>")) as (url, _),
        pytest.raises(UsageError, match="does not answer like"),
    ):
        Registry((url,)).subjects()


def test_versions_of_other_subjects_count_only_when_they_agree() -> None:
    registry = MemoryRegistry(RegisteredSchema("AVRO", '"int"'))
    registry._versions[1] = {"a-value": 3, "b-value": 3}
    other = TopicSubject("value", "t")

    assert other.version(registry, 1) == 3
    registry._versions[1] = {"a-value": 3, "b-value": 4}
    assert other.version(registry, 1) is None
    assert replace(other, topic="b").version(registry, 1) == 4
