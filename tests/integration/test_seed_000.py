"""An exercise in 25 tasks, done on ``kafkeep serve``: topics kept in S3 by a sink connector.

Its calls are made as they are written down: with ``curl``, with Kafka's own tools, and with an S3
client that is not kafkeep's. A minute of waiting is played by a shorter interval. The tasks are
done in order and each needs the ones before.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping

import fastavro
import pytest
from botocore.exceptions import ClientError
from tests.support.cluster import Cluster
from tests.support.connect.curl_service import Shelf, curl_service, patiently
from tests.support.connect.jobs import group_offsets
from tests.support.exercise import (
    BUCKET,
    CLASS,
    FORMATS,
    LAYOUTS,
    MORE_SETTINGS,
    SINK,
    Desk,
    clear,
    expected_folders,
    number_of,
    order,
    parquet_rows,
    registered,
    typed_orders,
)
from tests.support.independent_client import dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.dev import DevStatus

pytestmark = pytest.mark.integration

KEYED = ("--property", "parse.key=true", "--property", "key.separator=:")
MINUTE_MS = "60000"


@pytest.fixture(scope="module")
def desk(
    services: DevStatus,
    cluster: Cluster,
    module_s3: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    shelf = Shelf(services, BUCKET)
    clear(cluster, shelf)
    with curl_service(services, tmp_path_factory.mktemp("exercise")) as service:
        yield Desk(services, service, cluster, shelf)
    clear(cluster, shelf)


def test_01_everything_is_up(desk: Desk) -> None:
    assert desk.services.alive
    patiently(lambda: desk.service.curl("/health/ready").status == 200, "ready")


def test_02_kafka_lists_its_topics(desk: Desk) -> None:
    listed = desk.service.tool("kafka-topics", "--list").split()
    assert not {"orders", "events"} & set(listed)


def test_03_the_store_lets_its_user_in_and_nobody_else(desk: Desk) -> None:
    assert BUCKET not in desk.shelf.buckets()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        Shelf(desk.services, BUCKET, secret="another").buckets()


def test_04_a_bucket_is_made(desk: Desk) -> None:
    desk.shelf.client.create_bucket(Bucket=BUCKET)
    assert BUCKET in desk.shelf.buckets()


def test_05_topics_are_made(desk: Desk) -> None:
    for topic, partitions in (("orders", "3"), ("events", "2")):
        told = ("--partitions", partitions, "--replication-factor", "1")
        desk.service.tool("kafka-topics", "--create", "--topic", topic, *told)
    for topic, numbers in (("orders", [0, 1, 2]), ("events", [0, 1])):
        patiently(
            lambda t=topic, n=numbers: sorted(desk.cluster.partitions(t)) == n,  # type: ignore[misc]
            f"{topic} has its partitions",
        )


def test_06_the_service_reports_its_version_and_its_plugins(desk: Desk) -> None:
    assert desk.service.curl("/").expect().keys() == {"version", "commit", "kafka_cluster_id"}
    plugins = desk.service.curl("/connector-plugins").expect()
    assert CLASS in {plugin["class"] for plugin in plugins if plugin["type"] == "sink"}


def test_07_the_configuration_is_understood_key_by_key(desk: Desk) -> None:
    desk.service.write("s3-sink-connector.json", {"name": SINK, "config": desk.config()})
    told = desk.validate()
    assert told["error_count"] == 0, told
    explained = {one["definition"]["name"]: one for one in told["configs"]}
    for key in ("topics", "s3.bucket.name", "flush.size", "rotate.interval.ms", "format.class"):
        assert explained[key]["value"]["value"] == desk.config()[key]
        assert explained[key]["definition"]["documentation"]


@pytest.mark.parametrize("settings", MORE_SETTINGS, ids=lambda one: next(iter(one)))
def test_07_more_settings_are_taken(desk: Desk, settings: Mapping[str, str]) -> None:
    told = desk.validate(**settings)
    assert [one["value"]["errors"] for one in told["configs"] if one["value"]["errors"]] == []


def test_08_the_connector_is_created(desk: Desk) -> None:
    made = desk.service.send("POST", "/connectors", "s3-sink-connector.json")
    assert made.expect(201)["type"] == "sink"
    assert desk.service.curl("/connectors").expect() == [SINK]


def test_09_the_connector_and_its_tasks_run(desk: Desk) -> None:
    desk.service.wait_running(SINK)
    status = desk.service.curl(f"/connectors/{SINK}/status").expect()
    assert [part["state"] for part in (status["connector"], *status["tasks"])] == ["RUNNING"] * 2
    assert len(desk.service.curl(f"/connectors/{SINK}/tasks").expect()) == 1


def test_10_orders_are_typed_into_the_console_producer(desk: Desk) -> None:
    typed = typed_orders(1, 5)
    desk.service.tool("kafka-console-producer", "--topic", "orders", *KEYED, typed=typed)
    records = [one for part in dump(desk.cluster.bootstrap, "orders").values() for one in part]
    assert sorted(one.key or b"" for one in records) == [b"order-%d" % n for n in range(1, 6)]


def test_11_events_are_typed_without_keys(desk: Desk) -> None:
    kinds = ("user_login", "page_view", "button_click", "user_logout", "error")
    typed = [json.dumps({"eventId": f"evt-{n}", "type": kind}) for n, kind in enumerate(kinds)]
    desk.service.tool("kafka-console-producer", "--topic", "events", typed=typed)


def test_12_files_are_flushed_by_the_interval_and_the_log_says_so(desk: Desk) -> None:
    desk.wait_stored("orders", 5)
    desk.wait_stored("events", 5)
    patiently(lambda: any(SINK in line for line in desk.committed()), "it is in the log")
    assert all(f"s3://{BUCKET}" in line for line in desk.committed())


def test_13_files_lie_by_topic_and_partition(desk: Desk) -> None:
    for topic in ("orders", "events"):
        desk.check(topic)


def test_14_a_file_holds_its_records_as_lines(desk: Desk) -> None:
    desk.seen = desk.stored("orders")
    found = [line for lines in desk.seen.values() for line in lines]
    assert sorted(found, key=lambda one: one["orderId"]) == [order(n) for n in range(1, 6)]


def test_15_more_orders_come(desk: Desk) -> None:
    typed = typed_orders(6, 10)
    desk.service.tool("kafka-console-producer", "--topic", "orders", *KEYED, typed=typed)


def test_16_new_files_stand_beside_the_old_ones(desk: Desk) -> None:
    desk.wait_stored("orders", 10)
    desk.check("orders")
    stored = desk.stored("orders")
    assert {key: stored[key] for key in desk.seen} == desk.seen
    assert len(stored) > len(desk.seen)


def test_17_the_consumer_group_shows_how_far_it_is(desk: Desk) -> None:
    desk.service.wait_running(SINK)
    read = dump(desk.cluster.bootstrap, "orders").items()
    ends = {("orders", partition): len(records) for partition, records in read if records}
    group = f"connect-{SINK}"
    patiently(
        lambda: ends.items() <= group_offsets(desk.cluster, group, "orders").items(), "it knows"
    )
    shown = desk.service.tool("kafka-consumer-groups", "--group", group, "--describe")
    rows = [line.split() for line in shown.splitlines() if line.startswith(group)]
    lags = {(topic, int(number)): (at, lag) for _, topic, number, at, _, lag, *_ in rows}
    assert {place: lags[place] for place in ends} == {
        place: (str(end), "0") for place, end in ends.items()
    }


def test_18_a_kafka_ui_shows_messages_status_and_configuration(desk: Desk) -> None:
    found = desk.service.curl("/connectors?expand=status&expand=info").expect()[SINK]
    assert found["status"]["connector"]["state"] == "RUNNING"
    assert found["info"]["config"]["topics"] == "orders,events"
    shown = desk.service.curl(f"/connectors/{SINK}/config").expect()
    assert shown["flush.size"] == "5"
    assert desk.services.s3.secret_key not in json.dumps([found, shown])
    topics = desk.service.curl(f"/connectors/{SINK}/topics").expect()
    assert sorted(topics[SINK]["topics"]) == ["events", "orders"]
    assert desk.service.curl(f"/connectors/{SINK}/tasks/0/status").expect()["state"] == "RUNNING"


def test_19_exactly_five_messages_make_a_file_at_once(desk: Desk) -> None:
    """The interval is a minute from here on: what is there earlier is there by its count."""
    config = desk.config(rotate_interval_ms=MINUTE_MS)
    desk.service.write("s3-sink-connector.json", {"name": SINK, "config": config})
    file = desk.service.write("config.json", config)
    desk.service.send("PUT", f"/connectors/{SINK}/config", file).expect(200)
    before = desk.stored("orders")
    typed = [json.dumps(order(n)) for n in range(11, 16)]
    desk.service.tool("kafka-console-producer", "--topic", "orders", typed=typed)
    patiently(lambda: len(desk.stored("orders")) > len(before), "a file is there", seconds=40)
    new = [lines for key, lines in desk.stored("orders").items() if key not in before]
    assert new == [[order(n) for n in range(11, 16)]]


def test_20_other_partitioners_make_other_folders(desk: Desk) -> None:
    wanted = expected_folders(desk.cluster)
    for folder, settings in LAYOUTS.items():
        config = desk.config(topics="orders", topics_dir=folder, flush_size="1") | settings
        desk.service.post(f"{SINK}-{folder}", config)
    for folder in LAYOUTS:
        desk.wait_stored("orders", 15, folder)
        found = [
            (key.removeprefix(f"{folder}/orders/").rpartition("/")[0], line["orderId"])
            for key, lines in desk.stored("orders", folder).items()
            for line in lines
        ]
        assert sorted(found) == sorted(wanted[folder])
        desk.service.curl("-X", "DELETE", f"/connectors/{SINK}-{folder}").expect(204)


def test_21_deleted_and_created_again_it_continues_where_it_was(desk: Desk) -> None:
    desk.service.curl("-X", "DELETE", f"/connectors/{SINK}").expect(204)
    assert desk.service.curl("/connectors").expect() == []
    before = desk.stored("orders")
    messages = [{"value": json.dumps(order(n)), "partition": 0} for n in range(16, 21)]
    desk.cluster.produce("orders", messages)
    desk.service.send("POST", "/connectors", "s3-sink-connector.json").expect(201)
    assert desk.service.curl("/connectors").expect() == [SINK]
    desk.wait_stored("orders", 20)
    desk.check("orders")
    stored = desk.stored("orders")
    assert {key: stored[key] for key in before} == before
    new = [lines for key, lines in stored.items() if key not in before]
    assert new == [[order(n) for n in range(16, 21)]]


def test_22_orders_are_kept_as_avro_and_as_parquet(desk: Desk, registry_url: str) -> None:
    rows = [{"orderId": f"order-{n}", "amount": 10.5 * n} for n in range(5)]
    desk.cluster.create("orders-avro")
    desk.cluster.produce("orders-avro", [{"value": v} for v in registered(registry_url, rows)])
    avro = desk.config(
        topics="orders-avro",
        topics_dir="avro",
        format_class=FORMATS + "avro.AvroFormat",
        value_converter="io.confluent.connect.avro.AvroConverter",
        value_converter_schema_registry_url=registry_url,
        value_converter_schemas_enable=None,
    )
    parquet = desk.config(
        topics="orders", topics_dir="parquet", format_class=FORMATS + "parquet.ParquetFormat"
    )
    desk.service.post(f"{SINK}-avro", avro)
    desk.service.post(f"{SINK}-parquet", parquet)
    key = "avro/orders-avro/partition=0/orders-avro+0+0000000000.avro"
    patiently(lambda: list(desk.shelf.sizes("avro/")) == [key], "Avro is there")
    assert list(fastavro.reader(io.BytesIO(desk.shelf.read(key)))) == rows
    patiently(lambda: len(parquet_rows(desk.shelf)) >= 20, "Parquet is there")
    assert parquet_rows(desk.shelf) == sorted((order(n) for n in range(1, 21)), key=number_of)
    for name in ("avro", "parquet"):
        desk.service.curl("-X", "DELETE", f"/connectors/{SINK}-{name}").expect(204)


def test_23_what_takes_up_room_is_counted_to_the_byte(desk: Desk) -> None:
    du = ("du", "--archive", f"s3://{BUCKET}", "--output", "json")
    patiently(
        lambda: kafkeep(*du).json["total_bytes"] == sum(desk.shelf.sizes().values()),
        "du and the bucket agree, once what was deleted last has ended",
    )
    own = kafkeep(*du, "--name", SINK).expect().json["topics"]
    counted = {row["topic"]: (row["objects"], row["stored_bytes"]) for row in own}
    for topic in ("orders", "events"):
        sizes = desk.shelf.sizes(f"topics/{topic}/")
        assert counted[topic] == (len(sizes), sum(sizes.values()))


def test_24_old_files_are_left_to_a_rule_of_the_bucket(desk: Desk) -> None:
    client, foreign = desk.shelf.client, {"ID": "of-others", "Status": "Enabled"}
    foreign |= {"Filter": {"Prefix": "elsewhere/"}, "Expiration": {"Days": 7}}
    client.put_bucket_lifecycle_configuration(
        Bucket=BUCKET, LifecycleConfiguration={"Rules": [foreign]}
    )
    config = desk.config(rotate_interval_ms=MINUTE_MS, s3_retention_days="30")
    file = desk.service.write("config.json", config)
    desk.service.send("PUT", f"/connectors/{SINK}/config", file).expect(200)
    patiently(lambda: len(desk.shelf.expiry()) > 1, "the rules are set")
    ours = ("topics/orders/", "topics/orders~", "topics/events/", "topics/events~")
    assert desk.shelf.expiry() == {"elsewhere/": 7, **dict.fromkeys(ours, 30)}
    shown = kafkeep("retention", "show", "--archive", f"s3://{BUCKET}", "--output", "json")
    told = {row["topic"]: row["in_bucket"] for row in shown.expect().json["rules"]}
    assert told == {"orders": 30, "events": 30}
    desk.service.wait_running(SINK)


def test_25_the_connector_and_the_service_end_and_the_files_stay(desk: Desk) -> None:
    desk.service.curl("-X", "DELETE", f"/connectors/{SINK}").expect(204)
    assert desk.service.curl("/connectors").expect() == []
    assert desk.service.end() == 0
    desk.check("orders")
    desk.check("events")
