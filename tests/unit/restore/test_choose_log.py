"""Of several logs, a restore reads the one that had the topics at the time asked for."""

from __future__ import annotations

import pytest

from kafkeep.archive.commit import Changes, TopicInfo
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import load_view
from kafkeep.errors import NoSuchArchiveError, PreflightError, UsageError
from kafkeep.maintenance.drill import view_to_try
from kafkeep.objects.choose_log import choose_log as choose_log_to_read
from kafkeep.options.maintenance import DrillOptions
from kafkeep.options.option import parse_group
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.source import choose_log, load_contents
from kafkeep.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    """An early log of a and b, a late one of a, b and c."""
    store = MemoryStore()
    for name, at_ms, topics in (("early", 1000, "ab"), ("late", 2000, "abc")):
        log = CommitLog.open(store, name, writer=name, now_ms=lambda at=at_ms: at)
        log.append(
            Changes(
                topics=tuple(
                    TopicInfo(
                        topic=topic, incarnation=1, topic_id=topic, partitions=1,
                        replication_factor=1, configs={},
                    )
                    for topic in topics
                )
            )
        )  # fmt: skip
    return store


def test_a_log_that_begins_later_is_not_taken_for_a_time_before_it(store: MemoryStore) -> None:
    assert choose_log(store, RestoreOptions(at_ms=1500)) == "early"
    assert choose_log_to_read(store, at_ms=1500) == "early"
    assert choose_log(store, RestoreOptions(at_ms=2500)) == "late"
    with pytest.raises(NoSuchArchiveError, match="begins later"):
        choose_log(store, RestoreOptions(at_ms=500))


def test_a_commit_is_of_one_log_and_of_none_that_was_chosen_for_it(store: MemoryStore) -> None:
    with pytest.raises(PreflightError, match="a commit belongs to one of them: early, late"):
        choose_log(store, RestoreOptions(commit=1))
    with pytest.raises(PreflightError, match="a commit belongs to one of them: early, late"):
        choose_log_to_read(store, topics=["c"], commit=1)
    assert choose_log_to_read(store, "early", commit=1) == "early"
    with pytest.raises(PreflightError, match="a commit belongs to one of them: early, late"):
        view_to_try(store, DrillOptions(commit=1))
    assert view_to_try(store, DrillOptions(commit=1, name="early")).name == "early"


def test_topics_by_a_regex_are_those_a_log_must_have(store: MemoryStore) -> None:
    other = CommitLog.open(store, "other", writer="other", now_ms=lambda: 3000)
    info = TopicInfo(
        topic="d", incarnation=1, topic_id="d", partitions=1, replication_factor=1, configs={}
    )
    other.append(Changes(topics=(info,)))
    assert choose_log(store, RestoreOptions(topics_regex="c|b")) == "late"
    assert choose_log(store, RestoreOptions(topics_regex="d.*")) == "other"


@pytest.mark.parametrize("regex", [r"\Qc\E", r"[\p{Lower}&]", "(?<any>c)", "c|other"])
def test_topics_are_chosen_by_expressions_of_java_as_in_a_backup(
    store: MemoryStore, regex: str
) -> None:
    options = parse_group(RestoreOptions, {"topics.regex": regex})
    assert choose_log(store, options) == "late"
    plan = plan_restore(load_contents(load_view(store, "late"), options), options, id="id")
    assert "c" in [topic.target for topic in plan.topics]
    assert options.wants("c") and not options.wants("+")


def test_an_intersection_of_classes_is_not_taken_for_something_else() -> None:
    options = parse_group(RestoreOptions, {"topics.regex": "[a-z&&[^c]]"})
    assert options.wants("b") and not options.wants("c") and not options.wants("&")


def test_a_look_ahead_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="has a look-ahead"):
        parse_group(RestoreOptions, {"topics.regex": "x(?!c).*"})
