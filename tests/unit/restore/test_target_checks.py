"""A restore that the target would refuse, or not keep, is told so before it writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import AccessDeniedError
from kafkeep.kafka.admin.admin import TopicDescription, TopicRight
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore import target_checks as tried
from kafkeep.restore.document import Phase, RestoreDocument, Target
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.preflight import TargetSnapshot, check_targets, require_pass
from kafkeep.restore.target_checks import check_target_changes

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
ENTRY = Entry(
    key="k", partition_id=PartitionId("a", 1, 0), topic_id="old", range=OffsetRange(0, 5),
    records=5, min_timestamp=NOW_MS - 30 * DAY_MS, max_timestamp=NOW_MS, size_bytes=9,
    raw_bytes=9, format="segment", codec="zstd", sha256="",
)  # fmt: skip
SOURCE = TopicInfo(
    topic="a", incarnation=1, topic_id="old", partitions=1, replication_factor=1, configs={}
)
TOPIC = TopicPlan(SOURCE, "a", (plan_partition(0, (ENTRY,)),))
PLAN = RestorePlan("abc", "backup", 3, (TOPIC,))
NOTHING = TargetSnapshot(
    cluster_id="c", brokers=1, names=frozenset(), topics={}, starts={}, ends={}
)  # fmt: skip
THERE = replace(NOTHING, names=frozenset("a"), topics={"a": TopicDescription("a", "now")})


class Admin:
    """A cluster that lets us create topics, or does not."""

    def __init__(self, denied: bool = False) -> None:
        self.denied = denied

    def try_topic(self, name: str, _partitions: int, **_: object) -> None:
        if self.denied:
            raise AccessDeniedError(f"access denied: create topic {name}")

    def broker_version(self) -> tuple[int, ...]:
        return (4, 1)

    def topic_configs(self, _names: list[str]) -> dict[str, dict[str, str]]:
        return {"a": {"retention.ms": "-1"}}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the cluster tells: a week of retention, and all rights unless they are taken away."""
    told: dict[str, Any] = {"rights": {"a": frozenset(TopicRight)}}
    monkeypatch.setattr(tried, "topic_rights", lambda *_: told["rights"])
    week = {"retention.ms": str(7 * DAY_MS)}
    monkeypatch.setattr(tried, "topic_defaults", lambda *_: week)
    monkeypatch.setattr(tried, "new_topic_defaults", lambda *_: week)
    return told


def checks(
    look: TargetSnapshot,
    options: RestoreOptions | None = None,
    *,
    denied: bool = False,
    document: RestoreDocument | None = None,
    known: tuple[Check, ...] = (),
) -> list[tuple[str, str]]:
    admin: Any = Admin(denied)
    given = options or RestoreOptions()
    found = check_target_changes(PLAN, look, document, given, known, admin=admin, now_ms=NOW_MS)
    return [(check.verdict.value, check.what) for check in found]


def test_a_topic_that_may_not_be_created_fails() -> None:
    assert checks(NOTHING, denied=True) == [("fail", "access denied: create topic a")]
    admin: Any = Admin(denied=True)
    given = RestoreOptions()
    with pytest.raises(AccessDeniedError, match="a: access denied: create topic a"):
        require_pass(
            check_target_changes(PLAN, NOTHING, None, given, (), admin=admin, now_ms=NOW_MS)
        )
    told = (Check(CheckStatus.FAIL, "a", "is refused already"),)
    assert checks(NOTHING, denied=True, known=told) == []


def test_retention_that_is_suspended_or_deletes_is_reported() -> None:
    held = f"retention.ms={7 * DAY_MS} will not be put back: records are older than that"
    assert checks(NOTHING) == [("warn", held)]
    deletes = f"retention.ms={7 * DAY_MS} deletes restored records at once: records are older"
    [(verdict, what)] = checks(NOTHING, RestoreOptions(apply_retention=True))
    assert verdict == "warn" and what.startswith(deletes)
    assert checks(THERE) == []  # its own settings keep them for ever


@pytest.mark.parametrize(
    ("rights", "exact", "expected"),
    [
        (set(TopicRight), True, []),
        (set(TopicRight) - {TopicRight.DELETE}, False, []),
        (set(TopicRight) - {TopicRight.DELETE}, True, [("fail", "Delete")]),
        ({TopicRight.READ}, False, [("fail", "Write, AlterConfigs, DescribeConfigs")]),
        (set(TopicRight) - {TopicRight.READ}, False, [("warn", "may not read it")]),
    ],
)
def test_rights_on_a_topic_that_is_there_are_named(
    cluster: dict[str, Any], rights: set[TopicRight], exact: bool, expected: list[tuple[str, str]]
) -> None:
    cluster["rights"] = {"a": frozenset(rights)}
    found = checks(THERE, RestoreOptions(exact_offsets=exact))
    assert [verdict for verdict, _ in found] == [verdict for verdict, _ in expected]
    assert all(part in what for (_, what), (_, part) in zip(found, expected, strict=True))
    cluster["rights"] = {}  # a broker that does not tell
    assert checks(THERE, RestoreOptions(exact_offsets=exact)) == []


def test_a_finished_restore_gets_no_target_checks(cluster: dict[str, Any]) -> None:
    cluster["rights"] = {"a": frozenset()}
    done = RestoreDocument(
        id="abc", revision=2, phase=Phase.DONE, log="backup", commit=3, cluster_id="c", at_ms=9,
        targets=(Target("a", 1, "a", False, {}, "now"),),
    )  # fmt: skip
    assert checks(THERE, document=done) == []
    assert checks(NOTHING, document=done, denied=True)  # deleted since: it is made anew


def test_names_that_kafka_takes_for_one_are_refused_together() -> None:
    twins = replace(PLAN, topics=(replace(TOPIC, target="x.y"), replace(TOPIC, target="x_y")))
    found = check_targets(twins, NOTHING, RestoreOptions(), None)
    assert [check.verdict for check in found] == [CheckStatus.FAIL, CheckStatus.FAIL]
    assert "beside x_y" in found[0].what
