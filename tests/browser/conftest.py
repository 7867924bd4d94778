"""Chromium over a real ``kafkeep serve``; no error or warning may appear on its console."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)
from tests.support.cluster import Cluster
from tests.support.connect.serve_processes import Service, World
from tests.support.screenshots import SCREENSHOTS

from kafkeep.dev import DevStatus

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
_AXE = "axe.run({resultTypes: ['violations']}).then(found => found.violations)"
_IS_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
AWAY = ("net::ERR_", "Failed to load resource: net::ERR_", "[object Event]")
"""What Chromium and htmx log while a service is away."""
_ANSWERED = "Failed to load resource: the server responded with a status of 4"


@pytest.fixture(scope="module")
def world(services: DevStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    cluster = Cluster(services.bootstrap_servers)
    made = World(services, cluster, tmp_path_factory.mktemp("console") / "log")
    yield made
    for service in made.running:
        service.kill()
    sys.stderr.write(made.log.read_text()[-10_000:])


@pytest.fixture(scope="module")
def service(world: World) -> Service:
    return world.start().wait_ready()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium for one file: Playwright's event loop must not outlive its tests."""
    path = shutil.which("chromium")
    assert path, "PATH has no chromium: run `make browser`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, service: Service) -> Iterator[Callable[..., Page]]:
    """Open a browser of its own; the test fails when its console shows an error.

    ``tolerates`` are the beginnings of errors that its test provokes. Chromium also reports a page
    that answers 4xx, such as a form that is not accepted: what a test opens, it checks itself.
    """
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def make(
        *,
        theme: str = "light",
        width: int = 1440,
        url: str | None = None,
        javascript: bool = True,
        tolerates: tuple[str, ...] = (),
    ) -> Page:
        context = chromium.new_context(
            base_url=url or service.ready["url"],
            color_scheme="dark" if theme == "dark" else "light",
            java_script_enabled=javascript,
            viewport={"width": width, "height": 900},
        )
        contexts.append(context)
        context.set_default_timeout(30_000)
        opened: set[str] = set()

        def remember(request: Request) -> None:
            if request.is_navigation_request():
                opened.add(request.url)

        def note(message: ConsoleMessage) -> None:
            is_of_page = message.text.startswith(_ANSWERED) and message.location["url"] in opened
            if message.type in ("error", "warning") and not (
                is_of_page or message.text.startswith(tolerates)
            ):
                problems.append(f"{message.text} {message.location['url']}")

        page = context.new_page()
        page.on("request", remember)
        page.on("console", note)
        page.on("pageerror", lambda error: problems.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


def check_pages(
    page: Page,
    pages: Mapping[str, str],
    ready: Mapping[str, Callable[[], None]] | None = None,
    refused: Collection[str] = (),
) -> None:
    """Load each page in two widths; there and in both themes it must fit and be accessible.

    ``pages`` are addresses by name; ``ready`` waits for what a page of that name loads later, and
    ``refused`` answer 4xx. A screenshot of each is kept. A violation is one that axe calls serious
    or critical.
    """
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, path in pages.items():
            answer = page.goto(path)
            if answer is None or answer.ok == (name in refused):
                found.append(f"{name} answers {answer and answer.status}")
            (ready or {}).get(name, lambda: None)()
            page.evaluate(AXE_SCRIPT)
            for theme in ("light", "dark"):
                page.emulate_media(
                    color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce"
                )
                found += [f"{theme}, {width} px: {problem}" for problem in _problems(page, name)]
                page.screenshot(path=SCREENSHOTS / f"{name}-{theme}-{width}.png", full_page=True)
    assert found == []


def _problems(page: Page, name: str) -> Iterator[str]:
    if page.evaluate(_IS_WIDE):
        yield f"{name} is wider than the screen"
    for one in page.evaluate(_AXE):
        if one["impact"] in ("serious", "critical"):
            nodes = [node["html"][:200] for node in one["nodes"][:3]]
            yield f"{name}: {one['id']}: {nodes}"
