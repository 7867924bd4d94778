"""A connector's configuration as a whole: files, keys, all errors at once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.golden.cases import load_cases

from kafkeep.cli.backup import BackupFlags, parse_backup
from kafkeep.cli.main import main
from kafkeep.connect.connectors.sink_config import ConnectorConfig, is_secret, read_connector_file
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors

CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
FORMATS = "io.confluent.connect.s3.format."
PARTITIONERS = "io.confluent.connect.storage.partitioner."
CONVERTERS = "org.apache.kafka.connect.converters."
BASE = {
    "connector.class": CONFLUENT,
    "topics": "orders,events",
    "s3.bucket.name": "kafka-backup",
    "store.url": "http://store:9000",
    "format.class": FORMATS + "json.JsonFormat",
    "flush.size": "5",
}
EXERCISE = {
    **BASE,
    "tasks.max": "1",
    "s3.region": "us-east-1",
    "aws.access.key.id": "someone",
    "aws.secret.access.key": "something",
    "s3.path.style.access.enabled": "true",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "partitioner.class": PARTITIONERS + "DefaultPartitioner",
    "schema.compatibility": "NONE",
    "rotate.interval.ms": "60000",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
SENSOR = {
    "connector.class": CONFLUENT,
    "tasks.max": 1,
    "topics": "sinetstream.sensor",
    "group.id": "sensor",
    "s3.bucket.name": "mybucket",
    "s3.region": "us-east-1",
    "store.url": "http://minio:9000",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": FORMATS + "bytearray.ByteArrayFormat",
    "format.bytearray.extension": ".jpeg",
    "format.bytearray.separator": "",
    "flush.size": 1,
    "partitioner.class": PARTITIONERS + "TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": 3600000,
    "timestamp.extractor": "Record",
    "locale": "C",
    "timezone": "Asia/Tokyo",
    "value.converter": "jp.ad.sinet.sinetstream.connect.converters.SinetStreamConverter",
    "transforms": "pick",
    "transforms.pick.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
    "transforms.pick.field": "msg",
}
FRAGMENTS: dict[str, dict[str, str]] = {
    "avro": {
        "format.class": FORMATS + "avro.AvroFormat",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry:8081",
    },
    "parquet": {"format.class": FORMATS + "parquet.ParquetFormat"},
    "hours": {
        "partitioner.class": PARTITIONERS + "TimeBasedPartitioner",
        "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
        "partition.duration.ms": "3600000",
        "timestamp.extractor": "Record",
    },
    "gzip": {"s3.compression.type": "gzip"},
    "zstd": {"s3.compression.type": "zstd"},
    "names": {"topics.dir": "kafka-data", "directory.delim": "/", "file.delim": "-"},
    "offset": {
        "transforms": "addOffset",
        "transforms.addOffset.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.addOffset.offset.field": "offset",
    },
}
TUNING = {
    "tasks.max": "4",
    "s3.part.size": "5242880",
    "s3.wan.mode": "true",
    "behavior.on.null.values": "ignore",
}
TBD = {
    "connector.class": "ch.tbd.kafka.backuprestore.backup.kafkaconnect.BackupSinkConnector",
    "key.converter": CONVERTERS + "ByteArrayConverter",
    "value.converter": CONVERTERS + "ByteArrayConverter",
    "topics": "test-topic",
    "flush.size": "3",
    "s3.bucket.name": "some-bucket",
    "s3.region": "eu-central-1",
    "s3.proxy.url": "TBD",
    "s3.profile.name": "backup",
    "tasks.max": "1",
}
COMPACT = {
    **TBD,
    "connector.class": "ch.tbd.kafka.backuprestore.backup.kafkaconnect.compact."
    "CompactBackupSinkConnector",
    "compacted.log.backup.initial.status": "ACTIVATE",
    "compacted.log.backup.length.hours": "1",
    "compacted.log.backup.interval.offsets": "10000",
    "compacted.log.backup.path.configuration": "/etc/kafka-connect/kafka-connect.properties",
    "compacted.log.backup.login.name.jaas.configuration": "Login",
}


def read(given: Mapping[str, Any], **how: Any) -> ConnectorConfig:
    return ConnectorConfig.from_map(given, **{"environ": {}, **how})


def wrong(given: Mapping[str, Any], **how: Any) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        read(given, **how)
    return caught.value.by_key


def test_the_exercise_is_read_as_it_stands() -> None:
    config = read(EXERCISE, name="s3-sink")
    assert (config.name, config.topics, config.tasks_max) == ("s3-sink", ("orders", "events"), 1)
    assert config.archive == "s3://kafka-backup"
    assert (config.storage.endpoint, config.storage.access_key) == ("http://store:9000", "someone")
    assert config.isolation_level == "read_committed"
    assert config.format == "json"
    sink = config.sink.options
    assert (sink.rotate.flush_size, sink.rotate.rotate_interval_ms) == (5, 60_000)
    assert not any("aws" in key or "s3.bucket" in key for key in config.sink.texts)
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize("text", ["-1", "-5", "0", " 00 "])
def test_rotation_by_time_is_off_with_0_and_less_as_for_the_real_sink(text: str) -> None:
    keys = ("rotate.interval.ms", "rotate.schedule.interval.ms")
    config = read({**EXERCISE, **dict.fromkeys(keys, text)}, name="s3-sink")
    rotate = config.sink.options.rotate
    assert (rotate.rotate_interval_ms, rotate.rotate_schedule_interval_ms) == (None, None)


@pytest.mark.parametrize("text", ["1s", "-", "", "1.5"])
def test_an_interval_that_is_no_number_is_refused_by_name(text: str) -> None:
    assert list(wrong({**EXERCISE, "rotate.interval.ms": text})) == ["rotate.interval.ms"]


@pytest.mark.parametrize("fragment", FRAGMENTS.values(), ids=list(FRAGMENTS))
def test_what_the_exercise_says_to_try_next_is_read_too(fragment: dict[str, str]) -> None:
    given = {**EXERCISE, **fragment}
    if "avro.AvroFormat" in fragment.get("format.class", ""):
        del given["value.converter.schemas.enable"]
    config = read(given)
    shown = {**config.sink.texts, **config.sink.secrets}
    assert {key: shown.get(key) for key in fragment} == fragment


def test_the_exercises_tuning_is_read_beside_an_endpoint_and_without() -> None:
    beside = {key: text for key, text in EXERCISE.items() if key != "s3.path.style.access.enabled"}
    config = read({**beside, **TUNING})
    assert (config.tasks_max, config.storage.part_bytes) == (4, 5_242_880)
    assert (config.storage.accelerate, len(config.notes)) == (False, 1)
    del beside["store.url"]
    config = read({**beside, **TUNING})
    assert (config.storage.accelerate, config.notes) == (True, ())
    assert "s3.path.style.access.enabled" in wrong({**EXERCISE, **TUNING})


def test_the_sensors_configuration_is_read_with_its_numbers() -> None:
    config = read(SENSOR, name="s3-sink-data")
    sink = config.sink.options
    assert sink.rotate.flush_size == 1
    assert sink.format.format_bytearray_separator == ""
    assert sink.partition.timezone == "Asia/Tokyo"
    assert len(sink.transforms) == 1


@pytest.mark.parametrize("given", [TBD, COMPACT])
def test_the_other_backup_connectors_are_read(given: dict[str, str]) -> None:
    config = read(given)
    assert config.family == "ch.tbd"
    assert (config.storage.profile, config.storage.proxy_url) == ("backup", "http://TBD")
    assert config.sink.options.has_envelope


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_what_the_real_sink_was_given_is_read(case: Any) -> None:
    filled = {"${BUCKET}": "bucket", "${ENDPOINT}": "http://h:1", "${ACCESS_KEY}": "a"}
    given = {key: filled.get(text, text) for key, text in case.config.items()}
    if case.name.startswith("22d"):
        assert list(wrong(given)) == ["store.kafka.keys"]
    else:
        assert read(given).sink.texts


def test_all_errors_of_a_configuration_are_reported_together() -> None:
    given = {
        **BASE,
        "flush.size": "no",
        "s3.part.size": "1",
        "format.class": "Xml",
        "partitioner.class": "Nope",
        "errors.tolerance": "some",
        "consumer.override.isolation.level": "dirty",
        "enable.conditional.writes": "false",
        "transforms": "a",
        "value.converter": "com.example.Mine",
        "topics.regex": "x.*",
        "tasks.max": "0",
        "flush.sizes": "5",
    }
    told = wrong(given)
    assert set(told) == {
        *("flush.size", "s3.part.size", "format.class", "partitioner.class", "errors.tolerance"),
        *("consumer.override.isolation.level", "enable.conditional.writes", "transforms.a.type"),
        *("value.converter", "topics.regex", "tasks.max", "flush.sizes"),
    }
    assert "flush.size?" in told["flush.sizes"]
    assert "exactly once" in told["enable.conditional.writes"]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"flush.size": None}, "flush.size"),
        ({"format.class": None}, "format.class"),
        ({"topics": None}, "topics"),
        ({"s3.bucket.name": None}, "s3.bucket.name"),
        ({"s3.bucket.name": "n"}, "s3.bucket.name"),
        ({"topics": "a b"}, "topics"),
        ({"topics": "", "topics.regex": "a(?!b).*"}, "topics.regex"),
        ({"name": "a/b"}, "name"),
        ({"connector.class": "io.example.Other"}, "connector.class"),
        (
            {"connector.class": "io.confluent.connect.s3.source.S3SourceConnector"},
            "connector.class",
        ),
        ({"storage.class": "io.confluent.connect.hdfs.HdfsStorage"}, "storage.class"),
        ({"partitioner.max.open.files": "0"}, "partitioner.max.open.files"),
        ({"partitioner.max.open.files": "-2"}, "partitioner.max.open.files"),
        ({"s3.credentials.provider.sts.role.arn": "x"}, "s3.credentials.provider.sts.role.arn"),
        ({"producer.override.acks": "1"}, "producer.override.acks"),
        ({"consumer.override.group.id": "g"}, "consumer.override.group.id"),
        ({"consumer.override.check.crcs": "false"}, "consumer.override.check.crcs"),
        ({"consumer.override.max.pol.records": "1"}, "consumer.override.max.pol.records"),
        ({"s3.compression.type": "gzip", "format.class": "avro"}, "format.class"),
        ({"s3.compression.type": "gzip", "store.kafka.keys": "true"}, "keys.format.class"),
        ({"s3.compression.type": "gzip", "store.kafka.headers": "true"}, "headers.format.class"),
        ({"behavior.on.null.values": "write"}, "store.kafka.keys"),
        ({"partitioner.class": "time", "path.format": "YYYY"}, "partition.duration.ms"),
        ({"transforms.lost.type": "x"}, "transforms.lost.type"),
        ({"value.converter.schemas.enable": "false"}, "value.converter.schemas.enable"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_by_key(
    change: dict[str, str | None], key: str
) -> None:
    assert list(wrong({**BASE, **change})) == [key]


def test_values_that_are_lists_or_maps_are_refused_by_key() -> None:
    assert list(wrong({**BASE, "topics": ["a"], "transforms": {}})) == ["topics", "transforms"]


def test_unknown_keys_are_only_named_where_that_is_asked_for() -> None:
    given = {**BASE, "flsh.size": "1", "value.converter": CONVERTERS + "ByteArrayConverter"}
    given |= {"value.converter.colour": "red", "transforms.lost.type": "x", "format.class": "bytes"}
    strange = ("flsh.size", "value.converter.colour", "transforms.lost.type")
    assert set(wrong(given)) == set(strange)
    config = read(given, strict=False)
    assert set(config.unknown) == set(strange)
    assert not set(strange) & set(config.sink.texts)


def test_a_refused_value_is_refused_also_where_unknown_keys_are_not() -> None:
    assert list(wrong({**BASE, "enable.conditional.writes": "false"}, strict=False)) == [
        "enable.conditional.writes"
    ]


@pytest.mark.parametrize(
    ("kind", "converter", "envelope"),
    [
        ("json", "JsonConverter", False),
        ("avro", "ByteArrayConverter", True),
        ("parquet", "ByteArrayConverter", True),
        ("bytes", "ByteArrayConverter", False),
    ],
)
def test_without_a_converter_each_format_has_one_that_suits_it(
    kind: str, converter: str, envelope: bool
) -> None:
    config = read({"topics": "a", "format.class": kind}, archive="memory:x")
    sink = config.sink.options
    assert config.sink.texts["value.converter"].endswith("." + converter)
    assert sink.has_envelope is envelope
    assert sink.rotate.flush_size is None
    assert sink.rotate.flush_bytes == 128 * 1024 * 1024


def test_files_of_no_bytes_at_all_are_refused() -> None:
    found = wrong({"topics": "a", "format.class": "json", "flush.bytes": "0MiB"}, archive="m:x")
    assert "'0MiB' is not above zero" in found["flush.bytes"]


def test_keys_that_shape_files_are_refused_for_segments() -> None:
    assert list(wrong({"topics": "a", "flush.size": "5"}, archive="memory:x")) == ["flush.size"]
    plain = read({"topics": "a"}, archive="memory:x")
    assert (plain.format, plain.sink, plain.name) == ("segment", None, "backup")


def test_secrets_stand_apart_and_are_not_shown() -> None:
    given = {
        **BASE,
        "aws.access.key.id": "id",
        "aws.secret.access.key": "hush-1",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://me:hush-2@registry",
        "value.converter.basic.auth.credentials.source": "URL",
        "consumer.override.sasl.jaas.config": "hush-3",
        "s3.proxy.url": "http://proxy",
        "s3.proxy.user": "me",
        "s3.proxy.password": "hush-4",
    }
    config = read(given)
    assert "hush" not in repr(config)
    assert "hush" not in str(config.sink.texts)
    assert config.sink.secrets == {
        "value.converter.schema.registry.url": "http://me:hush-2@registry"
    }
    assert config.kafka == {"sasl.jaas.config": "hush-3"}
    hidden = {key for key, text in given.items() if is_secret(key, text)}
    assert hidden == {key for key, text in given.items() if "hush" in text}


def test_the_consumers_keys_choose_what_is_read() -> None:
    given = {
        **BASE,
        "consumer.override.isolation.level": "read_uncommitted",
        "consumer.override.auto.offset.reset": "latest",
        "consumer.override.max.poll.records": "1",
        "consumer.override.security.protocol": "SASL_SSL",
    }
    config = read(given)
    assert (config.isolation_level, config.auto_offset_reset) == ("read_uncommitted", "latest")
    assert config.kafka == {"security.protocol": "SASL_SSL"}


def test_the_region_is_connects_unless_it_is_known() -> None:
    plain = {key: text for key, text in BASE.items() if key != "store.url"}
    assert read(plain).storage.region == "us-west-2"
    assert read(plain, environ={"AWS_REGION": "eu-1"}).storage.region == "eu-1"
    assert read({**plain, "s3.region": "ap-1"}).storage.region == "ap-1"


FILES = {
    "posted.json": json.dumps({"name": "s3-sink", "config": {**BASE, "flush.size": 5}}),
    "map.json": json.dumps({"name": "s3-sink", **BASE}),
    "sink.properties": "name = s3-sink\n" + "".join(f"{k}={v}\n" for k, v in BASE.items()),
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_in_each_form(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    document = read_connector_file(tmp_path / name)
    assert document.name == "s3-sink"
    assert read(document.config, name=document.name) == read(BASE, name="s3-sink")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "x", "config": {"a": [1]}}', "a: must be a text"),
        ('{"name": "x", "config": {"name": "y"}}', "x and, in its config, y"),
        ('{"name": "x", "config": {}, "topics": "a"}', "topics must be in config"),
        ("[]", "not one connector"),
        ('{"name": ', "is not JSON"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_connector_file(path)
    assert "c.json" in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.json"):
        read_connector_file(tmp_path / "none.json")


@pytest.fixture
def posted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "posted.json"
    path.write_text(json.dumps({"name": "s3-sink", "config": EXERCISE}))
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": {"a": 1}, "config": {"topics": "a"}}', "name is not a text"),
        ('{"name": true, "config": {"topics": "a"}}', "name is not a text"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_with_odd_json_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read_connector_file(path)
    assert str(path) in caught.value.message and caught.value.hint


def test_a_file_is_enough_for_a_backup(posted: str) -> None:
    chosen = parse_backup({"follow": False}, BackupFlags(connector_config=posted))
    options = chosen.options
    assert (options.name, options.topics, options.format) == (
        "s3-sink",
        ("orders", "events"),
        "json",
    )
    assert options.sink is not None
    assert options.sink.texts["rotate.interval.ms"] == "60000"
    assert (chosen.archive, chosen.storage.access_key) == ("s3://kafka-backup", "someone")


def test_flags_win_over_settings_and_those_over_the_file(posted: str) -> None:
    asked = BackupFlags(
        connector_config=posted,
        archive="s3://other-bucket/p",
        endpoint="https://flag",
        profile="mine",
        settings=["flush.size=7", "name=set", "topics=c", "s3.region=set", "file.delim=="],
    )
    flags = {"topics": "a", "format": "avro", "isolation_level": "read_uncommitted"}
    chosen = parse_backup(flags, asked)
    options = chosen.options
    assert (options.name, options.topics, options.format) == ("set", ("a",), "avro")
    assert options.isolation_level == "read_uncommitted"
    assert options.sink is not None
    assert (options.sink.texts["flush.size"], options.sink.texts["file.delim"]) == ("7", "=")
    assert chosen.archive == "s3://other-bucket/p"
    storage = chosen.storage
    assert (storage.endpoint, storage.region, storage.profile) == ("https://flag", "set", "mine")
    assert storage.access_key is None
    assert parse_backup({"name": "flag"}, asked).options.name == "flag"
    by_regex = parse_backup({"topics_regex": "o.*"}, asked).options
    assert (by_regex.topics, by_regex.topics_regex) == ((), "o.*")


def test_a_format_alone_needs_no_file() -> None:
    chosen = parse_backup({"topics": "a", "format": "parquet"}, BackupFlags(archive="memory:x"))
    assert chosen.options.sink is not None
    assert chosen.options.sink.texts["store.envelope"] == "true"
    plain = parse_backup({"topics": "a"}, BackupFlags(archive="memory:x"))
    assert plain.options.sink is None


@pytest.mark.parametrize(
    ("flags", "settings", "said"),
    [
        ({}, ["flush.size"], "not KEY=VALUE"),
        ({}, ["flush.sise=1"], "flush.sise: there is no such key. Did you mean flush.size?"),
        (
            {"format": "json", "segment_bytes": "1MiB"},
            [],
            "--segment-bytes is for --format segment",
        ),
        ({}, [f"{key}={text}" for key, text in COMPACT.items()], "only kafkeep serve runs them"),
        ({}, ["s3.retention.days=3"], "kafkeep backup does not set lifecycle rules"),
    ],
)
def test_what_backup_cannot_do_is_refused(
    flags: dict[str, str], settings: list[str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_backup({"topics": "a", **flags}, BackupFlags(archive="memory:x", settings=settings))
    assert said in caught.value.message


def test_an_unknown_key_ends_the_command_with_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["backup", "--archive", "memory:x", "--topics", "a", "--set", "flush.sise=1"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--bootstrap-servers", "127.0.0.1:1"])
    assert ended.value.code == 2
    assert "Did you mean flush.size?" in capsys.readouterr().err
