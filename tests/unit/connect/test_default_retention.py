"""A retention that a class has by default: how long, for which topics, and how it is given up."""

from __future__ import annotations

import pytest

from kafkeep.archive.retention import DAY_MS, record_retention
from kafkeep.config.connector import ConnectorConfig
from kafkeep.connect.jobs.retention import DefaultRetention, kept_days
from kafkeep.connect.plugins.classes import definitions, find_plugin
from kafkeep.store.memory import MemoryStore

PACKAGE = "ch.tbd.kafka.backuprestore.backup.kafkaconnect."
BACKUP = {
    "connector.class": PACKAGE + "BackupSinkConnector",
    "name": "backup",
    "topics": "orders",
    "s3.bucket.name": "some-bucket",
}


def retention(**more: str) -> tuple[int | None, bool]:
    given = {**BACKUP, **{key.replace("_", "."): text for key, text in more.items()}}
    config = ConnectorConfig.from_map(given, environ={})
    return config.retention_days, config.retention_by_default


def test_the_backup_class_has_one_that_is_shown_can_be_changed_and_switched_off() -> None:
    assert retention() == (30, True)
    assert retention(s3_retention_days="7") == (7, False)
    assert retention(s3_retention_policy_days="9") == (9, False)
    assert retention(s3_retention_days="-1") == (None, False)
    shown = {one["name"]: one for one in definitions(find_plugin(BACKUP["connector.class"]))}
    assert shown["s3.retention.days"]["default_value"] == "30"


@pytest.mark.parametrize(
    "more",
    [
        {"archive": "/backups"},
        {"object.name.template": "x/{{topic}}/{{partition}}-{{start_offset}}"},
        {"directory.delim": "_"},
    ],
)
def test_a_default_that_cannot_be_had_is_none_where_a_given_one_is_an_error(
    more: dict[str, str],
) -> None:
    assert retention(**more) == (None, False)


@pytest.mark.parametrize(
    "name", ["kafkeep.Backup", "compact.CompactBackupSinkConnector", "S3SinkConnector"]
)
def test_no_other_class_has_one(name: str) -> None:
    full = PACKAGE + name if name.startswith("compact") else name
    given = {**BACKUP, "connector.class": full, "format.class": "avro", "flush.size": "3"}
    if name.startswith("compact"):
        given |= {"compacted.log.backup.initial.status": "ACTIVATE"}
        given |= {"compacted.log.backup.length.hours": "1"}
    config = ConnectorConfig.from_map(given, environ={})
    assert (config.retention_days, config.retention_by_default) == (None, False)


@pytest.mark.parametrize(
    ("configs", "days"),
    [
        ({}, 30),
        ({"retention.ms": str(7 * DAY_MS)}, 30),
        ({"retention.ms": str(30 * DAY_MS)}, 31),
        ({"retention.ms": str(90 * DAY_MS + 1)}, 92),
        ({"retention.ms": "-1"}, None),
        ({"cleanup.policy": "compact"}, None),
        ({"cleanup.policy": "compact,delete"}, 30),
    ],
)
def test_objects_are_kept_longer_than_kafka_keeps_the_records(
    configs: dict[str, str], days: int | None
) -> None:
    assert kept_days(configs, 30) == days


@pytest.mark.parametrize("there", ["orders/0/orders-0-0.avro", "orders~2/0/orders-0-0.avro"])
def test_folders_that_held_objects_before_are_spared(there: str) -> None:
    store = MemoryStore()
    default = DefaultRetention(store, "backup", "")
    assert default.why_not("orders") is None
    store.put_new(there, b"x")
    assert "held objects before" in (default.why_not("orders") or "")
    assert default.why_not("order") is None


def test_a_topic_that_has_a_rule_goes_on_having_one() -> None:
    store = MemoryStore()
    record_retention(store, "backup", ["orders"], 30, 1)
    store.put_new("orders/0/orders-0-0.avro", b"x")
    assert DefaultRetention(store, "backup", "").why_not("orders") is None
    record_retention(store, "backup", ["orders"], None, 2)
    assert DefaultRetention(store, "backup", "").why_not("orders") is not None
