"""Which settings a target gets back at the end, whatever happened before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.kafka.admin.admin import TopicDescription
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument, Target, TargetPartition, load_document
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.preflight import TargetSnapshot
from kafkeep.restore.prepare import is_done, prepare, without_restored
from kafkeep.store.memory import MemoryStore

SOURCE = TopicInfo(
    topic="a",
    incarnation=1,
    topic_id="old",
    partitions=1,
    replication_factor=1,
    configs={"retention.ms": "1"},
)
PLAN = RestorePlan("abc", "backup", 3, (TopicPlan(SOURCE, "a", (plan_partition(0, ()),)),))
LOOK = TargetSnapshot(
    cluster_id="c",
    brokers=1,
    names=frozenset({"a"}),
    topics={"a": TopicDescription("a", "now")},
    starts={("a", 0): 0},
    ends={("a", 0): 0},
)
OF_DOCUMENT, OF_TOPIC = {"retention.ms": "2"}, {"retention.ms": "3"}
TARGET = Target("a", 1, "a", True, OF_DOCUMENT)
DOCUMENT = RestoreDocument(
    id="abc",
    revision=0,
    phase=Phase.PREPARING,
    log="backup",
    commit=3,
    cluster_id="c",
    at_ms=9,
    targets=(TARGET,),
)
MADE = replace(TARGET, partitions=(TargetPartition(0, 7, 0),))


class Admin:
    """A cluster with one topic, which has settings of its own."""

    producers = 0

    def broker_version(self) -> tuple[int, ...]:
        return (4, 1)

    def topic_configs(self, _names: list[str]) -> dict[str, dict[str, str]]:
        return {"a": OF_TOPIC}

    def alter_topic_configs(self, _topic: str, **_: object) -> None:
        pass

    def create_topic(self, name: str, _partitions: int, **_: object) -> TopicDescription:
        return TopicDescription(name, f"new-{name}")

    def init_producer_id(self) -> tuple[int, int]:
        self.producers += 1
        return 6 + self.producers, 0


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        (None, OF_TOPIC),
        # Cut off while it made the topic ready: the present settings may be the restore's.
        (DOCUMENT, OF_DOCUMENT),
        (
            replace(DOCUMENT, phase=Phase.WRITING, targets=(replace(MADE, topic_id="now"),)),
            OF_DOCUMENT,
        ),
        # Deleted since and made anew, by its owner: the settings are theirs.
        (
            replace(DOCUMENT, phase=Phase.WRITING, targets=(replace(MADE, topic_id="gone"),)),
            OF_TOPIC,
        ),
        (replace(DOCUMENT, phase=Phase.DONE, targets=(replace(MADE, topic_id="gone"),)), OF_TOPIC),
    ],
    ids=["new", "cut off", "goes on", "made anew meanwhile", "made anew afterwards"],
)
def test_a_topic_that_was_there_gets_its_own_settings_back(
    document: RestoreDocument | None, kept: dict[str, str]
) -> None:
    admin: Any = Admin()
    made = prepare(
        PLAN, LOOK, document, RestoreOptions(), admin=admin, store=MemoryStore(), now_ms=lambda: 10
    )
    assert (made.phase, made.targets[0].topic_id) == (Phase.WRITING, "now")
    assert made.targets[0].settings == kept


def test_the_partitions_of_a_topic_share_a_producer_id_that_no_other_topic_has() -> None:
    source = replace(SOURCE, partitions=3)
    parts = tuple(plan_partition(number, ()) for number in range(3))
    plan = replace(PLAN, topics=tuple(TopicPlan(source, name, parts) for name in "bc"))
    admin: Any = Admin()
    made = prepare(
        plan, LOOK, None, RestoreOptions(), admin=admin, store=MemoryStore(), now_ms=lambda: 10
    )
    assert [target.partitions for target in made.targets] == [
        (TargetPartition(0, producer, 0),) * 3 for producer in (7, 8)
    ]


def test_a_restore_whose_target_was_deleted_is_not_done() -> None:
    done = replace(DOCUMENT, phase=Phase.DONE, targets=(replace(MADE, topic_id="now"),))
    assert is_done(PLAN, LOOK, done)
    assert not is_done(PLAN, replace(LOOK, topics={}), done)
    assert not is_done(PLAN, replace(LOOK, topics={"a": TopicDescription("a", "new")}), done)
    assert not is_done(PLAN, LOOK, replace(done, phase=Phase.WRITING))
    assert not is_done(PLAN, LOOK, None)


BOTH = replace(PLAN, topics=(*PLAN.topics, TopicPlan(SOURCE, "b", (plan_partition(0, ()),))))
THERE = {"a": TopicDescription("a", "now")}
RESTORED = replace(MADE, topic_id="now")
DONE = replace(
    DOCUMENT, phase=Phase.DONE, targets=(RESTORED, replace(MADE, topic="b", topic_id="gone"))
)


def test_only_what_was_deleted_since_is_restored_again() -> None:
    left = without_restored(BOTH, THERE, DONE)
    assert [topic.target for topic in left.topics] == ["b"]
    assert without_restored(BOTH, {}, DONE) is BOTH
    assert without_restored(BOTH, THERE, None) is BOTH
    assert without_restored(PLAN, THERE, DONE) is PLAN, "all of it is done"
    begun = replace(DONE, phase=Phase.WRITING)
    assert without_restored(BOTH, THERE, begun) is BOTH
    again = replace(begun, targets=(replace(RESTORED, done=True), *begun.targets[1:]))
    assert [topic.target for topic in without_restored(BOTH, THERE, again).topics] == ["b"]


def test_what_was_restored_before_stays_in_the_document() -> None:
    admin: Any = Admin()
    left = without_restored(BOTH, THERE, DONE)
    look = replace(LOOK, topics=THERE | {"b": TopicDescription("b", "new")})
    look = replace(look, ends={("b", 0): 0}, starts={("b", 0): 0})
    store, given = MemoryStore(), RestoreOptions()
    admin.topic_configs = lambda _names: {"b": {}}
    made = prepare(left, look, DONE, given, admin=admin, store=store, now_ms=lambda: 10)
    assert [(t.topic, t.topic_id, t.done) for t in made.targets] == [
        ("b", "new", False),
        ("a", "now", True),
    ]
    assert load_document(store, "abc") == made
