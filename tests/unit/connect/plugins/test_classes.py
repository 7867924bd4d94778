"""The classes there are, against what a real Connect worker listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkeep.connect.plugins.classes import definitions, find_any_plugin, find_plugin, list_plugins
from kafkeep.errors import UsageError

GOLDEN = json.loads(
    (Path(__file__).parents[3] / "golden" / "rest" / "validate.json").read_text(encoding="utf-8")
)
CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
SINKS = [
    CONFLUENT,
    "com.spredfast.kafka.connect.s3.sink.S3SinkConnector",
    "ch.tbd.kafka.backuprestore.backup.kafkaconnect.BackupSinkConnector",
    "ch.tbd.kafka.backuprestore.backup.kafkaconnect.compact.CompactBackupSinkConnector",
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "io.aiven.kafka.connect.s3.S3SinkConnector",
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "kafkeep.Backup",
]
SOURCES = [
    "io.confluent.connect.s3.source.S3SourceConnector",
    "com.spredfast.kafka.connect.s3.source.S3SourceConnector",
    "ch.tbd.kafka.backuprestore.restore.kafkaconnect.RestoreSourceConnector",
    "kafkeep.Restore",
]
# Where kafkeep's default is another one, and says so: the real one's, ours.
OTHER_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "s3.part.size": ("26214400", None),
    "s3.part.retries": ("3", None),
    "format.bytearray.separator": (None, "\n"),
    "tombstone.encoded.partition": ("tombstone", None),
    "s3.path.style.access.enabled": ("true", None),
    "locale": ("", "en"),
    "timezone": ("", "UTC"),
    "timestamp.extractor": ("Wallclock", None),
    "tasks.max": ("1", None),
}


def test_sinks_and_sources_are_listed_with_type_and_version() -> None:
    found = {one["class"]: one for one in list_plugins(True)}
    assert {name for name, one in found.items() if one["type"] == "sink"} == set(SINKS)
    assert {name for name, one in found.items() if one["type"] == "source"} == set(SOURCES)
    assert all(one["version"] for one in found.values())
    assert all(set(one) == {"class", "type", "version"} for one in found.values())


def test_everything_a_real_worker_lists_is_there_but_for_its_tool_and_header_classes() -> None:
    ours = {(one["class"], one["type"]) for one in list_plugins(False)}
    theirs = {(name, kind) for name, kind in GOLDEN["plugins"]}
    missing = theirs - ours
    kinds = {kind for _name, kind in missing}
    assert kinds <= {"header_converter", "source"}
    assert "io.confluent.connect.storage.tools.SchemaSourceConnector" in {n for n, _ in missing}


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("S3SinkConnector", CONFLUENT),
        ("S3Sink", CONFLUENT),
        ("S3Source", SOURCES[0]),
        ("BackupSink", SINKS[2]),
        ("RestoreSourceConnector", SOURCES[2]),
        ("AivenKafkaConnectS3Sink", SINKS[4]),
        ("Restore", "kafkeep.Restore"),
    ],
)
def test_short_names_are_found_as_connect_finds_them(short: str, full: str) -> None:
    assert find_plugin(short).class_name == full


def test_an_unknown_class_is_reported_in_connects_words() -> None:
    with pytest.raises(UsageError) as caught:
        find_plugin("no.such.Class")
    sentence = GOLDEN["no_such_class"].partition("PluginDesc")[0]
    assert caught.value.message.startswith(sentence)
    assert f"name='{CONFLUENT}'" in caught.value.message


def test_a_converter_is_no_connector() -> None:
    with pytest.raises(UsageError):
        find_plugin("org.apache.kafka.connect.json.JsonConverter")
    found = find_any_plugin("org.apache.kafka.connect.json.JsonConverter")
    assert "schemas.enable" in {one["name"] for one in definitions(found)}


def test_definitions_of_the_s3_sink_are_those_of_the_real_one() -> None:
    columns = GOLDEN["columns"]
    ours = {one["name"]: one for one in definitions(find_plugin(CONFLUENT))}
    theirs = [dict(zip(columns, row, strict=True)) for row in GOLDEN["definitions"]]
    for one in theirs:
        mine = {column: ours[one["name"]][column] for column in columns}
        default, real = mine.pop("default_value"), one.pop("default_value")
        assert mine == one
        if one["name"].endswith("plugin.version"):
            continue
        expected = OTHER_DEFAULTS.get(one["name"], (real, real))
        assert (real or None) == (expected[0] or None)
        assert (default or None) == (expected[1] or None), one["name"]


@pytest.mark.parametrize("name", SINKS + SOURCES)
def test_every_key_of_every_class_has_all_of_connects_members(name: str) -> None:
    members = {*GOLDEN["columns"], "documentation", "display_name"}
    found = definitions(find_plugin(name))
    assert all(set(one) == members for one in found)
    assert all(one["documentation"].endswith(".") and one["display_name"] for one in found)
    names = [one["name"] for one in found]
    assert len(names) == len(set(names))
    assert {"name", "connector.class", "tasks.max"} <= set(names)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        (CONFLUENT, ("aws.secret.access.key", "s3.sse.customer.key", "s3.proxy.password")),
        (SOURCES[0], ("aws.secret.access.key", "s3.proxy.password")),
        (SINKS[4], ("aws_access_key_id", "aws_secret_access_key", "aws.secret.access.key")),
        (SINKS[6], ("connect.s3.aws.access.key", "connect.s3.aws.secret.key")),
        ("AvroConverter", ("basic.auth.user.info", "bearer.auth.token")),
    ],
)
def test_forms_hide_what_is_typed_into_secrets(name: str, keys: tuple[str, ...]) -> None:
    types = {one["name"]: one["type"] for one in definitions(find_any_plugin(name))}
    assert {types[key] for key in keys} == {"PASSWORD"}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (SINKS[1], "s3.bucket"),
        (SINKS[3], "compacted.log.backup.length.hours"),
        (SINKS[4], "file.name.template"),
        (SINKS[6], "connect.s3.kcql"),
        ("kafkeep.Backup", "segment.bytes"),
        (SOURCES[0], "s3.poll.interval.ms"),
        (SOURCES[2], "instance.name.restore"),
        ("kafkeep.Restore", "restore.at"),
    ],
)
def test_keys_of_other_makers_are_defined_with_their_classes_alone(name: str, key: str) -> None:
    having = {
        one["class"]
        for one in list_plugins(True)
        if key in {d["name"] for d in definitions(find_plugin(one["class"]))}
    }
    assert name in having
    assert CONFLUENT not in having
