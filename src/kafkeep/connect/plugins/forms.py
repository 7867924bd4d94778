"""The layout of keys in forms, as Connect defines it: type, importance, group, width, order.

Defaults and help texts are in the declarations of ``connectors``. This table is only for user
interfaces. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormField:
    """The layout of one key in a form."""

    type: str
    importance: str
    width: str
    order: int
    group: str


_COMMON = """
[Common]
name STRING HIGH MEDIUM 1
connector.class STRING HIGH LONG 2
connector.plugin.version STRING MEDIUM MEDIUM 3
tasks.max INT HIGH SHORT 4
tasks.max.enforce BOOLEAN LOW SHORT 5
key.converter CLASS LOW SHORT 6
key.converter.plugin.version STRING LOW SHORT 7
value.converter CLASS LOW SHORT 8
value.converter.plugin.version STRING LOW SHORT 9
header.converter CLASS LOW SHORT 10
header.converter.plugin.version STRING LOW SHORT 11
[Transforms]
transforms LIST LOW LONG 12
[Predicates]
predicates LIST LOW LONG 13
[Common]
config.action.reload STRING LOW MEDIUM 14
[Error Handling]
errors.retry.timeout LONG MEDIUM MEDIUM 1
errors.retry.delay.max.ms LONG MEDIUM MEDIUM 2
errors.tolerance STRING MEDIUM SHORT 3
errors.log.enable BOOLEAN MEDIUM SHORT 4
errors.log.include.messages BOOLEAN MEDIUM SHORT 5
[Common]
topics LIST HIGH LONG 4
topics.regex STRING HIGH LONG 4
[Error Handling]
errors.deadletterqueue.topic.name STRING MEDIUM MEDIUM 6
errors.deadletterqueue.topic.replication.factor SHORT MEDIUM MEDIUM 7
errors.deadletterqueue.context.headers.enable BOOLEAN MEDIUM MEDIUM 8
"""
_S3_SINK = """
[Connector]
format.class CLASS HIGH NONE 1
flush.size INT HIGH LONG 2
rotate.interval.ms LONG HIGH MEDIUM 3
rotate.schedule.interval.ms LONG MEDIUM MEDIUM 4
schemas.cache.config INT LOW LONG 5
enhanced.avro.schema.support BOOLEAN LOW SHORT 6
connect.meta.data BOOLEAN LOW SHORT 7
retry.backoff.ms LONG LOW MEDIUM 8
filename.offset.zero.pad.width INT LOW LONG 10
avro.codec STRING LOW MEDIUM 11
allow.optional.map.keys BOOLEAN LOW SHORT 12
[Schema]
schema.compatibility STRING HIGH SHORT 1
[Connector]
parquet.codec STRING LOW MEDIUM 13
[S3]
s3.bucket.name STRING HIGH LONG 1
s3.object.tagging BOOLEAN LOW LONG 2
s3.object.tagging.key.value.pairs LIST LOW LONG 3
s3.object.behavior.on.tagging.error STRING LOW SHORT 4
s3.region STRING MEDIUM LONG 5
s3.part.size INT HIGH LONG 6
s3.credentials.provider.class CLASS LOW LONG 7
aws.access.key.id STRING HIGH LONG 8
aws.secret.access.key PASSWORD HIGH LONG 9
s3.ssea.name STRING LOW LONG 10
s3.sse.customer.key PASSWORD LOW LONG 11
s3.sse.kms.key.id STRING LOW LONG 12
s3.acl.canned STRING LOW LONG 13
s3.wan.mode BOOLEAN MEDIUM LONG 14
s3.compression.type STRING LOW LONG 15
s3.compression.level INT LOW LONG 16
json.decimal.format STRING MEDIUM MEDIUM 17
s3.part.retries INT MEDIUM LONG 18
s3.retry.backoff.ms LONG LOW SHORT 19
format.bytearray.extension STRING LOW LONG 20
format.bytearray.separator STRING LOW LONG 21
s3.proxy.url STRING LOW LONG 22
s3.proxy.user STRING LOW LONG 23
s3.proxy.password PASSWORD LOW LONG 24
s3.http.send.expect.continue BOOLEAN LOW SHORT 25
behavior.on.null.values STRING LOW SHORT 26
report.null.values.to.dlq BOOLEAN LOW SHORT 27
max.write.duration.ms LONG LOW SHORT 28
rotate.file.on.partition.change BOOLEAN LOW SHORT 29
tombstone.encoded.partition STRING LOW SHORT 30
s3.schema.partition.affix.type STRING LOW LONG 31
s3.send.digest BOOLEAN LOW SHORT 32
enable.conditional.writes BOOLEAN LOW SHORT 33
[]
max.files.scan.limit INT LOW NONE -1
[Keys and Headers]
store.kafka.keys BOOLEAN LOW SHORT 1
store.kafka.headers BOOLEAN LOW SHORT 2
keys.format.class CLASS LOW NONE 3
headers.format.class CLASS LOW NONE 4
s3.path.style.access.enabled BOOLEAN LOW SHORT 5
s3.elastic.buffer.enable BOOLEAN LOW LONG 6
s3.elastic.buffer.init.capacity INT LOW LONG 7
[]
partitioner.max.open.files INT LOW NONE -1
[Storage]
storage.class CLASS HIGH NONE 1
topics.dir STRING HIGH NONE 2
store.url STRING HIGH NONE 3
directory.delim STRING MEDIUM LONG 4
file.delim STRING MEDIUM LONG 5
[Partitioner]
partitioner.class CLASS HIGH LONG 1
partition.field.name LIST MEDIUM NONE 2
partition.duration.ms LONG MEDIUM LONG 3
path.format STRING MEDIUM LONG 4
locale STRING MEDIUM LONG 5
timezone STRING MEDIUM LONG 6
timestamp.extractor STRING MEDIUM LONG 7
timestamp.field STRING MEDIUM LONG 8
"""


def _read(table: str) -> dict[str, FormField]:
    fields: dict[str, FormField] = {}
    group = ""
    for line in table.strip().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
            continue
        name, kind, importance, width, order = line.split()
        fields[name] = FormField(kind, importance, width, int(order), group)
    return fields


COMMON: Mapping[str, FormField] = _read(_COMMON)
"""The keys of every sink."""
S3_SINK: Mapping[str, FormField] = _read(_S3_SINK)
"""Keys of Confluent's S3 sink."""
NOT_IN_SOURCES = frozenset(
    name for name in COMMON if name.startswith(("errors.deadletterqueue.", "topics"))
)
DEPENDENTS: Mapping[str, tuple[str, ...]] = {
    "store.kafka.keys": ("keys.format.class",),
    "store.kafka.headers": ("headers.format.class",),
    "partitioner.class": (
        "partition.field.name",
        "partition.duration.ms",
        "path.format",
        "locale",
        "timezone",
    ),
}
