"""What people wrote down that they do with the S3 sink, done with ``kafkeep backup``."""

from __future__ import annotations

import gzip
import io
import json
import signal
import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.cluster import ANY_TIME, Cluster, until
from tests.support.independent_client import Seen, dump
from tests.support.run_kafkeep import Driver, Outcome, kafkeep
from tests.support.sinetstream_cases import DATA, HOUR, TIMES, envelope
from tests.support.sink_runs import Bucket, probed_once

from kafkeep.archive.view import load_view
from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3")]

FORMATS = "io.confluent.connect.s3.format."
PARTITIONERS = "io.confluent.connect.storage.partitioner."
CONVERTERS = "org.apache.kafka.connect."
EXERCISE = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "tasks.max": "1",
    "s3.region": "us-east-1",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": FORMATS + "json.JsonFormat",
    "partitioner.class": PARTITIONERS + "DefaultPartitioner",
    "key.converter": CONVERTERS + "storage.StringConverter",
    "value.converter": CONVERTERS + "json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "flush.size": "5",
    "rotate.interval.ms": "60000",
}
HOURLY = {
    "partitioner.class": PARTITIONERS + "TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": "3600000",
    "timestamp.extractor": "Record",
}
PRODUCTS = ["Laptop", "Mouse", "Keyboard", "USB Cable", "Monitor", "Headphones", "Webcam"]


class Shop:
    """A bucket, a Kafka, and connectors kept in files."""

    def __init__(self, services: DevStatus, cluster: Cluster, folder: Path) -> None:
        self.bucket = Bucket(services)
        self.cluster = cluster
        self.folder = folder
        self._services = services

    def topic(self, name: str, partitions: int = 1) -> str:
        return self.cluster.create(f"{name}-{uuid.uuid4().hex[:6]}", partitions, ANY_TIME)

    def connector(self, topic: str, *settings: Mapping[str, str], name: str = "s3-sink") -> Path:
        """Write the file that Connect would be posted."""
        s3 = self._services.s3
        config = {
            **EXERCISE,
            "topics": topic,
            "s3.bucket.name": self.bucket.name,
            "store.url": s3.endpoint,
            "aws.access.key.id": s3.access_key,
            "aws.secret.access.key": s3.secret_key,
        }
        for more in settings:
            config |= more
        path = self.folder / f"{topic}-{name}.json"
        path.write_text(json.dumps({"name": f"{topic}-{name}", "config": config}))
        return path

    def arguments(self, connector: Path) -> tuple[object, ...]:
        where = ("--bootstrap-servers", self.cluster.bootstrap, "--output", "json")
        return ("backup", *where, "--connector-config", connector)

    def backup(self, topic: str, *settings: Mapping[str, str]) -> Outcome:
        return kafkeep(*self.arguments(self.connector(topic, *settings)))

    def objects(self, topic: str) -> dict[str, bytes]:
        """Return everything the bucket holds of a topic, by an independent client."""
        keys = [key for key in self.bucket.list_keys() if f"/{topic}/" in key]
        return {key: self.bucket.read(key) for key in keys}

    def closed_by(self, topic: str, connector: Path) -> dict[str, str]:
        """Return why each object of a topic was closed, as the connector's log says so far."""
        view = load_view(open_store(f"s3://{self.bucket.name}"), connector.stem)
        return {entry.key: entry.closed_by for entry in view.entries(topic)}


@pytest.fixture(scope="module")
def shop(
    services: DevStatus, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with probed_once():
        yield Shop(services, cluster, tmp_path_factory.mktemp("connectors"))


def order(number: int) -> dict[str, Any]:
    """One order of the exercise."""
    minutes = 10 * 60 + 5 * (number - 1)
    return {
        "orderId": f"order-{number}",
        "customerId": f"cust-{100 + number % 3}",
        "amount": 49.99 + number,
        "product": PRODUCTS[number % len(PRODUCTS)],
        "timestamp": f"2024-12-03T{minutes // 60:02d}:{minutes % 60:02d}:00Z",
    }


def orders(first: int, last: int, *, step_ms: int = 1000) -> list[dict[str, Any]]:
    """Messages as a console producer sends them, keyed, so long after each other from 10:00 on."""
    ten = int(datetime(2024, 12, 3, 10, tzinfo=UTC).timestamp() * 1000)
    return [
        {
            "key": f"order-{number}",
            "value": json.dumps(order(number)),
            "timestamp": ten + (number - 1) * step_ms,
            "partition": 0,
        }
        for number in range(first, last + 1)
    ]


def lines(first: int, last: int) -> bytes:
    """Return the values of some orders as they stand in a file."""
    return b"".join(json.dumps(order(n)).encode() + b"\n" for n in range(first, last + 1))


# --- the exercise: a connector that follows


@pytest.mark.core(suite="sink")
def test_files_appear_by_count_at_once_and_by_the_interval_when_nothing_comes(
    shop: Shop, tmp_path: Path
) -> None:
    topic = shop.topic("orders", 3)
    folder = f"topics/{topic}/partition=0"
    connector = shop.connector(topic, {"rotate.interval.ms": "4000"})
    driver = Driver(tmp_path, *shop.arguments(connector), "--follow", "--interval", "300ms")
    try:
        shop.cluster.produce(topic, orders(1, 8, step_ms=100))
        full = {f"{folder}/{topic}+0+0000000000.json": lines(1, 5)}
        rest = {f"{folder}/{topic}+0+0000000005.json": lines(6, 8)}
        until(lambda: shop.objects(topic) == full | rest, "three records wait no longer")
        closed_by = {
            **dict.fromkeys(full, RotateReason.COUNT),
            **dict.fromkeys(rest, RotateReason.IDLE),
        }
        until(
            lambda: shop.closed_by(topic, connector) == closed_by, "the log tells what closed each"
        )
        shop.cluster.produce(topic, orders(9, 13, step_ms=100))
        more = {f"{folder}/{topic}+0+0000000008.json": lines(9, 13)}
        until(lambda: shop.objects(topic) == full | rest | more, "five more make another")
        driver.signal(signal.SIGSTOP)  # however long it takes: no clock closes the last two
        shop.cluster.produce(topic, orders(14, 15, step_ms=100))
        driver.signal(signal.SIGTERM)
        driver.signal(signal.SIGCONT)
        driver.wait().expect(0)
    except BaseException:
        driver.kill()
        print(driver.said()[-3000:])
        raise
    assert shop.objects(topic) == full | rest | more

    again = kafkeep(*shop.arguments(connector)).expect(0)
    tail = {f"{folder}/{topic}+0+0000000013.json": lines(14, 15)}
    assert again.json["records"] == 2
    assert shop.objects(topic) == full | rest | more | tail
    assert kafkeep(*shop.arguments(connector)).expect(0).json["records"] == 0


def test_a_connector_leaves_the_tail_that_no_rule_closes(shop: Shop, tmp_path: Path) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, orders(1, 7))
    connector = shop.connector(topic, {"rotate.interval.ms": "-1"})
    driver = Driver(tmp_path, *shop.arguments(connector), "--follow", "--interval", "300ms")
    wanted = {f"topics/{topic}/partition=0/{topic}+0+0000000000.json": lines(1, 5)}
    try:
        until(lambda: shop.objects(topic) == wanted, "five records make a file")
        time.sleep(2)  # some cycles more, none of which may close the tail
        driver.signal(signal.SIGTERM)
        driver.wait().expect(0)
    except BaseException:
        driver.kill()
        raise
    assert shop.objects(topic) == wanted


# --- the exercise: its fragments


def test_hours_of_the_records_make_folders(shop: Shop) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, orders(11, 14, step_ms=300_000))  # 10:50 to 11:05
    shop.backup(topic, HOURLY, {"rotate.interval.ms": "3600000"}).expect(0)
    day = f"topics/{topic}/year=2024/month=12/day=03"
    assert shop.objects(topic) == {
        f"{day}/hour=10/{topic}+0+0000000000.json": lines(11, 12),
        f"{day}/hour=11/{topic}+0+0000000002.json": lines(13, 14),
    }


def unpack_snappy(framed: bytes) -> bytes:
    """Read snappy's frame format: chunks of a kind, a length of three bytes, a checksum."""
    assert framed.startswith(b"\xff\x06\x00\x00sNaPpY")
    codec, at, found = pa.Codec("snappy"), 0, b""
    while at < len(framed):
        kind, size = framed[at], int.from_bytes(framed[at + 1 : at + 4], "little")
        chunk = framed[at + 8 : at + 4 + size]
        if kind == 0:
            length, shift, i = 0, 0, 0
            while True:
                length |= (chunk[i] & 0x7F) << shift
                if chunk[i] < 0x80:
                    break
                i, shift = i + 1, shift + 7
            found += codec.decompress(chunk, length).to_pybytes()
        elif kind == 1:
            found += chunk
        at += 4 + size
    return found


def unpack_zstd(data: bytes) -> bytes:
    found: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return found


@pytest.mark.parametrize(
    ("compression", "extension", "unpack"),
    [
        ("none", ".json", bytes),
        ("gzip", ".json.gz", gzip.decompress),
        ("snappy", ".json.sz", unpack_snappy),
        ("zstd", ".json.zst", unpack_zstd),
    ],
)
def test_compressed_files_hold_the_same_lines(
    shop: Shop, compression: str, extension: str, unpack: Callable[[bytes], bytes]
) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, orders(1, 7))
    shop.backup(topic, {"s3.compression.type": compression}).expect(0)
    found = {key: unpack(body) for key, body in shop.objects(topic).items()}
    folder = f"topics/{topic}/partition=0"
    assert found == {
        f"{folder}/{topic}+0+0000000000{extension}": lines(1, 5),
        f"{folder}/{topic}+0+0000000005{extension}": lines(6, 7),
    }


def test_object_names_follow_the_configuration(shop: Shop) -> None:
    topic = shop.topic("orders", 2)
    shop.cluster.produce(topic, [{**m, "partition": 1} for m in orders(1, 2)])
    naming = {"topics.dir": "kafka-data", "directory.delim": "/", "file.delim": "-"}
    shop.backup(topic, naming).expect(0)
    key = f"kafka-data/{topic}/partition=1/{topic}-1-0000000000.json"
    assert shop.objects(topic) == {key: lines(1, 2)}


def test_records_without_a_value_are_ignored_or_stop_the_run(shop: Shop) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, [*orders(1, 1), {"key": "order-1"}, *orders(2, 2)])
    refused = shop.backup(topic).expect(1)
    assert f"{topic}-0 offset 1: a record of {topic} has no value" in refused.stderr
    assert "behavior.on.null.values" in refused.stderr
    tuned = {"tasks.max": "4", "s3.part.size": "5242880", "behavior.on.null.values": "ignore"}
    connector = shop.connector(topic, tuned, name="tuned")
    kafkeep(*shop.arguments(connector)).expect(0)
    key = f"topics/{topic}/partition=0/{topic}+0+0000000000.json"
    assert shop.objects(topic) == {key: lines(1, 2)}


def test_parquet_files_hold_the_orders_in_columns(shop: Shop) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, orders(1, 5))
    shop.backup(topic, {"format.class": FORMATS + "parquet.ParquetFormat"}).expect(0)
    [(key, body)] = shop.objects(topic).items()
    assert key == f"topics/{topic}/partition=0/{topic}+0+0000000000.snappy.parquet"
    rows = pq.read_table(io.BytesIO(body)).drop_columns(["_json"]).to_pylist()
    assert rows == [order(n) for n in range(1, 6)]


ORDER_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "orderId", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "product", "type": ["null", "string"], "default": None},
    ],
}


@contextmanager
def registry(schema: Mapping[str, Any]) -> Iterator[str]:
    """A registry that knows one schema, under the number 7."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.split("?")[0] == "/schemas/ids/7"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(schema)} if known else {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_avro_messages_become_avro_files(shop: Shop) -> None:
    topic = shop.topic("orders")
    rows = [{name: order(n)[name] for name in ("orderId", "amount", "product")} for n in (1, 2, 3)]
    rows[1]["product"] = None
    messages = []
    for row in rows:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, ORDER_SCHEMA, row)
        messages.append({"value": struct.pack(">bI", 0, 7) + body.getvalue()})
    shop.cluster.produce(topic, messages)
    with registry(ORDER_SCHEMA) as url:
        avro = {
            "format.class": FORMATS + "avro.AvroFormat",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": url,
        }
        path = shop.connector(topic, avro)
        told = json.loads(path.read_text())
        del told["config"]["value.converter.schemas.enable"]
        path.write_text(json.dumps(told))
        kafkeep(*shop.arguments(path)).expect(0)
    [(key, body)] = shop.objects(topic).items()
    assert key == f"topics/{topic}/partition=0/{topic}+0+0000000000.avro"
    assert list(fastavro.reader(io.BytesIO(body))) == rows


# --- SINETStream: two connectors, one folder on disk


def test_payloads_and_their_times_lie_beside_each_other_in_one_folder(
    shop: Shop, tmp_path: Path
) -> None:
    topic = shop.topic("sinetstream.sensor")
    payloads = [b'{"temperature": %d}' % n for n in range(3)]
    sent = [HOUR + 1_800_000 * n for n in range(3)]  # the third is in the next hour
    shop.cluster.produce(
        topic,
        [
            {"value": envelope(payload, at * 1000), "timestamp": at}
            for payload, at in zip(payloads, sent, strict=True)
        ],
    )
    archive = tmp_path / "data"
    where = ("--bootstrap-servers", shop.cluster.bootstrap, "--archive", archive)
    changes = {"topics": topic, "format.bytearray.separator": ""}
    posted = {
        "s3-sink-data": {**DATA, **changes, "format.bytearray.extension": ".json"},
        "s3-sink-timestamp": {**TIMES, **changes},
    }
    for name, config in posted.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"name": name, "config": config}))
        kafkeep("backup", *where, "--connector-config", path).expect(0)
    day = f"topics/{topic}/year=2022/month=04/day=18"
    wanted = {}
    for n, hour in enumerate(["hour=10", "hour=10", "hour=11"]):
        stem = f"{day}/{hour}/{topic}+0+000000000{n}"
        time_text = datetime.fromtimestamp(sent[n] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
        wanted |= {stem + ".json": payloads[n], stem + "-timestamp.txt": time_text.encode()}
    files = (path for path in archive.rglob("*") if path.is_file())
    found = {str(path.relative_to(archive)): path for path in files}
    data = {key: path.read_bytes() for key, path in found.items() if key.startswith("topics/")}
    assert data == wanted


# --- dead letters

LATE = 1_733_220_001_000  # 2024-12-03T10:00:01Z
BAD = b'{"orderId": "order-3", "amount": }'


def context(letter: Seen) -> dict[str, str]:
    prefix = "__connect.errors."
    return {
        name.removeprefix(prefix): (value or b"").decode()
        for name, value in letter.headers
        if name.startswith(prefix)
    }


def bearing(letters: str) -> dict[str, str]:
    """Return the keys of a connector that bears bad records."""
    return {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


@pytest.mark.core(suite="sink")
def test_a_bad_record_goes_to_its_topic_and_the_good_ones_to_their_file(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    topic = shop.topic("orders")
    bad = {"key": "order-3", "value": BAD, "headers": [("trace", b"abc")], "timestamp": LATE}
    shop.cluster.produce(topic, [*orders(1, 2), bad, *orders(4, 4)])
    letters = f"{topic}-dead"
    tolerant = bearing(letters)
    done = shop.backup(topic, tolerant).expect(3)
    assert "1 records could not be stored" in done.stderr
    assert f"{topic}-s3-sink: {topic}-0 offset 2: VALUE_CONVERTER" in caplog.text
    key = f"topics/{topic}/partition=0/{topic}+0+0000000000.json"
    assert shop.objects(topic) == {key: lines(1, 2) + lines(4, 4)}
    [letter] = dump(shop.cluster.bootstrap, letters)[0]
    assert (letter.key, letter.value, letter.timestamp) == (b"order-3", BAD, LATE)
    assert letter.headers[0] == ("trace", b"abc")
    told = context(letter)
    assert (told["topic"], told["partition"], told["offset"]) == (topic, "0", "2")
    assert (told["stage"], told["connector.name"]) == ("VALUE_CONVERTER", f"{topic}-s3-sink")
    assert told["exception.message"]
    assert kafkeep(*shop.arguments(shop.connector(topic, tolerant))).expect(0).json["records"] == 0
    assert shop.cluster.config(letters)["retention.ms"] == "-1"  # the letter is of 2024
    assert len(dump(shop.cluster.bootstrap, letters)[0]) == 1


def test_connectors_that_are_about_to_make_their_dead_letter_topic_at_once_share_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, [*orders(1, 1), {"value": BAD}])
    letters = shop.topic("dead")
    ask, asked = Admin.topics, list[str]()

    def ask_too_early(admin: Admin, names: Collection[str] | None) -> Any:
        if names is None or letters not in names or asked:
            return ask(admin, names)
        asked.append(letters)
        return {}

    monkeypatch.setattr(Admin, "topics", ask_too_early)
    shop.backup(topic, bearing(letters)).expect(3)
    assert asked and len(dump(shop.cluster.bootstrap, letters)[0]) == 1


def test_a_dead_letter_topic_that_kafka_refuses_is_reported_with_its_keys(
    shop: Shop,
) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, [{"value": BAD}])
    replicated = {"errors.deadletterqueue.topic.replication.factor": "3"}
    refused = shop.backup(topic, bearing(f"{topic}-dead"), replicated).expect(14)
    assert "errors.deadletterqueue.topic.name: refused by Kafka" in refused.stderr
    assert "set errors.deadletterqueue.topic.replication.factor (it is 3)" in refused.stderr


def test_a_record_whose_objects_name_s3_would_not_take_is_a_bad_record(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The bucket's prefix counts; and the letter names the connector as its user does."""
    topic, letters = shop.topic("places"), f"dead-{uuid.uuid4().hex[:6]}"
    cities = ["東京\u3000駅", "x" * 840, "x" * 900, "a/../b", "y" * 200]
    values = [json.dumps({"n": n, "city": city}) for n, city in enumerate(cities)]
    shop.cluster.produce(topic, [{"value": value, "partition": 0} for value in values])
    by_city = {
        "partitioner.class": PARTITIONERS + "FieldPartitioner",
        "partition.field.name": "city",
        "partition.path.encoding": "raw",
        "flush.size": "2",
    }
    prefix = "p" * 120
    path = shop.connector(topic, by_city, bearing(letters), name="→ S3")
    done = kafkeep(*shop.arguments(path), "--archive", f"s3://{shop.bucket.name}/{prefix}")
    assert "3 records could not be stored" in done.expect(3).stderr
    folder = f"{prefix}/topics/{topic}"
    assert shop.objects(topic) == {
        f"{folder}/city={cities[n]}/{topic}+0+{n:010d}.json": values[n].encode() + b"\n"
        for n in (0, 4)
    }
    told = [context(letter) for letter in dump(shop.cluster.bootstrap, letters)[0]]
    assert [one["offset"] for one in told] == ["1", "2", "3"]
    assert {one["connector.name"] for one in told} == {f"{topic}-→ S3"}
    assert {one["stage"] for one in told} == {"TASK_PUT"}
    assert "but the store takes 903" in told[0]["exception.message"]
    assert f"{topic}-→ S3: {topic}-0 offset 3: TASK_PUT: no object can lie in" in caplog.text
    strict = shop.arguments(shop.connector(topic, by_city, name="strict"))
    stopped = kafkeep(*strict, "--archive", f"s3://{shop.bucket.name}/{prefix}").expect(1)
    assert f"{topic}-0 offset 1: an object in" in stopped.stderr


def test_without_tolerance_a_bad_record_stops_the_run_in_one_sentence(shop: Shop) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, [*orders(1, 6), {"value": BAD}, *orders(8, 9)])
    done = shop.backup(topic).expect(1)
    said = [line for line in done.stderr.splitlines() if f"{topic}-0 offset 6" in line]
    assert len(said) == 1, done.stderr
    assert "Traceback" not in done.stderr and "java." not in done.stderr
    archive = f"s3://{shop.bucket.name}"
    told = kafkeep("info", "--archive", archive, "--name", f"{topic}-s3-sink", "--output", "json")
    assert told.code in (0, 3)
    assert (
        "0000000000.json"
        not in kafkeep(
            "ls", "--archive", archive, "--name", f"{topic}-s3-sink", "--output", "json"
        ).stdout
    )


def test_after_a_bad_record_the_run_continues_when_errors_tolerance_is_all(
    shop: Shop,
) -> None:
    topic = shop.topic("orders")
    shop.cluster.produce(topic, [*orders(1, 1), {"value": BAD}, *orders(3, 3)])
    shop.backup(topic).expect(1)
    shop.backup(topic, {"errors.tolerance": "all"}).expect(3)
    key = f"topics/{topic}/partition=0/{topic}+0+0000000000.json"
    assert shop.objects(topic) == {key: lines(1, 1) + lines(3, 3)}
