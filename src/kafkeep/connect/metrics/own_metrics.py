"""kafkeep's own metrics: lag, work done, losses, requests to S3, last verification."""

from __future__ import annotations

from kafkeep.connect.jobs.job import Progress, partition_lags
from kafkeep.connect.metrics.metric import Metric, MetricsPage
from kafkeep.connect.metrics.totals import ConnectorTotals
from kafkeep.connect.model import ConnectorStatus
from kafkeep.store.request_times import RequestTimes

_CONNECTOR = ("connector",)
_PARTITION = ("connector", "topic", "partition")

BUILD = Metric("kafkeep_build_info", "gauge", "The running version; always 1.", ("version",))
LEADER = Metric(
    "kafkeep_leader",
    "gauge",
    "1 on the worker that runs the connectors, 0 on a standby.",
)
LAG_RECORDS = Metric(
    "kafkeep_lag_records",
    "gauge",
    "Offsets that are not archived yet (sink) or not restored yet (source), when last measured.",
    _PARTITION,
)
LAG_SECONDS = Metric(
    "kafkeep_lag_seconds",
    "gauge",
    "How long the oldest of these has waited; 0 when nothing waits.",
    _PARTITION,
)
NO_PROGRESS = Metric(
    "kafkeep_no_progress_seconds",
    "gauge",
    "How long work has been due without a commit; 0 below one minute.",
    _CONNECTOR,
)
RECORDS = Metric("kafkeep_records_total", "counter", "Records committed.", _CONNECTOR)
BYTES = Metric(
    "kafkeep_bytes_total", "counter", "Bytes of these records as Kafka holds them.", _CONNECTOR
)
OBJECTS = Metric(
    "kafkeep_objects_total", "counter", "Objects written by a sink, read by a source.", _CONNECTOR
)
COMMITS = Metric("kafkeep_commits_total", "counter", "Commits to the archive's log.", _CONNECTOR)
GAPS = Metric(
    "kafkeep_gaps_total",
    "counter",
    "Ranges of offsets that Kafka deleted before they were archived.",
    _CONNECTOR,
)
OFFSETS_SKIPPED = Metric(
    "kafkeep_offsets_skipped_total", "counter", "Offsets in these gaps.", _CONNECTOR
)
BAD_RECORDS = Metric(
    "kafkeep_bad_records_total",
    "counter",
    "Records skipped because they could not be converted, as errors.tolerance allows.",
    _CONNECTOR,
)
FAILURES = Metric(
    "kafkeep_connector_failures_total",
    "counter",
    "Runs of a connector that ended in an error.",
    _CONNECTOR,
)
SPARK_JOBS = Metric(
    "kafkeep_spark_jobs_total",
    "counter",
    "Spark jobs run for the connector; none while it is idle.",
    _CONNECTOR,
)
LAST_COMMIT = Metric(
    "kafkeep_last_commit_timestamp_seconds",
    "gauge",
    "When the connector last committed; absent before its first commit in this process.",
    _CONNECTOR,
)
LAST_VERIFY = Metric(
    "kafkeep_last_verify_timestamp_seconds",
    "gauge",
    "When the connector's archive was last verified; absent when unknown.",
    _CONNECTOR,
)
S3_SECONDS = Metric(
    "kafkeep_s3_request_seconds",
    "histogram",
    "Time until S3's answer began, per attempt, on the driver and in Spark tasks; without requests "
    "of failed task attempts and those for the service's own state.",
    ("operation",),
)
S3_ERRORS = Metric(
    "kafkeep_s3_request_errors_total",
    "counter",
    "Failed requests by HTTP status, or 'connection' when there was no answer. "
    "'Not found' and 'already exists' are answers, not errors.",
    ("operation", "reason"),
)

OWN = (
    BUILD,
    LEADER,
    LAG_RECORDS,
    LAG_SECONDS,
    NO_PROGRESS,
    RECORDS,
    BYTES,
    OBJECTS,
    COMMITS,
    GAPS,
    OFFSETS_SKIPPED,
    BAD_RECORDS,
    FAILURES,
    SPARK_JOBS,
    LAST_COMMIT,
    LAST_VERIFY,
    S3_SECONDS,
    S3_ERRORS,
)


def put_counts(page: MetricsPage, name: str, reading: ConnectorTotals) -> None:
    """Add what one connector has done over all its runs."""
    counts = reading.counts
    page.put(RECORDS, counts.records, name)
    page.put(BYTES, counts.bytes, name)
    page.put(OBJECTS, counts.objects, name)
    page.put(COMMITS, counts.commits, name)
    page.put(GAPS, counts.gaps, name)
    page.put(OFFSETS_SKIPPED, counts.skipped_offsets, name)
    page.put(BAD_RECORDS, counts.bad_records, name)
    page.put(FAILURES, reading.failures, name)
    page.put(SPARK_JOBS, reading.spark_jobs, name)
    if reading.last_commit_ms is not None:
        page.put(LAST_COMMIT, reading.last_commit_ms / 1000, name)


def put_lag(page: MetricsPage, name: str, progress: Progress, now_ms: int) -> None:
    """Add the lag of each partition of a connector."""
    for lag in partition_lags(progress, now_ms):
        labels = (name, lag.topic, str(lag.partition))
        page.put(LAG_RECORDS, lag.records, *labels)
        page.put(LAG_SECONDS, lag.seconds, *labels)


def put_no_progress(page: MetricsPage, status: ConnectorStatus, now_ms: int) -> None:
    """Add for how long a connector has had work due and committed nothing."""
    since = status.backlog.no_progress_since_ms if status.backlog is not None else None
    page.put(NO_PROGRESS, 0 if since is None else max(0, now_ms - since) / 1000, status.name)


def put_requests(page: MetricsPage, times: RequestTimes) -> None:
    """Add times and errors of requests to S3."""
    for operation, noted in sorted(times.snapshot().items()):
        page.put_times(S3_SECONDS, noted, operation)
        # An alert sees a first error only if the series existed before, at zero.
        for reason, count in sorted({"connection": 0, **noted.faults}.items()):
            page.put(S3_ERRORS, count, operation, reason)
