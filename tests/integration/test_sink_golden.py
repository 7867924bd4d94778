"""The real Connect sink is the judge: its cases, run through kafkeep, object by object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.support.cluster import Cluster
from tests.support.golden.cases import CONTEXT, GoldenCase, GoldenRecord, load_cases
from tests.support.golden.compare import compare
from tests.support.golden.expected import (
    EXPECTED,
    Kind,
    expected_dead_letters,
    expected_objects,
    letter_source,
)
from tests.support.golden.produce import produce_cases, remove_topics
from tests.support.sink_runs import Bucket, Outcome, probed_once, run_sink

from kafkeep.dev import DevStatus

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark", "module_s3", "probed")]

CASES = load_cases()
FAILING = [case for case in CASES if EXPECTED[case.number].kind is Kind.FAILS]
WRITING = [case for case in CASES if EXPECTED[case.number].kind is not Kind.FAILS]
LIKE_THEIRS = [case for case in CASES if EXPECTED[case.number].same_with]
KEPT_CONTEXT = ("topic", "partition", "offset", "connector.name", "stage")

Stored = Mapping[str, tuple[GoldenRecord, ...]]


def name(case: GoldenCase) -> str:
    return case.name


@pytest.fixture(scope="module")
def probed() -> Iterator[None]:
    with probed_once():
        yield


@pytest.fixture(scope="module")
def stored(cluster: Cluster) -> Iterator[Stored]:
    """Every topic of every case, filled; what is in them by the case's number."""
    topics = [topic for case in CASES for topic in case.topics]
    topics += [case.config.get("errors.deadletterqueue.topic.name", "") for case in CASES]
    remove_topics(cluster, topics)
    yield produce_cases(cluster, CASES)
    remove_topics(cluster, topics)


@pytest.fixture(scope="module")
def bucket(services: DevStatus) -> Bucket:
    return Bucket(services)


@pytest.fixture(scope="module")
def other_bucket(services: DevStatus) -> Bucket:
    """Where connectors go whose objects would meet those of their twins."""
    return Bucket(services)


@pytest.mark.parametrize("case", WRITING, ids=name)
def test_the_sink_writes_what_the_real_one_wrote_or_what_the_page_says(
    case: GoldenCase, services: DevStatus, stored: Stored, bucket: Bucket
) -> None:
    outcome = run_sink(case, services, bucket)
    assert outcome.error is None
    assert compare(expected_objects(case, stored[case.number]), outcome.objects) == []
    assert outcome.tags == case.tags
    assert sorted(map(letter_source, outcome.dlq)) == sorted(expected_dead_letters(case))
    assert_like_theirs(case.dlq, outcome)


@pytest.mark.parametrize("case", LIKE_THEIRS, ids=name)
def test_a_setting_gives_the_objects_of_the_real_sink(
    case: GoldenCase, services: DevStatus, stored: Stored, other_bucket: Bucket
) -> None:
    settings = EXPECTED[case.number].same_with
    outcome = run_sink(case, services, other_bucket, settings=settings)
    assert outcome.error is None
    wanted = expected_objects(case, stored[case.number], like_theirs=True)
    assert compare(wanted, outcome.objects) == []


@pytest.mark.parametrize("case", FAILING, ids=name)
def test_what_fails_there_fails_here_and_says_why(
    case: GoldenCase, services: DevStatus, stored: Stored, other_bucket: Bucket
) -> None:
    outcome = run_sink(case, services, other_bucket)
    assert outcome.error is not None
    lacking = [w for w in EXPECTED[case.number].words if w.lower() not in outcome.error.lower()]
    assert not lacking, f"{lacking} not in: {outcome.error}"


def assert_like_theirs(theirs: tuple[GoldenRecord, ...], outcome: Outcome) -> None:
    """Compare dead letters that the real sink wrote too: what they hold, and the context."""
    ours = {letter_source(letter): letter for letter in outcome.dlq}
    for wanted in theirs:
        found = ours.get(letter_source(wanted))
        if found is not None:
            assert (found.key, found.value) == (wanted.key, wanted.value)
            assert found.timestamp == wanted.timestamp
            assert [n for n, _ in found.headers] == [n for n, _ in wanted.headers]
            assert _kept(found) == _kept(wanted)


def _kept(letter: GoldenRecord) -> list[tuple[str, bytes | None]]:
    """Return a letter's own headers, and of the context what is no name of a Java class."""
    wanted = {CONTEXT + part for part in KEPT_CONTEXT}
    return [(n, v) for n, v in letter.headers if n in wanted or not n.startswith(CONTEXT)]
