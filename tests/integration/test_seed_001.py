"""An example told again on ``kafkeep serve``: a topic goes cold into S3, is lost, and comes back.

A sink adds each record's offset, partition and time as fields and writes Avro with a registry; a
source brings the records back. What the example left to be done is listed at the end, with the
tests that show it here. The tests run in order and each needs the ones before.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fastavro
import pytest
from tests.support.cluster import Cluster
from tests.support.cold_storage import (
    BUCKET,
    BY_TIME,
    COUNT,
    FLUSH,
    FOLDER,
    LAST,
    OTHER,
    PLAIN,
    RESTORED,
    RESTORED_BY_LOG,
    SINK,
    SOURCE,
    TOPIC,
    World,
    clear,
)
from tests.support.connect.curl_service import Shelf, curl_service, patiently
from tests.support.independent_client import dump

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

# What HTTPie sends of its own accord.
HTTPIE = ("-H", "User-Agent: HTTPie/3.2.2", "-H", "Accept-Encoding: gzip, deflate")


@pytest.fixture(scope="module")
def world(
    services: DevStatus,
    cluster: Cluster,
    registry_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    shelf, plain = Shelf(services, BUCKET), Shelf(services, PLAIN)
    clear(cluster, shelf, plain)
    shelf.client.create_bucket(Bucket=BUCKET)
    began = datetime.fromtimestamp(int(time.time()), UTC) - timedelta(hours=3)
    with curl_service(services, tmp_path_factory.mktemp("example")) as service:
        made = World(service, cluster, shelf, plain, registry_url, began)
        for topic, count in ((TOPIC, COUNT), (OTHER, COUNT)):
            cluster.create(topic)
            made.fill(topic, count)
        yield made
        assert service.end() == 0
    clear(cluster, shelf, plain)


def test_a_sink_adds_where_each_record_was_and_when(world: World) -> None:
    world.service.post(SINK, world.sink(TOPIC, timestamp_extractor="Record"))
    by_time = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": "'day'=YYYY-MM-dd/'hour'=HH",
        "partition.duration.ms": "3600000",
        "locale": "en",
        "timezone": "UTC",
        "timestamp.extractor": "Record",
    }
    world.service.post(BY_TIME, world.sink(OTHER) | by_time)
    _wait_committed(world, SINK, COUNT)
    keys = sorted(world.shelf.sizes(f"topics/{TOPIC}/"))
    assert keys == [f"{FOLDER}{TOPIC}+0+{n:010d}.avro" for n in range(0, COUNT, FLUSH)]
    rows = [row for key in keys for row in fastavro.reader(io.BytesIO(world.shelf.read(key)))]
    assert rows == [world.expected(n) for n in range(COUNT)]


def _wait_committed(world: World, name: str, offset: int) -> None:
    """Wait until a sink's offsets have come so far, as Connect shows them."""

    def has_come() -> bool:
        offsets = world.service.curl(f"/connectors/{name}/offsets").expect()["offsets"]
        return bool(offsets) and offsets[0]["offset"]["kafka_offset"] >= offset

    patiently(has_come, f"{name} is at {offset}")


def test_folders_are_of_the_records_own_hours(world: World) -> None:
    _wait_committed(world, BY_TIME, COUNT - FLUSH + 1)
    assert len(_by_hour(world)) > COUNT - FLUSH
    for folder, number in _by_hour(world):
        assert folder == world.at(number).strftime("day=%Y-%m-%d/hour=%H")


def _by_hour(world: World) -> list[tuple[str, int]]:
    prefix = f"topics/{OTHER}/"
    return [
        (key.removeprefix(prefix).rpartition("/")[0], int(row["offset"]))
        for key in world.shelf.sizes(prefix)
        for row in fastavro.reader(io.BytesIO(world.shelf.read(key)))
    ]


def test_another_client_lists_and_deletes_connectors(world: World) -> None:
    listed = world.service.curl(*HTTPIE, "/connectors").expect()
    assert sorted(listed) == sorted([SINK, BY_TIME])
    for name in (SINK, BY_TIME):
        world.service.curl(*HTTPIE, "-X", "DELETE", f"/connectors/{name}").expect(204)
    assert world.service.curl(*HTTPIE, "/connectors").expect() == []
    world.service.curl(*HTTPIE, "-X", "DELETE", f"/connectors/{SINK}").expect(404)


def test_a_lost_topic_comes_back_in_its_order_and_no_other_does(world: World) -> None:
    """Topics can be chosen, and the schema registry needs no restore to read the records."""
    world.cluster.delete(TOPIC)
    world.cluster.delete(OTHER)
    made = world.service.post(SOURCE, world.source())
    assert made["type"] == "source"
    world.service.wait_running(SOURCE)
    _wait_back(world, COUNT)
    assert world.came_back() == [world.expected(n) for n in range(COUNT)]
    assert world.cluster.partitions(OTHER) == []
    told = {SOURCE: {"topics": [TOPIC]}}  # when the round is over, after its records are there
    path = f"/connectors/{SOURCE}/topics"
    patiently(lambda: world.service.curl(path).expect() == told, "its topic is told")


def _wait_back(world: World, count: int, topic: str = TOPIC) -> None:
    patiently(
        lambda: bool(world.cluster.partitions(topic)) and world.cluster.end(topic) >= count,
        f"{count} records are back",
    )


def test_offsets_name_the_last_file_of_each_folder(world: World) -> None:
    read = {"lastFileRead": LAST, "fileOffset": "3", "eof": "true"}
    wanted = {"offsets": [{"partition": {"folder": FOLDER}, "offset": read}]}
    path = f"/connectors/{SOURCE}/offsets"
    patiently(lambda: world.service.curl(path).expect() == wanted, "it is told")


def test_offsets_are_flushed_without_a_new_machine(world: World) -> None:
    """While it runs they cannot be; stopped, they are forgotten and all comes back once more."""
    path = f"/connectors/{SOURCE}/offsets"
    world.service.curl("-X", "DELETE", path).expect(400)
    world.service.curl("-X", "PUT", f"/connectors/{SOURCE}/stop").expect(204)
    patiently(lambda: world.service.states(SOURCE) == {"STOPPED"}, "it is stopped")
    answer = world.service.curl("-X", "DELETE", path).expect()
    assert "reset successfully" in answer["message"]
    assert world.service.curl(path).expect() == {"offsets": []}
    assert world.cluster.end(TOPIC) == COUNT
    world.service.curl("-X", "PUT", f"/connectors/{SOURCE}/resume").expect(202)
    _wait_back(world, 2 * COUNT)
    assert world.came_back() == [world.expected(n) for n in range(COUNT)] * 2


@pytest.mark.parametrize(("bucket", "topic"), [(PLAIN, RESTORED), (BUCKET, RESTORED_BY_LOG)])
def test_keys_times_and_values_are_made_again_with_and_without_a_log(
    world: World, bucket: str, topic: str
) -> None:
    """What the sink added becomes key and time, and goes: of files as another worker's sink leaves
    them, and of an archive with its log."""
    if bucket == PLAIN:
        world.shelf.copy(world.plain, f"topics/{TOPIC}/")
    steps = "org.apache.kafka.connect.transforms."
    config = world.source(
        s3_bucket_name=bucket,
        topics=f"{TOPIC}:{topic}",
        timestamp_extractor="RecordField",
        timestamp_field="ts",
        transforms="createKey,takeKey,dropAdded",
        transforms_createKey_type=f"{steps}ValueToKey",
        transforms_createKey_fields="key",
        transforms_takeKey_type=f"{steps}ExtractField$Key",
        transforms_takeKey_field="key",
        transforms_dropAdded_type=f"{steps}ReplaceField$Value",
        transforms_dropAdded_exclude="offset,partition,ts",
    )
    world.service.post(f"{SOURCE}-{bucket}", config)
    world.service.wait_running(f"{SOURCE}-{bucket}")
    _wait_back(world, COUNT, topic)
    numbers = range(COUNT)
    assert world.came_back(topic) == [world.made(n) for n in numbers]
    records = dump(world.bootstrap, topic)[0]
    assert [record.key for record in records] == [world.made(n)["key"].encode() for n in numbers]
    times = [int(world.at(n).timestamp() * 1000) for n in numbers]
    assert [record.timestamp for record in records] == times


HERE = Path(__file__).parent
SHOWN_BY = {
    "offset translation for consumers": (
        "test_groups_restore.py",
        "a_group_continues_at_the_very_next_record_when_offsets_are_translated",
    ),
    "consumer offsets": ("test_groups_restore.py", "groups_are_planned_applied_and_put_back"),
    "exactly once, to S3": (
        "test_sink_kill.py",
        "a_sink_that_dies_at_a_named_place_is_finished_by_the_next",
    ),
    "exactly once, and back": (
        "test_connect_jobs.py",
        "a_source_killed_at_every_place_doubles_and_loses_nothing",
    ),
    "repartitioning": ("test_routing.py", "another_number_of_partitions"),
    "parallel, and in order": (
        "test_round_trip.py",
        "a_partition_read_by_many_tasks_holds_the_same_records",
    ),
    "retention and timestamps": (
        "test_restore.py",
        "the_clusters_own_retention_does_not_delete_old_records",
    ),
    "retention of the files": (
        "test_retention.py",
        "what_a_rule_may_have_deleted_is_expired_and_all_else_is_damage",
    ),
    "compacted topics": (
        "test_compact_pair.py",
        "roles_change_and_there_is_a_whole_snapshot_at_every_moment",
    ),
    "compacted topics at their offsets": ("test_exact.py", "a_compacted_topic"),
    "choosing the topics that come back": (
        "test_seed_001.py",
        "a_lost_topic_comes_back_in_its_order_and_no_other_does",
    ),
    "schemas": (
        "test_registry.py",
        "restoring_avro_registers_a_schema_that_is_not_there",
    ),
    "errors": (
        "test_serve.py",
        "a_connector_that_fails_leaves_the_one_beside_it_running_and_can_be_fixed",
    ),
    "authentication": ("test_security.py", "every_way_in_backs_up"),
    "metadata: settings of topics": ("test_restore.py", "settings_come_back"),
}
"""What the example left to be done, and the test that shows it."""


@pytest.mark.parametrize("wish", SHOWN_BY)
def test_what_was_left_to_be_done_has_its_test(wish: str) -> None:
    file, name = SHOWN_BY[wish]
    assert f"\ndef test_{name}(" in (HERE / file).read_text()
