"""Groups, schemas, the doctor and a connector's offsets in Chromium, on real Kafka and S3."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer, TopicPartition
from playwright.sync_api import Page, expect
from tests.browser.conftest import check_pages
from tests.support.confluent_registry import ConfluentRegistry, serving
from tests.support.connect.serve_processes import Service, Topic, World
from tests.support.waiting import until

from kafkeep.connect.rest.call import to_segment

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SLOW_MS = 60_000


@dataclass(frozen=True)
class Scene:
    """A topic that a connector archives, a group that has read a part of it, and a registry."""

    topic: Topic
    group: str
    subject: str

    def live(self, world: World) -> int:
        with world.cluster.consumer(self.group) as consumer:
            [found] = consumer.committed([TopicPartition(self.topic.name, 0)], 30)
        return int(found.offset)


def box(*fields: str) -> str:
    listed = [{"name": name, "type": "int"} for name in fields]
    return json.dumps({"type": "record", "name": "Box", "fields": listed})


@pytest.fixture(scope="module")
def scene(world: World, service: Service) -> Iterator[Scene]:
    topic = world.topic("grouped")
    topic.send(2)
    group = f"<script>alert(1)</script>/{topic.name}"
    world.cluster.commit_offset(group, topic.name, 4)
    registry = ConfluentRegistry()
    with serving(registry) as url:
        subject = f"{topic.name}-value"
        registry.add(subject, box("n"))
        newest = registry.add(subject, box("n", "m"))
        producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
        # Avro's form of n = 21 and m = -3, after the id of the schema.
        producer.produce(topic.name, b"\0" + newest.to_bytes(4, "big") + b"\x2a\x05", partition=1)
        assert producer.flush(60) == 0
        config = {
            "connector.class": "kafkeep.Backup",
            "topics": topic.name,
            "archive": f"s3://{world.services.s3.bucket}/{world.folder}-grouped",
            "interval": "500ms",
            "segment.age": "500ms",
            "schema.registry": url,
        }
        service.call("POST", "/connectors", {"name": "keeper", "config": config}, expect=201)

        def is_saved() -> bool:
            answer = service.http.get(f"/kafkeep/v1/groups/{to_segment(group)}").json()
            return [row["saved"] for row in answer["offsets"]] == [4]

        until(is_saved, "the offsets of the group are saved")
        yield Scene(topic, group, subject)


def test_a_group_is_moved_to_its_saved_offsets_and_back(
    world: World, scene: Scene, open_page: OpenPage
) -> None:
    page = open_page()
    world.cluster.commit_offset(scene.group, scene.topic.name, 9)
    page.goto("/ui/groups")
    page.locator("#search").fill(scene.topic.name)
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name=scene.group).click()
    expect(page.locator("h1")).to_contain_text(scene.group)
    # The connector saves the new offset soon, so the plan names the commit that has the old one.
    page.get_by_role("link", name="Move to saved offsets").click()
    expect(page.get_by_text("What would be set")).to_be_visible()
    answer = page.request.get(f"/kafkeep/v1/groups/{to_segment(scene.group)}").json()
    newest = answer["saved"]["commit"]
    found = next(number for number in range(newest, -1, -1) if _saved(page, scene, number) == [4])
    page.locator("#commit").fill(str(found))
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.get_by_text("the saved offset")).to_be_visible()
    page.locator("#confirm").fill("something else")
    page.get_by_role("button", name="Set these offsets").click()
    expect(page.get_by_text("Nothing was changed")).to_be_visible()
    assert scene.live(world) == 9
    page.locator("#confirm").fill(scene.group)
    page.get_by_role("button", name="Set these offsets").click()
    expect(page.get_by_text("The offsets of the group were set")).to_be_visible()
    assert scene.live(world) == 4
    page.get_by_role("link", name="History and roll back").click()
    page.get_by_role("link", name="Roll back to these").click()
    page.locator("#confirm").fill(scene.group)
    page.get_by_role("button", name="Set these offsets").click()
    expect(page.get_by_text("has the offsets of the snapshot again")).to_be_visible()
    assert scene.live(world) == 9


def _saved(page: Page, scene: Scene, commit: int) -> list[int | None]:
    at = f"/kafkeep/v1/groups/{to_segment(scene.group)}?commit={commit}"
    answer = page.request.get(at).json()
    return [row["saved"] for row in answer["offsets"]]


def test_versions_of_a_schema_are_compared(scene: Scene, open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/ui/schemas")
    page.get_by_role("link", name=scene.subject).click()
    expect(page.get_by_text("BACKWARD in the registry, BACKWARD in the archive")).to_be_visible()
    page.locator('select[name="from"]').select_option("archive:1")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("tr.added").first).to_be_visible()
    expect(page.locator("tr.added").filter(has_text='"m"')).to_have_count(1)


@pytest.mark.parametrize("source", ["live", "archive"])
def test_avro_messages_are_decoded_by_the_registry(
    scene: Scene, source: str, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"/ui/topics/{scene.topic.name}/messages?source={source}&partition=1")
    page.get_by_role("rowheader").get_by_role("link").first.click()
    value = page.get_by_role("region", name="Value")
    expect(value).to_contain_text('"n": 21')
    expect(value).to_contain_text('"m": -3')
    page.get_by_role("link", name="Hex").click()
    expect(value).to_contain_text("2a 05")


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("javascript", [True, False])
def test_the_doctor_checks_kafka_and_every_archive(javascript: bool, open_page: OpenPage) -> None:
    page = open_page(javascript=javascript)
    page.goto("/ui/settings")
    page.get_by_role("button", name="Run the checks").click()
    expect(page.get_by_text("Archive of keeper")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_text("objects can be written and read back")).to_have_count(2)
    expect(page.locator(".check-fail")).to_have_count(0)


def test_offsets_of_a_stopped_connector_are_changed(
    service: Service, scene: Scene, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto("/ui/connectors/keeper/offsets")
    expect(page.get_by_text("stop the connector first")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("h1 .badge")).to_have_text("Stopped", timeout=SLOW_MS)
    page.goto("/ui/connectors/keeper/offsets")
    page.get_by_text("Change offsets").click()
    partition = {"kafka_topic": scene.topic.name, "kafka_partition": 0}
    wanted = {"partition": partition, "offset": {"kafka_offset": 3}}
    page.locator("#rows").fill(json.dumps([wanted]))
    page.locator("#confirm-alter").fill("keeper")
    page.get_by_role("button", name="Change the offsets").click()
    expect(page.get_by_text("The offsets were changed")).to_be_visible(timeout=SLOW_MS)
    assert wanted in service.call("GET", "/connectors/keeper/offsets")["offsets"]
    page.get_by_text("Reset all offsets").first.click()
    page.locator("#confirm-reset").fill("another")
    page.get_by_role("button", name="Reset all offsets").click()
    expect(page.get_by_text("Nothing was changed")).to_be_visible()
    assert wanted in service.call("GET", "/connectors/keeper/offsets")["offsets"]
    page.locator("#confirm-reset").fill("keeper")
    page.get_by_role("button", name="Reset all offsets").click()
    expect(page.get_by_text("was moved back to the beginning")).to_be_visible(timeout=SLOW_MS)
    assert service.call("GET", "/connectors/keeper/offsets")["offsets"] == []


def test_every_page_is_accessible_and_fits(scene: Scene, open_page: OpenPage) -> None:
    page = open_page()
    group = f"/ui/groups/{to_segment(scene.group)}"
    page.goto(f"{group}/history")
    roll_back = page.get_by_role("link", name="Roll back to these").first.get_attribute("href")
    assert roll_back is not None
    pages = {
        "groups": "/ui/groups?lag=yes",
        "group": group,
        "group-plan": f"{group}/plan?plan=yes",
        "group-history": f"{group}/history",
        "group-roll-back": roll_back,
        "schemas": "/ui/schemas",
        "schema": f"/ui/schemas/{scene.subject}",
        "schema-diff": f"/ui/schemas/{scene.subject}?from=registry:1&to=registry:2",
        "connector-offsets": "/ui/connectors/keeper/offsets",
        "doctor": "/ui/settings",
    }

    def run_checks() -> None:
        page.get_by_role("button", name="Run the checks").click()
        expect(page.get_by_text("Archive of keeper")).to_be_visible(timeout=SLOW_MS)

    check_pages(page, pages, {"doctor": run_checks})


@pytest.mark.usefixtures("scene")
def test_every_shortcut_leads_to_its_page(open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/ui/")
    links = page.locator(".side nav a").evaluate_all(
        "links => links.map(link => [link.dataset.shortcut, link.getAttribute('href')])"
    )
    assert len(links) >= 7
    for key, path in links:
        with page.expect_navigation():  # a key that comes while the page changes is lost
            page.keyboard.press("g")
            page.keyboard.press(key)
        expect(page.locator(".side nav a[aria-current]")).to_have_attribute("href", path)
