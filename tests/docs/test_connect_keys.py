"""docs/connect-keys.md is what the declarations say, and leaves out no key of the S3 sink."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafkeep.connect.connectors.keys_page import Row, format_page, iter_rows

PAGE = Path(__file__).parents[2] / "docs" / "connect-keys.md"
ROWS = {row.key: row for row in iter_rows()}

# Confluent's S3 sink, its storage and partitioner parts, and what every sink connector has.
SINK_KEYS = [
    "format.class",
    "flush.size",
    "rotate.interval.ms",
    "rotate.schedule.interval.ms",
    "schemas.cache.config",
    "schema.cache.size",
    "enhanced.avro.schema.support",
    "connect.meta.data",
    "retry.backoff.ms",
    "shutdown.timeout.ms",
    "filename.offset.zero.pad.width",
    "avro.codec",
    "parquet.codec",
    "allow.optional.map.keys",
    "schema.compatibility",
    "s3.bucket.name",
    "s3.object.tagging",
    "s3.object.tagging.key.value.pairs",
    "s3.object.behavior.on.tagging.error",
    "s3.region",
    "s3.part.size",
    "s3.credentials.provider.class",
    "aws.access.key.id",
    "aws.secret.access.key",
    "s3.ssea.name",
    "s3.sse.customer.key",
    "s3.sse.kms.key.id",
    "s3.acl.canned",
    "s3.wan.mode",
    "s3.compression.type",
    "s3.compression.level",
    "json.decimal.format",
    "s3.part.retries",
    "s3.retry.backoff.ms",
    "format.bytearray.extension",
    "format.bytearray.separator",
    "s3.proxy.url",
    "s3.proxy.user",
    "s3.proxy.password",
    "s3.http.send.expect.continue",
    "behavior.on.null.values",
    "report.null.values.to.dlq",
    "max.write.duration.ms",
    "rotate.file.on.partition.change",
    "tombstone.encoded.partition",
    "s3.schema.partition.affix.type",
    "s3.send.digest",
    "enable.conditional.writes",
    "max.files.scan.limit",
    "store.kafka.keys",
    "store.kafka.headers",
    "keys.format.class",
    "headers.format.class",
    "s3.path.style.access.enabled",
    "s3.elastic.buffer.enable",
    "s3.elastic.buffer.init.capacity",
    "partitioner.max.open.files",
    "storage.class",
    "topics.dir",
    "store.url",
    "directory.delim",
    "file.delim",
    "partitioner.class",
    "partition.field.name",
    "partition.duration.ms",
    "path.format",
    "locale",
    "timezone",
    "timestamp.extractor",
    "timestamp.field",
    "name",
    "connector.class",
    "tasks.max",
    "topics",
    "topics.regex",
    "key.converter",
    "value.converter",
    "header.converter",
    "transforms",
    "predicates",
    "errors.retry.timeout",
    "errors.retry.delay.max.ms",
    "errors.tolerance",
    "errors.log.enable",
    "errors.log.include.messages",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.context.headers.enable",
]


def test_the_page_is_what_the_declarations_say() -> None:
    hint = "python -m kafkeep.connect.connectors.keys_page > docs/connect-keys.md"
    assert PAGE.read_text() == format_page(), f"the page is old; make it anew: {hint}"


@pytest.mark.parametrize("key", SINK_KEYS)
def test_every_key_of_the_sink_is_on_the_page(key: str) -> None:
    assert key in ROWS


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_every_key_has_a_sentence(row: Row) -> None:
    assert row.sentence.endswith(".")
    assert len(row.sentence) > 5


def test_no_key_is_declared_twice() -> None:
    plain = [row.key for row in iter_rows() if "<name>" not in row.key and "…" not in row.key]
    assert [key for key, count in Counter(plain).items() if count > 1] == []
