from __future__ import annotations

import pytest
from tests.support.invoke import Cli

from kafkeep.maintenance.capacity import plan_capacity
from kafkeep.options.backup import MIB
from kafkeep.options.capacity import DAY_MS, CapacityOptions


def options(**values: object) -> CapacityOptions:
    given = {"partitions": 100, "throughput_bytes": 100 * MIB, **values}
    return CapacityOptions(**given)  # type: ignore[arg-type]


def test_fast_partitions_fill_segments_and_slow_ones_close_them_by_age() -> None:
    fast = plan_capacity(options(partitions=10, throughput_bytes=128 * MIB, stored_ratio=1.0))
    assert fast.object_bytes == 128 * MIB
    assert fast.objects_per_day == 86_400
    slow = plan_capacity(
        options(partitions=7, throughput_bytes=700, stored_ratio=1.0, record_bytes=1)
    )
    assert slow.object_bytes == pytest.approx(100 * 70, rel=0.001)
    assert slow.objects_per_day == pytest.approx(7 * 86_400 // 70, rel=0.001)


def test_an_object_holds_a_record_at_least() -> None:
    for load in ({"partitions": 100_000, "throughput_bytes": MIB}, {"segment_bytes": 1}):
        plan = plan_capacity(options(stored_ratio=1.0, retention_ms=DAY_MS, **load))
        assert plan.object_bytes >= 1024
        assert plan.objects <= plan.records


def test_many_small_objects_take_slots_time_and_memory() -> None:
    load = {"throughput_bytes": 100 * MIB, "retention_ms": DAY_MS}
    few, many = (plan_capacity(options(partitions=n, **load)) for n in (10, 100_000))
    assert many.objects > 100 * few.objects
    assert many.slots > few.slots + 10
    assert many.restore_seconds * many.slots > 2 * few.restore_seconds * few.slots
    assert many.restore_driver_bytes == many.objects * 100
    large = plan_capacity(options(partitions=1, **load))
    assert large.restore_driver_bytes == large.objects * (100 + 128 * 20)


def test_no_cycle_is_shorter_than_a_half_second() -> None:
    assert plan_capacity(options(interval_ms=1, segment_age_ms=1)).cycles_per_day <= 2 * 86_400


def test_storage_follows_from_throughput_ratio_and_retention() -> None:
    plan = plan_capacity(options(retention_ms=10 * DAY_MS, stored_ratio=0.5))
    raw = 100 * MIB * 86_400 * 10
    assert raw / 2 < plan.stored_bytes < raw / 2 * 1.01
    assert plan.records == raw // 1024
    assert plan.storage_per_month == pytest.approx(plan.stored_bytes / 1e9 * 0.023)


def test_slots_cover_the_throughput_with_headroom() -> None:
    plan = plan_capacity(options(task_rate_bytes=30 * MIB, headroom=3, executor_cores=4))
    assert (plan.slots, plan.executors) == (11, 3), "one of them is for its objects"
    assert plan.computing_per_month == pytest.approx(11 * 730 * 0.05)
    assert plan_capacity(options(throughput_bytes=1)).slots == 1


def test_large_objects_are_written_in_parts() -> None:
    small = plan_capacity(options(partitions=1, stored_ratio=0.5))
    large = plan_capacity(options(partitions=1, stored_ratio=1.0))
    commits = 2.0625 * 8640  # two commits and the checkpoints of each cycle
    assert small.writes_per_day == pytest.approx(small.objects_per_day + commits, abs=2)
    assert large.writes_per_day == pytest.approx(10 * large.objects_per_day + commits, abs=2)


@pytest.mark.parametrize("name", ["partitions", "throughput_bytes", "retention_ms"])
def test_nothing_shrinks_when_the_load_grows(name: str) -> None:
    less = plan_capacity(options())
    more = plan_capacity(options(**{name: 10 * getattr(options(), name)}))
    for field in ("slots", "objects", "writes_per_day", "stored_bytes", "cost_per_month"):
        assert getattr(more, field) >= getattr(less, field), field


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    return Cli(capfdbinary)


@pytest.mark.parametrize("rate", ["100MiB", "100MiB/s", " 104857600 "])
def test_the_command_prints_the_plan_as_json(cli: Cli, rate: str) -> None:
    found = cli.document("plan-capacity", "--partitions", "100", "--throughput", rate)
    assert found == plan_capacity(options()).to_json()


def test_the_table_names_each_result_with_its_unit(cli: Cli) -> None:
    assert cli.run("plan-capacity", "--partitions", "100", "--throughput", "20MiB") == 0
    for text in ("1 in 1 executor\n", "12d 20h with these slots", "of the driver's memory"):
        assert text in cli.out.decode(), cli.out.decode()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--throughput", "1MiB"), "--partitions"),
        (("--partitions", "0", "--throughput", "1MiB"), "--partitions"),
        (("--partitions", "1", "--throughput", "1MiB", "--price-storage", "-1"), "--price-storage"),
        (("--partitions", "1", "--throughput", "1MiB", "--headroom", "0"), "--headroom"),
        (("--partitions", "1", "--throughput", "0/s"), "--throughput"),
        (("--partitions", "1", "--throughput", "1MiB", "--stored-ratio", "35%"), "such as 0.35"),
    ],
)
def test_a_missing_or_invalid_value_is_named(cli: Cli, given: tuple[str, ...], named: str) -> None:
    assert cli.run("plan-capacity", *given) == 2
    assert named in cli.err
