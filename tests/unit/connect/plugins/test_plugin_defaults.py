"""What ``/config`` shows of a key, validation accepts: for every class and every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.plugins.classes import (
    Plugin,
    connectors,
    definitions,
    find_plugin,
    others,
    recommended,
)
from kafkeep.connect.plugins.validate import config_errors, validate
from kafkeep.options.backup import BackupOptions

CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
JSON_FORMAT = "io.confluent.connect.s3.format.json.JsonFormat"
BUCKET = {"s3.bucket.name": "some-bucket"}
ONLY_HERE: dict[str, dict[str, str]] = {
    CONFLUENT: {
        **BUCKET,
        "format.class": JSON_FORMAT,
        "flush.size": "3",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    },
    "com.spredfast.kafka.connect.s3.sink.S3SinkConnector": {"s3.bucket": "some-bucket"},
    "com.spredfast.kafka.connect.s3.source.S3SourceConnector": {"s3.bucket": "some-bucket"},
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector": {"aws_s3_bucket": "some-bucket"},
    "io.aiven.kafka.connect.s3.S3SinkConnector": {"aws.s3.bucket.name": "some-bucket"},
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector": {
        "connect.s3.kcql": "INSERT INTO some-bucket:prefix SELECT * FROM a"
    },
    "ch.tbd.kafka.backuprestore.backup.kafkaconnect.compact.CompactBackupSinkConnector": {
        **BUCKET,
        "compacted.log.backup.initial.status": "ACTIVATE",
        "compacted.log.backup.length.hours": "1",
    },
}
WITH_FORMAT = {"format.class": JSON_FORMAT}
NO_CSV = {"format.output.type": "jsonl", "file.compression.type": "none"}
_WHOLE = ("1", "0", "-1", "6000000")
SAMPLES = {
    "INT": _WHOLE,
    "LONG": _WHOLE,
    "SHORT": _WHOLE,
    "DOUBLE": ("1.5",),
    "BOOLEAN": ("true", "false"),
    "LIST": ("a,b", "a:b", "1,2", "a:0:1-2", "a:1", "1:2", "value", "key=a"),
}
PLUGINS = pytest.mark.parametrize("plugin", connectors(), ids=lambda one: one.class_name)
PARTS = pytest.mark.parametrize("plugin", others(), ids=lambda one: one.class_name)


def base_of(plugin: Plugin) -> dict[str, str]:
    """Return a configuration that holds only what the class demands."""
    own = ONLY_HERE.get(plugin.class_name, BUCKET)
    return {"name": "x", "connector.class": plugin.class_name, "topics": "a", **own}


def read(config: dict[str, str], plugin: Plugin) -> tuple[object, ...]:
    """Return all that a configuration means."""
    if plugin.type == "source":
        source = SourceConfig.from_map(config, environ={})
        active = (source.changes.active, source.unlogged is not None and source.unlogged.active)
        return replace(source, changes=None, unlogged=None), active  # type: ignore[arg-type]
    found = ConnectorConfig.from_map(config, environ={})
    sink = None
    if found.format != "segment":
        sink = found.sink.options
    backup = BackupOptions(topics=("a",), **found.extra)
    plain = replace(found, sink=None, extra={}, notes=(), retention_by_default=False)
    return plain, sink, backup


def shown_keys(plugin: Plugin) -> Iterator[dict[str, Any]]:
    """Yield the definitions of keys whose values are shown, and which the base leaves out."""
    demanded = base_of(plugin)
    for one in definitions(plugin):
        if one["type"] != "PASSWORD" and one["name"] not in demanded:
            yield one


def own_errors(plugin: Plugin, key: str, text: str) -> list[str]:
    """Return what is wrong with one key, whatever else is chosen."""
    errors: list[str] = []
    for chosen in ({}, WITH_FORMAT, NO_CSV):
        errors = config_errors({**base_of(plugin), **chosen, key: text}).get(key, [])
        if not errors:
            return []
    return errors


def test_segment_age_takes_the_60000_that_config_showed() -> None:
    plugin = find_plugin("kafkeep.Backup")
    for text in ("60000", "60s", "1m", " 60000 "):
        config = {**base_of(plugin), "segment.age": text}
        assert config_errors(config) == {}
        assert ConnectorConfig.from_map(config, environ={}).extra == {"segment_age_ms": 60_000}
    shown = {one["name"]: one for one in definitions(plugin)}
    assert (shown["segment.age"]["type"], shown["segment.age"]["default_value"]) == (
        "STRING",
        "60s",
    )
    assert shown["cycle.time"]["default_value"] == "30s"


@pytest.mark.parametrize("given", [{}, WITH_FORMAT], ids=["", "with a format"])
@PLUGINS
def test_every_default_that_is_shown_is_accepted_and_changes_nothing(
    plugin: Plugin, given: dict[str, str]
) -> None:
    base = {**base_of(plugin), **(given if plugin.type == "sink" else {})}
    assert config_errors(base) == {}
    meant = read(base, plugin)
    shown = {one["name"]: one["default_value"] for one in shown_keys(plugin)}
    defaults = {key: text for key, text in shown.items() if text is not None and key not in given}
    assert len(defaults) > 10
    for key, text in defaults.items():
        assert config_errors({**base, key: text}) == {}, key
        assert read({**base, key: text}, plugin) == meant, key
    assert config_errors({**base, **defaults}) == {}
    assert read({**base, **defaults}, plugin) == meant


@PLUGINS
def test_a_value_of_the_type_that_is_shown_is_read_as_one(plugin: Plugin) -> None:
    for one in shown_keys(plugin):
        key, kind = one["name"], one["type"]
        good = SAMPLES.get(kind)
        if good is None or key == "storage.class":
            continue
        accepted = [text for text in good if not own_errors(plugin, key, text)]
        assert accepted, f"{key} is {kind}, and refuses {good}"
        assert not own_errors(plugin, key, f" {accepted[0]} "), key
        if kind == "BOOLEAN":
            assert not own_errors(plugin, key, accepted[0].upper()), key
        if kind != "LIST":
            assert own_errors(plugin, key, "neither nor"), key


@PLUGINS
def test_every_value_that_is_recommended_is_accepted(plugin: Plugin) -> None:
    for one in definitions(plugin):
        for text in recommended(one["name"]):
            assert not own_errors(plugin, one["name"], text), (one["name"], text)


def test_the_workers_converter_that_is_shown_as_default_is_accepted_for_segments() -> None:
    worker = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    config = {**base_of(find_plugin("kafkeep.Backup")), **worker}
    answer = validate("kafkeep.Backup", config, worker)
    assert answer["error_count"] == 0
    assert config_errors(config)  # of a worker that has another one


@PARTS
def test_every_default_of_transforms_predicates_and_converters_is_accepted(plugin: Plugin) -> None:
    base = {**base_of(find_plugin(CONFLUENT)), **parts_of(plugin)}
    prefix = PREFIXES[plugin.type]
    errors = config_errors(base)
    for one in definitions(plugin):
        text = one["default_value"]
        if text is not None and one["type"] != "PASSWORD":
            assert config_errors({**base, prefix + one["name"]: text}) == errors, one["name"]


PREFIXES = {
    "transformation": "transforms.t.",
    "predicate": "predicates.p.",
    "converter": "value.converter.",
    "header_converter": "header.converter.",
}


def parts_of(plugin: Plugin) -> dict[str, str]:
    """Return the keys that put a class to use."""
    match plugin.type:
        case "transformation":
            return {"transforms": "t", "transforms.t.type": plugin.class_name}
        case "predicate":
            return {"predicates": "p", "predicates.p.type": plugin.class_name}
        case _:
            return {PREFIXES[plugin.type].rstrip("."): plugin.class_name}
