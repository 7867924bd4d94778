"""Records from Kafka and from objects: committed ones only, in order, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.connect.memory_cluster import MemoryCluster, log_of
from tests.support.fake_kafka import FakeLog, fake_logs
from tests.support.stored_sinks import JSON, Stored, write_sink

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.offset_runs import NO_RUNS
from kafkeep.connect.catalog.messages.archived_source import ArchivedSource
from kafkeep.connect.catalog.messages.browse import (
    WorkLimits,
    read_backward,
    read_forward,
    read_one,
)
from kafkeep.connect.catalog.messages.live_source import LiveSource
from kafkeep.connect.catalog.messages.message import MessageSource, Search
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic
from kafkeep.connect.model import RestError
from kafkeep.kafka.batch.layout import Record

EVERY = Search()
RECORDS = [
    Record(n, 1000 + n, b"k%d" % n, b'{"n":%d}' % n) for n in range(60) if n not in (7, 8, 31)
]


def live(logs: list[FakeLog], answer_bytes: int = 1 << 20) -> LiveSource:
    cluster = MemoryCluster()
    cluster.answer_bytes = answer_bytes
    cluster.add("t", *logs)
    return LiveSource(cluster, cluster.described["t"])


def all_forward(source: MessageSource, limit: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {p: [] for p in source.ranges}
    cursor: Mapping[int, int] = {}
    for _ in range(1000):
        page = read_forward(source, cursor, limit=limit, search=EVERY, work=WorkLimits())
        for one in page.messages:
            found[one.line.partition].append(one.position)
        if page.at_end:
            return found
        cursor = page.after
    raise AssertionError("the pages do not end")


def all_backward(source: MessageSource, limit: int) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {p: [] for p in source.ranges}
    cursor: Mapping[int, int] = {}
    for _ in range(1000):
        page = read_backward(source, cursor, limit=limit, search=EVERY, work=WorkLimits())
        for one in page.messages:
            found[one.line.partition].insert(0, one.position)
        if page.at_start:
            return found
        cursor = page.first
    raise AssertionError("the pages do not end")


@given(st.lists(fake_logs(), min_size=1, max_size=3), st.integers(1, 9), st.integers(1, 2000))
def test_committed_records_are_read_from_kafka_once(
    logs: list[FakeLog], limit: int, answer_bytes: int
) -> None:
    wanted = {n: [record.offset for record in log.visible] for n, log in enumerate(logs)}
    source = live(logs, answer_bytes)
    assert all_forward(source, limit) == wanted
    assert all_backward(source, limit) == wanted


def test_records_that_retention_deletes_meanwhile_are_skipped() -> None:
    log = log_of(RECORDS)
    source = live([log])
    log.start = 20
    assert all_forward(source, 10)[0] == [r.offset for r in RECORDS if r.offset >= 20]


def test_a_time_leads_to_the_first_record_at_or_after_it() -> None:
    source = live([log_of(RECORDS), log_of([])])
    assert source.at_time(1007) == {0: 9, 1: 0}
    assert source.at_time(5000) == {0: 60, 1: 0}
    with pytest.raises(RestError, match="no partition 5"):
        cluster = MemoryCluster()
        cluster.add("t", log_of([]))
        LiveSource(cluster, cluster.described["t"], 5)


def archived(stored: Stored, **entry: Any) -> ArchivedSource:
    info = TopicInfo(
        topic="t", incarnation=1, topic_id="id", partitions=1, replication_factor=1, configs={}
    )
    log = cast(Any, SimpleNamespace(store=stored.store))
    topic = LoggedTopic(log=log, info=info, positions={0: 60})
    entries = {0: [replace(one, **entry) for one in stored.entries]}
    return ArchivedSource(topic, entries, stored.options, None)


FORMATS = {
    "json": {**JSON, "flush.size": "10"},
    "parquet": {
        "format.class": "parquet",
        "value.converter": "StringConverter",
        "flush.size": "10",
    },
    "bytes": {
        "format.class": "bytes",
        "value.converter": "ByteArrayConverter",
        "flush.size": "10",
    },
}


@pytest.mark.parametrize("name", ["json", "parquet", "bytes"])
@pytest.mark.parametrize("limit", [1, 7, 100])
def test_records_of_a_sink_are_read_in_both_directions(name: str, limit: int) -> None:
    source = archived(write_sink(RECORDS, FORMATS[name]))
    wanted = {0: [record.offset for record in RECORDS]}
    assert all_forward(source, limit) == wanted
    assert all_backward(source, limit) == wanted
    found = read_one(source, 0, 40)
    assert found is not None
    assert b"40" in (found.line.value or b"")
    assert read_one(source, 0, 31) is None


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_records_whose_offsets_are_not_archived_have_places_of_their_own(limit: int) -> None:
    stored = write_sink(RECORDS, FORMATS["json"])
    source = archived(stored, runs=NO_RUNS)
    forward, backward = all_forward(source, limit), all_backward(source, limit)
    assert forward == backward
    assert len(forward[0]) == len(set(forward[0])) == len(RECORDS)
    page = read_forward(source, {}, limit=100, search=EVERY, work=WorkLimits())
    assert [b'{"n":%d}' % r.offset for r in RECORDS] == [one.line.value for one in page.messages]
    assert not all(one.knows_offset for one in page.messages)
    for one in page.messages:
        again = read_one(source, 0, one.position)
        assert again is not None
        assert again.line.value == one.line.value


def test_a_search_in_an_archive_keeps_its_objects_open() -> None:
    stored = write_sink(RECORDS, FORMATS["json"])
    source = archived(stored)
    page = read_forward(source, {}, limit=5, search=Search(b'"n":59'), work=WorkLimits())
    assert [one.position for one in page.messages] == [59]
    assert page.searched == len(RECORDS)
