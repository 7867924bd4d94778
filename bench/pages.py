"""The pages of the web console, with a large cluster and a large archive, while a backup runs.

The list of pages is that of the console's own routes. Addresses are found by following links from
the first page, so that a new page is measured as soon as another page leads to it. What a page
loads after it is shown is a part, measured on its own.
"""

from __future__ import annotations

import html
import http.client
import re
import sys
import tempfile
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import linear_regression, median, quantiles
from urllib.parse import urljoin, urlsplit

from starlette.routing import compile_path

from bench import large_cluster
from bench.beside import Numbers
from bench.connectors import Feed, json_sink
from bench.runs import kafka_options
from bench.service import ServeProcess, serving, wait_for
from kafkeep.dev import DevOptions, DevStatus, start, stop
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store
from kafkeep.ui.frame import ROOT
from kafkeep.ui.pages.registry import ROUTES
from kafkeep.ui.visit import PageRoute

LOADS = 10_000
WARM_UP = 1_000
"""Loads after the first ones; memory and times are measured from there on."""
MEASURED_EVERY = 500
ADDRESSES = 4
"""How many addresses of one route are visited: of several connectors, topics, searches."""
KEPT_OPEN_S = 1.0
"""The service closes a connection that was quiet for some seconds."""
BUSY = 10
"""Topics that get records all the time."""
LAKE = "lake"
"""The connector that archives all topics."""
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
    folder = Path(tempfile.mkdtemp(prefix="pages-", dir=Path(status.folder).parent))
    try:
        # Two brokers: one process may not open the files of 20,000 partitions everywhere.
        own = start(DevOptions(folder=folder, brokers=2))
        return _measure(own)
    finally:
        stop(folder, purge=True)


def _measure(status: DevStatus) -> Numbers:
    began = time.monotonic()
    large_cluster.create(status.bootstrap_servers)
    archive = f"s3://{status.s3.bucket}/console"
    entries = large_cluster.write_log(
        open_store(archive, _storage(status)), kafka_options(status), LAKE
    )
    numbers: Numbers = {
        "topics": large_cluster.TOPICS,
        "partitions": large_cluster.TOPICS * large_cluster.PARTITIONS,
        "entries": entries,
        "seconds to make them": time.monotonic() - began,
    }
    busy = large_cluster.names()[:BUSY]
    with serving(status) as service, Feed(status.bootstrap_servers, busy):
        _create_connectors(service, status, archive, busy)
        wait_for(lambda: service.records([LAKE]) > 0, "the backup has committed")
        browser = _Browser(service)
        addresses = _crawl(browser)
        _say_unreached(addresses)
        before, at = service.records([LAKE]), time.monotonic()
        numbers |= _load(browser, service, addresses)
        span = time.monotonic() - at
        numbers["records archived per second meanwhile"] = (service.records([LAKE]) - before) / span
    return numbers


def _storage(status: DevStatus) -> StorageOptions:
    s3 = status.s3
    return StorageOptions(
        endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key
    )


def _create_connectors(
    service: ServeProcess, status: DevStatus, archive: str, busy: list[str]
) -> None:
    """Create the backup of all topics, three sinks of one topic each, and a restore."""
    run = uuid.uuid4().hex[:6]
    wait_for(lambda: service.metrics()["kafkeep_leader", ""] == 1, "the service leads")
    s3 = {
        key: value
        for key, value in json_sink(status, busy[0], run).items()
        if key.startswith(("s3.", "store.url", "aws."))
    }
    lake = {
        **s3,
        "connector.class": "kafkeep.Backup",
        "archive": archive,
        "topics.regex": "shop-[0-9]+",
        "segment.age": "5s",
    }
    service.put(f"/connectors/{LAKE}/config", lake)
    for topic in busy[:3]:
        sink = json_sink(status, topic, run) | {"flush.size": "20"}
        service.put(f"/connectors/{topic}-json/config", sink)
    wait_for(lambda: service.records([f"{busy[0]}-json"]) > 0, "a sink has committed")
    back = {
        **s3,
        "connector.class": "kafkeep.Restore",
        "topics": f"{busy[0]}:{busy[0]}-{run}",
        "restore.log": f"{busy[0]}-json",
    }
    service.put("/connectors/back/config", back)
    wait_for(lambda: service.running() == 5, "all connectors run")


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
    }


def _times(times: dict[Place, list[float]]) -> Numbers:
    """Return the 95th percentile of each route, the slowest first."""
    p95 = {place: quantiles(spent, n=20)[-1] for place, spent in times.items()}
    slowest = sorted(p95, key=p95.__getitem__, reverse=True)
    return {
        "p50 of all ms": median(one for spent in times.values() for one in spent),
        **{f"p95 ms {place}": p95[place] for place in slowest},
    }


def _say_unreached(addresses: dict[Place, list[Address]]) -> None:
    reached = {place.route for place, found in addresses.items() if found}
    for place in addresses:
        if place.route not in reached:
            _say(f"no page leads to {place}: it is not measured")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
