"""Topics and messages in Chromium on real Kafka and S3: coverage, a live record, hostile ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect
from tests.browser.conftest import check_pages
from tests.support.connect.serve_processes import Service, World
from tests.support.waiting import until

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SCRIPT = "<script>document.title='owned'</script>"
SLOW_MS = 60_000


@pytest.fixture(scope="module")
def topic(world: World, service: Service) -> str:
    """A topic of two partitions, archived but for its newest records."""
    made = world.topic("shown")
    config = {
        "connector.class": "kafkeep.Backup",
        "topics": made.name,
        "archive": f"s3://{world.services.s3.bucket}/{world.folder}-shown",
        "interval": "500ms",
        "segment.age": "500ms",
    }
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    for number in range(200):
        value = {"id": number, "name": f"order {number}", "tags": ["a", "b"]}
        producer.produce(
            made.name,
            key=b"key-%d" % number,
            value=json.dumps(value).encode(),
            partition=number % 2,
            headers={"trace": b"t%d" % number},
        )
    hostile: list[tuple[bytes | None, bytes | None]] = [
        (SCRIPT.encode(), SCRIPT.encode()),
        (b"rtl", "\u202etxt.exe \u0007".encode()),
        (b"\xff\xfe", b"\xc3\x28"),
        (None, None),
        (b"long", b"<b>bold</b>" * 50_000),
    ]
    for key, value in hostile:
        producer.produce(made.name, key=key, value=value, partition=0)
    producer.flush()
    service.call("POST", "/connectors", {"name": "shown", "config": config}, expect=201)

    def is_archived() -> bool:
        found = service.call("GET", f"/kafkeep/v1/topics/{made.name}/coverage")
        [one] = [i for i in found["incarnations"] if i["in_kafka"]]
        return bool(one["logs"]) and not any(p["waiting"] for p in one["partitions"])

    until(is_archived, "the topic is archived")
    service.call("PUT", "/connectors/shown/stop", expect=204)
    for number in range(30):
        producer.produce(made.name, value=b"late %d" % number, partition=number % 2)
    producer.flush()
    return made.name


def test_the_list_leads_to_a_topic_with_its_coverage(topic: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/ui/topics")
    row = page.get_by_role("row", name=topic)
    expect(row).to_contain_text("30")  # loaded after the page
    page.get_by_role("link", name=topic).click()
    expect(page.get_by_role("img", name="Partition 0")).to_have_accessible_name(
        "Partition 0, offsets 0 to 120: 105 archived, 15 not yet archived, 0 lost"
    )
    page.get_by_text("Show the ranges as a table").click()
    expect(page.get_by_role("cell", name="105–119", exact=True)).to_be_visible()  # noqa: RUF001
    for tab, text in (("Partitions", "broker"), ("Settings", "All effective settings")):
        page.get_by_role("navigation", name="Parts of").get_by_role("link", name=tab).click()
        expect(page.locator("main")).to_contain_text(text)
    page.get_by_role("navigation", name="Parts of").get_by_role("link", name="Objects").click()
    expect(page.get_by_role("rowheader").first).to_contain_text(topic)


def test_the_list_shows_live_offsets_without_javascript(topic: str, open_page: OpenPage) -> None:
    page = open_page(javascript=False)
    page.goto(f"/ui/topics?q={topic}")
    page.get_by_role("link", name="Show them now").click()
    expect(page.get_by_role("row", name=topic)).to_contain_text("30")


@pytest.mark.parametrize(
    ("source", "javascript"), [("Kafka", True), ("Archive", True), ("Archive", False)]
)
def test_messages_are_searched_opened_and_downloaded(
    topic: str, source: str, javascript: bool, open_page: OpenPage
) -> None:
    page = open_page(javascript=javascript)
    page.goto(f"/ui/topics/{topic}/messages")
    page.get_by_label("Source").select_option(source)
    page.get_by_label("Search", exact=True).fill("order 150")
    page.get_by_label("Start", exact=True).select_option("Oldest")
    page.get_by_role("button", name="Show messages").click()
    expect(page.get_by_role("status")).to_contain_text("found 1.")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON lines").click()
    [line] = Path(download.value.path()).read_text().splitlines()
    assert json.loads(line)["key"] == "key-150"
    page.get_by_role("rowheader").get_by_role("link").click()
    expect(page.locator("pre.json")).to_contain_text('"name": "order 150"')
    expect(page.locator("main")).to_contain_text("trace")
    page.get_by_role("link", name="Hex").click()
    expect(page.locator("pre.hex").last).to_contain_text("00000000")


@pytest.mark.parametrize("source", ["live", "archive"])
def test_hostile_messages_run_nothing(topic: str, source: str, open_page: OpenPage) -> None:
    page = open_page()
    at = f"/ui/topics/{topic}/messages?source={source}&partition=0&start=offset&at=100&limit=20"
    page.goto(at)
    expect(page.locator("table.messages")).to_contain_text("<script>document.title=")
    expect(page.locator("table.messages")).to_contain_text("⟨U+202E⟩txt.exe")
    for offset in range(100, 105):
        page.goto(f"/ui/topics/{topic}/messages/0/{offset}?source={source}")
        assert page.title() == f"{topic} · kafkeep"
        assert page.locator("main b, main script").count() == 0
    expect(page.locator("main")).to_contain_text("This is only the beginning of 537 KiB")


def test_a_page_that_was_opened_before_shows_newer_records_after_a_click(
    world: World, topic: str, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"/ui/topics/{topic}/messages?partition=1")
    expect(page.get_by_role("rowheader").first).to_contain_text("1:114")
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    producer.produce(topic, value=b"just now", partition=1)
    producer.flush()
    page.get_by_role("link", name="Look for newer").click()
    expect(page.locator("table.messages")).to_contain_text("just now")


def test_topic_pages_are_accessible_and_fit(topic: str, open_page: OpenPage) -> None:
    page = open_page()
    here = f"/ui/topics/{topic}"
    pages = {
        "topics": "/ui/topics?live=yes",
        "topic": here,
        "topic-partitions": f"{here}/partitions",
        "topic-settings": f"{here}/settings",
        "topic-groups": f"{here}/groups",
        "topic-objects": f"{here}/objects",
        "messages": f"{here}/messages?partition=0&start=offset&at=90",
        "messages-empty": f"{here}/messages?search=no-such-text",
        "messages-wrong": f"{here}/messages?start=time&at=yesterday",
        "message": f"{here}/messages/0/50",
        "message-hostile": f"{here}/messages/0/101",
        "message-long": f"{here}/messages/0/104?decode=hex",
    }
    check_pages(page, pages)
