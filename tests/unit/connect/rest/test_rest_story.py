"""What a real Connect worker answered, told to the REST layer over a service in memory."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.support.connect.memory_service import MemoryService
from tests.support.connect.rest_server import serving
from tests.support.connect.rest_story import compare, load_story, run_story

from kafkeep.connect.rest.app import make_app
from kafkeep.connect.worker.rest_security import RestSecurity

DOCS = Path(__file__).parents[4] / "docs" / "rest.md"
VALUES = {"BUCKET": "b", "ENDPOINT": "http://s3", "ACCESS_KEY": "AK", "SECRET_KEY": "not-to-show"}


def test_statuses_types_and_shapes_are_those_of_a_real_worker() -> None:
    with (
        serving(make_app(MemoryService(), RestSecurity())) as url,
        httpx.Client(base_url=url) as client,
    ):
        found = run_story(client, VALUES)
    # Which keys a plugin has is not for this layer to know.
    assert [str(one) for one in found if "/connector-plugins" not in one.call] == []


def test_every_deliberate_difference_of_the_story_is_in_the_documents() -> None:
    reasons = {call["here"]["why"] for call in load_story()["calls"] if "here" in call}
    text = " ".join(DOCS.read_text().split())
    assert [why for why in sorted(reasons) if why not in text] == []


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {}),
        ({"a": 1}, {"a": "1"}),
        ({"a": True}, {"a": 1}),
        ("x ${Y}", "y x"),
        ("${INT}", "1"),
        ([1, 2], [1, 3]),
        ([1, 2], [1]),
        ({"+has": [{"name": "a"}]}, [{"name": "b"}]),
        ({"+has": [{"name": "a"}]}, [{"name": "a"}, {"other": "b"}]),
        (None, ""),
    ],
)
def test_comparing_finds_what_differs(expected: object, answer: object) -> None:
    assert list(compare(expected, answer))


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({"a": "${TEXT}", "b": "${LIST}"}, {"b": [], "a": "?"}),
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]),
        ({"+has": ["a"]}, ["b", "a"]),
    ],
)
def test_comparing_leaves_open_what_the_story_leaves_open(expected: object, answer: object) -> None:
    assert list(compare(expected, answer)) == []
