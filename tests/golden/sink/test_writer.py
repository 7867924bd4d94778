"""The writer of the sink over every case, in memory: no Kafka, no Spark, a second."""

from __future__ import annotations

import pytest
from tests.support.golden.cases import GoldenCase, GoldenRecord, load_cases
from tests.support.golden.compare import compare
from tests.support.golden.expected import EXPECTED, Kind, expected_objects
from tests.support.sink_offline import write_offline

from kafkeep.errors import KafkeepError

CASES = [c for c in load_cases() if "rotate.schedule.interval.ms" not in c.config]
WRITING = [case for case in CASES if EXPECTED[case.number].kind is not Kind.FAILS]
FAILING = [case for case in CASES if EXPECTED[case.number].kind is Kind.FAILS]


def name(case: GoldenCase) -> str:
    return case.name


def visible(case: GoldenCase) -> list[GoldenRecord]:
    return [record for record in case.records if not record.aborted]


@pytest.mark.parametrize("batch", [1, 7, 1000])
@pytest.mark.parametrize("case", WRITING, ids=name)
def test_the_writer_makes_the_same_objects_however_records_are_batched(
    case: GoldenCase, batch: int
) -> None:
    found = write_offline(case, visible(case), batch=batch)
    assert compare(expected_objects(case), found) == []


@pytest.mark.parametrize("case", [c for c in CASES if EXPECTED[c.number].same_with], ids=name)
def test_a_setting_gives_the_objects_of_the_real_sink(case: GoldenCase) -> None:
    settings = EXPECTED[case.number].same_with
    all_of_them = settings.get("consumer.override.isolation.level") == "read_uncommitted"
    found = write_offline(case, case.records if all_of_them else visible(case), settings)
    assert compare(expected_objects(case, like_theirs=True), found) == []


@pytest.mark.parametrize("case", FAILING, ids=name)
def test_what_fails_there_fails_here_and_says_why(case: GoldenCase) -> None:
    with pytest.raises(KafkeepError) as raised:
        write_offline(case, visible(case))
    said = f"{raised.value.message} {raised.value.hint or ''}".lower()
    assert [word for word in EXPECTED[case.number].words if word.lower() not in said] == []
