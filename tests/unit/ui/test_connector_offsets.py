"""Moving a stopped connector from its page."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest
from tests.unit.ui.conftest import GOOD, Browser, ConsoleService

from kafkeep.connect.model import TargetState

AT = "/ui/connectors/orders/offsets"


@pytest.fixture(autouse=True)
def orders(service: ConsoleService) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)
    service.set_target("orders", TargetState.STOPPED)


def text_of(page: str) -> str:
    """Return what the text area for offsets holds."""
    return html.unescape(page.partition('name="offsets"')[2].partition(">")[2].partition("<")[0])


def test_offsets_are_altered_when_the_name_is_typed(
    service: ConsoleService, browser: Browser
) -> None:
    page = browser.get(AT)
    token = browser.token(AT)
    rows = json.loads(text_of(page))
    assert rows == service.offsets("orders")
    rows[0]["offset"] = {"kafka_offset": 1}
    sent = json.dumps(rows[:1])
    wrong = browser.post(f"{AT}/alter", token, 400, offsets=sent, confirm="order").text
    assert "That is not the name of this connector" in wrong
    assert text_of(wrong) == sent
    answer = browser.post(f"{AT}/alter", token, offsets=sent, confirm="orders")
    assert answer.headers["location"] == f"{AT}?done=offsets-altered"
    assert rows[0] in service.offsets("orders")
    assert "The offsets were changed" in browser.get(answer.headers["location"])


def test_a_page_after_the_last_one_shows_the_last_one(browser: Browser) -> None:
    assert text_of(browser.get(f"{AT}?page=999")) == text_of(browser.get(AT)) != "[]"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("[", "The text is not JSON"),
        ("{}", "Write a list of objects with partition and offset"),
        ('[{"partition": {}}]', "Write a list of objects with partition and offset"),
        ("", "The text is empty"),
        ('[{"partition": {"kafka_topic": "t"}, "offset": null}]', "kafka_partition"),
    ],
)
def test_offsets_that_cannot_be_set_are_shown_again(
    sent: str, words: str, service: ConsoleService, browser: Browser
) -> None:
    before = service.offsets("orders")
    page = browser.post(f"{AT}/alter", browser.token(AT), 400, offsets=sent, confirm="orders").text
    assert words in html.unescape(page)
    assert service.offsets("orders") == before


def test_offsets_are_reset_when_the_name_is_typed(
    service: ConsoleService, browser: Browser
) -> None:
    token = browser.token(AT)
    browser.post(f"{AT}/reset", token, 400, confirm="")
    assert service.offsets("orders") != []
    browser.post(f"{AT}/reset", token, confirm="orders")
    assert service.offsets("orders") == []


def test_a_running_connector_says_to_stop_it_first(
    service: ConsoleService, browser: Browser
) -> None:
    token = browser.token(AT)
    service.set_target("orders", TargetState.RUNNING)
    page = browser.get(AT)
    assert "stop the connector first" in page
    assert "<textarea" not in page
    refused = browser.post(f"{AT}/reset", token, 400, confirm="orders").text
    assert "must be in the STOPPED state" in html.unescape(refused)


def test_only_an_administrator_may_move_it(
    open_browser: Callable[..., Browser], secured: object
) -> None:
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    assert "<textarea" not in operator.get(AT)
    operator.post(f"{AT}/alter", "", 403)
    operator.post(f"{AT}/reset", "", 403)
