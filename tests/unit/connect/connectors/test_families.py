"""Connectors of other makers: what their configurations mean, and how their objects are called."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkeep.connect.connectors.lenses import parse_kcql
from kafkeep.connect.connectors.sink_config import ConnectorConfig, is_secret
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.errors import UsageError
from kafkeep.objects.sink.naming import object_key
from kafkeep.options.option import ConfigErrors
from kafkeep.options.sink.naming import NameFacts, format_name, parse_name_template
from kafkeep.options.sink.sink import SinkOptions
from kafkeep.options.sink.transform_options import CsvLineOptions
from kafkeep.records.rows import HEADERS_TYPE, Rows
from kafkeep.records.schema import Column, Kind, Schema
from kafkeep.records.transforms.reshape_fields import CsvLine

CH_TBD = "ch.tbd.kafka.backuprestore."
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
BACKUP = {
    "connector.class": CH_TBD + "backup.kafkaconnect.BackupSinkConnector",
    "value.converter": BYTES,
    "key.converter": BYTES,
    "topics": "test-topic",
    "flush.size": "3",
    "s3.bucket.name": "some-bucket",
    "s3.region": "eu-central-1",
    "tasks.max": "1",
}
COMPACT = {
    **BACKUP,
    "connector.class": CH_TBD + "backup.kafkaconnect.compact.CompactBackupSinkConnector",
    "compacted.log.backup.initial.status": "ACTIVATE",
    "compacted.log.backup.length.hours": "0.5",
    "compacted.log.backup.interval.offsets": "10000",
    "compacted.log.backup.path.configuration": "/etc/kafka-connect/kafka-connect.properties",
    "compacted.log.backup.login.name.jaas.configuration": "LoginModuleName",
}
AIVEN = {
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "orders",
    "aws.s3.bucket.name": "some-bucket",
    "aws.s3.region": "eu-west-1",
    "format.output.type": "jsonl",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
LENSES = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "orders",
    "connect.s3.aws.region": "eu-west-1",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
SPREDFAST = {
    "connector.class": "com.spredfast.kafka.connect.s3.sink.S3SinkConnector",
    "topics": "example-topic",
    "s3.bucket": "example-kafka-backup-bucket",
    "s3.prefix": "backup",
    "s3.endpoint": "http://minio:9000",
    "s3.path_style": "true",
    "local.buffer.dir": "/tmp",
    "compressed_block_size": "67108864",
    "key.converter": "com.spredfast.kafka.connect.s3.AlreadyBytesConverter",
    "value.converter": "com.spredfast.kafka.connect.s3.AlreadyBytesConverter",
}


def read(given: dict[str, str], **how: Any) -> ConnectorConfig:
    return ConnectorConfig.from_map(given, environ={}, **{"name": "copy", **how})


def source(given: dict[str, str], **how: Any) -> SourceConfig:
    return SourceConfig.from_map(given, environ={}, **{"name": "back", **how})


def wrong(given: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        read(given)
    return caught.value.by_key


def name_of(
    config: ConnectorConfig,
    *,
    first: int = 7,
    last: int = 9,
    partition: int = 0,
    path: str = "partition=0",
    incarnation: int = 1,
    extra: int = 0,
) -> str:
    """Return the key of an object as tasks would."""
    sink = config.sink.options
    topic = config.topics[0]
    facts = NameFacts(
        topic=topic,
        incarnation=incarnation,
        partition=partition,
        start_offset=first,
        last_offset=last,
        first_timestamp=1_700_000_000_000,
        last_timestamp=1_700_000_000_500,
        path=path,
        extension={"avro": ".avro", "json": ".json", "bytes": "", "parquet": ".parquet"}[
            config.format
        ],
    )
    return object_key(sink.naming, facts, extra=extra)


def kcql(statement: str, **more: str) -> dict[str, str]:
    return {**LENSES, **more, "connect.s3.kcql": statement}


def test_the_backup_sink_writes_whole_records_under_its_names() -> None:
    config = read(BACKUP)
    sink = config.sink.options
    assert (config.format, sink.has_envelope, config.archive) == ("avro", True, "s3://some-bucket")
    assert name_of(config) == "test-topic/0/test-topic-0-7.avro"
    assert name_of(config, incarnation=2) == "test-topic/0/test-topic-0-7~2.avro"
    assert name_of(config, extra=1) == "test-topic/0/test-topic-0-07.avro"


def test_one_of_the_pair_has_a_folder_of_its_name_and_its_keys_are_read() -> None:
    config = read(COMPACT, name="backup-activate")
    assert name_of(config) == "test-topic/backup-activate/0/test-topic-0-7.avro"
    after_swaps = name_of(config, incarnation=3)
    assert after_swaps == "test-topic/backup-activate/0/test-topic-0-7~3.avro"
    assert config.compact is not None
    other = read(COMPACT, name="by day")
    assert other.name.startswith("by-day-") and other.called == "by day"
    assert name_of(other) == f"test-topic/{other.name}/0/test-topic-0-7.avro"
    assert config.compact.initial_status == "ACTIVATE"
    assert config.compact.length_ms == 1_800_000
    assert read(BACKUP).compact is None
    bad = {**COMPACT, "compacted.log.backup.initial.status": "ASLEEP"}
    assert set(wrong(bad)) == {"compacted.log.backup.initial.status"}
    interval = "compacted.log.backup.interval.offsets"
    for text in ("0", "\uff11\uff10"):  # the second is 10 in wide digits
        assert set(wrong({**COMPACT, interval: text})) == {interval}
    assert "commit of the log records" in wrong({**COMPACT, interval: "often"})[interval]
    assert set(wrong({**BACKUP, "compacted.log.backup.length.hours": "1"})) == {
        "compacted.log.backup.length.hours"
    }


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "orders-0-7.gz"),
        ({"file.compression.type": "none"}, "orders-0-7"),
        ({"file.compression.type": "zstd", "aws.s3.prefix": "raw/"}, "raw/orders-0-7.zst"),
        (
            {
                "file.name.template": "dir1/{{topic}}-{{partition:padding=true}}-"
                "{{ start_offset:padding=true }}.gz"
            },
            "dir1/orders-0000000000-00000000000000000007.gz",
        ),
    ],
)
def test_aivens_names(more: dict[str, str], name: str) -> None:
    assert name_of(read({**AIVEN, **more})) == name


def test_aivens_timestamps_come_from_the_partitioner() -> None:
    template = "{{topic}}/dt={{timestamp:unit=yyyy}}-{{timestamp:unit=MM}}/{{partition}}-"
    config = read(
        {
            **AIVEN,
            "file.name.template": template + "{{start_offset}}-{{timestamp:unit=HH}}",
            "file.name.timestamp.source": "EVENT",
            "file.name.timestamp.timezone": "Europe/Berlin",
        }
    )
    sink = config.sink.options
    assert sink.partition.path_format == "YYYY/MM/HH"
    assert (sink.partition.extractor, sink.partition.timezone) == ("Record", "Europe/Berlin")
    assert sink.partition.partition_duration_ms == 3_600_000
    assert name_of(config, path="2024/03/05") == "orders/dt=2024-03/0-7-05"


def test_aivens_rows_are_wrapped_unless_configured_otherwise() -> None:
    wrapped = read(AIVEN).sink.options
    assert [step.kind for step in wrapped.transforms] == ["HoistField"]
    more = {
        "format.output.fields": "value,offset",
        "transforms": "mine",
        "transforms.mine.type": "org.apache.kafka.connect.transforms.DropHeaders",
        "transforms.mine.headers": "a",
    }
    both = read({**AIVEN, **more}).sink.options
    assert [step.kind for step in both.transforms] == ["DropHeaders", "HoistField", "InsertField"]
    bare = read({**AIVEN, "format.output.envelope": "false"}).sink.options
    assert bare.transforms == ()


def test_aivens_old_names_mean_the_same() -> None:
    old = {
        **{key: text for key, text in AIVEN.items() if not key.startswith("aws.")},
        "aws_s3_bucket": "old-bucket",
        "aws_access_key_id": "someone",
        "aws_secret_access_key": "something",
        "output_compression": "none",
    }
    config = read(old)
    assert config.archive == "s3://old-bucket"
    assert (config.storage.access_key, config.storage.secret_key) == ("someone", "something")
    assert config.storage.region == "us-east-1"
    assert "something" not in repr(config)
    assert is_secret("aws_secret_access_key") and is_secret("connect.s3.aws.secret.key")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"format.output.type": "json"}, "format.output.type"),
        ({"format.output.type": "csv"}, "value.converter"),
        ({"format.output.fields": "value,headers"}, "format.output.fields"),
        ({"format.output.fields": "key,value"}, "format.output.fields"),
        ({"file.name.template": "{{key}}"}, "file.name.template"),
        ({"file.name.template": "{{topic}}-{{start_offset}}"}, "file.name.template"),
        ({"file.name.template": "{{timestamp:unit=ss}}"}, "file.name.template"),
        ({"aws.sts.role.arn": "arn:aws:iam::1:role/x"}, "aws.sts.role.arn"),
        ({"aws.s3.bucket.name": "a/b"}, "aws.s3.bucket.name"),
        ({"file.max.records": "many"}, "file.max.records"),
        ({"aws.s3.bucket.nam": "b"}, "aws.s3.bucket.nam"),
    ],
)
def test_what_aivens_sink_has_and_kafkeep_has_not_is_refused_by_name(
    more: dict[str, str], key: str
) -> None:
    assert set(wrong({**AIVEN, **more})) == {key}


def test_a_line_of_csv_has_nothing_where_there_is_nothing() -> None:
    optional = Schema(kind=Kind.BYTES, optional=True)
    rows = Rows(
        topic="a",
        partition=0,
        offsets=np.array([7, 8], np.int64),
        timestamps=np.array([-1, 5], np.int64),
        key=Column(optional, pa.array([None, b"k"], pa.binary())),
        value=Column(optional, pa.array([b"v", None], pa.binary())),
        headers=pa.array([[], []], HEADERS_TYPE),
    )
    fields = ("key", "value", "offset", "timestamp")
    [made] = CsvLine(CsvLineOptions(fields=fields)).apply(rows)
    assert made.value.array.to_pylist() == [b",dg==,7,", b"aw==,,8,5"]


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        (
            "INSERT INTO lake:raw SELECT * FROM orders STOREAS `JSON`",
            "raw/orders/0/000000000009_1700000000000_1700000000500.json",
        ),
        (
            "insert into `lake` select * from `*` storeas `AVRO` properties('flush.count'=5, "
            "'padding.length.partition'=3, 'padding.length.offset'=2, 'key.suffix'='-x')",
            "orders/000/09_1700000000000_1700000000500-x.avro",
        ),
        (
            "INSERT INTO lake:raw SELECT * FROM orders PARTITIONBY _value.country STOREAS `JSON` "
            "WITH_FLUSH_COUNT = 5000;",
            "raw/country=AT/orders(0_000000000009).json",
        ),
    ],
)
def test_lenses_names(statement: str, name: str) -> None:
    path = "country=AT" if "PARTITIONBY" in statement else "partition=0"
    config = read(kcql(statement, **{"value.converter": JSON}))
    assert config.archive == "s3://lake"
    assert name_of(config, path=path) == name


def test_lenses_flushes_by_count_size_and_clock() -> None:
    told = "PROPERTIES ('flush.size'=1000000, 'flush.interval'=30, 'flush.count'=5000)"
    sink = read(kcql(f"INSERT INTO lake SELECT * FROM orders {told}")).sink.options
    assert (sink.rotate.flush_size, sink.rotate.flush_bytes) == (5000, 1_000_000)
    assert sink.rotate.rotate_schedule_interval_ms == 30_000
    usual = read(kcql("INSERT INTO lake SELECT * FROM orders")).sink.options
    assert (usual.rotate.flush_size, usual.rotate.flush_bytes) == (50_000, 500_000_000)
    uncounted = {"connect.s3.disable.flush.count": "true"}
    config = read(kcql("INSERT INTO lake SELECT * FROM orders", **uncounted))
    assert config.sink.options.rotate.flush_size is None


@pytest.mark.parametrize(
    ("store_as", "codec", "end", "key", "value"),
    [
        ("JSON", "gzip", ".json.gz", "s3.compression.type", "gzip"),
        ("JSON", "uncompressed", ".json", "s3.compression.type", "none"),
        ("TEXT", "zstd", ".text.zst", "s3.compression.type", "zstd"),
        ("AVRO", "zstd", ".avro", "avro.codec", "zstandard"),
        ("PARQUET", "snappy", ".parquet", "parquet.codec", "snappy"),
    ],
)
def test_lenses_compresses_with_its_codec(
    store_as: str, codec: str, end: str, key: str, value: str
) -> None:
    statement = f"INSERT INTO lake SELECT * FROM orders STOREAS `{store_as}`"
    config = read(kcql(statement, **{"connect.s3.compression.codec": codec}))
    assert SinkOptions.parse(config.sink.texts) == config.sink.options
    assert config.sink.texts[key] == value
    assert name_of(config).endswith(end)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake SELECT a FROM orders",
        "INSERT INTO lake SELECT * FROM others",
        "INSERT INTO lake SELECT * FROM orders STOREAS `CSV`",
        "INSERT INTO lake SELECT * FROM orders NOPARTITION",
        "INSERT INTO lake SELECT * FROM orders PARTITIONBY _key",
        "INSERT INTO lake SELECT * FROM orders PROPERTIES('store.envelope'=true)",
        "INSERT INTO lake SELECT * FROM orders PROPERTIES('store.file.namer'=x)",
        "INSERT INTO lake SELECT * FROM orders WHERE a = 1",
        "INSERT INTO lake SELECT * FROM orders; INSERT INTO lake SELECT * FROM others",
        "SELECT * FROM orders",
    ],
)
def test_kcql_that_is_not_known_is_refused(statement: str) -> None:
    assert set(wrong(kcql(statement))) == {"connect.s3.kcql"}


def test_kcql_keeps_words_that_stand_in_names() -> None:
    found = parse_kcql("INSERT INTO `storeas-b:a/b` SELECT * FROM `limit` STOREAS `parquet`")
    assert (found.bucket, found.prefix, found.topic) == ("storeas-b", "a/b", "limit")
    assert found.store_as == "PARQUET"


def test_spredfasts_sink_writes_segments_under_its_prefix() -> None:
    config = read(SPREDFAST)
    assert (config.format, config.sink) == ("segment", None)
    assert config.archive == "s3://example-kafka-backup-bucket/backup"
    assert config.storage.endpoint == "http://minio:9000"
    assert config.notes == ()
    [note] = read({**SPREDFAST, "format": "binary", "format.include.keys": "true"}).notes
    assert "segments" in note


def test_spredfasts_text_is_lines_in_folders_of_days() -> None:
    config = read({**SPREDFAST, "format": "text"})
    assert config.format == "bytes"
    name = name_of(config, path="2024-03-05", partition=3)
    assert name == "2024-03-05/example-topic-00003-000000000007.gz"
    assert set(wrong({**SPREDFAST, "format": "text", "format.include.keys": "true"})) == {
        "format.include.keys"
    }
    closed = {"compressed_file_size": "1000000", "flush.interval.ms": "60000"}
    rotate = read({**SPREDFAST, "format": "text", **closed}).sink.options.rotate
    assert (rotate.flush_bytes, rotate.rotate_interval_ms) == (1_000_000, 60_000)
    errors = wrong({**SPREDFAST, "compressed_file_size": "1"})
    assert "needs format=text" in errors["compressed_file_size"]


def test_spredfasts_segments_are_closed_by_its_settings() -> None:
    assert read({**SPREDFAST, "segment.age": "2s"}).extra == {"segment_age_ms": 2_000}
    text = {**SPREDFAST, "format": "text", "segment.age": "2s"}
    assert "is for segments" in wrong(text)["segment.age"]


def test_own_options_of_a_backup_are_read_with_our_class_alone() -> None:
    ours = {"connector.class": "kafkeep.Backup", "topics": "a", "archive": "s3://b-b/prefix"}
    config = read({**ours, "segment.bytes": "1MiB", "on.gap": "fail"})
    assert (config.archive, config.extra) == (
        "s3://b-b/prefix",
        {"segment_bytes": 1 << 20, "on_gap": "fail"},
    )
    assert set(wrong({**ours, "on.gap": "perhaps"})) == {"on.gap"}
    assert set(wrong({**BACKUP, "on.gap": "fail"})) == {"on.gap"}


def test_the_workers_converters_hold_where_a_sink_names_none() -> None:
    worker = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
    base = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": "a",
        "s3.bucket.name": "b-b",
        "flush.size": "1",
        "format.class": "json",
    }
    assert read(base, defaults=worker).sink.options.has_schemas
    assert not read(base).sink.options.has_schemas
    own = read({**base, "value.converter": BYTES}, defaults=worker)
    assert own.sink.texts["value.converter"] == BYTES
    assert read({"topics": "a", "s3.bucket.name": "b-b"}, defaults=worker).format == "segment"
    assert read(BACKUP, defaults=worker).format == "avro"


def test_the_restore_source_renames_topics_and_chooses_an_instance() -> None:
    config = source(
        {
            "connector.class": CH_TBD + "restore.kafkaconnect.RestoreSourceConnector",
            "tasks.max": "1",
            "s3.region": "eu-central-1",
            "value.converter": BYTES,
            "key.converter": BYTES,
            "s3.proxy.url": "http://proxy:3128",
            "s3.bucket.name": "some-bucket",
            "topics": "test-topic:new-topic,test-topic1:new-topic1,other",
            "instance.name.restore": "backup-activate",
        }
    )
    assert config.renames == (
        ("test-topic", "new-topic"),
        ("test-topic1", "new-topic1"),
        ("other", "other"),
    )
    assert (config.instance, config.restore.name) == ("backup-activate", "backup-activate")
    by_day = source(
        {
            "connector.class": "RestoreSource",
            "s3.bucket.name": "some-bucket",
            "instance.name.restore": "by day",
        }
    )
    assert by_day.instance == read(COMPACT, name="by day").name
    assert (config.archive, config.storage.proxy_url) == ("s3://some-bucket", "http://proxy:3128")
    assert config.poll_interval_ms is None
    config.check_converters({"value.converter": JSON})


def test_confluents_source_takes_the_keys_that_mirror_the_sinks() -> None:
    config = source(
        {
            "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
            "s3.bucket.name": "some-bucket",
            "store.url": "http://minio:9000",
            "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
            "partitioner.class": "io.confluent.connect.storage.partitioner.DefaultPartitioner",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "http://registry:8081",
            "confluent.license": "",
            "confluent.topic.bootstrap.servers": "kafka:9092",
            "confluent.topic.replication.factor": "1",
            "s3.poll.interval.ms": "500",
            "behavior.on.error": "ignore",
        }
    )
    assert (config.poll_interval_ms, config.renames) == (500, ())
    assert config.restore.allow_missing and config.restore.into_non_empty
    assert config.storage.region == "us-west-2"
    with pytest.raises(UsageError, match="archived with"):
        config.check_converters({"value.converter": JSON})
    config.check_converters({})


def test_spredfasts_source_renames_by_target_topic() -> None:
    given = {
        "connector.class": "com.spredfast.kafka.connect.s3.source.S3SourceConnector",
        "s3.bucket": "some-bucket",
        "s3.prefix": "backup",
        "s3.endpoint": "http://minio:9000",
        "s3.path_style": "true",
        "topics": "a,b",
        "targetTopic.a": "new-a",
        "s3.new.record.poll.interval": "200",
        "max.partition.count": "2",
    }
    config = source(given)
    assert config.renames == (("a", "new-a"), ("b", "b"))
    assert (config.archive, config.poll_interval_ms) == ("s3://some-bucket/backup", 200)
    with pytest.raises(ConfigErrors) as caught:
        source({**given, "targetTopic.c": "d", "s3.start.marker": "x"})
    assert set(caught.value.by_key) == {"targetTopic.c", "s3.start.marker"}


def test_our_source_takes_the_options_of_a_restore() -> None:
    config = source(
        {
            "connector.class": "kafkeep.Restore",
            "archive": "s3://b-b/prefix",
            "topics": "a:b",
            "restore.log": "nightly",
            "restore.commit": "7",
            "restore.rate": "1MiB",
            "poll.interval.ms": "1000",
            "producer.override.bootstrap.servers": "other:9092",
        }
    )
    assert (config.archive, config.instance, config.poll_interval_ms) == (
        "s3://b-b/prefix",
        "nightly",
        1000,
    )
    assert (config.restore.commit, config.restore.rate_bytes) == (7, 1 << 20)
    assert not config.restore.into_non_empty
    assert config.kafka == {"bootstrap.servers": "other:9092"}
    with pytest.raises(ConfigErrors) as caught:
        source({"connector.class": "kafkeep.Restore", "restore.rate": "x", "restor.log": "n"})
    assert set(caught.value.by_key) == {"restore.rate", "restor.log", "s3.bucket.name"}


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"restore.schemas": "ids"}, "restore.schemas"),
        ({"restore.schema.registry": "http://r"}, "restore.schema.registry"),
        ({"restore.schema.ids.in": "keys"}, "restore.schema.ids.in"),
        (
            {"restore.schemas": "map", "restore.schema.registry.config": "/nowhere"},
            "restore.schema.registry.config",
        ),
        ({"restore.fill.holes": "tombstones"}, "restore.fill.holes"),
        ({"restore.commit": "1", "restore.at": "2026-01-01"}, "restore.commit"),
    ],
)
def test_conflicting_options_of_a_restore_are_reported_by_their_key(
    given: dict[str, str], key: str
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        source({"connector.class": "kafkeep.Restore", "archive": "s3://b-b/prefix", **given})
    assert list(caught.value.by_key) == [key]


def test_a_sink_is_no_source_and_a_source_no_sink() -> None:
    with pytest.raises(ConfigErrors, match="not a source"):
        source(BACKUP)
    with pytest.raises(ConfigErrors, match="not a sink"):
        read({**BACKUP, "connector.class": "kafkeep.Restore"})


@pytest.mark.parametrize(
    "template",
    [
        "{{topic}}",
        "{{topic}}-{{partition}}",
        "{{partition}}-{{start_offset}}",
        "{{topic}}-{{partition}}-{{start_offset",
        "{{topic}}-{{partition}}-{{start_offset}}-{{colour}}",
        "/{{topic}}-{{partition}}-{{start_offset}}",
        "a//{{topic}}-{{partition}}-{{start_offset}}",
        "{{topic}}-{{partition:padding=x}}-{{start_offset}}",
    ],
)
def test_templates_that_would_give_two_objects_one_name_are_refused(template: str) -> None:
    with pytest.raises(UsageError):
        parse_name_template(template)


TEMPLATES = (
    "{{topic}}-{{partition}}-{{start_offset}}",
    "{{topic}}/{{partition}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
    "{{topic}}/x/{{partition}}/{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
    "{{topic}}/{{partition}}/{{last_offset:padding=12}}_{{first_timestamp}}_{{last_timestamp}}",
    "{{path}}/{{topic}}({{partition}}_{{last_offset:padding=12}}).json",
)
OFFSETS = (0, 1, 2, 10, 11, 12, 100, 101, 110, 111, 112, 1000)


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_two_objects_get_one_name(template: str) -> None:
    names = [
        format_name(
            template,
            NameFacts(
                topic=topic,
                incarnation=incarnation,
                partition=partition,
                start_offset=offset,
                last_offset=offset,
                first_timestamp=5,
                last_timestamp=6,
                path="day=1",
                extension=".json",
            ),
        )
        for topic, incarnation, partition, offset in product(
            ("a", "a-1", "a-1-0", "a.1"), (1, 2, 12), OFFSETS[:6], OFFSETS
        )
    ]
    assert len(set(names)) == len(names) == 4 * 3 * 6 * 12
