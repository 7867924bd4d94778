"""A round trip on the oldest release of Kafka: the short form of ``make test-matrix``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import topic_scenes
from tests.support.cluster import Cluster
from tests.support.independent_client import dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.dev import DevOptions, start, stop

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
OLDEST = "2.8.2"


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("oldest")
    try:
        yield Cluster(start(DevOptions(folder=folder, kafka=OLDEST)).bootstrap_servers)
    finally:
        stop(folder)


def test_transactions_headers_and_nulls_come_back_at_their_offsets_and_so_does_a_group(
    oldest: Cluster, topic_name: str, local_archive: Path
) -> None:
    topic_scenes.transactions(oldest, topic_name)
    topic_scenes.nulls(oldest, f"{topic_name}-nulls")
    oldest.commit_offset(f"{topic_name}-group", f"{topic_name}-nulls", 7)
    topics = (topic_name, f"{topic_name}-nulls")
    before = [dump(oldest.bootstrap, topic) for topic in topics]
    where = ("--bootstrap-servers", oldest.bootstrap, "--archive", local_archive)
    kafkeep("backup", *where, "--topics", ",".join(topics)).expect(0)
    for topic in topics:
        oldest.delete(topic)
    groups = ("--groups", f"{topic_name}-group")
    done = kafkeep("restore", *where, "--exact-offsets", *groups, "--output", "json").expect(0)
    assert [dump(oldest.bootstrap, topic) for topic in topics] == before
    assert done.json["groups"] == {f"{topic_name}-group": 1}
