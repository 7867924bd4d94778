"""kafkeep.backup and kafkeep.restore, called from Python on a session of the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.support.cluster import ANY_TIME

import kafkeep
from kafkeep.demo.records import compare_topics, dump_topics
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

pytestmark = pytest.mark.integration


@pytest.fixture
def wire(services: DevStatus) -> Iterator[Wire]:
    with Wire(KafkaOptions(services.bootstrap_servers)) as wire:
        yield wire


def test_topics_go_and_come_back_on_the_callers_session(
    services: DevStatus, session: SparkSession, wire: Wire, topic_name: str, local_archive: Path
) -> None:
    Admin(wire).create_topic(topic_name, 2, configs=ANY_TIME)
    records = [Record(i, 1_700_000_000_000 + i, b"k", None, [(b"h", None)]) for i in range(100)]
    wire.produce({(topic_name, 1): build_batch(records)}).result()
    places = {"archive": local_archive, "bootstrap_servers": services.bootstrap_servers}
    committed = []

    first = kafkeep.backup(
        topics=[topic_name],
        spark=session,
        on_commit=lambda commit, _summary: committed.append(commit.number),
        **places,
    )
    again = kafkeep.backup(topics=[topic_name], segment_bytes="1MiB", **places)
    restored = kafkeep.restore(topics={topic_name: f"{topic_name}-back"}, **places)

    assert (first.records, again.records, restored.records) == (100, 0, 100)
    assert committed and first.exit_code == 0
    before = dump_topics(wire, [topic_name])[topic_name]
    after = dump_topics(wire, [f"{topic_name}-back"])[f"{topic_name}-back"]
    assert compare_topics({"t": before}, {"t": after})[0].same
    assert session.range(3).count() == 3  # it is still there


def test_a_topic_that_is_lost_comes_back_under_its_name_at_once(
    services: DevStatus, session: SparkSession, wire: Wire, topic_name: str, local_archive: Path
) -> None:
    """Python workers outlive the topic: what they remember of it must not stand in the way."""
    Admin(wire).create_topic(topic_name, 1, configs=ANY_TIME)
    batch = build_batch([Record(0, 1_700_000_000_000, b"k", b"v")])
    wire.produce({(topic_name, 0): batch}).result()
    places = {"archive": local_archive, "bootstrap_servers": services.bootstrap_servers}
    kafkeep.backup(topics=[topic_name], spark=session, **places)
    Admin(wire).delete_topics([topic_name])
    restored = kafkeep.restore(spark=session, **places)
    assert restored.records == 1
    assert restored.seconds < 60
