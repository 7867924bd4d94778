from __future__ import annotations

from dataclasses import replace

import pytest

from kafkeep.archive.adoption import (
    OtherObject,
    OwnObject,
    identify_object,
    object_metadata,
    plan_digest,
)
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange, PartitionId

PLANNED = PlannedRange(
    partition_id=PartitionId("orders", 1, 0), topic_id="id", range=OffsetRange(10, 90)
)
PLAN = plan_digest("backup", PLANNED, {"level": 3})
MINE = object_metadata(writer="backup", planned=PLANNED, start=20, plan=PLAN)


def test_an_object_of_the_same_plan_is_adopted_with_its_end() -> None:
    found = object_metadata(
        writer="backup", planned=PLANNED, start=20, plan=PLAN, end=50, sha256="ab"
    )
    assert identify_object(found, MINE) == OwnObject(50, "ab")


def test_an_object_whose_metadata_lacks_its_end_is_adopted_all_the_same() -> None:
    assert identify_object(MINE, MINE) == OwnObject(None, None)


def test_names_of_metadata_may_come_back_in_capitals() -> None:
    found = {name.title(): value for name, value in MINE.items()}
    assert identify_object(found, MINE) == OwnObject(None, None)


@pytest.mark.parametrize("name", sorted(MINE))
def test_an_object_that_differs_in_anything_is_not_adopted(name: str) -> None:
    decision = identify_object({**MINE, name: "other"}, MINE)
    assert isinstance(decision, OtherObject)
    assert name in decision.reason


def test_an_object_without_metadata_is_not_adopted() -> None:
    assert identify_object({}, MINE) == OtherObject("it was not written by kafkeep")


def test_the_plan_digest_covers_log_range_topic_id_and_options() -> None:
    others = {
        PLAN,
        plan_digest("other", PLANNED, {"level": 3}),
        plan_digest("backup", PLANNED, {"level": 4}),
        plan_digest("backup", replace(PLANNED, topic_id="x"), {"level": 3}),
        plan_digest("backup", replace(PLANNED, range=OffsetRange(10, 91)), {"level": 3}),
        plan_digest(
            "backup", replace(PLANNED, partition_id=PartitionId("orders", 2, 0)), {"level": 3}
        ),
    }
    assert len(others) == 6


def test_the_plan_digest_is_the_same_after_the_options_came_back_from_json() -> None:
    once = plan_digest("backup", PLANNED, {"a": (1, 2), "b": None})
    assert plan_digest("backup", PLANNED, {"b": None, "a": [1, 2]}) == once
