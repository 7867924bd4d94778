"""Kafka Connect's metrics, named as Strimzi's rules for the JMX exporter name them.

A range of offsets goes to any free Spark task, so task 0 counts what a connector did and the other
tasks stay at zero. Sums over a connector are right.
"""

from __future__ import annotations

from kafkeep.connect.jobs.job import Progress
from kafkeep.connect.metrics.metric import Metric, MetricsPage
from kafkeep.connect.metrics.totals import ConnectorTotals
from kafkeep.connect.model import ConnectorStatus, RunState
from kafkeep.store.request_times import OperationTimes, RequestTimes

_CONNECTOR = ("connector",)
_TASK = ("connector", "task")
_PUTS = frozenset({"PutObject", "UploadPart"})

CONNECTOR_COUNT = Metric(
    "kafka_connect_worker_connector_count", "gauge", "Connectors that this worker runs."
)
TASK_COUNT = Metric("kafka_connect_worker_task_count", "gauge", "Tasks that this worker runs.")
ASSIGNED_CONNECTORS = Metric(
    "kafka_connect_coordinator_assigned_connectors", "gauge", "Connectors assigned to this worker."
)
ASSIGNED_TASKS = Metric(
    "kafka_connect_coordinator_assigned_tasks", "gauge", "Tasks assigned to this worker."
)
REBALANCING = Metric(
    "kafka_connect_worker_rebalance_rebalancing",
    "gauge",
    "1 while no worker leads, or this one takes over.",
)
LEADER_NAME = Metric(
    "kafka_connect_worker_rebalance_leader_name",
    "gauge",
    "Which worker leads; always 1.",
    ("leader_name",),
)
STATUS = Metric(
    "kafka_connect_connector_status",
    "gauge",
    "The connector's state, in lower case; always 1.",
    ("connector", "status"),
)
CLASS = Metric(
    "kafka_connect_connector_connector_class",
    "gauge",
    "The connector's class as it was configured; always 1.",
    ("connector", "connector_class"),
)
TYPE = Metric(
    "kafka_connect_connector_connector_type",
    "gauge",
    "sink or source; always 1.",
    ("connector", "connector_type"),
)
VERSION = Metric(
    "kafka_connect_connector_connector_version",
    "gauge",
    "The version of the connector's class; always 1.",
    ("connector", "connector_version"),
)
TASKS_IN = {
    state: Metric(
        f"kafka_connect_worker_connector_{state}_task_count",
        "gauge",
        f"Tasks of the connector that are {state}.",
        _CONNECTOR,
    )
    for state in ("running", "failed", "paused", "unassigned", "destroyed", "restarting")
}
TASKS = Metric(
    "kafka_connect_worker_connector_total_task_count",
    "gauge",
    "Tasks of the connector.",
    _CONNECTOR,
)
TASK_STATUS = Metric(
    "kafka_connect_connector_task_status",
    "gauge",
    "The task's state, in lower case; always 1.",
    ("connector", "task", "status"),
)


def _task(name: str, kind: str, text: str) -> Metric:
    return Metric(f"kafka_connect_{name}", "counter" if kind == "counter" else "gauge", text, _TASK)


RUNNING_RATIO = _task(
    "connector_task_running_ratio",
    "gauge",
    "Share of the time, as seen by /metrics, that it was running.",
)
PAUSE_RATIO = _task(
    "connector_task_pause_ratio",
    "gauge",
    "Share of the time, as seen by /metrics, that it was paused.",
)
COMMIT_AVG = _task(
    "connector_task_offset_commit_avg_time_ms",
    "gauge",
    "Mean time S3 took for objects of the log: commits and their companions.",
)
COMMIT_MAX = _task(
    "connector_task_offset_commit_max_time_ms",
    "gauge",
    "The longest time S3 took for one of these.",
)
FAILURES = _task(
    "task_error_total_record_failures", "gauge", "Records that could not be converted or placed."
)
ERRORS = _task(
    "task_error_total_record_errors", "gauge", "The same number: a record is tried once."
)
SKIPPED = _task(
    "task_error_total_records_skipped", "gauge", "Records skipped, as errors.tolerance allows."
)
READ = _task("sink_task_sink_record_read_total", "counter", "Records read, bad ones included.")
READ_RATE = _task(
    "sink_task_sink_record_read_rate", "gauge", "Records read per second, over the last minute."
)
SENT = _task("sink_task_sink_record_send_total", "counter", "Records committed to the archive.")
SENT_RATE = _task(
    "sink_task_sink_record_send_rate",
    "gauge",
    "Records committed per second, over the last minute.",
)
PARTITIONS = _task("sink_task_partition_count", "gauge", "Partitions that are archived.")
COMMITTED = _task("sink_task_offset_commit_completion_total", "counter", "Commits to the log.")
COMMITTED_RATE = _task(
    "sink_task_offset_commit_completion_rate", "gauge", "Commits per second, over the last minute."
)
COMMIT_NUMBER = _task(
    "sink_task_offset_commit_seq_no",
    "gauge",
    "The number of the last commit, from the start of this process.",
)
PUT_AVG = _task(
    "sink_task_put_batch_avg_time_ms", "gauge", "Mean time S3 took for an object or a part of one."
)
PUT_MAX = _task(
    "sink_task_put_batch_max_time_ms", "gauge", "The longest time S3 took for one of these."
)
POLLED = _task("source_task_source_record_poll_total", "counter", "Records read from the archive.")
POLLED_RATE = _task(
    "source_task_source_record_poll_rate", "gauge", "Records read per second, over the last minute."
)
WRITTEN = _task("source_task_source_record_write_total", "counter", "Records written to Kafka.")
WRITTEN_RATE = _task(
    "source_task_source_record_write_rate",
    "gauge",
    "Records written per second, over the last minute.",
)
BYTES_IN = Metric(
    "kafka_consumer_incoming_byte_total",
    "counter",
    "Bytes of record batches that a sink read and committed.",
    ("clientid",),
)
BYTES_OUT = Metric(
    "kafka_producer_outgoing_byte_total",
    "counter",
    "Bytes of record batches that a source wrote.",
    ("clientid",),
)

CONNECT = (
    *(CONNECTOR_COUNT, TASK_COUNT, ASSIGNED_CONNECTORS, ASSIGNED_TASKS, REBALANCING, LEADER_NAME),
    *(STATUS, CLASS, TYPE, VERSION, *TASKS_IN.values(), TASKS, TASK_STATUS),
    *(RUNNING_RATIO, PAUSE_RATIO, COMMIT_AVG, COMMIT_MAX, FAILURES, ERRORS, SKIPPED),
    *(READ, READ_RATE, SENT, SENT_RATE, PARTITIONS, COMMITTED, COMMITTED_RATE, COMMIT_NUMBER),
    *(PUT_AVG, PUT_MAX, POLLED, POLLED_RATE, WRITTEN, WRITTEN_RATE, BYTES_IN, BYTES_OUT),
)


def put_connector(page: MetricsPage, status: ConnectorStatus, connector_class: str) -> None:
    """Add a connector's class, type and state, and the number of its tasks by state."""
    name = status.name
    page.put(STATUS, 1, name, status.state.lower())
    page.put(CLASS, 1, name, connector_class)
    page.put(TYPE, 1, name, status.type)
    page.put(VERSION, 1, name, status.version)
    states = [task.state.lower() for task in status.tasks]
    for state, metric in TASKS_IN.items():
        page.put(metric, states.count(state), name)
    page.put(TASKS, len(states), name)
    for task in status.tasks:
        page.put(TASK_STATUS, 1, name, str(task.id), task.state.lower())


def put_tasks(
    page: MetricsPage, status: ConnectorStatus, reading: ConnectorTotals, progress: Progress | None
) -> None:
    """Add what a connector's tasks did; without tasks there is nothing to add."""
    for task in status.tasks:
        labels = (status.name, str(task.id))
        worked = task.id == 0
        page.put(RUNNING_RATIO, reading.ratio(RunState.RUNNING), *labels)
        page.put(PAUSE_RATIO, reading.ratio(RunState.PAUSED), *labels)
        for metric in (FAILURES, ERRORS, SKIPPED):
            page.put(metric, reading.counts.bad_records if worked else 0, *labels)
        if status.type == "sink":
            _put_sink(page, labels, reading if worked else None, progress)
        else:
            _put_source(page, labels, reading if worked else None)
    if status.tasks:
        metric, side = (BYTES_IN, "consumer") if status.type == "sink" else (BYTES_OUT, "producer")
        page.put(metric, reading.counts.bytes, f"connector-{side}-{status.name}-0")


def _put_sink(
    page: MetricsPage,
    labels: tuple[str, str],
    reading: ConnectorTotals | None,
    progress: Progress | None,
) -> None:
    if reading is None:
        for metric in (READ, READ_RATE, SENT, SENT_RATE, PARTITIONS, COMMITTED, COMMITTED_RATE):
            page.put(metric, 0, *labels)
        return
    counts = reading.counts
    bad = reading.rate("bad_records")
    page.put(READ, counts.records + counts.bad_records, *labels)
    page.put(READ_RATE, reading.rate("records") + bad, *labels)
    page.put(SENT, counts.records, *labels)
    page.put(SENT_RATE, reading.rate("records"), *labels)
    page.put(PARTITIONS, len(progress.positions) if progress else 0, *labels)
    page.put(COMMITTED, counts.commits, *labels)
    page.put(COMMITTED_RATE, reading.rate("commits"), *labels)
    page.put(COMMIT_NUMBER, counts.commits, *labels)
    _put_times(page, labels, (COMMIT_AVG, COMMIT_MAX), reading.requests.driver)
    _put_times(page, labels, (PUT_AVG, PUT_MAX), reading.requests.tasks)


def _put_source(
    page: MetricsPage, labels: tuple[str, str], reading: ConnectorTotals | None
) -> None:
    records = reading.counts.records if reading else 0
    rate = reading.rate("records") if reading else 0.0
    page.put(POLLED, records, *labels)
    page.put(POLLED_RATE, rate, *labels)
    page.put(WRITTEN, records, *labels)
    page.put(WRITTEN_RATE, rate, *labels)


def _put_times(
    page: MetricsPage, labels: tuple[str, str], metrics: tuple[Metric, Metric], times: RequestTimes
) -> None:
    """Add mean and longest time of requests that store objects; nothing before the first."""
    puts = OperationTimes()
    for operation, noted in times.snapshot().items():
        if operation in _PUTS:
            puts.add(noted)
    if puts.count:
        page.put(metrics[0], puts.seconds / puts.count * 1000, *labels)
        page.put(metrics[1], puts.slowest_s * 1000, *labels)
