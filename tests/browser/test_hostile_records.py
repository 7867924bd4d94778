"""Records, names and configurations that attack the console show harmlessly on every page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, Request, expect
from tests.support.confluent_registry import ConfluentRegistry, serving
from tests.support.connect.serve_processes import Service, World
from tests.support.waiting import until

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SCRIPT = "<script>alert('owned')</script><img src=x onerror=alert(1)>"
ATTRIBUTE = "\" autofocus onfocus=alert(2) x='><svg onload=alert(3)>"
TEMPLATE = "{{ 7 * 7 }}{% raw %}${7*7}</td></table></main><h1>gone</h1><!--"
HIDDEN = "pay\u202egnp.exe\u2066\u200f\u0007\u001b[31m\u0000\r\u2028end"
INVALID = b"\xff\xfe\xc3\x28\xed\xa0\x80<script>alert(4)</script>"
HOSTILE = [one.encode() for one in (SCRIPT, ATTRIBUTE, TEMPLATE, HIDDEN)] + [INVALID]
LARGE = b"<script>alert(5)</script>" + b"<b>large</b>\n" * 403_000
"""5 MB."""
LARGE_NAME = LARGE[:4_000_000].decode()
"""Of a header. With its value, it is nearly what the topic takes in one batch."""
CONNECTOR = "<img src=x onerror=alert(6)>"
GROUP = f"{SCRIPT}\u202e"
SUBJECT = f"{SCRIPT}-value"
MOST_CHARACTERS = 400_000
EACH_ROUTE = 2
MOST_PAGES = 80
_DANGER = (
    "script:not([src]), img:not([src^='/ui/static/']), iframe, object, embed, base, svg[onload],"
    "[onerror], [onload], [onfocus], [onmouseover], [onclick], [style]:not(.chart *),"
    "a[href^='javascript:'], main h1 ~ h1"
)
_SETTLED = "() => !document.querySelector('.htmx-request')"
_RAW = """() => {
  const bad = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walker.nextNode());)
    if (bad.test(node.data) && node.parentNode.tagName !== 'TEXTAREA') found.push(node.data);
  return found;
}"""


@dataclass
class Watched:
    """A page of a browser, and everything that an attack would leave behind."""

    page: Page
    origin: str
    dialogs: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("dialog", lambda one: (self.dialogs.append(one.message), one.dismiss()))
        self.page.context.on("request", self._note)

    def _note(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "about:")):
            self.elsewhere.append(request.url)

    def problems(self, address: str) -> list[str]:
        """Open a page and return what is wrong with it."""
        answer = self.page.goto(address)
        assert answer is not None
        self.page.wait_for_function(_SETTLED)
        found = [f"status {answer.status}"] if answer.status >= 500 else []
        size = len(self.page.content())
        if size > MOST_CHARACTERS:
            found.append(f"{size} characters")
        live = self.page.locator(_DANGER)
        found += [f"element {one.evaluate('e => e.outerHTML')[:200]}" for one in live.all()[:3]]
        found += [f"raw text {text[:80]!r}" for text in self.page.evaluate(_RAW)[:3]]
        return [f"{address}: {one}" for one in found]

    def links(self) -> list[str]:
        """Return the addresses of the console that the page leads to, without downloads."""
        found = self.page.locator(
            "a[href^='/ui/']:not([download], [href^='/ui/static/'])"
        ).evaluate_all("all => all.map(one => one.href)")
        return [one.partition("#")[0] for one in found]


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    made = ConfluentRegistry()
    schema = {"type": "record", "name": "Order", "fields": [], "doc": SCRIPT + HIDDEN}
    made.add(SUBJECT, json.dumps(schema))
    made.add(SUBJECT, json.dumps({**schema, "doc": ATTRIBUTE + TEMPLATE}))
    with serving(made) as address:
        yield address


@pytest.fixture(scope="module")
def topic(world: World, service: Service, registry: str) -> str:
    """A topic of hostile records, archived by a connector whose name and settings are hostile."""
    name = f"hostile-{world.folder}"
    world.cluster.create(name, 1, {"max.message.bytes": "10000000"})
    where = {"bootstrap.servers": world.services.bootstrap_servers}
    producer = Producer({**where, "message.max.bytes": 10_000_000})
    for content in HOSTILE:
        header = content.decode("utf-8", "replace").replace("\0", "")
        producer.produce(name, content, content, headers=[(header, content), ("n", None)])
    producer.produce(name, LARGE, b"large")
    producer.produce(name, b"large key", LARGE)
    producer.produce(name, b"large header", b"header", headers=[("h", LARGE), (LARGE_NAME, b"h")])
    assert producer.flush(60) == 0
    consumer = Consumer({**where, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(name, 0, 3)], asynchronous=False)
    consumer.close()
    config = {
        "connector.class": "kafkeep.Backup",
        "topics": name,
        "archive": f"s3://{world.services.s3.bucket}/{world.folder}-hostile",
        "interval": "500ms",
        "segment.age": "1s",
        "schema.registry": registry,
        "note": SCRIPT + ATTRIBUTE + TEMPLATE + HIDDEN,
        f"key{ATTRIBUTE}": SCRIPT,
    }
    service.call("POST", "/connectors", {"name": CONNECTOR, "config": config}, expect=201)

    def is_archived() -> bool:
        found = service.call("GET", f"/kafkeep/v1/topics/{name}/coverage")
        [one] = [i for i in found["incarnations"] if i["in_kafka"]]
        return bool(one["logs"]) and not any(p["waiting"] for p in one["partitions"])

    until(is_archived, "the topic is archived")
    return name


@pytest.fixture
def watched(open_page: OpenPage, service: Service) -> Iterator[Watched]:
    made = Watched(open_page(), service.ready["url"])
    yield made
    assert made.dialogs == []
    assert made.elsewhere == []


def route_of(address: str) -> str:
    """Return the address without what names a thing: numbers, digests, the test's own names."""
    path = urlsplit(address).path
    return re.sub(r"/(\d+|[0-9a-f]{10}|[^/]*(hostile|%3C|owned)[^/]*)(?=/|$)", "/*", path)


def test_no_page_that_links_lead_to_runs_or_leaks_what_it_shows(
    topic: str, watched: Watched
) -> None:
    waiting = [f"{watched.origin}/ui/", f"{watched.origin}/ui/topics/{topic}/messages"]
    seen, routes, found = set(waiting), Counter[str](), list[str]()
    while waiting and routes.total() < MOST_PAGES:
        address = waiting.pop(0)
        if routes[route_of(address)] >= EACH_ROUTE:
            continue
        routes[route_of(address)] += 1
        found += watched.problems(address)
        new = [one for one in dict.fromkeys(watched.links()) if one not in seen]
        seen.update(new)
        waiting += new
    assert not found, "\n".join(found)
    for part in ("/topics/*/messages", "/groups/*", "/connectors/*/config", "/archive/*"):
        assert routes[f"/ui{part}"], sorted(routes)


@pytest.mark.parametrize("source", ["live", "archive"])
def test_content_is_shown_as_text_and_large_content_is_cut(
    source: str, topic: str, watched: Watched
) -> None:
    at = f"{watched.origin}/ui/topics/{topic}/messages"
    page = watched.page
    assert watched.problems(f"{at}?source={source}&start=oldest") == []
    expect(page.get_by_text("<script>alert('owned')</script>").first).to_be_visible()
    expect(page.get_by_text("{{ 7 * 7 }}").first).to_be_visible()
    for number in range(len(HOSTILE)):
        for decode in ("auto", "hex"):
            one = f"{at}/0/{number}?source={source}&decode={decode}"
            assert watched.problems(one) == []
    for number, part in enumerate(("Value", "Key"), len(HOSTILE)):
        assert watched.problems(f"{at}/0/{number}?source={source}") == []
        region = page.get_by_role("region", name=part)
        expect(region.get_by_text("This is only the beginning of")).to_be_visible()
        with page.expect_download() as download:
            region.get_by_role("link", name="Download").click()
        assert download.value.path().read_bytes() == LARGE
    assert watched.problems(f"{at}/0/{len(HOSTILE) + 2}?source={source}") == []
    expect(page.get_by_role("region", name="Headers")).to_contain_text("cut: 5.0 MiB")
    assert watched.problems(f"{at}?source={source}&search=%3Cscript%3E&in=value") == []
