from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.promql import strimzi_names

from kafkeep.connect.jobs.job import JobContext, Progress
from kafkeep.connect.metrics.page import ALL, WorkerFacts, render
from kafkeep.connect.metrics.totals import Totals, measured
from kafkeep.connect.model import ConnectorStatus, RunState, TaskStatus
from kafkeep.errors import KafkeepError, UsageError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.spark.jvm import JvmFacts
from kafkeep.store.request_times import ROW_KIND, RequestTimes, recorder

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(page: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def value(page: str, name: str, **labels: str) -> float:
    return parse(page)[name, frozenset(labels.items())]


def names(page: str) -> set[str]:
    return {name for name, _ in parse(page)}


def status(
    name: str = "orders", *, kind: str = "sink", states: tuple[RunState, ...] = (RunState.RUNNING,)
) -> ConnectorStatus:
    return ConnectorStatus(
        name=name,
        type=kind,  # type: ignore[arg-type]
        version="1.2.3",
        state=RunState.RUNNING,
        worker_id="w:8083",
        tasks=tuple(
            TaskStatus(id=number, state=state, worker_id="w:8083")
            for number, state in enumerate(states)
        ),
    )


def facts(totals: Totals, now_ms: int = 1_000_000, **more: Any) -> WorkerFacts:
    return WorkerFacts(totals=totals, now_ms=now_ms, version="0.1.0", **more)


def page_of(progress: Progress, **more: Any) -> str:
    return render([status()], {"orders": progress}, facts(Totals(), **more))


def test_counts_of_a_connector_are_those_of_its_job() -> None:
    progress = Progress(
        records=7, bytes=700, objects=2, commits=3, gaps=1, skipped_offsets=40, bad_records=5
    )
    page = page_of(progress)
    shown = {
        name: value(page, f"kafkeep_{name}_total", connector="orders")
        for name in (
            *("records", "bytes", "objects", "commits", "gaps", "offsets_skipped", "bad_records"),
            "connector_failures",
        )
    }
    assert list(shown.values()) == [7, 700, 2, 3, 1, 40, 5, 0]
    task = {"connector": "orders", "task": "0"}
    assert value(page, "kafka_connect_sink_task_sink_record_read_total", **task) == 12
    assert value(page, "kafka_connect_sink_task_sink_record_send_total", **task) == 7
    assert value(page, "kafka_connect_task_error_total_record_failures", **task) == 5


def test_counters_never_go_back_over_restarts_of_a_connector() -> None:
    totals, now = Totals(), 0
    shown = []
    runs = [Progress(), Progress(), Progress()]
    for progress in runs:
        for _ in range(3):
            progress.records += 10
            now += 5000
            page = render([status()], {"orders": progress}, facts(totals, now))
            shown.append(value(page, "kafkeep_records_total", connector="orders"))
        progress.records += 1  # written after the last look, before the run ended
    # A connector that is paused has no run, or keeps the last one: its counters stay.
    page = render([status()], {}, facts(totals, now))
    shown.append(value(page, "kafkeep_records_total", connector="orders"))
    assert shown == [10, 20, 30, 41, 51, 61, 72, 82, 92, 93]


def test_a_run_between_two_scrapes_is_counted() -> None:
    totals = Totals()
    first, second = Progress(), Progress()
    totals.follow("orders", first)
    first.records = 5
    totals.follow("orders", second)
    second.records = 2
    page = render([status()], {"orders": second}, facts(totals))
    assert value(page, "kafkeep_records_total", connector="orders") == 7


def test_a_run_that_is_replaced_while_it_still_writes_is_counted_once() -> None:
    totals = Totals()
    old, new = Progress(records=10), Progress()
    shown = []
    for seen in (old, new, old, new, *(Progress() for _ in range(9))):
        new.records += 1
        page = render([status()], {"orders": seen}, facts(totals))
        shown.append(value(page, "kafkeep_records_total", connector="orders"))
    assert shown[:4] == [10, 12, 13, 14]
    assert shown == sorted(shown)


def test_a_count_that_falls_inside_a_run_is_not_shown_falling() -> None:
    totals, progress = Totals(), Progress(bad_records=5)
    for bad, shown in ((5, 5), (0, 5), (3, 5), (6, 6)):
        progress.bad_records = bad
        page = render([status()], {"orders": progress}, facts(totals))
        assert value(page, "kafkeep_bad_records_total", connector="orders") == shown


def test_a_connector_deleted_and_created_again_continues_counting() -> None:
    totals = Totals()
    render([status()], {"orders": Progress(records=5)}, facts(totals))
    gone = render([], {}, facts(totals))
    assert "kafkeep_records_total" not in names(gone)
    back = render([status()], {"orders": Progress(records=1)}, facts(totals))
    assert value(back, "kafkeep_records_total", connector="orders") == 6


def test_rates_are_those_of_the_last_minute() -> None:
    totals, progress = Totals(), Progress()
    rate = "kafka_connect_sink_task_sink_record_send_rate"
    shown = []
    for second in range(0, 181, 15):
        page = render([status()], {"orders": progress}, facts(totals, second * 1000))
        shown.append(round(value(page, rate, connector="orders", task="0"), 6))
        progress.records += 150 if second < 90 else 0  # 10 a second, then none
    assert shown[0] == 0
    assert shown[1:7] == [10] * 6
    assert shown[-1] == 0


def test_rates_hold_when_asked_often() -> None:
    totals, progress = Totals(), Progress()
    for step in range(200):
        page = render([status()], {"orders": progress}, facts(totals, step * 500))
        progress.records += 5
    rate = "kafka_connect_sink_task_sink_record_send_rate"
    assert value(page, rate, connector="orders", task="0") == pytest.approx(10, rel=0.02)


def test_lag_is_in_records_and_seconds_by_partition() -> None:
    progress = Progress(lag_records={("a", 0): 3, ("a", 1): 0}, lag_since_ms={("a", 0): 940_000})
    page = page_of(progress)
    late = {"connector": "orders", "topic": "a", "partition": "0"}
    level = {**late, "partition": "1"}
    assert value(page, "kafkeep_lag_records", **late) == 3
    assert value(page, "kafkeep_lag_seconds", **late) == 60
    assert value(page, "kafkeep_lag_records", **level) == 0
    assert value(page, "kafkeep_lag_seconds", **level) == 0


def test_the_last_commit_is_kept_when_a_new_run_has_none_yet() -> None:
    totals = Totals()
    name = "kafkeep_last_commit_timestamp_seconds"
    assert name not in names(render([status()], {"orders": Progress()}, facts(totals)))
    render([status()], {"orders": Progress(last_commit_ms=5_500)}, facts(totals))
    page = render([status()], {"orders": Progress()}, facts(totals))
    assert value(page, name, connector="orders") == 5.5


def test_the_last_verify_is_shown_where_it_is_known_and_absent_elsewhere() -> None:
    name = "kafkeep_last_verify_timestamp_seconds"
    assert name not in names(page_of(Progress()))
    assert value(page_of(Progress(), verified_ms={"orders": 9_000}), name, connector="orders") == 9


def test_tasks_are_counted_by_state() -> None:
    states = (RunState.RUNNING, RunState.FAILED, RunState.FAILED, RunState.PAUSED)
    page = render([status(states=states)], {}, facts(Totals()))
    counts = {
        state: value(page, f"kafka_connect_worker_connector_{state}_task_count", connector="orders")
        for state in ("running", "failed", "paused", "unassigned", "destroyed", "total")
    }
    assert list(counts.values()) == [1, 2, 1, 0, 0, 4]
    labels = {"connector": "orders", "task": "3", "status": "paused"}
    assert value(page, "kafka_connect_connector_task_status", **labels) == 1


def test_the_boards_join_of_state_class_type_and_version_finds_one_partner() -> None:
    page = page_of(Progress(), classes={"orders": "io.confluent.connect.s3.S3SinkConnector"})
    assert value(page, "kafka_connect_connector_status", connector="orders", status="running") == 1
    for name, expected in {
        "connector_class": "io.confluent.connect.s3.S3SinkConnector",
        "connector_type": "sink",
        "connector_version": "1.2.3",
    }.items():
        labels = {"connector": "orders", name: expected}
        assert value(page, f"kafka_connect_connector_{name}", **labels) == 1


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "größe", "a{b}", "a,b=c", " "])
def test_any_name_comes_through_as_it_is(name: str) -> None:
    progress = Progress(records=1, lag_records={(name, 0): 4})
    page = render([status(name)], {name: progress}, facts(Totals(), classes={name: name}))
    assert value(page, "kafkeep_records_total", connector=name) == 1
    assert value(page, "kafkeep_lag_records", connector=name, topic=name, partition="0") == 4
    assert value(page, "kafka_connect_connector_connector_class", connector=name,
                 connector_class=name) == 1  # fmt: skip


def test_a_source_has_a_sources_metrics_and_none_of_a_sink() -> None:
    page = render(
        [status("back", kind="source")], {"back": Progress(records=4, bytes=9)}, facts(Totals())
    )
    task = {"connector": "back", "task": "0"}
    assert value(page, "kafka_connect_source_task_source_record_write_total", **task) == 4
    client = {"clientid": "connector-producer-back-0"}
    assert value(page, "kafka_producer_outgoing_byte_total", **client) == 9
    assert not [name for name in names(page) if "sink_task" in name]


def test_a_worker_that_stands_by_shows_no_connector() -> None:
    page = render([status()], {}, facts(Totals(), leads=False, leader="other:8083"))
    assert value(page, "kafkeep_leader") == 0
    assert value(page, "kafka_connect_worker_connector_count") == 0
    assert value(page, "kafka_connect_worker_rebalance_leader_name", leader_name="other:8083") == 1
    assert "kafka_connect_connector_status" not in names(page)


def test_two_services_in_one_process_share_nothing() -> None:
    one, other = Totals(), Totals()
    one.failed("orders")
    one.requests("orders").driver.note("PutObject", 0.1)
    first = render([status()], {"orders": Progress(records=3)}, facts(one))
    second = render([status()], {"orders": Progress(records=4)}, facts(other))
    assert value(first, "kafkeep_records_total", connector="orders") == 3
    assert value(second, "kafkeep_records_total", connector="orders") == 4
    assert value(second, "kafkeep_connector_failures_total", connector="orders") == 0
    assert "kafkeep_s3_request_seconds_count" not in names(second)


def test_the_jvm_is_shown_when_there_is_one() -> None:
    jvm = JvmFacts(heap_bytes=10, other_bytes=5, threads=7, collections={"G1": (2, 0.5)})
    page = page_of(Progress(), jvm=jvm)
    assert value(page, "jvm_memory_used_bytes", area="heap") == 10
    assert value(page, "jvm_threads_current") == 7
    assert value(page, "jvm_gc_collection_seconds_sum", gc="G1") == 0.5
    assert "jvm_threads_current" not in names(page_of(Progress()))


def full_page() -> str:
    """Return a page with something of everything."""
    totals = Totals()
    for times in (totals.requests("orders").driver, totals.requests("orders").tasks):
        times.note("PutObject", 0.1)
    return render(
        [status(), status("back", kind="source")],
        {"orders": Progress(lag_records={("a", 0): 1}, last_commit_ms=1), "back": Progress()},
        facts(
            totals,
            leader="w:8083",
            verified_ms={"orders": 1},
            jvm=JvmFacts(heap_bytes=1, other_bytes=1, threads=1, collections={"G1": (1, 1.0)}),
        ),
    )


def test_everything_that_strimzis_board_and_alerts_ask_for_is_there_with_its_labels() -> None:
    shown: dict[str, set[str]] = {}
    for name, labels in parse(full_page()):
        shown.setdefault(name, set()).update(label for label, _ in labels)
    asked = strimzi_names()
    assert len(asked) > 15
    assert {name: labels - shown.get(name, {"absent"}) for name, labels in asked.items()} == {
        name: set() for name in asked
    }
    assert not set(asked) - set(shown)


def test_every_metric_is_declared_and_every_declared_one_can_be_had() -> None:
    page = full_page()
    families = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(page)
        if not family.name.startswith("process_")
    }
    assert set(families) == {metric.name for metric in ALL}
    for metric in ALL:
        family = families[metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert {label for s in family.samples for label in s.labels} - {"le"} == set(metric.labels)


def test_a_page_is_read_while_a_job_writes() -> None:
    progress, ended = Progress(), threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            progress.lag_records["t", number % 300] = number
            progress.lag_since_ms["t", number % 300] = number
            if number % 300 == 0:
                progress.lag_records.clear()
            progress.records += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        totals, last = Totals(), 0.0
        for look in range(30):
            page = render([status()], {"orders": progress}, facts(totals, look))
            now = value(page, "kafkeep_records_total", connector="orders")
            assert now >= last
            last = now
    finally:
        ended.set()
        writer.join()


class Job:
    """A job that does what it is told; S3 requests are noted as a store would."""

    type = "sink"
    task_count = 3

    def __init__(self, context: JobContext, fails: bool = False) -> None:
        self.progress = Progress()
        self.context = context
        self.fails = fails

    def run(self, stop: threading.Event) -> None:
        times = recorder()
        assert times is not None
        times.note("PutObject", 0.02)
        rows = self.context.run_tasks(["a"], _task, label="backup")
        assert [row.kind for row in rows] == ["range"]
        assert self.context.run_tasks([], _task, label="backup") == []  # no job of Spark's
        self.progress.records += 10
        if self.fails:
            raise KafkeepError("broken")


def _task(bundle: str) -> Any:
    times = recorder()
    assert times is not None
    times.note("PutObject", 0.2)
    times.note("UploadPart", 0.4, "503")
    yield "range", {"bundle": bundle}


def _run_tasks(bundles: Any, task: Any, *, label: str) -> list[Any]:
    return [
        SimpleNamespace(kind=kind, body=body) for bundle in bundles for kind, body in task(bundle)
    ]


JOB_CONTEXT = JobContext(
    kafka=KafkaOptions(bootstrap_servers="127.0.0.1:1"),
    run_tasks=_run_tasks,
    slots=lambda: 1,
    state_address="memory:x",
)


def test_measured_jobs_count_runs_failures_and_requests_of_driver_and_tasks() -> None:
    totals = Totals()
    made: list[Job] = []

    def make(name: str, config: Any, context: JobContext) -> Any:
        if name == "wrong":
            raise UsageError("no such key")
        made.append(Job(context, fails=bool(made)))
        return made[-1]

    maker = measured(make, totals)
    maker("orders", {}, JOB_CONTEXT).run(threading.Event())
    with pytest.raises(KafkeepError, match="broken"):
        maker("orders", {}, JOB_CONTEXT).run(threading.Event())
    with pytest.raises(UsageError):
        maker("wrong", {}, JOB_CONTEXT)
    told_to_stop = threading.Event()
    told_to_stop.set()
    with pytest.raises(KafkeepError, match="broken"):
        maker("orders", {}, JOB_CONTEXT).run(told_to_stop)
    assert recorder() is None

    job = maker("orders", {}, JOB_CONTEXT)
    assert (job.task_count, job.type, job.progress) == (3, "sink", made[-1].progress)
    page = render(
        [status(), replace(status("wrong"), tasks=())],
        {"orders": made[2].progress},
        facts(totals),
    )
    assert value(page, "kafkeep_records_total", connector="orders") == 30
    assert value(page, "kafkeep_connector_failures_total", connector="orders") == 1
    assert value(page, "kafkeep_connector_failures_total", connector="wrong") == 1
    assert value(page, "kafkeep_spark_jobs_total", connector="orders") == 3
    assert value(page, "kafkeep_spark_jobs_total", connector="wrong") == 0
    assert value(page, "kafkeep_s3_request_seconds_count", operation="PutObject") == 6
    assert value(page, "kafkeep_s3_request_seconds_bucket", operation="PutObject", le="0.025") == 3
    assert value(page, "kafkeep_s3_request_seconds_sum", operation="UploadPart") == pytest.approx(
        1.2
    )
    failed = {"operation": "UploadPart", "reason": "503"}
    assert value(page, "kafkeep_s3_request_errors_total", **failed) == 3
    task = {"connector": "orders", "task": "0"}
    put_ms = value(page, "kafka_connect_sink_task_put_batch_avg_time_ms", **task)
    assert put_ms == pytest.approx(300)
    commit_ms = value(page, "kafka_connect_connector_task_offset_commit_max_time_ms", **task)
    assert commit_ms == pytest.approx(20)


def test_times_come_home_from_a_task_as_they_were() -> None:
    times = RequestTimes()
    times.note("GetObject", 0.3)
    times.note("GetObject", 99.0, "connection")
    back = RequestTimes.from_json(times.to_json())
    assert back.snapshot() == times.snapshot()
    assert back.snapshot()["GetObject"].counts[-1] == 1
    assert ROW_KIND not in ("object", "range", "error")
