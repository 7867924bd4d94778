"""Configurations to start a new connector from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_S3_SINK_CLASS = "io.confluent.connect.s3.S3SinkConnector"
_BACKUP, _RESTORE = "kafkeep.Backup", "kafkeep.Restore"
_BUCKET: Mapping[str, str] = {"s3.bucket.name": "", "s3.region": "us-east-1"}
_S3_SINK: Mapping[str, str] = {
    "connector.class": _S3_SINK_CLASS,
    "tasks.max": "1",
    "topics": "",
    **_BUCKET,
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


@dataclass(frozen=True, slots=True)
class Preset:
    """A named configuration; keys with an empty value are for the user to fill in."""

    id: str
    title: str
    help: str
    config: Mapping[str, str]


PRESETS = (
    Preset(
        "json-to-s3",
        "JSON to S3",
        "Write the values of topics as JSON lines, for people and for most tools.",
        {
            **_S3_SINK,
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "value.converter.schemas.enable": "false",
            "flush.size": "1000",
            "rotate.schedule.interval.ms": "60000",
            "timezone": "UTC",
        },
    ),
    Preset(
        "parquet-by-day",
        "Parquet by day",
        "Write Parquet files in one folder per day, for a data lake. Values need a schema.",
        {
            **_S3_SINK,
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
            "value.converter.schemas.enable": "true",
            "flush.size": "100000",
            "rotate.schedule.interval.ms": "600000",
            "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
            "partition.duration.ms": "86400000",
            "path.format": "'year'=YYYY/'month'=MM/'day'=dd",
            "timestamp.extractor": "Record",
            "locale": "en-US",
            "timezone": "UTC",
        },
    ),
    Preset(
        "lossless-backup",
        "Lossless backup",
        "Keep record batches exactly as Kafka stores them, so that a restore is exact.",
        {"connector.class": _BACKUP, "tasks.max": "1", "topics": "", **_BUCKET},
    ),
    Preset(
        "restore",
        "Restore",
        "Write what a connector archived back to Kafka. Name its log; topics may be renamed.",
        {
            "connector.class": _RESTORE,
            "tasks.max": "1",
            "topics": "",
            "restore.log": "",
            **_BUCKET,
        },
    ),
)


def find_preset(id: str) -> Preset | None:
    """Return the preset of an id."""
    return next((one for one in PRESETS if one.id == id), None)
