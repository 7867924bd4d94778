"""The pages of the web console, with a large cluster and a large archive, while a backup runs.

The list of pages is that of the console's own routes. Addresses are found by following links from
the first page, so that a new page is measured as soon as another page leads to it. What a page
loads after it is shown is a part, measured on its own.

To fill the cluster takes a minute or two: ``python -m bench.large_cluster FOLDER`` does it before,
and ``KAFKEEP_BENCH_CLUSTER=FOLDER`` makes this case use that cluster, and leave it running.
"""

from __future__ import annotations

import html
import http.client
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import linear_regression, median, quantiles
from urllib.parse import urljoin, urlsplit

from starlette.routing import compile_path

from bench import console_state, large_cluster
from bench.beside import Numbers
from bench.connectors import Feed
from bench.service import ServeProcess, serving
from kafkeep.dev import DevStatus
from kafkeep.ui.frame import ROOT
from kafkeep.ui.pages.registry import ROUTES
from kafkeep.ui.visit import PageRoute

LOADS = 10_000
WARM_UP = 500
"""Loads after the first ones; memory and times are measured from there on."""
MEASURED_EVERY = 500
ADDRESSES = 4
"""How many addresses of one route are visited: of several connectors, topics, searches."""
KEPT_OPEN_S = 1.0
"""The service closes a connection that was quiet for some seconds."""
BUSY = 10
"""Topics that get records all the time."""
_LINK = re.compile(r'<a\s[^>]*?href="([^"]*)"([^>]*)>')
_PART = re.compile(r'hx-get="([^"]*)"')


@dataclass(frozen=True)
class Address:
    """An address of the console; a part is loaded by htmx."""

    path: str
    is_part: bool = False


@dataclass(frozen=True)
class Place:
    """A route, as a page or as a part."""

    route: str
    is_part: bool

    def __str__(self) -> str:
        return f"{ROOT}{self.route}" + (" (later)" if self.is_part else "")


def console_pages(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Load every page of the console again and again; see the module."""
    with large_cluster.running(Path(status.folder).parent) as (own, made):
        return {**made, **_measure(own)}


def _measure(status: DevStatus) -> Numbers:
    busy = large_cluster.names()[:BUSY]
    with serving(status) as service, Feed(status.bootstrap_servers, busy):
        console_state.create(service, status, busy)
        browser = _Browser(service)
        addresses = _crawl(browser)
        _say_unreached(addresses)
        before, at = service.records([console_state.LAKE]), time.monotonic()
        numbers = _load(browser, service, addresses)
        archived = service.records([console_state.LAKE]) - before
    rate = archived / (time.monotonic() - at)
    return {**numbers, "records archived per second meanwhile": rate}


class _Browser:
    """One connection to the console."""

    def __init__(self, service: ServeProcess) -> None:
        self._connection = http.client.HTTPConnection(service.address, timeout=60)
        self._used = 0.0

    def load(self, address: Address) -> tuple[int, str, float]:
        """Return status, text and seconds of one page."""
        began = time.perf_counter()
        if began - self._used > KEPT_OPEN_S:
            self._connection.close()
        self._used = began
        headers = {"HX-Request": "true"} if address.is_part else {}
        self._connection.request("GET", address.path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        seconds = time.perf_counter() - began
        return answer.status, body.decode("utf-8", "replace"), seconds


def _crawl(browser: _Browser) -> dict[Place, list[Address]]:
    """Follow the links from the first page; return some addresses of each page and part."""
    paths = {route.path: compile_path(ROOT + route.path)[0] for route in _routes()}
    found: dict[Place, list[Address]] = {Place(path, False): [] for path in paths}
    waiting, seen = deque([Address(f"{ROOT}/")]), {f"{ROOT}/"}
    while waiting:
        address = waiting.popleft()
        path = urlsplit(address.path).path
        route = next((one for one, pattern in paths.items() if pattern.fullmatch(path)), None)
        if route is None:
            continue
        known = found.setdefault(Place(route, address.is_part), [])
        if not _is_wanted(path, known):
            continue
        status, text, seconds = browser.load(address)
        _say(f"{status} {seconds * 1000:7.1f} ms {len(text):9,} bytes {address.path}")
        if status != 200:
            continue
        known.append(address)
        for link in _links(text, address.path):
            if link.path not in seen:
                seen.add(link.path)
                waiting.append(link)
    return found


def _routes() -> list[PageRoute]:
    return [route for route in ROUTES if route.method == "GET"]


def _is_wanted(path: str, found: list[Address]) -> bool:
    """Choose different names before different searches."""
    same = sum(urlsplit(one.path).path == path for one in found)
    return len(found) < ADDRESSES and same < ADDRESSES // 2


def _links(text: str, address: str) -> Iterator[Address]:
    """Yield the addresses in a page, the parts that it loads later first; no downloads."""
    parts = {_absolute(one, address) for one in _PART.findall(text)}
    links = {_absolute(one[0], address) for one in _LINK.findall(text) if "download" not in one[1]}
    for link in [*sorted(parts), *sorted(links - parts)]:
        if link.startswith(f"{ROOT}/"):
            yield Address(link, link in parts)


def _absolute(link: str, address: str) -> str:
    return urljoin(address, html.unescape(link)).partition("#")[0]


def _load(
    browser: _Browser, service: ServeProcess, addresses: dict[Place, list[Address]]
) -> Numbers:
    """Load the addresses in turn; return times by route, and how memory grew."""
    todo = [(place, address) for place, found in addresses.items() for address in found]
    times: dict[Place, list[float]] = defaultdict(list)
    memory: list[tuple[float, float]] = []
    failed = 0
    for number, (place, address) in enumerate(islice(cycle(todo), WARM_UP + LOADS + 1)):
        if number >= WARM_UP and (number - WARM_UP) % MEASURED_EVERY == 0:
            memory.append(((number - WARM_UP) / 1000, service.resident_mb()))
            _say(f"{number - WARM_UP:,} loads, {memory[-1][1]:.1f} MB")
        status, _, seconds = browser.load(address)
        failed += status != 200
        if number >= WARM_UP:
            times[place].append(seconds * 1000)
    return {
        "loads": LOADS,
        "addresses": len(todo),
        "answers other than 200": failed,
        **_times(times),
        "memory after the warm-up MB": memory[0][1],
        "memory at the end MB": memory[-1][1],
        "memory growth MB per 1,000 loads": linear_regression(*zip(*memory, strict=True)).slope,
        "memory growth MB per 1,000 loads, second half": linear_regression(
            *zip(*memory[len(memory) // 2 :], strict=True)
        ).slope,
    }


def _times(times: dict[Place, list[float]]) -> Numbers:
    """Return the 95th percentile of each route, the slowest first."""
    p95 = {place: quantiles(spent, n=20)[-1] for place, spent in times.items()}
    slowest = sorted(p95, key=p95.__getitem__, reverse=True)
    every = [one for spent in times.values() for one in spent]
    return {
        "p50 of all ms": median(every),
        "p95 of all ms": quantiles(every, n=20)[-1],
        "pages over 200 ms (p95)": sum(one >= 200 for one in p95.values()),
        **{f"p95 ms {place}": p95[place] for place in slowest},
    }


def _say_unreached(addresses: dict[Place, list[Address]]) -> None:
    reached = {place.route for place, found in addresses.items() if found}
    for place in addresses:
        if place.route not in reached:
            _say(f"no page leads to {place}: it is not measured")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
