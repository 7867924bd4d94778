"""What every page promises: links work, values are escaped, the policy is strict."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from tests.unit.ui.conftest import GOOD, SCRIPT, Browser, ConsoleService

from kafkeep.connect.model import OffsetGaps, TargetState
from kafkeep.connect.service.overview import GrowthPoint
from kafkeep.errors import TransientError
from kafkeep.ui.frame import POLICY
from kafkeep.ui.pages.connector_offsets import OFFSETS_SHOWN

NAME = "<script>alert('n')<"
AT = "/ui/connectors/" + quote(NAME, safe="")
PAGES = (
    "/ui/",
    "/ui/overview/growth",
    "/ui/connectors",
    "/ui/connectors?q=" + quote(SCRIPT),
    "/ui/new-connector",
    "/ui/new-connector?template=json-to-s3",
    "/ui/new-connector?template=parquet-by-day",
    "/ui/new-connector?template=lossless-backup",
    "/ui/new-connector?template=restore",
    "/ui/settings",
    *(AT + tab for tab in ("", "/tasks", "/config", "/offsets", "/topics", "/objects")),
    *(AT + more for more in ("/growth", "/edit", "/delete")),
)


@pytest.fixture
def hostile(service: ConsoleService) -> ConsoleService:
    """A service whose names, values and traces are script tags."""
    config = {**GOOD, "topics": SCRIPT, "note": SCRIPT}
    service.create(NAME, config, TargetState.RUNNING)
    service.trace = f"java.lang.Error: {SCRIPT}"
    return service


@pytest.mark.parametrize("path", PAGES)
def test_a_page_escapes_what_it_shows_and_forbids_scripts_of_others(
    path: str, hostile: ConsoleService, browser: Browser
) -> None:
    answer = browser.client.get(path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text
    assert "hunter2" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert not re.search(r"<[^>]+\s(style|on\w+)=", answer.text)


def test_every_link_of_every_page_answers(hostile: ConsoleService, browser: Browser) -> None:
    seen: set[str] = set()
    for page in PAGES:
        found = re.findall(r'(?:href|src|hx-get)="([^"#]+)', browser.get(page))
        seen |= {html.unescape(one) for one in found}
    own = sorted(one for one in seen if one.startswith("/ui"))
    assert len(own) > 20
    for link in own:
        assert browser.client.get(link).status_code == 200, link
    outside = {one for one in seen if not one.startswith("/ui")}
    assert outside == {"/openapi", "/metrics", "/health"}
    assert {browser.client.get(one).status_code for one in outside} == {200}


@pytest.mark.parametrize(
    ("accept", "is_browser"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
    ],
)
def test_the_root_leads_a_browser_to_the_console_and_answers_others_as_connect_does(
    accept: str, is_browser: bool, browser: Browser
) -> None:
    answer = browser.client.get("/", headers={"Accept": accept})
    if is_browser:
        assert answer.status_code == 307
        assert answer.headers["location"] == "/ui/"
        assert browser.client.get("/ui").headers["location"] == "/ui/"
    else:
        assert answer.json()["version"]


def test_the_page_of_the_current_section_is_marked(browser: Browser) -> None:
    for path, title in (("/ui/", "Overview"), ("/ui/connectors", "Connectors")):
        current = re.findall(r'aria-current="page">.*?<span>(\w+)<', browser.get(path))
        assert current == [title]


@pytest.mark.parametrize("path", ["/ui/nothing", "/ui/connectors/none", "/ui/static/none.js"])
def test_what_is_not_there_is_a_page_in_the_frame(path: str, browser: Browser) -> None:
    text = browser.get(path, 404)
    assert 'aria-label="Pages"' in text
    assert "Check the address" in text


def test_a_failure_of_a_page_shows_no_details(
    service: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "overview", lambda: 1 / 0)
    text = browser.get("/ui/", 500)
    assert "division" not in text
    assert "The page failed unexpectedly." in text


def test_the_list_is_searched_by_name_and_state(service: ConsoleService, browser: Browser) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)
    service.create("events", GOOD, TargetState.PAUSED)
    assert "/connectors/events" not in browser.get("/ui/connectors?q=ORD")
    assert "/connectors/orders" not in browser.get("/ui/connectors?state=PAUSED")


def test_a_reader_sees_no_buttons_and_is_refused(
    service: ConsoleService, open_browser: Callable[..., Browser], secured: object
) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)
    reader = open_browser(secured, Authorization="Bearer READ")
    text = reader.get("/ui/connectors/orders")
    assert "<button" not in text.split("<main", 1)[1].split("</main", 1)[0]
    assert "New connector" not in reader.get("/ui/connectors")
    assert "role admin" in reader.get("/ui/connectors/orders/edit", 403)
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    shown = operator.get("/ui/connectors/orders")
    assert "Pause" in shown
    assert "/delete" not in shown
    operator.get("/ui/connectors/orders/delete", 403)


def test_an_anonymous_caller_is_asked_for_credentials(
    open_browser: Callable[..., Browser], secured: object
) -> None:
    answer = open_browser(secured).client.get("/ui/")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_connector_with_many_partitions_shows_its_offsets_page_by_page(
    hostile: ConsoleService, browser: Browser
) -> None:
    hostile._offsets[NAME] = {("orders", number): number for number in range(OFFSETS_SHOWN + 1)}
    first = browser.get(f"{AT}/offsets")
    assert f"{OFFSETS_SHOWN} of {OFFSETS_SHOWN + 1}<" in first
    [following] = re.findall(r'rel="next" href="([^"]+)"', first)
    second = browser.get(html.unescape(following))
    assert second.count("<tr><td>") == 1


def test_the_overview_is_green_only_while_every_sink_archives_without_gaps(
    service: ConsoleService, browser: Browser
) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)
    assert "Everything is safe" in browser.get("/ui/")
    service.create("events", GOOD, TargetState.STOPPED)
    text = browser.get("/ui/")
    assert "Everything is safe" not in text
    assert "1 of 2 connectors may be behind" in text
    assert "events</a> (stopped)" in text
    service.lost = OffsetGaps(count=3, offsets=9)
    text = browser.get("/ui/")
    assert "2 of 2 connectors need attention" in text
    assert "events</a> (3 gaps)" in text


def test_rest_has_the_chart_and_the_templates_of_the_pages(
    service: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "events", "silent"):
        service.create(name, GOOD, TargetState.RUNNING)
    growth = service.growth

    def read(name: str) -> tuple[GrowthPoint, ...]:
        if name == "silent":
            raise TransientError("no answer")
        return growth(name)

    monkeypatch.setattr(service, "growth", read)
    found = browser.client.get("/kafkeep/v1/growth").json()
    assert found["unread"] == ["silent"]
    assert found["points"][-1]["bytes"] == 2 * growth("orders")[-1].bytes
    templates = browser.client.get("/kafkeep/v1/connector-templates").json()["templates"]
    page = browser.get("/ui/new-connector")
    assert len(templates) == 4
    for one in templates:
        assert f"template={one['id']}" in page
        assert one["config"]["connector.class"]
