"""Parts of pages that change by themselves: the focus stays, and hidden tabs are quiet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.support.connect.serve_processes import Service, World
from tests.support.waiting import until

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
_COUNT_STREAMS = """
  window.streams = [];
  window.EventSource = class extends EventSource {
    constructor(...given) { super(...given); window.streams.push(this); }
  };
"""
_OPEN = "window.streams.filter((one) => one.readyState !== EventSource.CLOSED).length"


def create_stopped(world: World, service: Service, *names: str) -> None:
    config = world.config(world.topic(names[0]))
    for name in names:
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        service.call("POST", "/connectors", body, expect=201)


def test_focus_and_choice_stay_when_a_part_is_replaced(
    world: World, service: Service, open_page: OpenPage
) -> None:
    create_stopped(world, service, "gone", "kept")
    page = open_page()
    page.goto("/ui/connectors")
    page.get_by_role("link", name="kept").evaluate("(link) => { link.old = true; link.focus(); }")
    service.call("DELETE", "/connectors/gone", expect=204)
    expect(page.get_by_role("link", name="gone")).to_have_count(0)
    expect(page.get_by_role("link", name="kept")).to_be_focused()
    assert not page.evaluate("document.activeElement.old")  # the row was replaced
    page.goto("/ui/connectors/kept")
    choice = page.get_by_label("What to restart")
    choice.select_option("failed")
    choice.focus()
    service.call("PUT", "/connectors/kept/pause", expect=202)
    expect(page.locator("h1 .badge")).to_have_text("Paused")
    expect(choice).to_be_focused()
    expect(choice).to_have_value("failed")


def test_a_page_that_nobody_sees_gives_up_its_stream(
    world: World, service: Service, open_page: OpenPage
) -> None:
    create_stopped(world, service, "quiet")
    page = open_page()
    page.add_init_script(_COUNT_STREAMS)
    page.goto("/ui/connectors")
    until(lambda: page.evaluate(_OPEN) == 1, "the stream is open")
    show(page, is_hidden=True)
    until(lambda: page.evaluate(_OPEN) == 0, "the stream is closed")
    service.call("DELETE", "/connectors/quiet", expect=204)
    show(page, is_hidden=False)
    expect(page.get_by_role("link", name="quiet")).to_have_count(0)
    assert page.evaluate(_OPEN) == 1
    expect(page.locator("#lost")).to_be_hidden()


def show(page: Page, *, is_hidden: bool) -> None:
    """Do what a browser does when another tab is chosen, or this one again."""
    page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, "
        "configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }",
        is_hidden,
    )
