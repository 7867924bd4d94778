"""Validation against what a real Connect worker answered, and for the classes it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkeep.connect.connectors.families import CLASSES, short_names
from kafkeep.connect.model import RestError
from kafkeep.connect.plugins.validate import Definitions, config_errors, validate
from kafkeep.connect.safety.restrictions import check_connector
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.options import WorkerOptions

GOLDEN = json.loads(
    (Path(__file__).parents[3] / "golden" / "rest" / "validate.json").read_text(encoding="utf-8")
)
CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
SOURCE = "io.confluent.connect.s3.source.S3SourceConnector"
SECRET = "a-secret-of-mine"


def filled(body: dict[str, str]) -> dict[str, str]:
    """Put values where the recording has names of values."""
    places = {
        "${ENDPOINT}": "http://store:9000",
        "${BUCKET}": "some-bucket",
        "${ACCESS_KEY}": "someone",
        "${SECRET_KEY}": SECRET,
    }
    return {key: places.get(text, text) for key, text in body.items()}


def errors_of(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {
        one["value"]["name"]: one["value"]["errors"]
        for one in answer["configs"]
        if one["value"]["errors"]
    }


def test_a_good_configuration_has_no_errors_and_shows_its_values() -> None:
    case = GOLDEN["good"]
    body = filled(case["body"])
    answer = validate(case["plugin"], body)
    assert (answer["name"], answer["error_count"]) == (case["name"], 0)
    values = {one["value"]["name"]: one["value"] for one in answer["configs"]}
    for name, value, _errors, visible in case["values"]:
        if name in case["body"]:
            shown = "[hidden]" if value == "[hidden]" else body[name]
            assert values.get(name, {}).get("value") == shown or "converter." in name
        if name in values:
            assert values[name]["visible"] == visible, name


def test_all_errors_come_at_once_with_the_keys_and_words_of_the_real_one() -> None:
    case = GOLDEN["bad"]
    answer = validate(case["plugin"], case["body"])
    theirs = {name: errors for name, _value, errors, _visible in case["values"] if errors}
    assert errors_of(answer) == theirs
    assert answer["error_count"] == case["error_count"]
    assert [group for group in answer["groups"] if group != "kafkeep"] == case["groups"]
    values = {one["value"]["name"]: one["value"]["value"] for one in answer["configs"]}
    assert (values["flush.size"], values["tasks.max"]) == (None, "0")


def test_keys_come_in_the_order_of_the_real_one() -> None:
    theirs = [name for name, *_rest in GOLDEN["bad"]["values"]]
    answer = validate(CONFLUENT, GOLDEN["bad"]["body"])
    ours = [one["definition"]["name"] for one in answer["configs"]]
    assert ours[: len(theirs)] == theirs


@pytest.mark.parametrize("case", GOLDEN["refused"])
def test_a_definition_is_refused_for_the_same_keys_in_the_same_words(case: dict[str, Any]) -> None:
    body = filled(case["body"]["config"]) | {"name": case["body"]["name"]}
    said = [text for texts in config_errors(body).values() for text in texts]
    assert said == case["message"].splitlines()[1:-1]


def test_secrets_show_nowhere() -> None:
    body = filled(GOLDEN["good"]["body"]) | {
        "s3.sse.customer.key": SECRET,
        "consumer.override.sasl.jaas.config": SECRET,
        "consumer.override.security.protocol": "NONSENSE",
        "s3.proxy.url": f"http://me:{SECRET}@proxy",
    }
    answer = validate(CONFLUENT, body)
    assert answer["error_count"] > 0
    assert SECRET not in json.dumps(answer)
    assert SECRET not in json.dumps(config_errors(body))


def test_the_class_must_be_there_and_be_the_one_in_the_path() -> None:
    for plugin, body, said in [
        (CONFLUENT, {"name": "x"}, "Connector config {name=x} contains no connector type"),
        (
            "S3SourceConnector",
            {"connector.class": CONFLUENT},
            f"Included connector type {CONFLUENT} does not match request type S3SourceConnector",
        ),
        ("no.Such", {"connector.class": "no.Such"}, "Failed to find any class"),
    ]:
        with pytest.raises(RestError) as caught:
            validate(plugin, body)
        assert caught.value.status == 400
        assert caught.value.message.startswith(said)


@pytest.mark.parametrize("named", CLASSES)
def test_another_makers_class_of_the_paths_short_name_is_validated(named: str) -> None:
    """The class in the body decides; it has to end with what the path says."""
    here = Definitions(providers=Providers())
    for plugin in (*short_names(named), named):
        answer = here.validate(plugin, {"connector.class": named, "name": "x"})
        assert answer["name"] == named
        assert answer == validate(named, {"connector.class": named, "name": "x"})


@pytest.mark.parametrize(
    ("plugin", "named"),
    [
        (CONFLUENT, "io.aiven.kafka.connect.s3.S3SinkConnector"),
        ("io.aiven.kafka.connect.s3.S3SinkConnector", CONFLUENT),
        ("S3SourceConnector", CONFLUENT),
        ("NoSuch", CONFLUENT),
        ("Connector", "kafkeep.Backup"),
    ],
)
def test_a_class_that_does_not_end_with_the_paths_name_is_refused(plugin: str, named: str) -> None:
    with pytest.raises(RestError) as caught:
        Definitions(providers=Providers()).validate(plugin, {"connector.class": named})
    assert caught.value.status == 400
    assert caught.value.message == (
        f"Included connector type {named} does not match request type {plugin}"
    )


def test_without_a_class_in_the_body_the_path_names_it() -> None:
    here = Definitions(providers=Providers())
    for body in ({"name": "x"}, {"name": "x", "connector.class": None}):
        assert here.validate("S3SinkConnector", body)["name"] == CONFLUENT
    with pytest.raises(RestError, match="Failed to find any class"):
        here.validate("NoSuch", {"name": "x"})


def test_unknown_keys_are_no_errors() -> None:
    body = filled(GOLDEN["good"]["body"]) | {"no.such.key": "1"}
    assert config_errors(body) == {}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("kafkeep.Restore", "restore.partitions"),
        ("com.spredfast.kafka.connect.s3.source.S3SourceConnector", "s3.new.record.poll.interval"),
    ],
)
def test_a_number_of_thousands_of_digits_is_an_error_of_its_key(name: str, key: str) -> None:
    assert key in config_errors({"connector.class": name, key: "9" * 5_000})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("consumer.override.ssl.keystore.location", "/etc/key.jks"),
        ("value.converter.schema.registry.url", "http://169.254.169.254"),
        ("transforms.a.type", "${file:/etc/x:y}"),
    ],
)
def test_refusals_are_reported_also_for_keys_without_a_definition(key: str, text: str) -> None:
    worker = WorkerOptions.load(None, {}, {"bootstrap.servers": "kafka:9092"})
    here = Definitions(
        providers=worker.providers, restrictions=lambda config: check_connector(config, worker)
    )
    body = filled(GOLDEN["good"]["body"]) | {key: text}
    with pytest.raises(RestError, match=key):
        here.checked("x", body, None)
    answer = here.validate(CONFLUENT, body)
    assert answer["error_count"] == len(errors_of(answer)) > 0
    assert key in errors_of(answer)


def test_the_workers_converter_is_the_default_and_is_used() -> None:
    body = {
        key: text for key, text in filled(GOLDEN["good"]["body"]).items() if "value.c" not in key
    }
    worker = {"value.converter": "org.apache.kafka.connect.json.NoConverter"}
    assert "value.converter" in config_errors(body, worker)
    worker = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    assert config_errors(body, worker) == {}
    answer = validate(CONFLUENT, body, worker)
    values = {one["value"]["name"]: one["value"]["value"] for one in answer["configs"]}
    assert values["value.converter"] == worker["value.converter"]


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"connector.class": SOURCE, "mode": "GENERIC"}, {"topic.regex.list"}),
        (
            {"connector.class": SOURCE, "mode": "GENERIC", "topic.regex.list": "a/b:x,c:["},
            {"topic.regex.list"},
        ),
        (
            {
                "connector.class": SOURCE,
                "mode": "GENERIC",
                "topic.regex.list": "a:.*",
                "topics": "a",
            },
            {"topics"},
        ),
        (
            {
                "connector.class": SOURCE,
                "s3.bucket.name": "b-b",
                "topic.regex.list": "a:.*",
                "transforms": "x",
                "s3.poll.interval.ms": "soon",
            },
            {"topic.regex.list", "transforms.x.type", "s3.poll.interval.ms"},
        ),
        ({"connector.class": "kafkeep.Restore", "topics": "a:b,c:b"}, {"s3.bucket.name", "topics"}),
        (
            {
                "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
                "topics": "a",
                "format.output.type": "json",
            },
            {"format.output.type"},
        ),
        (
            {
                "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
                "topics": "a",
                "connect.s3.kcql": "INSERT INTO b SELECT a FROM a",
            },
            {"connect.s3.kcql"},
        ),
    ],
)
def test_other_classes_name_their_own_keys(config: dict[str, str], keys: set[str]) -> None:
    found = config_errors({**config, "name": "x"})
    assert set(found) == keys
    assert set(errors_of(validate(config["connector.class"], {**config, "name": "x"}))) == keys


def test_retention_is_refused_where_a_router_gives_objects_other_folders() -> None:
    body = filled(GOLDEN["good"]["body"]) | {"s3.retention.days": "3"}
    assert config_errors(body) == {}
    router = {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": "(.*)",
        "transforms.r.replacement": "x-$1",
    }
    [sentence] = config_errors(body | router)["s3.retention.days"]
    assert "RegexRouter puts objects in folders of other topics" in sentence


@pytest.mark.parametrize("format", [{}, {"format": "binary"}])
def test_spredfasts_keys_of_text_are_blamed_themselves_for_binary(format: dict[str, str]) -> None:
    config = {
        "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector",
        "name": "x",
        "topics": "a",
        "s3.bucket": "some-bucket",
        "flush.interval.ms": "1000",
        **format,
    }
    errors = config_errors(config)
    assert list(errors) == ["flush.interval.ms"]
    assert "needs format=text" in errors["flush.interval.ms"][0].lower()
    assert "segment.age" in errors["flush.interval.ms"][0]
    assert list(config_errors({**config, "compressed_file_size": "9"})) == [
        "compressed_file_size",
        "flush.interval.ms",
    ]
    assert config_errors({**config, "format": "text"}) == {}
