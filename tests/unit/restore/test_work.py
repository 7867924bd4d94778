"""How target partitions are shared out to tasks."""

from __future__ import annotations

import pytest

from kafkeep.restore.document import TargetPartition
from kafkeep.restore.task import TargetWork
from kafkeep.restore.work import (
    HELD_BYTES,
    LARGEST_BUNDLE_BYTES,
    LARGEST_HELD_BYTES,
    TASKS_PER_SLOT,
    bundles_for,
    pack_work,
)

MIB = 1 << 20


def work(*sizes: int) -> list[TargetWork]:
    return [
        TargetWork(
            topic="t",
            topic_id="A" * 22,
            partition=number,
            place=TargetPartition(0, 1, 0),
            entries=(),
            est_bytes=size,
        )
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([], 1),
        ([160 * MIB] * 3, 1),
        ([LARGEST_BUNDLE_BYTES] * 3, 3),
        ([LARGEST_BUNDLE_BYTES] * 30, 2 * TASKS_PER_SLOT),
        ([10_000] * 5000, 1),
    ],
    ids=["nothing", "little", "much", "very much", "many small ones"],
)
def test_few_tasks_are_best(sizes: list[int], tasks: int) -> None:
    assert bundles_for(work(*sizes), 2) == tasks


@pytest.mark.parametrize(
    "sizes",
    [[MIB] * 600, [100 * MIB] * 5000, [1000 * MIB] * 10 + [MIB] * 5000],
    ids=["small ones", "large ones", "both"],
)
def test_no_task_holds_much_at_once_however_many_partitions_there_are(sizes: list[int]) -> None:
    wanted = work(*sizes)
    bundles = pack_work(wanted, bundles=bundles_for(wanted, 2))
    for bundle in bundles:
        held = sum(min(item.est_bytes, HELD_BYTES) for item in bundle)
        assert held < 2 * LARGEST_HELD_BYTES
    together = [item for bundle in bundles for item in bundle]
    assert sorted(item.partition for item in together) == list(range(len(sizes)))
