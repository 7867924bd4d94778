"""50 connectors on one service: what idle ones cost, and how fast it answers while others work."""

from __future__ import annotations

import http.client
import threading
import time
import uuid
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.service import ServeProcess, serving, wait_for
from kafkeep.dev import DevStatus

CONNECTORS = 50
LOAD_SECONDS = 20.0
IDLE_SECONDS = 10.0
RECORDS_A_SECOND = 20
"""To each topic that is busy."""
FLUSH_SIZE = 100
CLIENTS = 4
PAUSE_S = 0.02


def many_connectors(status: DevStatus, records: int, repeat: int) -> dict[str, float]:
    """Half of the connectors stay idle; the others get a little data all the time."""
    run = uuid.uuid4().hex[:8]
    topics = [f"bench-{run}-{number:02d}" for number in range(CONNECTORS)]
    idle, busy = topics[: CONNECTORS // 2], topics[CONNECTORS // 2 :]
    _make_topics(status.bootstrap_servers, topics)
    with serving(status) as service:
        wait_for(lambda: service.metrics()["kafkeep_leader", ""] == 1, "the service leads")
        began = time.monotonic()
        for topic in topics:
            service.put(f"/connectors/{topic}/config", json_sink(status, topic, run))
        wait_for(lambda: service.running() == CONNECTORS, "all connectors run")
        numbers = {"all running after seconds": time.monotonic() - began}
        numbers["CPU of all idle, before any data, cores"] = service.cpu_over(IDLE_SECONDS)
        with Feed(status.bootstrap_servers, busy) as feed:
            # What came while Spark started is archived first: a load is what comes all the time.
            wait_for(lambda: service.records(busy) > 0, "the first commit")
            wait_for(lambda: service.lag() < 2 * FLUSH_SIZE, "the first backlog is archived")
            before, at = service.records(busy), time.monotonic()
            load = _ask_statuses(service, topics, LOAD_SECONDS)
            span = time.monotonic() - at
            numbers["records archived per second"] = (service.records(busy) - before) / span
        numbers["records sent per second"] = feed.sent / feed.seconds
        numbers |= load
        wait_for(lambda: service.lag() < FLUSH_SIZE, "everything but tails is archived")
        time.sleep(2)
        numbers["CPU of all idle, Spark up, cores"] = service.cpu_over(IDLE_SECONDS)
        page = service.metrics()
        jobs = "kafkeep_spark_jobs_total"
        numbers["Spark jobs of idle connectors"] = sum(page[jobs, topic] for topic in idle)
        numbers["Spark jobs of busy connectors"] = sum(page[jobs, topic] for topic in busy)
        failures = "kafkeep_connector_failures_total"
        numbers["failures"] = sum(page[failures, topic] for topic in topics)
        numbers["memory of the service MB"] = page["process_resident_memory_bytes", ""] / 1e6
    _delete_topics(status.bootstrap_servers, topics)
    return numbers


def json_sink(status: DevStatus, topic: str, run: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "topics.dir": f"bench-{run}",
        "s3.bucket.name": status.s3.bucket,
        "s3.region": status.s3.region,
        "store.url": status.s3.endpoint,
        "aws.access.key.id": status.s3.access_key,
        "aws.secret.access.key": status.s3.secret_key,
        "s3.path.style.access.enabled": "true",
        "flush.size": str(FLUSH_SIZE),
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


@dataclass
class Feed:
    """Sends a few records each second to every topic, until it is left."""

    bootstrap: str
    topics: list[str]
    sent: int = 0
    seconds: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Feed:
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        began = time.monotonic()
        while not self._ended.wait(max(0.0, began + self._rounds() - time.monotonic())):
            for topic in self.topics:
                for _ in range(RECORDS_A_SECOND):
                    producer.produce(topic, b'{"number": %d}' % self.sent)
                    self.sent += 1
            producer.poll(0)
        producer.flush()
        self.seconds = time.monotonic() - began

    def _rounds(self) -> int:
        return self.sent // (len(self.topics) * RECORDS_A_SECOND)


def _ask_statuses(service: ServeProcess, names: list[str], seconds: float) -> dict[str, float]:
    """Ask for the status of one connector after the other, with several clients at once."""
    deadline = time.monotonic() + seconds
    took: list[list[float]] = [[] for _ in range(CLIENTS)]
    pages: list[float] = []

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection(service.address, timeout=60)
        number = client
        while time.monotonic() < deadline:
            began = time.perf_counter()
            connection.request("GET", f"/connectors/{names[number % len(names)]}/status")
            answer = connection.getresponse()
            answer.read()
            took[client].append(time.perf_counter() - began)
            if answer.status != 200:
                raise SystemExit(f"a status was answered with {answer.status}")
            number += CLIENTS
            time.sleep(PAUSE_S)

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    while time.monotonic() < deadline:
        began = time.perf_counter()
        service.get("/metrics")
        pages.append(time.perf_counter() - began)
        time.sleep(2)
    for one in clients:
        one.join()
    answers = sorted(second for each in took for second in each)
    return {
        "status answers": len(answers),
        "status p50 ms": answers[len(answers) // 2] * 1000,
        "status p99 ms": answers[int(len(answers) * 0.99)] * 1000,
        "status longest ms": answers[-1] * 1000,
        "metrics page longest ms": max(pages) * 1000,
    }


def _make_topics(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        made.result(60)


def _delete_topics(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for gone in admin.delete_topics(topics).values():
        gone.result(60)
