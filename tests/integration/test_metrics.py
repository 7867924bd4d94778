"""What ``/metrics`` says, beside what Kafka and S3 say when other clients ask them."""

from __future__ import annotations

import json
import pickle
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import boto3
import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.cluster import Cluster, until
from tests.support.promql import selectors, strimzi_names
from tests.support.run_kafkeep import Driver

from kafkeep.clock import now_ms
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.make import make_job
from kafkeep.connect.metrics.page import WorkerFacts, render
from kafkeep.connect.metrics.totals import Totals, measured
from kafkeep.connect.model import ConnectorStatus, RunState, TaskStatus
from kafkeep.dev import DevStatus
from kafkeep.errors import AccessDeniedError, KeyExistsError, KeyMissingError, TransientError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.jvm import read_jvm
from kafkeep.spark.session import start_session
from kafkeep.spark.tasks import TaskRunner
from kafkeep.store.open import open_store
from kafkeep.store.request_times import RequestTimes, recording

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
UNKNOWN_YET = {"kafkeep_last_verify_timestamp_seconds"}
"""Absent until something tells the service of a verify."""


class Page:
    """A page of metrics, as Prometheus understands it."""

    def __init__(self, text: str) -> None:
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over the series that have these labels; fails when there is none."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no {name}{labels}"
        return sum(found)

    def has(self, name: str) -> bool:
        """Tell whether there is any series of that name."""
        return any(sample.name == name for sample in self.samples)


def sink(services: DevStatus, topic: str, prefix: str, **more: str) -> dict[str, str]:
    """Return a connector's configuration as people have it."""
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "tasks.max": "2",
        "topics": topic,
        "topics.dir": f"{prefix}/topics",
        "s3.bucket.name": services.s3.bucket,
        "s3.region": services.s3.region,
        "store.url": services.s3.endpoint,
        "aws.access.key.id": services.s3.access_key,
        "aws.secret.access.key": services.s3.secret_key,
        "s3.path.style.access.enabled": "true",
        "flush.size": "10",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **more,
    }


def stored(services: DevStatus, prefix: str) -> list[str]:
    """Return the keys under a prefix that lie in the bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=services.s3.endpoint,
        aws_access_key_id=services.s3.access_key,
        aws_secret_access_key=services.s3.secret_key,
        region_name=services.s3.region,
    )
    found = client.list_objects_v2(Bucket=services.s3.bucket, Prefix=prefix)
    return [row["Key"] for row in found.get("Contents", [])]


def fill(cluster: Cluster, topic: str, count: int) -> None:
    cluster.produce(topic, ({"value": b'{"n": %d}' % number} for number in range(count)))


class Worker:
    """Real jobs of connectors and a page over them: a worker without its REST API."""

    def __init__(self, services: DevStatus, state: str) -> None:
        self.totals = Totals()
        runner = TaskRunner(start_session())
        self._context = JobContext(
            kafka=KafkaOptions(services.bootstrap_servers),
            run_tasks=runner.run_tasks,
            slots=lambda: 2,
            state_address=state,
        )
        self._make = measured(make_job, self.totals)

    @contextmanager
    def running(self, name: str, config: dict[str, str]) -> Iterator[Callable[[], Page]]:
        job = self._make(name, config, self._context)
        stop = threading.Event()
        thread = threading.Thread(target=job.run, args=(stop,), daemon=True)
        thread.start()

        def page() -> Page:
            task = TaskStatus(id=0, state=RunState.RUNNING, worker_id="w")
            status = ConnectorStatus(
                name=name,
                type=job.type,
                version="1",
                state=RunState.RUNNING,
                worker_id="w",
                tasks=(task,),
            )
            facts = WorkerFacts(totals=self.totals, now_ms=now_ms(), version="0", jvm=read_jvm())
            return Page(render([status], {name: job.progress}, facts))

        try:
            yield page
        finally:
            stop.set()
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.usefixtures("spark")
def test_counts_of_real_runs_agree_with_kafka_and_the_bucket_over_a_restart(
    services: DevStatus, cluster: Cluster, topic_name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = cluster.create(topic_name)
    prefix, name = uuid.uuid4().hex[:12], f"c-{topic_name}"
    worker = Worker(services, str(tmp_path_factory.mktemp("state")))
    config = sink(services, topic, prefix)
    fill(cluster, topic, 25)
    began = time.time()
    with worker.running(name, config) as page:
        until(lambda: page().total("kafkeep_records_total", connector=name) == 20, "20 records")
        until(lambda: page().total("kafkeep_lag_records", connector=name) == 5, "5 wait")
        until(lambda: page().total("kafkeep_lag_seconds", topic=topic) >= 1, "the lag grows")
        first = page()
        assert first.total("kafkeep_last_commit_timestamp_seconds") >= int(began)
        assert first.total("kafkeep_objects_total") == 2
        # The rate needs two looks at least a second apart, the second of them after records came.
        fill(cluster, topic, 5)
        until(lambda: page().total("kafkeep_lag_records", connector=name) == 0, "nothing waits")
        rate = "kafka_connect_sink_task_sink_record_send_rate"
        until(lambda: page().total(rate) > 0, "there is a rate")
        assert page().total("kafkeep_lag_seconds", topic=topic) == 0
    fill(cluster, topic, 10)
    with worker.running(name, config) as page:
        assert page().total("kafkeep_records_total") >= 30
        until(lambda: page().total("kafkeep_records_total") == 40, "40 records")
        last = page()
    objects = [key for key in stored(services, f"{prefix}/topics/") if key.endswith(".json")]
    assert last.total("kafkeep_objects_total") == len(objects) == 4
    assert last.total("kafka_connect_sink_task_sink_record_send_total", connector=name) == 40
    assert last.total("kafkeep_bytes_total") > 40 * len('{"n": 0}')
    # Objects of data are put by tasks, those of the log by the driver: both were timed.
    requests = worker.totals.requests(name)
    assert requests.tasks.snapshot()["PutObject"].count >= len(objects)
    log = stored(services, f"_kafkeep/{name}/log/")
    assert requests.driver.snapshot()["PutObject"].count >= len(log) > 0
    puts = last.total("kafkeep_s3_request_seconds_count", operation="PutObject")
    assert puts >= len(objects) + len(log)
    seconds = last.total("kafkeep_s3_request_seconds_sum", operation="PutObject")
    assert 0 < seconds < puts * (time.time() - began)  # several are under way at once
    assert last.total("jvm_threads_current") > 5


def test_answers_of_s3_are_distinguished_from_its_faults(
    services: DevStatus, archive_address: str
) -> None:
    options = StorageOptions.from_env()
    with recording(RequestTimes()) as times:
        store = open_store(archive_address, options)
        store.put_new("a", b"1")
        with pytest.raises(KeyExistsError):
            store.put_new("a", b"2")
        with pytest.raises(KeyMissingError):
            store.get("b")
        # It is the store that knows where to note: another thread notes in the same place.
        thread = threading.Thread(target=store.get, args=("a",))
        thread.start()
        thread.join()
        noted = times.snapshot()
        assert (noted["PutObject"].count, noted["GetObject"].count) == (2, 2)
        assert not any(one.faults for one in noted.values())
        with pytest.raises(AccessDeniedError):
            open_store(archive_address, replace(options, secret_key="not-the-secret")).get("a")
        away = replace(options, endpoint="http://127.0.0.1:9", retry_deadline_ms=1)
        with pytest.raises(TransientError):
            open_store(archive_address, away).get("a")
    assert times.snapshot()["GetObject"].faults == {"403": 1, "connection": 1}
    open_store(archive_address, options).get("a")
    store.get("a")
    assert times.snapshot()["GetObject"].count == 5
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def asked_for() -> set[str]:
    """Return the series that our board, our alerts and Strimzi's ask for."""
    board = json.loads((ROOT / "deploy/grafana/kafkeep.json").read_text())
    rules = yaml.safe_load((ROOT / "deploy/alerts/kafkeep.yaml").read_text())
    queries = [t["expr"] for panel in board["panels"] for t in panel.get("targets", [])]
    queries += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return {name for query in queries for name in selectors(query)} | set(strimzi_names())


@contextmanager
def service(services: DevStatus, folder: Path) -> Iterator[httpx.Client]:
    """Run ``kafkeep serve`` as a process of its own."""
    driver = Driver(
        *(folder, "serve", "--bootstrap-servers", services.bootstrap_servers),
        *("--state", folder / "state", "--port", 0, "--output", "json"),
        env=services.s3.environment,
    )
    try:
        until(lambda: "ready" in driver.stdout.read_text(), "the service is ready")
        ready = json.loads(driver.stdout.read_text().splitlines()[0])
        with httpx.Client(base_url=ready["url"], timeout=30) as client:
            yield client
        driver.signal(signal.SIGTERM)
        driver.wait().expect(0)
    finally:
        driver.kill()


def test_everything_that_boards_and_alerts_ask_for_is_there_live(
    services: DevStatus, cluster: Cluster, topic_name: str, tmp_path: Path
) -> None:
    topic = cluster.create(topic_name)
    fill(cluster, topic, 30)
    name, back = f"c-{topic}", f"r-{topic}"
    with service(services, tmp_path) as client:

        def page() -> Page:
            answer = client.get("/metrics").raise_for_status()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return Page(answer.text)

        def value(metric: str, **labels: str) -> float:
            now = page()
            return now.total(metric, **labels) if now.has(metric) else -1

        until(lambda: value("kafkeep_leader") == 1, "it leads")
        config = sink(services, topic, uuid.uuid4().hex[:12])
        client.put(f"/connectors/{name}/config", json=config).raise_for_status()
        until(lambda: value("kafkeep_records_total", connector=name) == 30, "30 records")
        source = {
            **{
                key: text
                for key, text in config.items()
                if key.startswith(("s3.", "aws.", "store"))
            },
            "connector.class": "kafkeep.Restore",
            "restore.log": name,
            "topics": f"{topic}:{topic}-back",
        }
        client.put(f"/connectors/{back}/config", json=source).raise_for_status()
        wrong = {**config, "s3.bucket.name": "no-such-bucket"}
        client.put(f"/connectors/wrong-{topic}/config", json=wrong).raise_for_status()
        until(lambda: value("kafkeep_records_total", connector=back) == 30, "30 back")
        failed = "kafka_connect_worker_connector_failed_task_count"
        until(lambda: value(failed, connector=f"wrong-{topic}") > 0, "one has failed")
        live = page()
    absent = {one for one in asked_for() if not live.has(one)}
    assert absent == UNKNOWN_YET
    assert live.total("kafkeep_connector_failures_total", connector=f"wrong-{topic}") == 1
    assert live.total("kafka_connect_worker_connector_count") == 3
    assert live.total("kafka_connect_connector_status", status="running", connector=name) == 1
    assert live.total("kafka_consumer_incoming_byte_total", clientid=f"connector-consumer-{name}-0")
