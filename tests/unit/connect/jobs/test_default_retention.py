"""A retention that a class has by default: how long, for which topics, and how it is given up."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kafkeep.archive.expiry import DAY_MS, load_retention, record_retention
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.jobs import retention as jobs_retention
from kafkeep.connect.jobs.retention import (
    ConnectorRetention,
    DefaultRetention,
    KafkaRetention,
    kept_days,
)
from kafkeep.connect.plugins.classes import definitions, find_plugin
from kafkeep.errors import (
    AccessDeniedError,
    DamagedError,
    EnvironmentFault,
    KafkeepError,
    PreflightError,
    TransientError,
    UsageError,
)
from kafkeep.kafka.admin.cluster import ConfigValue
from kafkeep.options.kafka import KafkaOptions, Locations
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
    ("policy", "kept_ms", "days"),
    [
        ("delete", 0, 30),
        ("delete", 7 * DAY_MS, 30),
        ("delete", 30 * DAY_MS, 31),
        ("delete", 90 * DAY_MS + 1, 92),
        ("delete", -1, None),
        ("delete", 2_147_483_647 * 3_600_000, None),
        ("compact", 7 * DAY_MS, None),
        ("", 7 * DAY_MS, None),
        ("compact,delete", 7 * DAY_MS, 30),
    ],
)
def test_objects_are_kept_longer_than_kafka_keeps_the_records(
    policy: str, kept_ms: int, days: int | None
) -> None:
    assert kept_days(KafkaRetention(policy, kept_ms), 30) == days


@pytest.mark.parametrize("there", ["orders/0/orders-0-0.avro", "orders~2/0/orders-0-0.avro"])
def test_folders_that_held_objects_before_are_spared(there: str) -> None:
    store = MemoryStore()
    default = DefaultRetention(store, "backup", "")
    assert default.why_not("orders") is None
    store.put_new(there, b"x")
    assert "held objects before" in (default.why_not("orders") or "")
    assert default.why_not("order") is None


def test_a_topic_that_has_a_rule_keeps_it() -> None:
    store = MemoryStore()
    record_retention(store, "backup", ["orders"], 30, 1)
    store.put_new("orders/0/orders-0-0.avro", b"x")
    assert DefaultRetention(store, "backup", "").why_not("orders") is None
    record_retention(store, "backup", ["orders"], None, 2)
    assert DefaultRetention(store, "backup", "").why_not("orders") is not None


class Bench:
    """A connector's retention beside a store in memory and settings of Kafka that tests change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.configs = {
            "cleanup.policy": ConfigValue("delete", "default"),
            "retention.ms": ConfigValue(str(7 * DAY_MS), "default"),
        }
        self.fault: KafkeepError | None = None
        self.refusals: list[KafkeepError] = []
        self.looks = 0
        monkeypatch.setattr(jobs_retention, "apply_retention", self._apply)
        config = ConnectorConfig.from_map(BACKUP, environ={})
        locations = Locations(
            kafka=KafkaOptions("localhost:1"), archive=config.archive, storage=config.storage
        )
        self.retention = ConnectorRetention(config, locations)
        self.retention.begin(self.store)

    def _apply(
        self, _archive: str, _storage: Any, log: str, topics: Any, days: int | None, **_: Any
    ) -> None:
        if self.refusals:
            raise self.refusals.pop()
        record_retention(self.store, log, topics, days, 2)

    def _describe(self, topics: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        if self.fault is not None:
            raise self.fault
        return {topic: dict(self.configs) for topic in topics}

    def look(self) -> int | None:
        """Meet the topic, with settings that were just read; return the days of its rule."""
        self.looks += 1
        self.retention.update(["orders"], self.looks, self._describe)
        return load_retention(self.store, "backup").days("orders")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize(
    ("key", "value", "days"),
    [
        ("retention.ms", "-1", None),
        ("retention.ms", str(8760 * 3_600_000), 366),
        ("cleanup.policy", "compact", None),
    ],
)
def test_what_the_brokers_keep_by_their_own_settings_is_not_deleted(
    bench: Bench, key: str, value: str, days: int | None
) -> None:
    bench.configs[key] = ConfigValue(value, "server.properties")
    assert bench.look() == days


def test_a_setting_that_cannot_be_read_sets_no_rule_and_warns_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    del bench.configs["retention.ms"]
    assert bench.look() is None
    assert bench.look() is None
    assert caplog.text.count("cannot read how long") == 1
    bench.configs["retention.ms"] = ConfigValue("1", "topic")
    assert bench.look() == 30


def test_settings_that_kafka_hides_set_no_rule_and_remove_none(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.fault = PreflightError("topic orders: refused")
    assert bench.look() is None
    assert "cannot read how long" in caplog.text
    bench.fault = None
    assert bench.look() == 30
    bench.fault = PreflightError("topic orders: refused")
    assert bench.look() == 30


@pytest.mark.parametrize(("key", "value"), [("retention.ms", "-1"), ("cleanup.policy", "compact")])
def test_a_topic_that_is_altered_to_be_kept_for_ever_loses_its_rule(
    bench: Bench, key: str, value: str
) -> None:
    assert bench.look() == 30
    bench.store.put_new("topics/orders/0/orders-0-0.avro", b"x")
    bench.configs[key] = ConfigValue(value, "topic")
    assert bench.look() is None


def test_settings_are_asked_once_for_each_time_the_caller_read_them(bench: Bench) -> None:
    assert bench.look() == 30
    bench.fault = TransientError("it was asked again")
    bench.looks -= 1
    assert bench.look() == 30


def test_a_rule_of_365_days_is_not_shortened_when_its_key_is_removed(bench: Bench) -> None:
    record_retention(bench.store, "backup", ["orders"], 365, 1)
    assert bench.look() == 365


@pytest.mark.parametrize("kind", [UsageError, AccessDeniedError, DamagedError, EnvironmentFault])
def test_a_default_that_cannot_be_set_nor_cleaned_up_does_not_stop_the_connector(
    bench: Bench, caplog: pytest.LogCaptureFixture, kind: type[KafkeepError]
) -> None:
    bench.refusals = [kind("second refusal"), kind("first refusal")]
    assert bench.look() is None
    assert "cannot set the default retention of topic orders: first refusal" in caplog.text
    assert "may still apply: second refusal" in caplog.text


def test_a_default_that_fails_for_now_is_tried_again(bench: Bench) -> None:
    bench.refusals = [TransientError("away")]
    with pytest.raises(TransientError):
        bench.look()
    assert bench.look() == 30
